"""Timebell's pytest plugin: a real PostgreSQL for each process of the run, a migrated database for each test.

A project loads it in the `conftest.py` at its root, with `pytest_plugins = ["timebell.testing.fixtures"]`. It needs
pytest and pytest-asyncio.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from timebell.kernel.app import App, Registry
from timebell.loading import slices_of
from timebell.testing.database import DatabaseFactory, TestDatabase
from timebell.testing.harness import Harness, harness
from timebell.testing.run_folder import make_run_folder

HarnessFactory = Callable[..., AbstractAsyncContextManager[Harness]]

# Not called TIMEBELL_…: those are settings, and one that nobody knows is refused.
RUN_FOLDER = "PYTEST_TIMEBELL_FOLDER"
_OUTER = pytest.StashKey[str | None]()


def pytest_configure(config: pytest.Config) -> None:
    """The first process of the run chooses the folder; the processes that it starts inherit the choice."""
    if not hasattr(config, "workerinput") or RUN_FOLDER not in os.environ:
        config.stash[_OUTER] = os.environ.get(RUN_FOLDER)
        os.environ[RUN_FOLDER] = str(make_run_folder())


def pytest_unconfigure(config: pytest.Config) -> None:
    """Whoever chose the folder removes it; a run inside another one leaves the outer one's alone."""
    if _OUTER in config.stash:
        shutil.rmtree(os.environ.pop(RUN_FOLDER), ignore_errors=True)
        outer = config.stash[_OUTER]
        if outer is not None:
            os.environ[RUN_FOLDER] = outer


@pytest.fixture(scope="session")
def timebell_apps() -> Sequence[App]:
    """The apps under test. Override it: their migrations are applied, and harnesses run their handlers."""
    return ()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def timebell_server() -> AsyncIterator[DatabaseFactory]:
    """The PostgreSQL server of this process, started when a test first asks for it. It hands out databases."""
    process = os.environ.get("PYTEST_XDIST_WORKER", "main")
    factory = await DatabaseFactory.start(Path(os.environ[RUN_FOLDER], process))
    yield factory
    await factory.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def timebell_template(timebell_server: DatabaseFactory, timebell_apps: Sequence[App]) -> None:
    """The migrated database that those of the tests are copies of."""
    await timebell_server.make_template(slices_of(Registry(timebell_apps)))


# Made and dropped in the loop of the whole run, whose connection is open already; the test itself has its own loop.
@pytest_asyncio.fixture(loop_scope="session")
async def timebell_database(
    timebell_server: DatabaseFactory, timebell_template: None
) -> AsyncIterator[TestDatabase]:
    """A migrated database of the test's own; `.url` connects as the role that an application has."""
    database = await timebell_server.create()
    yield database
    await timebell_server.drop(database)


@pytest.fixture
def timebell_harness(timebell_database: TestDatabase, timebell_apps: Sequence[App]) -> HarnessFactory:
    """Makes harnesses on the test's database: `async with timebell_harness() as bench:`.

    It takes what `timebell.testing.harness` takes after the address: other apps, a clock, fields of `Settings`.
    """
    return partial(_harness, timebell_database.url, timebell_apps)


def _harness(
    url: str, default_apps: Sequence[App], apps: Sequence[App] | None = None, **options: object
) -> AbstractAsyncContextManager[Harness]:
    return harness(url, default_apps if apps is None else apps, **options)  # type: ignore[arg-type]
