"""The ASGI application: FastAPI keeps the routes and writes the documentation, `Operation` answers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from secrets import token_hex
from typing import Annotated, Any

import structlog
from fastapi import FastAPI, Query
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from timebell.db.failures import PASSING_ERRORS
from timebell.errors import TimebellError
from timebell.version import __version__
from timebell.web.openapi import describe
from timebell.web.operations import Operation, path_types
from timebell.web.problems import Problem, problem_of, unavailable
from timebell.web.routes import Route
from timebell.web.surface import Surface
from timebell.web.switch import Endpoint, Switch
from timebell.web.watching import Watched

log = structlog.get_logger("timebell.web")

CORRELATION = "x-correlation-id"
_CORRELATION = re.compile(r"[A-Za-z0-9._:-]{1,100}")
_CORRELATION_NAME = CORRELATION.encode()
_COUNTED_CHARS = 200
_CAREFUL = ((b"cache-control", b"no-cache, private"), (b"x-content-type-options", b"nosniff"))


def api_of(surface: Surface, routes: Iterable[Route], pages: Iterable[Any] = ()) -> ASGIApp:
    """Everything that this process serves. `routes` are those of the engine and of the loaded apps."""
    app = FastAPI(
        title="Timebell",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    # The application's own layers would answer what fails in a form of theirs, before we see it.
    handlers: dict[Any, Any] = {HTTPException: _refused}
    switch = Switch(ExceptionMiddleware(app.router, handlers=handlers))
    listed = list(routes)
    for route in listed:
        endpoint: Endpoint = Operation(route, surface) if route.scope is not None else _public(route, surface)
        switch.add(route, endpoint)
        app.router.routes.append(_documented(route))
    for page in pages:
        app.router.routes.append(page)
    describe(app, listed)
    correlated = Correlated(app, switch)
    return Watched(correlated, surface.requests, surface.bell.clock)


def _documented(route: Route) -> APIRoute:
    """FastAPI writes the documentation from it, and refuses wrong methods by it; it is never asked for an answer."""
    return APIRoute(
        route.path,
        _signature_of(route),
        methods=[route.method],
        status_code=route.status,
        response_model=route.answer,
        summary=route.summary,
        description=inspect.getdoc(route.run),
        tags=[route.tag],
        operation_id=route.run.__name__,
    )


def _signature_of(route: Route) -> Callable[..., Any]:
    """A function that FastAPI can read: what stands in the path, the query and the body, and nothing else."""

    async def documented() -> None:
        """Never called."""

    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
        for name, kind in path_types(route.path).items()
    ]
    if route.query is not None:
        annotation: Any = Annotated[route.query, Query()]
        parameters.append(inspect.Parameter("query", inspect.Parameter.KEYWORD_ONLY, annotation=annotation))
    if route.body is not None:
        parameters.append(inspect.Parameter("body", inspect.Parameter.KEYWORD_ONLY, annotation=route.body))
    documented.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    documented.__name__ = route.run.__name__
    return documented


def _public(route: Route, surface: Surface) -> Endpoint:
    """A route that anybody may call reads the request itself.

    An address may ask for one path as often as a key may ask for all of them. Behind a proxy everybody has the same
    address, and a limit on that alone would let anybody use up the links of the others.
    """

    async def answer(request: Request) -> Response:
        try:
            host = "" if request.client is None else request.client.host
            surface.strangers.take((host, request.scope["path"][:_COUNTED_CHARS]))
            response: Response = await route.run(surface, request)
        except TimebellError as error:
            problem = problem_of(error, route.names)
            if problem is None:
                raise
            return problem.response(request.state.correlation_id)
        return response

    return answer


async def _refused(request: Request, error: HTTPException) -> Response:
    """What the framework refuses by itself: no such path, no such method."""
    phrase = HTTPStatus(error.status_code).phrase
    code = phrase.lower().replace(" ", "_").replace("-", "_")
    detail = {
        404: f"there is no {request.scope['path'][:200]}",
        405: f"{request.method[:20]} is not answered here",
    }.get(error.status_code, phrase)
    headers = {"allow": _allowed(request)} if error.status_code == 405 else dict(error.headers or {})
    return Problem(error.status_code, code, detail, headers=headers).response(request.state.correlation_id)


def _allowed(request: Request) -> str:
    """The methods that this path is asked with; each of them is a route of its own."""
    methods: set[str] = set()
    for route in request.app.router.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    return ", ".join(sorted(methods))


class Correlated:
    """Gives every request an id that its log lines, its jobs and its answer carry, and answers where all else fails."""

    def __init__(self, app: FastAPI, inner: ASGIApp) -> None:
        self._app = app
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        scope["app"] = self._app
        given = next((value for name, value in scope["headers"] if name == _CORRELATION_NAME), b"")
        text = given.decode("latin-1")
        correlation_id = text if _CORRELATION.fullmatch(text) else token_hex(16)
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
                await self._inner(scope, receive, sending)
            except ClientDisconnect:
                log.debug("the caller left", method=scope["method"], path=scope["path"])
            except Exception as error:
                problem = _failure(scope, error)
                if has_begun:
                    raise
                await problem.response(correlation_id)(scope, receive, sending)


def _headers(given: Sequence[tuple[bytes, bytes]], correlation_id: str) -> list[tuple[bytes, bytes]]:
    """What every answer says of itself. It is somebody's own unless it says otherwise, so nobody else may keep it."""
    headers = [*given, (_CORRELATION_NAME, correlation_id.encode())]
    names = {name for name, _ in given}
    headers += [pair for pair in _CAREFUL if pair[0] not in names]
    return headers


def _failure(scope: Scope, error: Exception) -> Problem:
    """What was nobody's intention. What the database said may tell of its insides, so only the log has it."""
    if isinstance(error, PASSING_ERRORS):
        log.warning(
            "the database did not do it",
            method=scope["method"],
            path=scope["path"],
            error=str(error) or type(error).__name__,
        )
        return unavailable()
    log.error("a request failed", method=scope["method"], path=scope["path"], exc_info=error)
    return Problem(500, "internal_error", "something failed here; the correlation id finds it in the log")
