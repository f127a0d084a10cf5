"""Databases with the tables of this app, and people who meet."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest_asyncio

from tests.apps.meetings.support import Office, open_office
from timebell.apps.meetings import APP
from timebell.db.migrate import migrate
from timebell.db.provision import ROLES
from timebell.kernel import Registry
from timebell.loading import slices_of
from timebell.testing.database import DatabaseFactory, TestDatabase


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def meetings_template(timebell_server: DatabaseFactory) -> str:
    """The name of a database that those of the tests are copies of."""
    made = await timebell_server.create(template=None)
    owner = await asyncpg.connect(made.owner_url, timeout=10)
    try:
        await migrate(owner, slices_of(Registry([APP])), api_role=ROLES["api"], read_role=ROLES["read"])
    finally:
        await owner.close(timeout=10)
    return made.name


@pytest_asyncio.fixture
async def meetings_database(
    timebell_server: DatabaseFactory, meetings_template: str
) -> AsyncIterator[TestDatabase]:
    database = await timebell_server.create(template=meetings_template)
    yield database
    await timebell_server.drop(database)


@pytest_asyncio.fixture
async def office(meetings_database: TestDatabase) -> AsyncIterator[Office]:
    """Ada, Bob, Cleo and Dan, on a clock that the test moves."""
    async with open_office(meetings_database) as opened:
        yield opened
