"""Every operation of the app, asked with what its document allows and with what it does not, and in chains."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.web.support import Site, open_site
from tests.web.test_every_operation import OFFICE, START, ask_all
from timebell.apps.scheduler import with_broker
from timebell.brokers.local import LocalBroker
from timebell.clock import SandboxClock
from timebell.testing.database import TestDatabase

BEGIN = ("/api/scheduler",)


@pytest_asyncio.fixture
async def sandbox(scheduler_database: TestDatabase) -> AsyncIterator[Site]:
    apps = (OFFICE, with_broker(LocalBroker()))
    async with open_site(scheduler_database, clock=SandboxClock(START), apps=apps) as site:
        yield site


async def test_a_few_requests_to_each(sandbox: Site) -> None:
    # Of so few the share that is answered is chance.
    visitor = await ask_all(sandbox, examples=1, chains=1, begin=BEGIN, answered=0.01)
    assert visitor.asked["at all"] > 8


@pytest.mark.slow
async def test_many_requests_to_each(sandbox: Site) -> None:
    visitor = await ask_all(sandbox, examples=60, chains=20, begin=BEGIN)
    assert visitor.asked["at all"] > 200
