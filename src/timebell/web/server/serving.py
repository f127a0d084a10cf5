"""Opening and closing the door: the API is put behind the port once it can answer, and taken away before it cannot."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from timebell.errors import ConfigurationError
from timebell.kernel import App, Registry
from timebell.web.access.keys import CHOSEN_KEY, NewKey
from timebell.web.operation.problems import Problem
from timebell.web.operation.routes import Route
from timebell.web.operation.surface import Surface
from timebell.web.server.api import api_of
from timebell.web.server.correlation import refused
from timebell.web.server.listening import Front
from timebell.web.v1 import ALL

_DRAIN_SECONDS: Final = 1.5


@asynccontextmanager
async def serving(front: Front, surface: Surface, registry: Registry) -> AsyncIterator[None]:
    """The engine's routes and those of the apps are answered for as long as the block lasts."""
    routes = [*ALL, *(route for app in registry.apps for route in routes_of(app))]
    pages = [page for app in registry.apps for page in app.pages]
    front.open(api_of(surface, routes, pages))
    try:
        yield
    finally:
        surface.stopping.set()
        await front.close(_DRAIN_SECONDS)


def routes_of(app: App) -> Sequence[Route]:
    """Those that the app has, or that its module of routes has; that is loaded here, since only who serves needs it."""
    if not isinstance(app.routes, str):
        routes: Sequence[Route] = app.routes
        return routes
    routes = getattr(importlib.import_module(app.routes), "ROUTES", ())
    if not routes:
        raise ConfigurationError(f"app {app.name!r}: {app.routes} has no ROUTES; put a tuple of Route there")
    return routes


def only_a_node() -> ASGIApp:
    """What a node answers that has a port for its health and its metrics alone."""
    detail = "a node answers /healthz, /health, /readyz and /metrics; ask a process that serves the API"
    problem = Problem(404, "not_found", detail)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await refused(scope, problem)(scope, receive, send)

    return answer


async def settle_keys(surface: Surface, *, may_make: bool) -> NewKey | None:
    """The key that the settings name, or the very first one, which whoever starts the process is shown once."""
    chosen = surface.bell.settings.api_key
    await surface.tenants.ensure_default()
    if chosen is not None:
        await surface.keys.ensure(chosen, name=CHOSEN_KEY)
        return None
    return await surface.keys.ensure_first() if may_make else None
