"""Databases with the tables of this app, and a person who has it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.apps.databases import template_for
from tests.apps.reminders.support import Desk, desk
from timebell.apps.reminders import APP
from timebell.testing.database import DatabaseFactory, TestDatabase


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def reminders_template(timebell_server: DatabaseFactory) -> str:
    return await template_for(timebell_server, APP)


@pytest_asyncio.fixture(loop_scope="session")
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
