"""Every operation about schedules and tasks, asked with what the document allows and with what it does not."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.web.support import Site, open_site
from tests.web.test_every_operation import OFFICE, START, ask_all
from timebell.apps.reminders import APP
from timebell.clock import SandboxClock
from timebell.testing.database import TestDatabase

BEGIN = ("/api/schedule", "/api/tasks")


@pytest_asyncio.fixture
async def sandbox(reminders_database: TestDatabase) -> AsyncIterator[Site]:
    async with open_site(reminders_database, clock=SandboxClock(START), apps=(OFFICE, APP)) as site:
        yield site


async def test_a_few_requests_to_each(sandbox: Site) -> None:
    # Of so few the share that is answered is chance.
    visitor = await ask_all(sandbox, examples=1, chains=1, begin=BEGIN, answered=0.01)
    assert visitor.asked["at all"] > 30


@pytest.mark.slow
async def test_many_requests_to_each(sandbox: Site) -> None:
    visitor = await ask_all(sandbox, examples=60, chains=20, begin=BEGIN)
    assert visitor.asked["at all"] > 500
