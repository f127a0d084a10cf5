"""One database for all the seeds that a process plays; each run empties it first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.simulation.database import make_world
from tests.simulation.ground import leave
from tests.simulation.parts import parts
from timebell.testing.database import DatabaseFactory, TestDatabase


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def _world_database(databases: DatabaseFactory, template: None) -> AsyncIterator[TestDatabase]:
    database = await make_world(databases, [part.app for part in parts()])
    yield database
    await databases.drop(database)


@pytest_asyncio.fixture(loop_scope="session")
async def other_world_database(databases: DatabaseFactory, template: None) -> AsyncIterator[TestDatabase]:
    """One in which nobody has lived yet."""
    database = await make_world(databases, [part.app for part in parts()])
    yield database
    await databases.drop(database)


@pytest.fixture(scope="session")
def world_database(_world_database: TestDatabase) -> Iterator[TestDatabase]:
    yield _world_database
    leave(_world_database)
