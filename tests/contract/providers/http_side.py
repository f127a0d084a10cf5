"""The counterpart of a provider that speaks HTTP: a real server, and behind it the service as its documents have it."""

from __future__ import annotations

import ssl
from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

import pytest
import trustme

from tests.contract.providers.http_server import HttpServer, Request, Response
from timebell.notify.provider import Parcel, Provider
from timebell.testing.provider_suite import Behaviour, many_go_at_once

# Short enough to wait for what never comes; and long enough for a crowd on a machine that is busy.
TIMEOUT = timedelta(seconds=1)
LONG_TIMEOUT = timedelta(seconds=30)
GARBAGE = Response(headers={"Content-Type": "text/html"}, body=b"<html>Please sign in to the network</html>")

_MANNERS: dict[Behaviour, str] = {"hang": "hang", "close": "close", "trickle": "trickle"}


class HttpSide:
    """Keeps what the service took, checks each request by `examine`, and answers as it was told to behave."""

    behaviours: ClassVar[frozenset[Behaviour]] = frozenset(
        {
            "accept",
            "refuse",
            "unauthorized",
            "busy",
            "fail",
            "garble",
            "hang",
            "close",
            "trickle",
            "down",
            "untrusted",
        }
    )

    timeout = TIMEOUT

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.server = HttpServer(self._serve, trusted=self.authority)
        self.requests: list[Request] = []
        self.complaints: list[str] = []
        self.behaviour: Behaviour = "accept"
        self._taken: list[tuple[str, str]] = []
        self._provider: Provider | None = None

    @property
    def provider(self) -> Provider:
        assert self._provider is not None
        return self._provider

    def verify(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context

    async def open(self) -> None:
        await self.server.open()
        self._provider = self.make()

    async def close(self) -> None:
        await self.provider.close()
        await self.server.close()
        assert self.complaints == []

    async def behave(self, behaviour: Behaviour) -> None:
        was, self.behaviour = self.behaviour, behaviour
        self.server.manner = _MANNERS.get(behaviour, "answer")
        if behaviour in {"down", "untrusted"} or was in {"down", "untrusted"}:
            await self.server.close()
        if behaviour == "untrusted":
            await self.server.open(is_trusted=False)
        elif behaviour != "down" and was in {"down", "untrusted"}:
            await self.server.open()

    def taken(self) -> Sequence[tuple[str, str]]:
        return self._taken

    @abstractmethod
    def make(self) -> Provider:
        """The provider, set up for the server."""

    @abstractmethod
    def parcel(self) -> Parcel: ...

    @abstractmethod
    def examine(self, request: Request) -> tuple[str, str]:
        """The address and key of a request that is as the documentation has it; an AssertionError if it is not."""

    @abstractmethod
    def answer(self, behaviour: Behaviour, request: Request) -> Response:
        """What the service answers, by its documentation."""

    def read(self, request: Request) -> Response | None:
        """The answer to a request that only asks; None where it is none."""
        return None

    def _serve(self, request: Request) -> Response:
        self.requests.append(request)
        asked = self.read(request)
        if asked is not None:
            return asked
        try:
            assert not request.repeated
            address = self.examine(request)
        except (AssertionError, KeyError, ValueError, TypeError, IndexError) as error:
            self.complaints.append(f"{request.method} {request.path}: {error!r}")
            return Response(status=400)
        if self.behaviour in {"accept", "hang", "close", "trickle"}:
            self._taken.append(address)
        return GARBAGE if self.behaviour == "garble" else self.answer(self.behaviour, request)


def has_a_crowd(request: pytest.FixtureRequest) -> bool:
    """Whether the check that a side is made for waits for many at once, and for none that never comes."""
    return request.node.callspec.params.get("check") is many_go_at_once
