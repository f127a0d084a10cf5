"""A tenant beside one that has the same things under the same ids: what is asked for without the tenant finds its twin.

Ids that Timebell makes are never made twice, so a query that names an id and forgets the tenant finds the right row all
the same, until somebody brings ids from elsewhere. The twin has a copy of every row of which the tables let two tenants
have one each, and requests are answered without the wall in the database, which would hide it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import asyncpg

from tests.web.neighbours import TABLES, asked_in_every_way, reads_of
from tests.web.support import OTHER, Site
from timebell.testing.database import TestDatabase
from timebell.web import Route

# Before the other one in an index; and it lies before it in the table.
TWIN = "a-twin"
MARK = "Of the twin: "
# What stands in answers and is no name by which anything is found.
_WORDS = {"title", "description", "name", "reason"}
# A twin that owned its name would be no tenant of this site.
_NOT_COPIED = {"timebell_web.tenants"}
# What is forgotten as time passes, everybody's at once.
_PASSING = {"timebell_web.replies"}

# Else no two answers are the same.
_SAME = {"x-correlation-id": "the-same"}

# Method, path, body, and the person who asks, if one does.
Change = tuple[str, str, Any, str | None]


class Twin:
    """Where the tables allow it, it has what the tenant `other` has."""

    def __init__(self, site: Site, admin: Any, tables: Sequence[Any]) -> None:
        self._site = site
        self._admin = admin
        self._tables = tables
        self._keys = count()

    async def come(self) -> set[str]:
        """Copy everything; answers with the tables in which the twin has something, without their schema."""
        await self._admin.execute("SET session_replication_role = replica")
        for table in self._tables:
            name, columns = table["name"], table["columns"]
            values = [_copied(column, type) for column, type in zip(columns, table["types"], strict=True)]
            await self._admin.execute(
                f"INSERT INTO {name} ({', '.join(columns)}) OVERRIDING SYSTEM VALUE "
                f"SELECT {', '.join(values)} FROM {name} WHERE tenant = '{OTHER}' ON CONFLICT DO NOTHING"
            )
            await self._admin.execute(f"UPDATE {name} SET tenant = tenant WHERE tenant = '{OTHER}'")
        await self._admin.execute("SET session_replication_role = origin")
        return {name.rpartition(".")[2] for name, rows in (await self.rows()).items() if rows}

    async def rows(self) -> dict[str, list[str]]:
        return {
            table["name"]: [
                row[0]
                for row in await self._admin.fetch(
                    f"SELECT to_jsonb(t)::text FROM {table['name']} t WHERE tenant = $1 ORDER BY 1", TWIN
                )
            ]
            for table in self._tables
            if table["name"] not in _PASSING
        }

    async def answers(
        self,
        routes: Iterable[Route],
        *,
        paths: Mapping[str, Mapping[str, object]],
        values: Mapping[str, object],
        actor: str,
        acts_always: bool = False,
    ) -> dict[str, tuple[int, str]]:
        """Everything that the tenant `other` can read, asked in every way. With `acts_always` what may be asked for a
        person, or for nobody, is asked for the actor."""
        acting = ("recipient", "either") if acts_always else ("recipient",)
        found: dict[str, tuple[int, str]] = {}
        for route in reads_of(list(routes)):
            path = route.path.format(**paths[route.path]) if "{" in route.path else route.path
            person = actor if route.acts_for in acting else None
            for given in asked_in_every_way(route, values):
                response = await self._site.get(
                    path, key=OTHER, actor=person, params=dict(given), headers=_SAME
                )
                assert response.status_code < 500, f"{route.path} {given}: {response.text}"
                found[f"{route.path} {given}"] = response.status_code, response.text
        return found

    async def is_left_alone_by(self, changes: Sequence[Change]) -> None:
        """Whatever the tenant `other` does is done, and nothing of it is done to the twin."""
        kept = await self.rows()
        for method, path, body, person in changes:
            once = {"idempotency-key": f"twin-{next(self._keys)}"}
            response = await self._site.ask(method, path, key=OTHER, actor=person, headers=once, json=body)
            assert response.is_success, f"{method} {path}: {response.text}"
            assert MARK not in response.text, f"{method} {path}"
            rows = await self.rows()
            for table, expected in kept.items():
                assert rows[table] == expected, f"{method} {path} reached {table} of another tenant"


def _copied(column: str, type: str) -> str:
    if column == "tenant":
        return f"'{TWIN}'"
    if column in _WORDS and type == "text":
        return f"'{MARK}' || {column}"
    if type == "bytea":
        return f"sha256({column} || '\\x00')"
    if type == "tstzrange":
        return f"tstzrange(lower({column}) + interval '5 hours', upper({column}) + interval '5 hours')"
    return column


@asynccontextmanager
async def twin_of(site: Site, database: TestDatabase) -> AsyncIterator[Twin]:
    admin = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        tables = [row for row in await admin.fetch(TABLES) if row["name"] not in _NOT_COPIED]
        yield Twin(site, admin, tables)
    finally:
        await admin.close(timeout=10)
