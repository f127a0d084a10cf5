"""A small tenant beside a large one: what each read of the API looks at, as PostgreSQL counts it.

The large one has the same rows many times over, in every table that has tenants, so that whatever is read of it by
mistake shows. The reads are asked for over HTTP, and every statement of theirs is also explained in the transaction of
the request, as the role of the API: for its own arguments and for any, which is what a statement that is used often is
planned for.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args, get_origin
from uuid import UUID

import asyncpg
import httpx2
import orjson
import pytest
from pydantic.fields import FieldInfo

from tests.query_plans import nodes
from tests.web.support import OTHER, Site
from timebell.db.pool import AsyncpgSession, Row
from timebell.db.queries import Query
from timebell.testing.database import TestDatabase
from timebell.web import Route

# What a read may look at beside so many rows of others. The small tenant has a few of each kind.
NEIGHBOUR_ROWS = 5_000
ROWS_MAX = 150
BUFFERS_MAX = 400

TABLES = """
    SELECT c.oid::regclass::text AS name,
        array_agg(a.attname::text ORDER BY a.attnum) AS columns,
        array_agg(a.atttypid::regtype::text ORDER BY a.attnum) AS types
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND EXISTS (SELECT FROM pg_attribute t WHERE t.attrelid = c.oid AND t.attname = 'tenant' AND NOT t.attisdropped)
    GROUP BY c.oid ORDER BY 1
"""
# Names that a tenant gives once, and numbers that are given once to everybody.
_NAMES = {"id", "key", "subject", "external_id", "address", "idempotency_key", "provider_event_id", "ref"}
_NUMBERS = {"number"}
# Of these a tenant has one row, or one for each queue.
_ONE_OF_A_TENANT = {
    "queue_pauses",
    "tenants",
    "policies",
    "meeting_settings",
    "template_moves",
    "booking_settings",
    "marketplace_settings",
    "simulator_settings",
    "weekly_cycles",
    "token_cleanings",
    "search_settings",
    "digest_cycles",
    "sweeps",
    "insurance_monitors",
}
_CHANGES = re.compile(r"\b(INSERT|UPDATE|DELETE|pg_advisory\w*|pg_logical_emit_message)\b")


async def settle_neighbours(database: TestDatabase) -> None:
    """Give the neighbour what the small tenant has, many times over. Its ids fall between those of the small one."""
    admin = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        await admin.execute("SET session_replication_role = replica")
        for table in await admin.fetch(TABLES):
            name = table["name"]
            own = await admin.fetchval(f"SELECT count(*) FROM {name} WHERE tenant = $1", OTHER)
            if own == 0:
                continue
            values = [
                _copied(name, column, type)
                for column, type in zip(table["columns"], table["types"], strict=True)
            ]
            await admin.execute(
                f"INSERT INTO {name} ({', '.join(table['columns'])}) OVERRIDING SYSTEM VALUE "
                f"SELECT {', '.join(values)} FROM {name}, generate_series(1, {NEIGHBOUR_ROWS // own}) n "
                f"WHERE tenant = '{OTHER}' ORDER BY n"
            )
        await admin.execute("ANALYZE")
    finally:
        await admin.close(timeout=10)


def _copied(table: str, column: str, type: str) -> str:
    if column == "tenant":
        return "'big-' || n" if table.rpartition(".")[2] in _ONE_OF_A_TENANT else "'big'"
    if type == "uuid":
        # A little later than its original, so that they lie in the table as they do where everybody writes at once.
        hex = f"replace({column}::text, '-', '')"
        return (
            f"(lpad(to_hex(('x' || left({hex}, 12))::bit(48)::bigint + n), 12, '0')"
            f" || left(md5({column}::text || n), 20))::uuid"
        )
    if type == "bytea":
        return f"sha256({column} || n::text::bytea)"
    if column in _NAMES and type == "text":
        return f"{column} || '-' || n"
    if column in _NUMBERS:
        return f"{column} + n * 1000"
    return column


async def large_tables(database: TestDatabase) -> dict[str, int]:
    """How many rows of others each table has, without its schema and as partitions are called."""
    admin = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        names = [row["name"] for row in await admin.fetch(TABLES)]
        return {
            name.rpartition(".")[2]: await admin.fetchval(
                f"SELECT count(*) FROM {name} WHERE tenant LIKE 'big%'"
            )
            for name in names
        }
    finally:
        await admin.close(timeout=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What one statement looked at."""

    query: str
    how: str
    rows: int
    buffers: int


def _looked(query: Query, how: str, explained: str) -> Looked:
    plan = orjson.loads(explained)[0]["Plan"]
    rows = 0.0
    for node in nodes(plan):
        if "Relation Name" in node:
            passed = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
            rows += sum(node.get(each, 0) for each in passed) * node["Actual Loops"]
    buffers = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return Looked(query=query.name, how=how, rows=round(rows), buffers=buffers)


