"""A provider for whatever else Apprise can reach, by a URL of the operator's; it comes with `timebell[apprise]`.

Apprise says whether a call worked and nothing about how it failed: a refusal and an answer that never came look the
same. So every failure is `Uncertain`, and `when_uncertain` says what then becomes of it.
"""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any, Final, Literal
from urllib.parse import quote

from timebell.errors import ConfigurationError
from timebell.notify.provider import (
    About,
    Answer,
    Channel,
    Parcel,
    Rejected,
    Sent,
    Traits,
    Unavailable,
    Uncertain,
)
from timebell.providers.deadlines import deadline_around

ADDRESS: Final = "{address}"
TIMEOUT: Final = timedelta(seconds=20)
URL_CHARS_MAX: Final = 2_000

_SAMPLE: Final[dict[Channel, str]] = {
    "email": "ann@example.org",
    "sms": "+4930901820",
    "whatsapp": "+4930901820",
    "push": "sample",
    "webhook": "sample",
}
# Apprise takes what stands between commas, slashes or spaces for several targets, even where they are quoted.
_ONE_TARGET: Final = re.compile(r"[\w@.+:~=-]{1,320}", re.ASCII)


class Apprise:
    """One service of Apprise on one channel. In the URL, `{address}` stands for the recipient's address.

    The URL is the operator's and never a tenant's: Apprise can reach files, commands and the network inside.
    """

    def __init__(
        self,
        url: str,
        *,
        channel: Channel,
        name: str = "apprise",
        timeout: timedelta = TIMEOUT,
        when_uncertain: Literal["wait", "retry", "nothing"] = "retry",
    ) -> None:
        if channel not in _SAMPLE:
            raise ConfigurationError(
                f"channel: {channel} is not carried by Apprise; use {', '.join(_SAMPLE)}"
            )
        if len(url) > URL_CHARS_MAX:
            raise ConfigurationError(f"url: longer than {URL_CHARS_MAX} characters; give a shorter one")
        self._url = url
        self._name = name
        self._timeout = timeout
        self._traits = Traits(
            channels=frozenset({channel}), when_uncertain=when_uncertain, timeout=deadline_around(timeout)
        )
        if self._service(_SAMPLE[channel]) is None:
            raise ConfigurationError("url: Apprise does not know it; `apprise --details` lists what it takes")

    @property
    def name(self) -> str:
        return self._name

    @property
    def traits(self) -> Traits:
        return self._traits

    async def send(self, parcel: Parcel) -> Answer:
        if ADDRESS in self._url and _ONE_TARGET.fullmatch(parcel.address) is None:
            return Rejected(reason="not_one_target", blame="address")
        service = self._service(parcel.address)
        if service is None:
            return Rejected(reason="not_one_target", blame="address")
        seconds = self._timeout.total_seconds()
        try:
            async with asyncio.timeout(seconds + 1):
                result = await service.async_notify(
                    body=parcel.content.text,
                    title=parcel.content.subject or "",
                    body_format="text",
                    interpret_escapes=False,
                    timeout=seconds,
                )
        except TimeoutError:
            return Uncertain(reason="timed_out")
        match result.status.name:
            case "SUCCESS":
                return Sent()
            case "NOMATCH":
                return Unavailable(reason="no_service", error_class="unavailable")
            case "TIMEOUT":
                return Uncertain(reason="timed_out")
            case _:
                # Where the URL names the target, there is none but the service that it could be about.
                about: About = "parcel" if ADDRESS in self._url else "provider"
                return Uncertain(reason="failed", about=about)

    async def look_up(self, parcel: Parcel) -> Answer:
        raise NotImplementedError("Apprise cannot be asked what became of a message; its traits say so")

    async def close(self) -> None:
        return None

    def _service(self, address: str) -> Any:
        try:
            from apprise import Apprise as Library
        except ImportError as error:
            raise ConfigurationError(
                "apprise is not installed; run pip install 'timebell[apprise]'"
            ) from error
        service = Library()
        return service if service.add(self._url.replace(ADDRESS, quote(address, safe=""))) else None
