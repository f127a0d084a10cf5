"""What the reads cost beside many jobs: along the indexes, and never through a whole table."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import orjson
import pytest
import pytest_asyncio

from tests.query_plans import nodes
from tests.store.insights_support import enqueue, log
from tests.store.support import NOW, StillClock, Tables
from timebell.db.pool import Database, Row, Session
from timebell.db.queries import Query, parse
from timebell.kernel import Timebell
from timebell.kernel.insights.insights import Insights
from timebell.kernel.insights.store import InsightsStore
from timebell.testing.database import TestDatabase

FUTURE = """
    INSERT INTO timebell.jobs (id, tenant, queue, kind, subject, run_at, due_at, payload)
    SELECT timebell.new_id(), 'tenant ' || n % 50, CASE n % 2 WHEN 0 THEN 'mail' ELSE 'default' END,
        'office.ring', 'guest:' || n % 20000, at.run_at, at.run_at, '{}'
    FROM generate_series(1, 100001) n, LATERAL (SELECT $1::timestamptz + n * interval '1 minute' AS run_at) at
"""
LOGGED = """
    INSERT INTO timebell.job_log (logged_at, id, tenant, queue, kind, subject, version, attempt, state, due_at,
        finished_at)
    SELECT now() - n % 2 * interval '1 day', timebell.new_id(), 'tenant ' || n % 50, 'default', 'office.ring',
        'guest:' || n % 5000, 1, 1, 'done', $1::timestamptz, $1
    FROM generate_series(1, 40000) n
"""
ANALYZE = "ANALYZE timebell.jobs, timebell.job_log, timebell.events, timebell.dead_jobs, timebell.slots"
LARGE = """
    SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'timebell' AND c.relkind = 'r' AND c.reltuples > 1000
"""


class NotingStore(InsightsStore):
    """Runs every statement, and notes which it was and with what."""

    def __init__(self, clock: StillClock) -> None:
        super().__init__(clock)
        self.noted: list[tuple[Query, list[object]]] = []

    async def _run(self, session: Session, query_name: str, /, **arguments: object) -> Sequence[Row]:
        query = self.queries[query_name]
        asked = {"now": self._clock.sql_now(), "lease_now": self._clock.lease_now(), **arguments}
        self.noted.append((query, [asked[name] for name in query.parameters]))
        return await super()._run(session, query_name, **arguments)


class Planned:
    """A reader beside many jobs, and the plans that PostgreSQL has for what it asks."""

    def __init__(self, insights: Insights, store: NotingStore, owner: asyncpg.Connection[Any]) -> None:
        self.insights = insights
        self.insights._store = store
        self.noted = store.noted
        self._owner = owner

    async def tables_read_through(self) -> list[str]:
        """The large tables that a noted statement would read from end to end."""
        large = {row["relname"] for row in await self._owner.fetch(LARGE)}
        assert len(large) == 3, "the jobs and two days of the log"
        found = []
        for query, values in self.noted:
            for how, plan in await self._plans(query, values):
                read = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
                found += [f"{query.name}, {how}: {table}" for table in sorted(read & large)]
        return found

    async def _plans(self, query: Query, values: list[object]) -> list[tuple[str, dict[str, Any]]]:
        """For these arguments, and for any, which is what a statement that is used often gets."""
        custom = await self._owner.fetchval(f"EXPLAIN (FORMAT JSON) {query.text}", *values)
        await self._owner.execute(f"PREPARE planned AS {query.text}")
        anything = f"({', '.join(['NULL'] * len(values))})" if values else ""
        generic = await self._owner.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE planned {anything}")
        await self._owner.execute("DEALLOCATE planned")
        return [("custom", orjson.loads(custom)[0]["Plan"]), ("generic", orjson.loads(generic)[0]["Plan"])]


@pytest_asyncio.fixture
async def planned(
    bell: Timebell, database: Database, clock: StillClock, tables: Tables, database_url: TestDatabase
) -> AsyncIterator[Planned]:
    await tables.rows(FUTURE, NOW)
    await tables.rows(LOGGED, NOW)
    owner = await asyncpg.connect(
        database_url.admin_url,
        server_settings={"plan_cache_mode": "force_generic_plan"},
    )
    await owner.execute(ANALYZE)
    # Planned as the role that asks: the wall between tenants is part of its plans.
    await owner.execute("SET ROLE timebell")
    yield Planned(Insights(database, clock), NotingStore(clock), owner)
    await owner.close()


async def test_no_read_goes_through_a_whole_table(
    planned: Planned, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a hundred thousand jobs to come and forty thousand that ended."""
    due = await enqueue(tables, tenant="tenant 1", subject="guest:1", correlation_id="c1")
    done = await log(tables, tenant="tenant 1", subject="guest:1", correlation_id="c1")
    insights = planned.insights

    (default, mail, _) = await insights.depth()
    assert (default.due_count, mail.due_count, mail.future_accuracy) == (1, 0, "estimate")
    assert mail.future_count == pytest.approx(50_000, rel=0.1)
    for id, state in ((due, "pending"), (done, "done")):
        journey = await insights.journey("tenant 1", id)
        assert journey is not None
        assert journey.job.state == state
    unfinished = await insights.jobs("tenant 1", subject="guest:1")
    assert due in [line.id for line in unfinished.lines]
    finished = await insights.jobs("tenant 1", state="finished", subject="guest:1")
    assert done in [line.id for line in finished.lines]
    await insights.jobs("tenant 1")
    await insights.jobs("tenant 1", state="running")
    await insights.jobs("tenant 1", state="finished")
    await insights.jobs("tenant 1", key="unheard of")
    assert due in [
        line.id for line in (await insights.jobs("tenant 1", subject="guest:1", oldest_first=True)).lines
    ]
    await insights.jobs("tenant 1", oldest_first=True)
    await insights.jobs("tenant 1", state="running", oldest_first=True)
    await insights.jobs("tenant 1", state="finished", oldest_first=True)
    await insights.jobs("tenant 1", state="finished", subject="guest:1", oldest_first=True)
    await insights.health()
    # The end of the log that is read is as small beside this one as it usually is beside a day's.
    monkeypatch.setattr("timebell.kernel.insights.insights._TAIL_PAGES", 16)
    monkeypatch.setattr("timebell.kernel.insights.insights._TAIL_PAGES_MAX", 32)
    await insights.lateness()
    await insights.throughput()
    assert await planned.tables_read_through() == []

    whole = parse("count_jobs", "SELECT count(payload) FROM timebell.jobs WHERE queue = :queue::text")
    planned.noted.append((whole, ["mail"]))
    assert await planned.tables_read_through() == ["count_jobs, custom: jobs", "count_jobs, generic: jobs"]
