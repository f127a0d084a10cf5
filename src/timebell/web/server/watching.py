"""Every request is counted, timed and, where somebody traces, followed."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from timebell.clock import Clock
from timebell.kernel.tallies import DURATION_SECONDS, Spread
from timebell.kernel.tracing import is_traced, traced
from timebell.logs import Logger
from timebell.web.operation.refusals import REFUSED

log = Logger("timebell.web")

# A path that no route has is not a label: whoever tries paths would make as many of them.
_NO_ROUTE: Final = "(none)"


class RequestTally:
    """What was asked of this process, by method, route and status; and how long the answers took."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, int]] = Counter()
        self.durations: defaultdict[str, Spread] = defaultdict(lambda: Spread(DURATION_SECONDS))


class Watched:
    """Around the whole application. What goes on without an end, such as a stream, is counted and not timed."""

    def __init__(self, inner: ASGIApp, tally: RequestTally, clock: Clock) -> None:
        self._inner = inner
        self._tally = tally
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began = self._clock.monotonic()
        status, is_stream = 500, False

        async def sending(message: Message) -> None:
            nonlocal status, is_stream
            if message["type"] == "http.response.start":
                status = message["status"]
                is_stream = any(
                    name == b"content-type" and value.startswith(b"text/event-stream")
                    for name, value in message.get("headers", ())
                )
            await send(message)

        try:
            if is_traced():
                await self._traced(scope, receive, sending)
            else:
                await self._inner(scope, receive, sending)
        finally:
            route, method = route_of(scope), scope["method"]
            status = scope.get("state", {}).get(REFUSED, status)
            self._tally.counts[method, route, status] += 1
            if not is_stream:
                self._tally.durations[route].note(self._clock.monotonic() - began)
            log.debug(
                "answered", method=method, route=route, status=status, correlation_id=_correlation_id(scope)
            )

    async def _traced(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        about = {"http.request.method": scope["method"], "url.scheme": scope.get("scheme", "http")}
        with traced(scope["method"], about, caused_by=headers) as span:

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            try:
                await self._inner(scope, receive, sending)
            finally:
                route = route_of(scope)
                span.update_name(f"{scope['method']} {route}")
                span.set_attribute("http.route", route)
                span.set_attribute("timebell.correlation_id", _correlation_id(scope) or "")


def route_of(scope: Scope) -> str:
    """The path as the route has it, with names where the ids stand."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else _NO_ROUTE


def _correlation_id(scope: Scope) -> str | None:
    found = scope.get("state", {}).get("correlation_id")
    return found if isinstance(found, str) else None
