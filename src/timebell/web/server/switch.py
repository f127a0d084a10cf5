"""From a path to its operation, in as many steps as the path has parts, however many routes there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from timebell.errors import ConfigurationError
from timebell.web.operation.routes import Route

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(slots=True)
class _Place:
    """Where a beginning of a path leads: on by a fixed part, or by any part, and here by a method."""

    fixed: dict[str, _Place] = field(default_factory=dict)
    named: _Place | None = None
    here: dict[str, tuple[Route, Endpoint, tuple[str, ...]]] = field(default_factory=dict)

    def find(
        self, parts: list[str], depth: int, method: str
    ) -> tuple[Route, Endpoint, tuple[str, ...]] | None:
        if depth == len(parts):
            return self.here.get(method)
        part = parts[depth]
        onward = self.fixed.get(part)
        found = None if onward is None else onward.find(parts, depth + 1, method)
        if found is None and self.named is not None and part:
            found = self.named.find(parts, depth + 1, method)
        return found

    def methods(self, parts: list[str], depth: int) -> set[str]:
        if depth == len(parts):
            return set(self.here)
        ways = [self.fixed.get(parts[depth]), self.named if parts[depth] else None]
        return {method for way in ways if way is not None for method in way.methods(parts, depth + 1)}


class Switch:
    """Leads requests to their operations, because trying one route after another took a third of the time of a request.

    What it does not know, such as pages, wrong paths and wrong methods, goes to the other application.
    """

    def __init__(self, other: ASGIApp) -> None:
        self._other = other
        self._root = _Place()

    def add(self, route: Route, endpoint: Endpoint) -> None:
        place, names = self._root, []
        parts = route.path.split("/")
        for part in parts:
            if not part.startswith("{"):
                place = place.fixed.setdefault(part, _Place())
            else:
                assert part.endswith("}"), f"{route.path}: a name stands for a whole part of a path"
                names.append(part[1:-1])
                place.named = place.named or _Place()
                place = place.named
        if route.method in place.here:
            raise ConfigurationError(
                f"{route.method} {route.path} is answered twice; give the route of one app another path"
            )
        place.here[route.method] = (route, endpoint, tuple(names))

    def methods(self, scope: Scope) -> set[str]:
        """Those that the path of a request is asked with."""
        return self._root.methods(_parts_of(scope), 0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts = _parts_of(scope)
        found = self._root.find(parts, 0, scope["method"])
        if found is None:
            await self._other(scope, receive, send)
            return
        route, endpoint, names = found
        scope["route"] = route
        if names:
            given = [
                part for part, own in zip(parts, route.path.split("/"), strict=True) if own.startswith("{")
            ]
            scope["path_params"] = dict(zip(names, given, strict=True))
        else:
            scope["path_params"] = {}
        response = await endpoint(Request(scope, receive, send))
        await response(scope, receive, send)


def _parts_of(scope: Scope) -> list[str]:
    """What stands between the slashes. One that is written %2F divides nothing: it is part of a name.

    What is no UTF-8 is the name of nothing, and is not taken for another name.
    """
    raw: bytes = scope.get("raw_path") or b""
    if b"%" not in raw:
        path: str = scope["path"]
        return path.split("/")
    try:
        return [unquote_to_bytes(part).decode("utf-8") for part in raw.split(b"/")]
    except UnicodeDecodeError:
        return []
