"""The fixtures that users load, under the names that our own tests use for what belongs to them."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator

import hypothesis.core
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from tests.daily import VARIABLE, daily_seed, pin_seed
from timebell.db.embedded import EmbeddedServer
from timebell.testing.database import DatabaseFactory, TestDatabase

pytest_plugins = ["timebell.testing.fixtures"]


def pytest_configure(config: pytest.Config) -> None:
    """Properties are tried on other examples each day; `--hypothesis-seed` and `derandomize` go before that."""
    seed = pin_seed()
    # Hypothesis reads off the environment whether a build server runs it, and would draw there without a seed.
    settings.register_profile(
        "everywhere",
        derandomize=False,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("everywhere")
    if config.getoption("--hypothesis-seed") is None:
        hypothesis.core.global_force_seed = seed  # type: ignore[assignment]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What ten thousand tests are made of stays until the end, so it is never searched for what can go."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_report_header() -> str:
    return f"seed of the day: {VARIABLE}={daily_seed()}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Where something failed the seed stands beside it, even if the header was not asked for."""
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        terminalreporter.write_line(f"To play these examples again: {VARIABLE}={daily_seed()}")


@pytest.fixture(scope="session")
def databases(timebell_server: DatabaseFactory) -> DatabaseFactory:
    return timebell_server


@pytest.fixture(scope="session")
def server(databases: DatabaseFactory) -> EmbeddedServer:
    """The server that all tests of this process share. Do not stop it."""
    return databases.server


@pytest.fixture(scope="session")
def template(timebell_template: None) -> None:
    """After this, databases are copies of a migrated one."""


@pytest.fixture
def database_url(timebell_database: TestDatabase) -> TestDatabase:
    """A migrated database of the test's own."""
    return timebell_database


@pytest_asyncio.fixture(loop_scope="session")
async def empty_database(databases: DatabaseFactory) -> AsyncIterator[TestDatabase]:
    """A database of the test's own in which nothing has been made yet."""
    database = await databases.create(template=None)
    yield database
    await databases.drop(database)
