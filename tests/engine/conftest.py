"""Nodes on a database of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.engine.support import Cluster, Owner, connect
from timebell.testing.database import TestDatabase

# A model that is contradicted has to say by what; outside of test files pytest leaves assertions without words.
pytest.register_assert_rewrite("tests.engine.agenda_model", "tests.engine.agenda_world")


@pytest_asyncio.fixture
async def owner(database_url: TestDatabase) -> AsyncIterator[Owner]:
    connection = await connect(database_url.admin_url)
    yield Owner(connection)
    await connection.close(timeout=10)


@pytest_asyncio.fixture
async def caller(database_url: TestDatabase) -> AsyncIterator[Any]:
    """A connection of a caller, outside every pool, for transactions that stay open."""
    connection = await connect(database_url.url)
    yield connection
    await connection.close(timeout=10)


@pytest_asyncio.fixture
async def cluster(database_url: TestDatabase, owner: Owner) -> AsyncIterator[Cluster]:
    admin = await connect(database_url.admin_url)
    made = Cluster(database_url, owner, admin)
    yield made
    await made.close()
    await admin.close(timeout=10)
