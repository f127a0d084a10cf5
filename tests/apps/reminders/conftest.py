"""Databases with the tables of this app, and a person who has it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest_asyncio

from tests.apps.reminders.support import Desk, desk
from timebell.apps.reminders import APP
from timebell.db.migrate import migrate
from timebell.db.provision import ROLES
from timebell.kernel import Registry
from timebell.loading import slices_of
from timebell.testing.database import DatabaseFactory, TestDatabase


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def reminders_template(timebell_server: DatabaseFactory) -> str:
    """The name of a database that those of the tests are copies of."""
    made = await timebell_server.create(template=None)
    owner = await asyncpg.connect(made.owner_url, timeout=10)
    try:
        await migrate(owner, slices_of(Registry([APP])), api_role=ROLES["api"], read_role=ROLES["read"])
    finally:
        await owner.close(timeout=10)
    return made.name


@pytest_asyncio.fixture
async def reminders_database(
    timebell_server: DatabaseFactory, reminders_template: str
) -> AsyncIterator[TestDatabase]:
    database = await timebell_server.create(template=reminders_template)
    yield database
    await timebell_server.drop(database)


@pytest_asyncio.fixture
async def ada(reminders_database: TestDatabase) -> AsyncIterator[Desk]:
    """What Ada has, on a clock that the test moves."""
    async with desk(reminders_database) as made:
        yield made
