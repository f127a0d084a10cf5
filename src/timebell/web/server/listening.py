"""The port: taken first, so that it is soon told; answers health from then on, and the rest once that is there."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

import orjson
import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from timebell.errors import PortInUse
from timebell.web.operation.problems import Problem
from timebell.web.server.correlation import refused
from timebell.web.server.heads import BoundedHeads
from timebell.web.server.metrics import CONTENT_TYPE

Complaints = Callable[[], Awaitable[Sequence[str]]]
Page = Callable[[], Awaitable[bytes]]
# Whether all is well, and what is told of it.
Health = Callable[[], Awaitable[tuple[bool, dict[str, object]]]]

_IN_FLIGHT_MAX: Final = 20_000
_KEEP_ALIVE_SECONDS: Final = 75
_OWN_PATHS: Final = frozenset({"/healthz", "/health", "/readyz", "/metrics"})
_CLOSE_SECONDS: Final = 2


class Front:
    """Answers whether the process lives, and whether it does its work; whatever else is asked goes to the API.

    `complaints` says what keeps the process from its work, `health` how the engine is, `metrics` what the process has
    counted. Before the API is there, and
    when it has gone, whoever asks is told to come again.
    """

    def __init__(
        self, complaints: Complaints, metrics: Page | None = None, health: Health | None = None
    ) -> None:
        self._complaints = complaints
        self._health = health
        self._metrics = metrics
        self._api: ASGIApp | None = None
        self._absence = Problem(
            503, "starting", "the server is starting; ask again soon", headers={"retry-after": "1"}
        )
        self._in_flight: set[asyncio.Task[Any]] = set()
        self._is_empty = asyncio.Event()

    def open(self, api: ASGIApp) -> None:
        self._api = api
        self._absence = Problem(
            503,
            "unavailable",
            "too many requests are under way; ask again soon",
            headers={"retry-after": "1"},
        )

    async def close(self, seconds: float) -> None:
        """Take no more requests, let those under way end, and end those that do not."""
        self._api = None
        self._absence = Problem(
            503, "stopping", "the server is stopping; ask again soon", headers={"retry-after": "2"}
        )
        if self._in_flight:
            self._is_empty.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._is_empty.wait()
        for request in self._in_flight:
            request.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        api = self._api
        if scope["path"] in _OWN_PATHS:
            answer: ASGIApp = await self._own(scope)
        elif api is None or len(self._in_flight) >= _IN_FLIGHT_MAX:
            answer = refused(scope, self._absence)
        else:
            answer = api
        request = asyncio.current_task()
        assert request is not None
        self._in_flight.add(request)
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await answer(scope, receive, sending)
        except asyncio.CancelledError:
            if self._api is not None or has_begun:
                raise
            await refused(scope, self._absence)(scope, receive, send)
        finally:
            self._in_flight.discard(request)
            if not self._in_flight:
                self._is_empty.set()

    async def _own(self, scope: Scope) -> Response:
        path = scope["path"]
        if scope["method"] not in ("GET", "HEAD"):
            refusal = Problem(
                405, "method_not_allowed", "ask with GET or HEAD", headers={"allow": "GET, HEAD"}
            )
            return refused(scope, refusal)
        if path == "/healthz":
            return _reply(HTTPStatus.OK, {"status": "ok"})
        if path == "/metrics":
            page = b"" if self._metrics is None else await self._metrics()
            return Response(page, headers={"content-type": CONTENT_TYPE, "cache-control": "no-store"})
        if path == "/health" and self._health is not None:
            is_well, told = await self._health()
            return _reply(HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE, told)
        reasons = list(await self._complaints())
        if reasons:
            return _reply(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "not ready", "reasons": reasons})
        return _reply(HTTPStatus.OK, {"status": "ready"})


def _reply(status: HTTPStatus, content: dict[str, object]) -> Response:
    return Response(
        orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE),
        status_code=status,
        media_type="application/json",
        headers={"cache-control": "no-store"},
    )


class Listener:
    """One port and the server on it. Signals are the business of the process, so uvicorn is not asked about them."""

    def __init__(self, app: ASGIApp) -> None:
        config = uvicorn.Config(
            app,
            http=BoundedHeads,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",
            access_log=False,
            reset_contextvars=True,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_CLOSE_SECONDS,
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        self._socket: socket.socket | None = None
        self._ticking: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> None:
        self._socket = _bound(host, port)
        await self._server.startup(sockets=[self._socket])
        self._ticking = asyncio.create_task(self._server.main_loop())

    async def close(self) -> None:
        """Answer what is being answered, for a bounded time, and let the port go."""
        if self._socket is None or self._ticking is None:
            return
        self._server.should_exit = True
        await self._ticking
        await self._server.shutdown(sockets=[self._socket])


def _bound(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.setblocking(False)
        except OSError:
            bound.close()
            raise
    except socket.gaierror as error:
        raise PortInUse(f"host: {host} is no address of this machine; correct the setting host") from error
    except OSError as error:
        raise PortInUse(
            f"port {port} on {host} cannot be had ({os.strerror(error.errno or 0)}); "
            "stop what uses it, or choose another with --port"
        ) from error
    return bound
