"""A virtual host of the shared broker for each test, and a database with the tables of the scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.acceptance.broker import rabbit
from tests.contract.brokers.rabbit_server import RabbitServer, shared_server
from timebell.testing.database import DatabaseFactory, TestDatabase


@pytest.fixture(scope="session")
def rabbit_server() -> RabbitServer:
    return shared_server()


@pytest.fixture
def vhost(rabbit_server: RabbitServer) -> Iterator[str]:
    """One that nobody else has, for as long as the test lasts."""
    with rabbit_server.shared():
        name = rabbit_server.new_vhost()
        yield name
        rabbit_server.ask(f'rabbit_vhost:delete(<<"{name}">>, <<"tests">>)')


@pytest.fixture
def broker_url(rabbit_server: RabbitServer, vhost: str) -> str:
    return rabbit_server.url(vhost)


@pytest_asyncio.fixture(loop_scope="session")
async def database(timebell_server: DatabaseFactory) -> AsyncIterator[TestDatabase]:
    async with rabbit.scheduler_database(timebell_server) as made:
        yield made
