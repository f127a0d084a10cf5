"""Every operation of the app, asked with what its document allows and with what it does not, and in chains."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.web.support import Site, open_site
from tests.web.test_every_operation import OFFICE, START, ask_all
from timebell.apps.meetings import APP
from timebell.clock import SandboxClock
from timebell.testing.database import TestDatabase

# Not `/v1`, which is asked elsewhere.
BEGIN = ("/api/meeting", "/api/availability", "/api/calendar", "/feeds/", "/r/")
# Who asks is one person, and so accepts nothing; of the other transitions all but the first are refused.
ANSWERED = 0.2


@pytest_asyncio.fixture
async def sandbox(meetings_database: TestDatabase) -> AsyncIterator[Site]:
    async with open_site(meetings_database, clock=SandboxClock(START), apps=(OFFICE, APP)) as site:
        yield site


async def test_a_few_requests_to_each(sandbox: Site) -> None:
    # Of so few the share that is answered is chance.
    visitor = await ask_all(sandbox, examples=1, chains=1, begin=BEGIN, answered=0.01)
    assert visitor.asked["at all"] > 30


@pytest.mark.slow
async def test_many_requests_to_each(sandbox: Site) -> None:
    visitor = await ask_all(sandbox, examples=60, chains=20, begin=BEGIN, answered=ANSWERED)
    assert visitor.asked["at all"] > 600