@dataclass(slots=True)
class Watcher:
    """Explains every statement that a request of the site runs, and keeps what it looked at."""

    site: Site
    looked: list[Looked]
    is_on: bool = False

    async def explain(self, session: AsyncpgSession, query: Query, arguments: Mapping[str, object]) -> None:
        if not self.is_on or _CHANGES.search(query.text):
            return
        connection = session.connection
        values = query.arguments(arguments)
        how = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON)"
        self.looked.append(
            _looked(query, "custom", await connection.fetchval(f"{how} {query.text}", *values))
        )
        await connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        await connection.execute(f"PREPARE planned AS {query.text}")
        given = f"({', '.join(map(_literal, values))})" if values else ""
        self.looked.append(
            _looked(query, "generic", await connection.fetchval(f"{how} EXECUTE planned {given}"))
        )
        await connection.execute("DEALLOCATE planned")
        await connection.execute("SET LOCAL plan_cache_mode = auto")


def _literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool() | int() | float():
            return str(value)
        case list() | tuple():
            return _literal("{" + ",".join(_element(each) for each in value) + "}")
        case datetime():
            return f"'{value.isoformat()}'"
        case bytes():
            return f"'\\x{value.hex()}'"
    return "'" + str(value).replace("'", "''") + "'"


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@asynccontextmanager
async def watching(site: Site, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watcher]:
    watcher = Watcher(site, [])
    run = AsyncpgSession.run
    ours = site.surface.bell.database.observer

    async def watched(session: AsyncpgSession, query: Query, /, **arguments: object) -> Sequence[Row]:
        if session._observer is ours:
            await watcher.explain(session, query, arguments)
        return await run(session, query, **arguments)

    with monkeypatch.context() as patched:
        patched.setattr(AsyncpgSession, "run", watched)
        yield watcher


def reads_of(routes: Sequence[Route]) -> list[Route]:
    """Every operation that only reads, but for streams, which look at one place."""
    return [
        route for route in routes if route.method == "GET" and route.scope is not None and not route.is_stream
    ]


def asked_in_every_way(route: Route, values: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """The parameters of a read: none, each by itself in each order, and all of the values of those that are chosen from
    a few. A parameter that `values` does not know is a `KeyError`: say what it is to be asked with."""
    fields = _fields(route)
    # Some have no answer without what they ask for.
    needed = {name: values[name] for name, field in fields.items() if field.is_required()}
    orders: Sequence[object] = _choices(fields["sort"].annotation) or (None,) if "sort" in fields else (None,)
    for order in orders:
        base = needed | ({} if order is None else {"sort": order})
        yield base
        for name, field in fields.items():
            if name in ("sort", "limit", "cursor") or name in needed:
                continue
            for value in _choices(field.annotation) or (values[name],):
                yield {**base, name: value}
    # Some go together only.
    yield needed | {name: value for name, value in values.items() if name in fields}


def _fields(route: Route) -> Mapping[str, FieldInfo]:
    known = {} if route.query is None else route.query.model_fields
    return {field.alias or name: field for name, field in known.items()}


def _choices(annotation: Any) -> tuple[object, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if annotation is bool:
        return ("true", "false")
    parts = [part for part in get_args(annotation) if part is not type(None)]
    return tuple(choice for part in parts for choice in _choices(part))


class Reading:
    """Asks for the reads of a site as the small tenant, and notes what looked too far.

    `paths` has what the path of each names, `values` what each parameter is to be asked with. With `acts_always` what
    may be asked for a person, or for nobody, is asked for the actor.
    """

    def __init__(
        self,
        site: Site,
        monkeypatch: pytest.MonkeyPatch,
        *,
        paths: Mapping[str, Mapping[str, object]],
        values: Mapping[str, object],
        actor: UUID | str,
        acts_always: bool = False,
    ) -> None:
        self._acting = ("recipient", "either") if acts_always else ("recipient",)
        self._site = site
        self._monkeypatch = monkeypatch
        self._paths = paths
        self._values = values
        self._actor = actor
        self.count = 0
        self.too_far: list[str] = []

    async def all(self, routes: Sequence[Route]) -> None:
        """Each in every way, and the pages behind the first."""
        async with watching(self._site, self._monkeypatch) as watcher:
            for route in reads_of(routes):
                statuses = set()
                for parameters in asked_in_every_way(route, self._values):
                    response = await self._ask(watcher, route, parameters)
                    statuses.add(response.status_code)
                    if "limit" not in _fields(route) or not parameters.keys() <= {"sort"}:
                        continue
                    page = (await self._ask(watcher, route, {**parameters, "limit": 1})).json()
                    if page.get("next_cursor") is not None:
                        await self._ask(watcher, route, {**parameters, "cursor": page["next_cursor"]})
                assert statuses & {200, 403}, f"{route.path} was never answered"

    async def _ask(self, watcher: Watcher, route: Route, given: Mapping[str, object]) -> httpx2.Response:
        path = route.path.format(**self._paths[route.path]) if "{" in route.path else route.path
        actor = self._actor if route.acts_for in self._acting else None
        watcher.is_on = True
        response = await self._site.ask("GET", path, key=OTHER, actor=actor, params=dict(given))
        watcher.is_on = False
        assert response.status_code in (200, 403, 422), f"{route.path} {given}: {response.text}"
        for looked in watcher.looked:
            self.count += 1
            if looked.rows > ROWS_MAX or looked.buffers > BUFFERS_MAX:
                what = f"{looked.query}, {looked.how}: {looked.rows} rows, {looked.buffers} pages"
                self.too_far.append(f"{route.path} {dict(given)}: {what}")
        watcher.looked.clear()
        return response
