"""Databases with the tables of this app, and people who meet."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.apps.databases import template_for
from tests.apps.meetings.support import Office, open_office
from timebell.apps.meetings import APP
from timebell.testing.database import DatabaseFactory, TestDatabase


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def meetings_template(timebell_server: DatabaseFactory) -> str:
    return await template_for(timebell_server, APP)


@pytest_asyncio.fixture(loop_scope="session")
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
