"""A small app on a database of the test's own, with the clock standing still at `NOW`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.store.support import APP, StillClock, Tables
from timebell.config import Settings
from timebell.db.pool import Database
from timebell.kernel import Registry, Timebell
from timebell.testing.database import TestDatabase


@pytest_asyncio.fixture
async def database(database_url: TestDatabase) -> AsyncIterator[Database]:
    opened = await Database.open(database_url.url)
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def tables(database: Database) -> Tables:
    return Tables(database)


@pytest_asyncio.fixture
async def bell(database: Database, clock: StillClock) -> AsyncIterator[Timebell]:
    """Waits for a locked job only as long as a test can."""
    made = Timebell(
        database, registry=Registry([APP]), settings=Settings(cancel_wait_seconds=0.2), clock=clock
    )
    await made.declare()
    yield made
    await made.close()
