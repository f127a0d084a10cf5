"""`Insights`: every read-only question, asked here by the command line, the metrics and the dashboard alike.

No answer costs more the more is owed: what cannot be counted within a bound is estimated, or is counted up to
the bound, and says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields
from datetime import datetime, timedelta
from functools import partial
from typing import get_args
from uuid import UUID

import orjson

from timebell.clock import Clock
from timebell.db.pool import Database, Row, Session
from timebell.errors import InvalidInput
from timebell.kernel.alerts.store import AlertStore
from timebell.kernel.insights.journey import build_journey, time_of_id
from timebell.kernel.insights.records import (
    Accuracy,
    BreakerLine,
    DeadJob,
    EventLine,
    FailureGroup,
    Health,
    JobLine,
    Journey,
    LatenessSummary,
    ListedState,
    MinuteCount,
    NodeLine,
    ParkedSchedule,
    PauseLine,
    Pulse,
    QueueDepth,
    QueueLine,
    SnapshotHolder,
    TimezoneLine,
)
from timebell.kernel.insights.store import InsightsStore
from timebell.kernel.models import JobState, check_between, check_name
from timebell.kernel.paging import Listing, Page, check_limit, decode_cursor, page_of

_LINE_FIELDS = tuple(field.name for field in fields(JobLine))


def depth_of(
    row: Row, is_cut: bool, accuracy: Accuracy, counts: dict[str, int], retrying: dict[str, int]
) -> QueueDepth:
    future = counts.get(row["queue"], 0)
    if accuracy == "estimate":
        future = max(0, future - row["due_count"] - row["started_count"] - row["parked_count"])
    return QueueDepth(
        queue=row["queue"],
        due_count=row["due_count"],
        started_count=row["started_count"],
        parked_count=row["parked_count"],
        retrying_count=retrying.get(row["queue"], 0),
        is_at_least=is_cut,
        future_count=future,
        future_accuracy=accuracy,
        oldest_due_at=row["oldest_due_at"],
        lateness_seconds=row["lateness_seconds"],
    )


def failure_group(row: Row, count_max: int) -> FailureGroup:
    known = {field.name: row[field.name] for field in fields(FailureGroup) if field.name in row}
    known["job_count"] = min(row["job_count"], count_max)
    return FailureGroup(**known, example_id=plain_id(row["id"]), is_at_least=row["job_count"] > count_max)


def dead_job(row: Row) -> DeadJob:
    known = {field.name: row[field.name] for field in fields(DeadJob)}
    return DeadJob(**{**known, "id": plain_id(row["id"]), "payload": orjson.loads(row["payload"])})


def dead_line(row: Row) -> JobLine:
    return job_line({**row, "state": "dead", "finished_at": row["died_at"]})


def job_line(row: Row) -> JobLine:
    """A line of whatever the read knows. The log does not say when a job was enqueued, but its id does."""
    known = {name: row[name] for name in _LINE_FIELDS if row.get(name) is not None}
    created_at: datetime | None = known.pop("created_at", None) or time_of_id(row["id"])
    return JobLine(**{**known, "id": plain_id(row["id"])}, created_at=created_at)


def plain_id(id: UUID) -> UUID:
    """The driver's own kind of UUID is not fit for JSON."""
    return UUID(int=id.int)


def event_line(row: Row) -> EventLine:
    known = {field.name: row[field.name] for field in fields(EventLine)}
    return EventLine(**{**known, "id": plain_id(row["id"]), "data": orjson.loads(row["data"])})


def pause_line(row: Row) -> PauseLine:
    return PauseLine(
        tenant=row["tenant"] or None, reason=row["reason"], actor=row["actor"], paused_at=row["paused_at"]
    )


COUNT_MAX = 100_000
LOOK_MAX = 10_000
SAMPLE_MAX = 10_000
ALIKE_MAX = 10_000
ENTRIES_MAX = 500
EVENTS_MAX = 100
LISTED_MAX = 1_000
LEFT_KINDS_MAX = 20
MINUTES_MAX = 24 * 60

