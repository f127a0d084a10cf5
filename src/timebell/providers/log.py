"""Providers through which nothing leaves: one that only writes a line, and the ones that demo mode is made of.

A line names whom and what, never the content, and an address only as far as a person needs to tell two apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from timebell.logs import Logger
from timebell.notify.provider import CHANNELS, Answer, Channel, Parcel, Sent, Traits

log = Logger("timebell.providers")

_HIDDEN: Final = "…"
# What does not leave can be given again, however late, and nobody gets a second copy.
_FOR_EVER: Final = timedelta(days=36_500)


class Log:
    """Writes a line for each parcel and calls it sent: for development, and to measure all but the network."""

    def __init__(
        self,
        *,
        name: str = "log",
        channels: Iterable[Channel] = ("email", "sms", "whatsapp", "push", "webhook"),
    ) -> None:
        self._name = name
        self._traits = Traits(channels=frozenset(channels), key_lifetime=_FOR_EVER)

    @property
    def name(self) -> str:
        return self._name

    @property
    def traits(self) -> Traits:
        return self._traits

    async def send(self, parcel: Parcel) -> Answer:
        _write("told", self._name, parcel)
        return Sent(provider_id=str(parcel.delivery_id))

    async def look_up(self, parcel: Parcel) -> Answer:
        raise NotImplementedError("a line in a log cannot be asked after; the traits say so")

    async def close(self) -> None:
        return None


class Captured:
    """Takes the place of every other provider of a channel in demo mode; the outbox shows what it was given.

    A process in demo mode is built with these and no others, so there is nothing that could send.
    """

    def __init__(self, channel: Channel) -> None:
        self._name = f"captured-{channel}"
        self._traits = Traits(channels=frozenset({channel}), key_lifetime=_FOR_EVER)

    @property
    def name(self) -> str:
        return self._name

    @property
    def traits(self) -> Traits:
        return self._traits

    async def send(self, parcel: Parcel) -> Answer:
        _write("captured", self._name, parcel)
        return Sent(is_captured=True)

    async def look_up(self, parcel: Parcel) -> Answer:
        raise NotImplementedError("what was captured cannot be asked after; the traits say so")

    async def close(self) -> None:
        return None


def captured_providers() -> tuple[Captured, ...]:
    """One for each channel that leaves; the inbox stays as it is."""
    return tuple(Captured(channel) for channel in CHANNELS if channel != "inbox")


def masked(address: str, channel: Channel) -> str:
    """An address as a log may show it."""
    match channel:
        case "email":
            local, _, domain = address.rpartition("@")
            return f"{local[:1]}{_HIDDEN}@{domain[:1]}{_HIDDEN}" if local else _HIDDEN
        case "sms" | "whatsapp":
            return f"{_HIDDEN}{address[-2:]}" if len(address) > 6 else _HIDDEN
        case "push" | "webhook":
            return _host(address)
        case "inbox":
            return ""


def _host(url: str) -> str:
    """Only the host: the rest of such a URL is a secret in itself."""
    try:
        return urlsplit(url).hostname or _HIDDEN
    except ValueError:
        return _HIDDEN


def _write(event: str, provider: str, parcel: Parcel) -> None:
    log.info(
        event,
        provider=provider,
        delivery=str(parcel.delivery_id),
        tenant=parcel.tenant,
        channel=parcel.channel,
        to=_on_one_line(masked(parcel.address, parcel.channel)),
        text_chars=len(parcel.content.text),
    )


def _on_one_line(text: str) -> str:
    """A line of the log stays one line, whatever an address is made of."""
    return "".join(char if char.isprintable() else _HIDDEN for char in text)
