"""Databases with the tables of this app, and companies that lend workers to each other."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.apps.databases import template_for
from tests.apps.marketplace.support import Market, open_market
from timebell.apps.marketplace import APP
from timebell.testing.database import DatabaseFactory, TestDatabase


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def marketplace_template(timebell_server: DatabaseFactory) -> str:
    return await template_for(timebell_server, APP)


@pytest_asyncio.fixture(loop_scope="session")
async def marketplace_database(
    timebell_server: DatabaseFactory, marketplace_template: str
) -> AsyncIterator[TestDatabase]:
    database = await timebell_server.create(template=marketplace_template)
    yield database
    await timebell_server.drop(database)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def market_template(timebell_server: DatabaseFactory, marketplace_template: str) -> str:
    """The same with all that a market has from the start, or every test would make it anew."""
    made = await timebell_server.create(template=marketplace_template)
    async with open_market(made):
        return made.name


@pytest_asyncio.fixture(loop_scope="session")
async def market_database(
    timebell_server: DatabaseFactory, market_template: str
) -> AsyncIterator[TestDatabase]:
    database = await timebell_server.create(template=market_template)
    yield database
    await timebell_server.drop(database)


@pytest_asyncio.fixture
async def market(market_database: TestDatabase) -> AsyncIterator[Market]:
    """Two companies, a project in Berlin and everybody who has to do with it, on a clock that the test moves."""
    async with open_market(market_database) as opened:
        yield opened