_SLOT_ROWS_MAX = COUNT_MAX // (256 * 3)
_SAMPLE_PAGES = 500
_TAIL_PAGES = 1_024
_TAIL_PAGES_MAX = 16_384
_BEFORE_ENQUEUED = timedelta(minutes=1)
_LISTED_STATES = (*get_args(JobState), "unfinished", "finished")


class Insights:
    """Reads, and only reads. A tenant sees what is its own; where None is allowed, it means an operator."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._store = InsightsStore(clock)
        self._alerts = AlertStore(clock)

    @asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[Session]:
        """A session whose statements all see the same state."""
        async with self._database.transaction() as session:
            await session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield session

    async def depth(self, tenant: str | None = None) -> list[QueueDepth]:
        """How much lies in each queue, and how long the longest waiting has waited."""
        check_name("tenant", tenant)
        if tenant is not None:
            return await self._depth_of(tenant)
        async with self._snapshot() as session:
            due = await self._store.count_due(session, slot_rows_max=COUNT_MAX + 1, rows_max=COUNT_MAX + 1)
            is_cut = any(row["read_count"] > COUNT_MAX for row in due)
            if is_cut:
                # The same share of every slot, so that one queue's backlog hides little of the others.
                due = await self._store.count_due(session, slot_rows_max=_SLOT_ROWS_MAX, rows_max=COUNT_MAX)
            retrying = await self._store.count_retrying(session, rows_max=COUNT_MAX)
            accuracy, counts = await self._count_beyond(session)
        return [depth_of(row, is_cut, accuracy, counts, retrying) for row in due]

    async def _depth_of(self, tenant: str) -> list[QueueDepth]:
        """Along the index of the tenant's own jobs, because nobody's answer may depend on how much others owe."""
        async with self._database.connection() as session:
            rows = await self._store.count_unfinished(session, tenant=tenant, rows_max=COUNT_MAX + 1)
        is_cut = any(row["read_count"] > COUNT_MAX for row in rows)
        counts = {row["queue"]: row["future_count"] for row in rows}
        retrying = {row["queue"]: row["retrying_count"] for row in rows}
        return [depth_of(row, is_cut, "at_least" if is_cut else "exact", counts, retrying) for row in rows]

    async def _count_beyond(self, session: Session) -> tuple[Accuracy, dict[str, int]]:
        """What is not due yet, by queue; where that is too much to count, an estimate of all unfinished."""
        spread = await self._store.estimate_jobs(session, pages_max=_SAMPLE_PAGES, rows_max=COUNT_MAX)
        job_count = spread[0]["job_count"]
        if job_count is None or job_count <= COUNT_MAX:
            future = await self._store.count_future(session, rows_max=COUNT_MAX + 1)
            is_cut = any(row["read_count"] > COUNT_MAX for row in future)
            return "at_least" if is_cut else "exact", {row["queue"]: row["future_count"] for row in future}
        return "estimate", {
            row["queue"]: round(row["fraction"] * job_count) for row in spread if row["queue"]
        }

    async def lateness(self, minutes: int = 60, queue: str | None = None) -> LatenessSummary:
        """How late first attempts began, over a bounded sample of the newest; never negative."""
        check_between("minutes", minutes, 1, MINUTES_MAX)
        check_name("queue", queue)
        async with self._snapshot() as session:
            tail = await self._store.read_log_tail(session, pages_max=_TAIL_PAGES)
            row = await self._store.read_lateness(
                session, minutes=minutes, queue=queue, rows_max=SAMPLE_MAX, tail=tail
            )
        return LatenessSummary(minutes=minutes, queue=queue, **row)

    async def throughput(self, minutes: int = 60) -> list[MinuteCount]:
        """What became of jobs, minute by minute up to the present one."""
        check_between("minutes", minutes, 1, MINUTES_MAX)
        rows: Sequence[Row] = ()
        async with self._snapshot() as session:
            for pages_max in (_TAIL_PAGES, _TAIL_PAGES_MAX):
                tail = await self._store.read_log_tail(session, pages_max=pages_max)
                rows = await self._store.read_throughput(session, minutes=minutes, tail=tail)
                if len(rows) == minutes and not rows[0]["is_at_least"]:
                    break
        return [MinuteCount(**row) for row in rows]

    async def failures(
        self, tenant: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[FailureGroup]:
        """Dead jobs by what killed them, the cause of the latest death first."""
        listing = _listing("failures", limit, cursor, dated=True, tenant=tenant)
        async with self._database.connection() as session:
            rows = await self._store.read_failures(session, listing)
        group_of = partial(failure_group, count_max=ALIKE_MAX)
        return page_of("failures", rows, limit, group_of, at="last_died_at")

    async def dead(
        self,
        tenant: str,
        kind: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
        oldest_first: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[DeadJob]:
        """The dead jobs that wait for an operator, the last that died first, or the first."""
        filters = {"tenant": tenant, "kind": kind, "queue": queue, "fingerprint": fingerprint}
        name = _named("dead", oldest_first)
        listing = _listing(name, limit, cursor, dated=True, oldest_first=oldest_first, **filters)
        async with self._database.connection() as session:
            rows = await self._list_dead(session, listing)
        return page_of(name, rows, limit, dead_job, at="died_at")

    async def _list_dead(self, session: Session, listing: Listing) -> Sequence[Row]:
        if listing.oldest_first:
            return await self._store.list_dead_oldest(session, listing)
        if listing.fingerprint is not None:
            return await self._store.list_dead_alike(session, listing)
        return await self._store.list_dead(session, listing)

    async def dead_counts(self) -> dict[str, int]:
        """How many dead jobs wait for an operator in each queue where there are any, counted up to the bound."""
        async with self._database.connection() as session:
            rows = await self._store.count_dead(session, rows_max=COUNT_MAX)
        return {row["queue"]: row["dead_count"] for row in rows}

    async def jobs(
        self,
        tenant: str,
        *,
        state: ListedState = "unfinished",
        subject: str | None = None,
        kind: str | None = None,
        queue: str | None = None,
        key: str | None = None,
        oldest_first: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[JobLine]:
        """Jobs in a state, the last enqueued first, or the first; the dead ones are those of `dead`, in its order."""
        if state not in _LISTED_STATES:
            raise InvalidInput(f"{state!r} is not one of {', '.join(_LISTED_STATES)}", field="state")
        filters = {"tenant": tenant, "kind": kind, "queue": queue, "subject": subject, "key": key}
        if state == "dead":
            name = _named("jobs.dead", oldest_first)
            listing = _listing(name, limit, cursor, dated=True, oldest_first=oldest_first, **filters)
            async with self._database.connection() as session:
                rows = await self._list_dead(session, listing)
            return page_of(name, rows, limit, dead_line, at="died_at")
        only = None if state in ("unfinished", "finished") else state
        name = _named("jobs", oldest_first)
        listing = _listing(name, limit, cursor, dated=False, oldest_first=oldest_first, state=only, **filters)
        async with self._database.connection() as session:
            is_unfinished = state in ("unfinished", "pending", "running")
            rows = await self._list_jobs(session, listing, is_unfinished)
            if is_unfinished:
                rows = await self._with_last_errors(session, tenant, rows)
        return page_of(name, rows, limit, job_line)

    async def _with_last_errors(self, session: Session, tenant: str, rows: Sequence[Row]) -> list[Row]:
        """A job that waits for its next attempt does not know what the last one said; the log does."""
        ids = [row["id"] for row in rows]
        errors = await self._store.read_last_errors(session, tenant=tenant, ids=ids) if ids else {}
        return [{**row, **errors.get(row["id"], {})} for row in rows]

    async def _read_job(self, session: Session, tenant: str, id: UUID) -> Row | None:
        row = await self._store.read_job(session, tenant=tenant, id=id)
        if row is None or row["state"] not in ("pending", "running"):
            return row
        (row,) = await self._with_last_errors(session, tenant, [row])
        return row

    async def _list_jobs(self, session: Session, listing: Listing, is_unfinished: bool) -> Sequence[Row]:
        """Along whichever index leads there soonest."""
        if not is_unfinished and listing.subject is not None:
            return await self._store.list_finished_of_subject(session, listing)
        if not is_unfinished and listing.oldest_first:
            return await self._store.list_finished_oldest(session, listing)
        if not is_unfinished:
            return await self._store.list_finished(session, listing)
        if listing.key is not None:
            return await self._store.list_unfinished_of_key(session, listing)
        if listing.state == "running" and listing.subject is None and not self._database.is_walled:
            return await self._store.list_running(session, listing)
        if listing.oldest_first:
            return await self._store.list_unfinished_oldest(session, listing)
        if listing.subject is not None:
            return await self._store.list_unfinished_of_subject(session, listing)
        return await self._store.list_unfinished(session, listing)

    async def events(
        self,
        tenant: str,
        *,
        subject: str | None = None,
        correlation_id: str | None = None,
        name: str | None = None,
        oldest_first: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[EventLine]:
        """What was recorded, the last first, or the first; the ids are in the order of time."""
        filters = {"tenant": tenant, "subject": subject, "correlation_id": correlation_id, "name": name}
        read = _named("events", oldest_first)
        listing = _listing(read, limit, cursor, dated=False, oldest_first=oldest_first, **filters)
        listed = self._store.list_events_oldest if oldest_first else self._store.list_events
        async with self._database.connection() as session:
            rows = await listed(session, listing)
        return page_of(read, rows, limit, event_line)

    async def job(self, tenant: str, id: UUID) -> JobLine | None:
        """One job, wherever it is: unfinished, dead or in the log."""
        check_name("tenant", tenant)
        async with self._database.connection() as session:
            row = await self._read_job(session, tenant, id)
        return None if row is None else job_line(row)

    async def journey(self, tenant: str, id: UUID) -> Journey | None:
        """Everything known of one job, in order."""
        check_name("tenant", tenant)
        async with self._snapshot() as session:
            row = await self._read_job(session, tenant, id)
            if row is None:
                return None
            job = job_line(row)
            log = await self._store.read_job_log(session, tenant=tenant, id=id, rows_max=ENTRIES_MAX + 1)
            is_final = job.state not in ("pending", "running")
            events = await self._store.read_job_events(
                session,
                tenant=tenant,
                correlation_id=job.correlation_id,
                subject=job.subject,
                from_at=None if job.created_at is None else job.created_at - _BEFORE_ENQUEUED,
                until_at=log[-1]["logged_at"] if log and is_final else None,
                rows_max=EVENTS_MAX + 1,
            )
            agenda = None
            if job.subject is not None and job.step is not None:
                agenda = await self._store.read_agenda_line(session, tenant=tenant, subject=job.subject)
        return build_journey(
            job,
            incarnation=row["incarnation"],
            agenda=agenda,
            log=log[-ENTRIES_MAX:],
            events=events[-EVENTS_MAX:],
            is_cut=len(log) > ENTRIES_MAX or len(events) > EVENTS_MAX,
        )

    async def queues(self, tenant: str | None = None) -> list[QueueLine]:
        """The declared queues with their limits and pauses; a tenant sees its own pauses and everyone's."""
        check_name("tenant", tenant)
        async with self._snapshot() as session:
            queues = await self._store.list_queues(session)
            pauses = await self._store.list_pauses(session, tenant=tenant, rows_max=LISTED_MAX)
        paused: dict[str, list[PauseLine]] = {queue["name"]: [] for queue in queues}
        for row in pauses:
            paused.setdefault(row["queue"], []).append(pause_line(row))
        return [QueueLine(**queue, pauses=tuple(paused[queue["name"]])) for queue in queues]

    async def nodes(self) -> list[NodeLine]:
        """The nodes that are alive."""
        async with self._database.connection() as session:
            return [NodeLine(**row) for row in await self._store.list_nodes(session)]

    async def left_kinds(self) -> dict[str, int]:
        """Kinds that no living node has a handler for, with how many of their jobs are due, the most first."""
        async with self._database.connection() as session:
            rows = await self._store.count_left(
                session, slot_rows_max=_SLOT_ROWS_MAX, kinds_max=LEFT_KINDS_MAX
            )
        return {row["kind"]: row["due_count"] for row in rows}

    async def breakers(self) -> list[BreakerLine]:
        """The circuit breakers that are not closed."""
        async with self._database.connection() as session:
            rows = await self._store.list_breakers(session, rows_max=LISTED_MAX)
        return [BreakerLine(**row) for row in rows]

    async def timezones(self) -> list[TimezoneLine]:
        """The timezones that plans stand on."""
        async with self._database.connection() as session:
            rows = await self._store.list_timezones(session, rows_max=LISTED_MAX)
        return [TimezoneLine(**row) for row in rows]

    async def parked_schedules(self) -> list[ParkedSchedule]:
        """The schedules that could not be planned, the last first."""
        async with self._database.connection() as session:
            rows = await self._store.list_parked_schedules(session, rows_max=LISTED_MAX)
        return [ParkedSchedule(**{**row, "id": plain_id(row["id"])}) for row in rows]

    async def open_alerts(self) -> dict[tuple[str, str], int]:
        """How many alerts of all tenants are open, by rule and severity, counted up to the bound."""
        async with self._database.connection() as session:
            rows = await self._alerts.count_alerts(session, rows_max=LOOK_MAX)
        return {(row["rule"], row["severity"]): row["open_count"] for row in rows}

    async def pulse(self) -> Pulse:
        """Whether anybody is at work, in the least that has to be asked for that."""
        async with self._snapshot() as session:
            due = await self._store.read_oldest_due(session)
            return Pulse(
                **await self._store.read_pulse(session), lateness_seconds=due["lateness_seconds"] or 0.0
            )

    async def health(self) -> Health:
        """Whether what is owed is being paid, in a few figures."""
        async with self._snapshot() as session:
            due = await self._store.read_oldest_due(session)
            upkeep = await self._store.read_upkeep(session)
            tail = await self._store.read_log_tail(session, pages_max=_TAIL_PAGES // 16)
            last_logged_at = await self._store.read_last_logged(session, tail=tail)
            holder = await self._store.read_oldest_snapshot(session)
            unsealed_seconds = await self._store.read_unsealed(session)
        return Health(
            **due,
            **upkeep,
            last_logged_at=last_logged_at,
            unsealed_seconds=unsealed_seconds,
            oldest_snapshot=None if holder is None else SnapshotHolder(**holder),
        )


def _named(read: str, oldest_first: bool) -> str:
    """A cursor leads on in one direction, and is refused in the other."""
    return f"{read}.oldest" if oldest_first else read


def _listing(
    read: str,
    limit: int,
    cursor: str | None,
    *,
    dated: bool,
    oldest_first: bool = False,
    **filters: str | None,
) -> Listing:
    for name, value in filters.items():
        check_name(name, value)
    check_limit(limit)
    end = decode_cursor(read, cursor, dated=dated)
    is_back = not oldest_first
    return Listing(
        **filters,
        oldest_first=oldest_first,
        before=end.id if is_back else None,
        before_at=end.at if is_back else None,
        after=None if is_back else end.id,
        after_at=None if is_back else end.at,
        limit=limit,
        look_max=LOOK_MAX,
        slot_rows_max=_SLOT_ROWS_MAX,
        count_max=ALIKE_MAX,
    )
