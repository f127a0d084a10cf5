"""What the tests of the verbs share: a small app, a clock that stands still, and a view of the tables."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from timebell.clock import SystemClock
from timebell.db.pool import Database
from timebell.kernel import App, Done, Handler, Job, Outcome, Queue

NOW = datetime(2027, 3, 1, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
TABLES = ("jobs", "job_keys", "job_log", "dead_jobs", "agendas", "agenda_done", "events", "queue_pauses")


class StillClock(SystemClock):
    """The database is told that it is always the same instant, until a test says otherwise."""

    def __init__(self) -> None:
        self.now: datetime | None = NOW

    def sql_now(self) -> datetime | None:
        return self.now


async def ring(job: Job) -> Outcome:
    return Done()


APP = App(
    name="office",
    handlers={
        "office.ring": ring,
        "office.book": Handler(run=ring, mode="transactional"),
        "office.post": Handler(run=ring, mode="external", queue="mail"),
    },
    queues=[Queue(name="mail", rate=5), Queue(name="slow", concurrency=1)],
)


class Tables:
    """Looks at the tables, and changes them as the engine would, each time in a transaction of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def rows(self, statement: str, *arguments: object) -> list[dict[str, Any]]:
        async with self._database.connection() as session:
            return [dict(row) for row in await session.connection.fetch(statement, *arguments)]

    async def value(self, statement: str, *arguments: object) -> Any:
        rows = await self.rows(statement, *arguments)
        return next(iter(rows[0].values())) if rows else None

    async def jobs(self, where: str = "true", *arguments: object) -> list[dict[str, Any]]:
        columns = "*, payload::text AS payload_text"
        return await self.rows(
            f"SELECT {columns} FROM timebell.jobs WHERE {where} ORDER BY due_at, id", *arguments
        )

    async def job(self, id: UUID) -> dict[str, Any]:
        (row,) = await self.jobs("id = $1", id)
        return row

    async def log(self, id: UUID) -> list[dict[str, Any]]:
        return await self.rows(
            "SELECT * FROM timebell.job_log WHERE id = $1 ORDER BY logged_at, version, state", id
        )

    async def counts(self) -> dict[str, int]:
        return {name: await self.value(f"SELECT count(*) FROM timebell.{name}") for name in TABLES}

    async def start(self, id: UUID, incarnation: int = 7) -> None:
        """As a node does before it runs an external handler."""
        await self.rows(
            "UPDATE timebell.jobs SET started_by = $2, started_at = $3, version = version + 1, "
            "attempt = attempt + 1 WHERE id = $1",
            id,
            incarnation,
            NOW,
        )

    async def give_back(self, id: UUID) -> None:
        """As a node does when an attempt failed and is to be made again."""
        await self.rows(
            "UPDATE timebell.jobs SET started_by = NULL, started_at = NULL, version = version + 1 "
            "WHERE id = $1",
            id,
        )

    async def finish(self, id: UUID, state: str = "done", *, key_expires_at: datetime | None = None) -> None:
        """As a node does in one statement, in several; a key without a lifetime is released."""
        await self.rows(
            "INSERT INTO timebell.job_log (id, tenant, queue, kind, subject, key, step, version, attempt, "
            "state, due_at, finished_at) SELECT id, tenant, queue, kind, subject, key, step, version, "
            "attempt, $2, due_at, $3 FROM timebell.jobs WHERE id = $1",
            id,
            state,
            NOW,
        )
        await self.rows(
            "INSERT INTO timebell.agenda_done (tenant, subject, step, due_at, state, job_id, finished_at) "
            "SELECT tenant, subject, step, due_at, $2, id, $3 FROM timebell.jobs "
            "WHERE id = $1 AND step IS NOT NULL",
            id,
            state,
            NOW,
        )
        if key_expires_at is None:
            await self.rows("DELETE FROM timebell.job_keys WHERE job_id = $1", id)
        else:
            await self.rows(
                "UPDATE timebell.job_keys SET expires_at = $2 WHERE job_id = $1", id, key_expires_at
            )
        await self.rows("DELETE FROM timebell.jobs WHERE id = $1", id)

    async def bury(self, id: UUID, **values: object) -> None:
        """A dead job, as the end of a job leaves it."""
        row: Mapping[str, object] = {
            "id": id,
            "tenant": "default",
            "queue": "default",
            "kind": "office.ring",
            "due_at": NOW - HOUR,
            "version": 4,
            "attempt": 3,
            "crash_count": 0,
            "priority": 0,
            "urgency": "normal",
            "payload": "{}",
            "created_at": NOW - 2 * HOUR,
            "died_at": NOW,
            **values,
        }
        places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
        await self.rows(f"INSERT INTO timebell.dead_jobs ({', '.join(row)}) VALUES ({places})", *row.values())

    async def until_someone_waits(self) -> None:
        """Return once a statement in this database waits for a lock that another holds."""
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND cardinality(pg_blocking_pids(pid)) > 0"
        )
        async with asyncio.timeout(10):
            while not await self.value(waiting):
                continue
