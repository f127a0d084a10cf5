"""The broker that these tests share."""

from __future__ import annotations

import pytest

from tests.contract.brokers.rabbit_server import RabbitServer, shared_server


@pytest.fixture(scope="session")
def rabbit() -> RabbitServer:
    """The RabbitMQ of this run, started when a test first asks for it."""
    return shared_server()
