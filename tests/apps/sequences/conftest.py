"""Databases with the tables of this app, and a house with guests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.apps.databases import template_for
from tests.apps.sequences.support import House, open_house
from timebell.apps.sequences import APP
from timebell.testing.database import DatabaseFactory, TestDatabase


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def sequences_template(timebell_server: DatabaseFactory) -> str:
    return await template_for(timebell_server, APP)


@pytest_asyncio.fixture(loop_scope="session")
async def sequences_database(
    timebell_server: DatabaseFactory, sequences_template: str
) -> AsyncIterator[TestDatabase]:
    database = await timebell_server.create(template=sequences_template)
    yield database
    await timebell_server.drop(database)


@pytest_asyncio.fixture
async def house(sequences_database: TestDatabase) -> AsyncIterator[House]:
    """Ada and Bob are guests, on a clock that the test moves."""
    async with open_house(sequences_database) as opened:
        yield opened
