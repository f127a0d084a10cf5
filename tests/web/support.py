"""The HTTP surface in this process, on the real PostgreSQL, as the role of the API, asked as a client asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx2
from starlette.types import ASGIApp

from tests.store.support import APP, Tables
from timebell.brokers import Broker
from timebell.clock import Clock, SandboxClock, SystemClock
from timebell.config import Settings
from timebell.db.pool import Database, Gate, Limits
from timebell.kernel import App, Timebell
from timebell.loading import registry_of
from timebell.notify import Reporter
from timebell.providers.log import captured_providers
from timebell.testing.database import TestDatabase
from timebell.web import Route
from timebell.web.access.keys import SCOPES, NewKey
from timebell.web.access.tenants import written_for
from timebell.web.operation.surface import Surface, surface_of
from timebell.web.sandbox import sandboxed
from timebell.web.server.api import api_of
from timebell.web.server.serving import routes_of
from timebell.web.v1 import ALL

OTHER = "other"
SECRET_KEY = "a secret key for tests, long enough".replace(" ", "-")
# The secrets of keys that this process has made, by the ids of the keys.
_MADE: dict[frozenset[UUID], dict[str, str]] = {}


@dataclass(slots=True)
class Site:
    """A site and its keys: `read`, `write` and `admin` of the tenant `default`, and `other`, an admin key of the tenant
    `other`."""

    surface: Surface
    app: ASGIApp
    client: httpx2.AsyncClient
    bell: Timebell
    tables: Tables
    keys: Mapping[str, str]
    routes: Sequence[Route]

    async def ask(
        self,
        method: str,
        path: str,
        *,
        key: str | None = "write",
        actor: UUID | str | None = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> httpx2.Response:
        """One request. `key` is the name of one of the site's keys, or a key or token itself."""
        sent = dict(headers or {})
        if key is not None:
            sent["authorization"] = f"Bearer {self.keys.get(key, key)}"
        if actor is not None:
            sent["timebell-actor"] = str(actor)
        return await self.client.request(method, path, headers=sent, **options)

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        return await self.ask("GET", path, **options)

    async def post(self, path: str, json: Any = None, **options: Any) -> httpx2.Response:
        return await self.ask("POST", path, json={} if json is None else json, **options)


async def no_complaints() -> list[str]:
    return []


@asynccontextmanager
async def open_site(
    database: TestDatabase,
    *,
    routes: Sequence[Route] = (),
    apps: Sequence[App] = (APP,),
    clock: Clock | None = None,
    gate: Gate | None = None,
    connections: int = 10,
    limits: Limits | None = None,
    reporters: Mapping[str, Reporter] | None = None,
    broker: Broker | None = None,
    has_wall: bool = True,
    **settings: Any,
) -> AsyncIterator[Site]:
    """`routes` come beside those of `/v1` and of the apps, `connections` are what requests share, and `limits` their
    deadlines; `settings` are fields of `Settings`. With the clock of a sandbox it is one, and nothing happens by
    itself. Without a wall requests are answered as the role of the nodes, which sees all tenants, as by a server whose
    settings have no `api_url`."""
    clock = clock or SystemClock()
    is_sandbox = isinstance(clock, SandboxClock)
    chosen = Settings(**{"secret_key": SECRET_KEY, "requests_per_minute": 1_000_000, **settings})
    registry = registry_of(apps, captured_providers() if is_sandbox else (), broker, chosen)
    async with AsyncExitStack() as stack:
        databases = []
        asked_as = database.api_url if has_wall else database.url
        for url, is_walled in ((asked_as, True), (database.url, False)):
            size = connections if is_walled else 10
            opened = await Database.open(
                url, size=size, limits=limits, is_walled=is_walled, gate=gate if is_walled else None
            )
            stack.push_async_callback(opened.close)
            databases.append(opened)
        walled, worker = [
            Timebell(each, registry=registry, settings=chosen, clock=clock) for each in databases
        ]
        stack.push_async_callback(walled.close)
        stack.push_async_callback(worker.close)
        await worker.declare()
        opening = sandboxed(worker, is_alone=True) if is_sandbox else nullcontext()
        sandbox = await stack.enter_async_context(opening)
        surface = surface_of(walled, no_complaints, reporters=reporters, sandbox=sandbox)
        served = [*ALL, *(route for app in apps for route in routes_of(app)), *routes]
        app = api_of(surface, served)
        # A fault of ours is answered with 500 and not raised, as it is by the server.
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        client = await stack.enter_async_context(
            httpx2.AsyncClient(transport=transport, base_url="http://bell.test")
        )
        yield Site(
            surface=surface,
            app=app,
            client=client,
            bell=worker,
            tables=Tables(worker.database),
            keys=await make_keys(surface, worker),
            routes=served,
        )


async def make_keys(surface: Surface, worker: Timebell) -> dict[str, str]:
    """Those that were made in the database that this one is a copy of are known, and serve again."""
    async with worker.database.connection() as session:
        rows = await session.connection.fetch("SELECT id FROM timebell_web.api_keys")
    known = _MADE.get(frozenset(row["id"] for row in rows))
    if known is not None:
        return dict(known)
    await surface.tenants.ensure_default()
    made: dict[str, NewKey] = {}
    async with worker.transaction() as tx:
        for scope in SCOPES:
            made[scope] = await surface.keys.create(tx, name=scope, scope=scope)
        await surface.tenants.create(tx, OTHER, name="Other")
        async with written_for(tx, OTHER) as other:
            made[OTHER] = await surface.keys.create(other, name=OTHER, scope="admin")
    keys = {name: new.secret for name, new in made.items()}
    _MADE[frozenset(new.key.id for new in made.values())] = keys
    return dict(keys)


def problem(response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """The content of a refusal, which must have the form that all refusals have."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    content: dict[str, Any] = response.json()
    assert {"type", "title", "status", "detail", "code", "errors", "correlation_id"} <= content.keys()
    assert (content["status"], content["code"], content["type"]) == (status, code, f"/problems/{code}")
    assert content["correlation_id"] == response.headers["x-correlation-id"]
    return content
