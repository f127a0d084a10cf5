"""What the verbs about schedules cost beside many others: along the indexes, and never through a whole table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg
import orjson
import pytest

from tests.query_plans import nodes
from tests.store.schedule_support import call, create, local, step
from tests.store.support import NOW, Tables
from timebell.db.pool import AsyncpgSession, Row
from timebell.db.queries import Query
from timebell.kernel import Timebell
from timebell.testing.database import TestDatabase

SCHEDULES = """
    INSERT INTO timebell.schedules (id, tenant, owner, subject, recurrence, timezone, start_local, steps, planned_until,
        timezone_version, created_at, updated_at)
    SELECT timebell.new_id(), 'tenant ' || n % 50, 'owner ' || n % 900, 'subject ' || n % 900, 'FREQ=DAILY', 'UTC',
        '2027-01-01 12:00', '[]', $1::timestamptz, '2026a', $1, $1
    FROM generate_series(1, 20000) n
"""
OCCURRENCES = """
    INSERT INTO timebell.occurrences (schedule_id, original_local, id, tenant, local, occurs_at, revision,
        timezone_version, created_at)
    SELECT s.id, at.local, timebell.new_id(), s.tenant, at.local, at.local AT TIME ZONE 'UTC', 1, '2026a', $1
    FROM timebell.schedules s, generate_series('2027-03-02 12:00'::timestamp, '2027-03-04 12:00', '1 day') at(local)
"""
OVERRIDES = """
    INSERT INTO timebell.occurrence_overrides (schedule_id, original_local, created_at)
    SELECT id, '2027-03-02 12:00', $1 FROM timebell.schedules
"""
JOBS = """
    INSERT INTO timebell.jobs (id, tenant, queue, kind, subject, step, revision, run_at, due_at, payload)
    SELECT timebell.new_id(), tenant, 'default', 'office.ring', 'occurrence:' || id, 'start', 1, occurs_at, occurs_at,
        '{}'
    FROM timebell.occurrences
"""
AGENDAS = "INSERT INTO timebell.agendas (tenant, subject) SELECT tenant, subject FROM timebell.jobs"
DONE = """
    INSERT INTO timebell.agenda_done (tenant, subject, step, due_at, state, finished_at)
    SELECT tenant, subject, 'eve', due_at, 'done', due_at FROM timebell.jobs
"""
LARGE = "schedules", "occurrences", "occurrence_overrides", "jobs", "agendas", "agenda_done"


class Noted:
    """Every statement that ran, with its arguments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.statements: dict[str, tuple[Query, list[object]]] = {}
        run = AsyncpgSession.run

        async def noting(session: AsyncpgSession, query: Query, /, **arguments: object) -> Sequence[Row]:
            self.statements[query.name] = query, query.arguments(arguments)
            return await run(session, query, **arguments)

        monkeypatch.setattr(AsyncpgSession, "run", noting)


async def tables_read_through(
    owner: asyncpg.Connection[Any], statements: dict[str, tuple[Query, list[object]]]
) -> list[str]:
    """The large tables that a statement would read from end to end, whatever its arguments are."""
    found = []
    for name, (query, values) in statements.items():
        await owner.execute(f"PREPARE noted AS {query.text}")
        anything = f"({', '.join(['NULL'] * len(values))})" if values else ""
        text = await owner.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE noted {anything}")
        await owner.execute("DEALLOCATE noted")
        [plan] = orjson.loads(text)
        read = {node["Relation Name"] for node in nodes(plan["Plan"]) if node["Node Type"] == "Seq Scan"}
        found += [f"{name}: {table}" for table in sorted(read.intersection(LARGE))]
    return found


async def test_no_verb_goes_through_a_whole_table(
    bell: Timebell, tables: Tables, database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside twenty thousand schedules with three occurrences each."""
    for statement in (SCHEDULES, OCCURRENCES, OVERRIDES):
        await tables.rows(statement, NOW)
    for statement in (JOBS, AGENDAS, DONE):
        await tables.rows(statement)
    owner = await asyncpg.connect(
        database_url.admin_url, server_settings={"plan_cache_mode": "force_generic_plan"}
    )
    await owner.execute(f"ANALYZE {', '.join(f'timebell.{table}' for table in LARGE)}")
    # Planned as the role that asks: the wall between tenants is part of its plans.
    await owner.execute("SET ROLE timebell")
    noted = Noted(monkeypatch)
    change = await create(
        bell,
        recurrence="FREQ=DAILY",
        start_local=local("2027-03-02T12:00"),
        steps=[step("start", 0), step("eve", -30)],
    )
    id = change.schedule.id
    await call(bell, "override", id, local("2027-03-03T12:00"), skip=True)
    await call(bell, "restore", id, local("2027-03-03T12:00"))
    await call(bell, "edit", id, payload={"title": "Bins"})
    await call(bell, "split", id, local("2027-03-05T12:00"))
    async with bell.transaction() as tx:
        await bell.schedules.get(tx, id)
        await bell.schedules.occurrences(tx, id)
        await bell.schedules.list(tx)
        await bell.schedules.list(tx, owner="owner 1")
        await bell.schedules.list(tx, subject="subject 1")
    await call(bell, "end", id)
    await call(bell, "forget", id)
    assert {
        "insert_occurrences",
        "lock_agendas",
        "withdraw_steps",
        "move_overrides",
        "forget_schedule",
    } <= noted.statements.keys()
    assert await tables_read_through(owner, noted.statements) == []
    whole = Query(name="whole", text="SELECT count(payload) FROM timebell.schedules", parameters=())
    assert await tables_read_through(owner, {"whole": (whole, [])}) == ["whole: schedules"]
    await owner.close()
