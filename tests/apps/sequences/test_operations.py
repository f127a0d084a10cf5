"""Every operation of the app, asked with what its document allows and with what it does not, and in chains."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.apps.sequences.support import draft
from tests.web.support import Site, open_site
from tests.web.test_every_operation import OFFICE, START, ask_all
from timebell.apps.sequences import APP
from timebell.clock import SandboxClock
from timebell.testing.database import TestDatabase

# Not `/v1`, which is asked elsewhere.
BEGIN = ("/api/sequences", "/api/booking", "/api/messages", "/api/contacts")
# Of the transitions all but the first are refused.
ANSWERED = 0.2


@pytest_asyncio.fixture
async def sandbox(sequences_database: TestDatabase) -> AsyncIterator[Site]:
    """With the template that the example of a sequence names."""
    async with open_site(sequences_database, clock=SandboxClock(START), apps=(OFFICE, APP)) as site:
        async with site.bell.transaction() as tx:
            await site.surface.notify.templates.save(tx, draft("stay.before_week"))
        yield site


async def test_a_few_requests_to_each(sandbox: Site) -> None:
    # Of so few the share that is answered is chance.
    visitor = await ask_all(sandbox, examples=1, chains=1, begin=BEGIN, answered=0.01)
    assert visitor.asked["at all"] > 30


@pytest.mark.slow
async def test_many_requests_to_each(sandbox: Site) -> None:
    visitor = await ask_all(sandbox, examples=60, chains=20, begin=BEGIN, answered=ANSWERED)
    assert visitor.asked["at all"] > 600
