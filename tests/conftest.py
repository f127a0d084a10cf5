"""One real server for the whole run, one fresh database for each test.

The machinery is `timebell.testing.database`; it is imported when a test first asks for it, so that tests
without a database start at once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from timebell.testing.run_folder import make_run_folder

if TYPE_CHECKING:
    from timebell.db.embedded import EmbeddedServer
    from timebell.testing.database import DatabaseFactory, TestDatabase

_FOLDER = "TIMEBELL_TEST_FOLDER"


def pytest_configure(config: pytest.Config) -> None:
    """The first process of the run chooses the folder; the workers it starts inherit the choice."""
    if not hasattr(config, "workerinput"):
        os.environ[_FOLDER] = str(make_run_folder())


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(_FOLDER), ignore_errors=True)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def databases() -> AsyncIterator[DatabaseFactory]:
    from timebell.testing.database import DatabaseFactory

    factory = await DatabaseFactory.join(Path(os.environ[_FOLDER]))
    yield factory
    await factory.leave()


@pytest.fixture(scope="session")
def server(databases: DatabaseFactory) -> EmbeddedServer:
    """The server that all tests share. Do not stop it."""
    return databases.server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def template(databases: DatabaseFactory) -> None:
    await databases.make_template()


@pytest_asyncio.fixture
async def database_url(databases: DatabaseFactory, template: None) -> AsyncIterator[TestDatabase]:
    """A migrated database of the test's own."""
    database = await databases.create()
    yield database
    await databases.drop(database)


@pytest_asyncio.fixture
async def empty_database(databases: DatabaseFactory) -> AsyncIterator[TestDatabase]:
    """A database of the test's own in which nothing has been made yet."""
    database = await databases.create(template=None)
    yield database
    await databases.drop(database)
