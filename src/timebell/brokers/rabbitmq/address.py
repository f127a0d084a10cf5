"""Where a broker is and who we are to it, from the URL that the settings have."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote

from timebell.config.rules import BROKER_URL
from timebell.errors import ConfigurationError

HOSTS_MAX: Final = 20
# A connection over which nothing came for as long, and some seconds more, is given up.
HEARTBEAT_SECONDS: Final = 15

_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_FILES: Final = ("cacertfile", "certfile", "keyfile")
_HOST: Final = re.compile(r"(?:\[(?P<six>[^\]]+)\]|(?P<name>[^:\[\]]*))(?::(?P<port>\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One node of a broker."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The nodes of one broker, and how we are known there."""

    hosts: tuple[Host, ...]
    vhost: str = "/"
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    heartbeat_seconds: int = HEARTBEAT_SECONDS
    tls: ssl.SSLContext | None = field(default=None, repr=False)


def read_address(url: str) -> Address:
    match = re.fullmatch(BROKER_URL, url, re.ASCII)
    if match is None or match["scheme"] is None:
        # Not repeated: it may well have a password in it.
        raise ConfigurationError(
            "broker_url: is no URL of a broker; give one such as amqp://user:password@host:5672/vhost, with special "
            "characters percent-encoded"
        )
    scheme, options = match["scheme"], _options(match["query"])
    hosts = match["hosts"].split(",")
    if len(hosts) > HOSTS_MAX:
        raise ConfigurationError(f"broker_url: has {len(hosts)} hosts; name at most {HOSTS_MAX} of them")
    login = {} if match["user"] is None else {"user": unquote(match["user"])}
    if match["user"] is not None:
        login["password"] = unquote((match["password"] or ":")[1:])
    return Address(
        hosts=tuple(_host(each, _PORTS[scheme]) for each in hosts),
        vhost=unquote((match["path"] or "")[1:]) or "/",
        heartbeat_seconds=_heartbeat(options.pop("heartbeat", str(HEARTBEAT_SECONDS))),
        tls=_tls(scheme, options),
        **login,
    )


def _options(query: str | None) -> dict[str, str]:
    options = dict(parse_qsl(query or "", keep_blank_values=True))
    unknown = [name for name in options if name not in (*_FILES, "heartbeat")]
    if unknown:
        raise ConfigurationError(
            f"broker_url: the option {unknown[0]:.40} is unknown; use {', '.join(_FILES)} or heartbeat"
        )
    return options


def _host(text: str, port: int) -> Host:
    match = _HOST.fullmatch(text)
    number = int(match["port"] or port) if match is not None else 0
    if match is None or not 1 <= number <= 65535:
        raise ConfigurationError(
            f"broker_url: {text:.100} is no host with a port; give one such as host:{port}"
        )
    return Host(name=match["six"] or unquote(match["name"] or "") or "localhost", port=number)


def _heartbeat(text: str) -> int:
    if not re.fullmatch(r"\d{1,4}", text, re.ASCII) or not 1 <= int(text) <= 600:
        raise ConfigurationError("broker_url: heartbeat is a whole number of seconds from 1 to 600")
    return int(text)


def _tls(scheme: str, options: dict[str, str]) -> ssl.SSLContext | None:
    if scheme == "amqp":
        if options:
            raise ConfigurationError(
                f"broker_url: the option {next(iter(options))} is for connections with TLS; use amqps://"
            )
        return None
    try:
        context = ssl.create_default_context(cafile=options.get("cacertfile"))
        if "certfile" in options:
            context.load_cert_chain(options["certfile"], options.get("keyfile"))
    except (OSError, ValueError) as error:
        names = ", ".join(options[name] for name in _FILES if name in options)
        raise ConfigurationError(
            f"broker_url: {names} cannot be read as certificates and keys ({error}); name files in the form PEM"
        ) from error
    return context
