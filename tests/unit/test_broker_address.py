"""What the URL of a broker says, and which broker it stands for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from timebell.brokers.local import LocalBroker
from timebell.brokers.opening import open_broker
from timebell.brokers.rabbitmq import RabbitBroker
from timebell.brokers.rabbitmq.address import HEARTBEAT_SECONDS, Address, Host, read_address
from timebell.errors import ConfigurationError


def hosts(*named: tuple[str, int]) -> tuple[Host, ...]:
    return tuple(Host(name=name, port=port) for name, port in named)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("amqp://localhost", Address(hosts=hosts(("localhost", 5672)))),
        ("amqp://", Address(hosts=hosts(("localhost", 5672)))),
        ("amqp://a:1,b/", Address(hosts=hosts(("a", 1), ("b", 5672)))),
        (
            "amqp://me:s%3Acret%2F@[::1]:7/a%2Fb",
            Address(hosts=hosts(("::1", 7)), vhost="a/b", user="me", password="s:cret/"),
        ),
        ("amqp://me@h/%2f", Address(hosts=hosts(("h", 5672)), user="me", password="")),
        ("amqp://h/v?heartbeat=30", Address(hosts=hosts(("h", 5672)), vhost="v", heartbeat_seconds=30)),
    ],
)
def test_a_url_is_read(url: str, expected: Address) -> None:
    assert read_address(url) == expected


def test_tls_checks_the_certificate_and_the_name() -> None:
    address = read_address("amqps://h")
    assert address.hosts == hosts(("h", 5671))
    assert address.tls is not None
    assert address.tls.check_hostname
    assert address.heartbeat_seconds == HEARTBEAT_SECONDS


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://me:s3cret@host", "is no URL of a broker; give one such as amqp://"),
        ("amqp://me:s3cret@host:70000", "host:70000 is no host with a port"),
        ("amqp://h?verify=verify_none", "the option verify is unknown; use cacertfile"),
        ("amqp://h?heartbeat=0", "heartbeat is a whole number of seconds from 1 to 600"),
        ("amqp://h?cacertfile=/x", "the option cacertfile is for connections with TLS; use amqps://"),
        ("amqps://h?cacertfile=/not/there", "/not/there cannot be read as certificates"),
        ("amqp://" + ",".join(["h"] * 21), "has 21 hosts; name at most 20"),
    ],
)
def test_a_url_that_is_wrong_is_refused_without_the_password(url: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_address(url)
    assert str(raised.value).startswith(f"broker_url: {reason}")
    assert "s3cret" not in str(raised.value)


def test_no_address_shows_its_password() -> None:
    address = read_address("amqp://me:s3cret@h")
    assert "s3cret" not in f"{address!r} {address}"
    assert "s3cret" not in repr(vars(RabbitBroker("amqp://me:s3cret@h")))


def test_hosts_are_shown_as_they_are_written() -> None:
    assert [str(host) for host in hosts(("h", 1), ("::1", 2))] == ["h:1", "[::1]:2"]


def test_the_url_says_which_broker() -> None:
    assert isinstance(open_broker("local:"), LocalBroker)
    assert isinstance(open_broker("amqp://h"), RabbitBroker)


def test_without_pika_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.split(".")[0] == "pika" or name.startswith("timebell.brokers.rabbitmq"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pika", None)
    with pytest.raises(
        ConfigurationError, match=r"^broker_url: needs the package pika; install timebell\[rabbitmq\]$"
    ):
        open_broker("amqp://h")


def test_pika_is_imported_in_one_place() -> None:
    package = Path(sys.modules[RabbitBroker.__module__].__file__ or "").parent
    importing = [path.name for path in sorted(package.glob("*.py")) if "pika import" in path.read_text()]
    assert importing == ["wire.py"]
