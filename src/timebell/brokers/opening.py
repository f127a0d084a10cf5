"""The broker that a URL stands for."""

from __future__ import annotations

from typing import Final

from timebell.brokers.contract import Broker
from timebell.brokers.local import LocalBroker
from timebell.errors import ConfigurationError

LOCAL: Final = "local:"


def open_broker(url: str) -> Broker:
    """Nothing is connected to yet. What the broker needs is loaded only where there is one."""
    if url == LOCAL:
        return LocalBroker()
    try:
        from timebell.brokers.rabbitmq import RabbitBroker
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pika":
            raise
        raise ConfigurationError("broker_url: needs the package pika; install timebell[rabbitmq]") from error
    return RabbitBroker(url)
