"""Databases with the tables of this app, and a desk that has it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.apps.databases import template_for
from tests.apps.scheduler.support import Desk, desk
from timebell.apps.scheduler import with_broker
from timebell.testing.database import DatabaseFactory, TestDatabase


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def scheduler_template(timebell_server: DatabaseFactory) -> str:
    return await template_for(timebell_server, with_broker(None))


@pytest_asyncio.fixture(loop_scope="session")
async def scheduler_database(
    timebell_server: DatabaseFactory, scheduler_template: str
) -> AsyncIterator[TestDatabase]:
    database = await timebell_server.create(template=scheduler_template)
    yield database
    await timebell_server.drop(database)


@pytest_asyncio.fixture
async def post(scheduler_database: TestDatabase) -> AsyncIterator[Desk]:
    async with desk(scheduler_database) as made:
        yield made
