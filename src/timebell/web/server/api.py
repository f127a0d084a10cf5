"""The ASGI application: the switch finds an operation, which answers; what is left are pages and refusals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from http import HTTPStatus
from typing import Any

import structlog
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from timebell.db.failures import PASSING_ERRORS, SLOW_ERRORS
from timebell.db.walls import within
from timebell.errors import TimebellError
from timebell.logs import Logger
from timebell.web.docs.openapi import documentation
from timebell.web.operation.operations import Operation
from timebell.web.operation.problems import Problem, too_slow, unavailable
from timebell.web.operation.refusals import refusal
from timebell.web.operation.routes import Route
from timebell.web.operation.surface import Surface
from timebell.web.server.correlation import CORRELATION, correlation_of
from timebell.web.server.switch import Endpoint, Switch
from timebell.web.server.watching import Watched, route_of

log = Logger("timebell.web")

_CORRELATION_NAME = CORRELATION.encode()
_COUNTED_CHARS = 200
_CAREFUL = ((b"cache-control", b"no-cache, private"), (b"x-content-type-options", b"nosniff"))


def api_of(surface: Surface, routes: Iterable[Route], pages: Iterable[Any] = ()) -> ASGIApp:
    """Everything that this process serves. `routes` are those of the engine and of the loaded apps."""
    listed = list(routes)
    router = Router([*pages, *documentation(listed)], redirect_slashes=False)
    handlers: dict[Any, Any] = {HTTPException: _refused}
    switch = Switch(ExceptionMiddleware(router, handlers=handlers))
    for route in listed:
        endpoint: Endpoint = Operation(route, surface) if route.scope is not None else _public(route, surface)
        switch.add(route, endpoint)
    return Watched(Correlated(switch), surface.requests, surface.bell.clock)


def _public(route: Route, surface: Surface) -> Endpoint:
    """A route that anybody may call reads the request itself.

    An address may ask for one path as often as a key may ask for all of them. Behind a proxy everybody has the same
    address, and a limit on that alone would let anybody use up the links of the others.
    """

    async def answer(request: Request) -> Response:
        try:
            host = "" if request.client is None else request.client.host
            surface.strangers.take((host, request.scope["path"][:_COUNTED_CHARS]))
            with within(surface.read_seconds) if route.method == "GET" else nullcontext():
                response: Response = await route.run(surface, request)
        except TimebellError as error:
            problem = surface.problems.of(error, route.names)
            if problem is None:
                raise
            return problem.response(request.state.correlation_id)
        return response

    return answer


async def _refused(request: Request, error: HTTPException) -> Response:
    """What nobody answers: no such path, no such method."""
    path, status, headers = request.scope["path"], error.status_code, dict(error.headers or {})
    methods = request.app.methods(request.scope)
    if methods:
        status, headers = 405, {"allow": ", ".join(sorted(methods))}
    phrase = HTTPStatus(status).phrase
    code = phrase.lower().replace(" ", "_").replace("-", "_")
    detail = {404: f"there is no {path[:200]}", 405: f"{request.method[:20]} is not answered here"}
    problem = Problem(status, code, detail.get(status, phrase), headers=headers)
    return problem.response(request.state.correlation_id)


class Correlated:
    """Gives every request an id that its log lines, its jobs and its answer carry, and answers where all else fails."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        # A router that is part of an application raises what it refuses, and does not answer by itself.
        scope["app"] = self._switch
        correlation_id = correlation_of(scope)
        scope.setdefault("state", {})["correlation_id"] = correlation_id
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                message["headers"] = _headers(message.get("headers", []), correlation_id)
            await send(message)

        with structlog.contextvars.bound_contextvars(correlation_id=correlation_id):
            try:
                await self._switch(scope, receive, sending)
            except ClientDisconnect:
                log.debug("the caller left", method=scope["method"], route=route_of(scope))
            except Exception as error:
                problem = _failure(scope, error)
                if has_begun:
                    raise
                await refusal(scope, problem, correlation_id)(scope, receive, sending)


def _headers(given: Sequence[tuple[bytes, bytes]], correlation_id: str) -> list[tuple[bytes, bytes]]:
    """What every answer says of itself. It is somebody's own unless it says otherwise, so nobody else may keep it."""
    headers = [*given, (_CORRELATION_NAME, correlation_id.encode())]
    names = {name for name, _ in given}
    headers += [pair for pair in _CAREFUL if pair[0] not in names]
    return headers


def _failure(scope: Scope, error: Exception) -> Problem:
    """What was nobody's intention. What the database said may tell of its insides, so only the log has it.

    The log has the route and not the path, which may be a link that whoever reads it could follow.
    """
    if isinstance(error, PASSING_ERRORS):
        log.warning(
            "the database did not do it",
            method=scope["method"],
            route=route_of(scope),
            error=str(error) or type(error).__name__,
        )
        return too_slow() if isinstance(error, SLOW_ERRORS) else unavailable()
    log.error("a request failed", method=scope["method"], route=route_of(scope), exc_info=error)
    return Problem(500, "internal_error", "something failed here; the correlation id finds it in the log")
