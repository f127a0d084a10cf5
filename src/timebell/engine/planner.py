"""The planner: looks at schedules when it is time to, and writes the occurrences that have come within reach.

Everything about the schedules that one tick claims is one transaction and a few statements, so a planner that dies
leaves nothing half planned, and any number of them share the work. What a schedule owes is decided by the same rules
that an edit uses, so it does not matter which of the two comes first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import structlog

from timebell.db.pool import Row, Session
from timebell.engine.background import DATABASE_ERRORS
from timebell.engine.planner_store import PlannerStore
from timebell.engine.timezones import TimezoneWatch
from timebell.errors import OldTimezoneData, TimebellError
from timebell.kernel.agenda_rows import StatedAgenda
from timebell.kernel.bell import Timebell
from timebell.kernel.models import REASON_MAX
from timebell.kernel.schedule_models import Schedule
from timebell.kernel.schedule_moving import ScheduleMover
from timebell.kernel.schedule_rows import (
    facts_of,
    occurrence_columns,
    override_of,
    schedule_of,
    steps_of,
    subject_of,
)
from timebell.kernel.schedule_store import ScheduleStore
from timebell.kernel.timezones import check_timezones
from timebell.kernel.transaction import Transaction
from timebell.rules.localtime import TIMEZONE_VERSION
from timebell.rules.planned import Override, Plan, ScheduleFacts, occurrence_id
from timebell.rules.planning import plan

log = structlog.get_logger("timebell.planner")

# One transaction stays short whatever the schedules ask for; those that it leaves are claimed by the next.
_OCCURRENCES_MAX = 5_000
_WORK_SECONDS = 0.5
# How long the planner may think before the others in this process get their turn.
_TURN_SECONDS = 0.002
# Six seconds a minute, so that the planners of a cluster do not all look at one instant.
_JITTER = 0.1
_TICKS_MAX = 100_000
# What is wrong with a row, and not with the database.
_REFUSALS = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError)


@dataclass(slots=True, kw_only=True)
class _Claimed:
    """A schedule that this tick is about, and what became of it."""

    schedule: Schedule
    facts: ScheduleFacts
    overrides: list[Override] = field(default_factory=list)
    plan: Plan | None = None
    agendas: dict[UUID, StatedAgenda] = field(default_factory=dict)


@dataclass(slots=True)
class PlannerCounters:
    """What a planner has done since it began."""

    claimed: int = 0
    planned: int = 0
    missed: int = 0
    moved: int = 0
    parked: int = 0


class Planner:
    """One bounded pass at a time; it asks to come back at once while there is more."""

    def __init__(self, bell: Timebell) -> None:
        self.counters = PlannerCounters()
        self._bell = bell
        self._store = PlannerStore(bell.clock)
        self._schedules = ScheduleStore(bell.clock)
        self._horizon = timedelta(days=bell.settings.horizon_days)
        self._mover = ScheduleMover(self._schedules, bell.agendas, bell.schedules)
        self.timezones = TimezoneWatch(bell.database, self._store)

    async def tick(self) -> float:
        has_more = await self.timezones.tick()
        if not self.timezones.is_behind:
            has_more |= await self._plan() > 0
        every = self._bell.settings.plan_seconds
        return 0.0 if has_more else every * (1 - _JITTER + 2 * _JITTER * self._bell.chance.fraction())

    async def run_due(self, now: datetime) -> None:
        """Plan all that there is to plan at this instant. For moved clocks."""
        for _ in range(_TICKS_MAX):
            is_done = not await self.timezones.tick()
            due_at = await self.next_instant()
            if self.timezones.is_behind or due_at is None or due_at > now:
                if is_done:
                    return
            elif await self._plan() == 0 and is_done:
                return

    async def next_instant(self) -> datetime | None:
        """When there is something to plan next."""
        async with self._bell.database.connection() as session:
            return await self._store.read_next_plan(session)

    async def _plan(self) -> int:
        """Claim schedules and plan them; answers with how many were."""
        try:
            return await self._plan_some(self._bell.settings.plan_batch)
        except OldTimezoneData:
            # Somebody brought newer data since we looked. The next look will say so.
            return 0
        except _REFUSALS as error:
            log.warning(
                "the database refuses what was planned; one schedule is tried alone", error=str(error)
            )
        return await self._plan_alone()

    async def _plan_alone(self) -> int:
        """Plan the first schedule alone; where the database refuses what it owes, it is the one to park."""
        try:
            return await self._plan_some(1)
        except _REFUSALS as error:
            refusal = error
        async with self._bell.database.transaction() as session:
            rows = await self._store.claim_schedules(session, limit=1)
            await self._park(session, {row["id"]: (row["tenant"], _reason(refusal)) for row in rows})
        return len(rows)

    async def _plan_some(self, limit: int) -> int:
        async with self._bell.database.transaction() as session:
            rows = await self._store.claim_schedules(session, limit=limit)
            if not rows:
                return 0
            await check_timezones(self._schedules, session, (row["timezone"] for row in rows))
            wakeups, count = await self._plan_claimed(session, rows)
        self._bell.wakeups.hint(wakeups)
        self.counters.claimed += count
        return count

    async def _plan_claimed(
        self, session: Session, rows: Sequence[Row]
    ) -> tuple[list[tuple[int, datetime]], int]:
        now: datetime = rows[0]["now"].astimezone(UTC)
        refused: dict[UUID, tuple[str, str]] = {}
        claimed = await self._read(session, rows, refused)
        missed = await self._store.miss_occurrences(
            session,
            schedule_ids=[one.schedule.id for one in claimed],
            over_ats=[now - one.facts.over_after for one in claimed],
        )
        self.counters.missed += sum(missed.values())
        finished, wakeups = await self._expand(session, claimed, missed, refused, now)
        wakeups += await self._write(session, finished, now)
        await self._park(session, refused)
        return wakeups, len(finished) + len(refused)

    async def _read(
        self, session: Session, rows: Sequence[Row], refused: dict[UUID, tuple[str, str]]
    ) -> list[_Claimed]:
        claimed: dict[UUID, _Claimed] = {}
        for row in rows:
            try:
                schedule = schedule_of(row)
                claimed[schedule.id] = _Claimed(schedule=schedule, facts=facts_of(schedule))
            except Exception as error:
                refused[row["id"]] = row["tenant"], _reason(error)
        for row in await self._schedules.read_overrides(session, schedule_ids=list(claimed)):
            claimed[row["schedule_id"]].overrides.append(override_of(row))
        return list(claimed.values())

    async def _expand(
        self,
        session: Session,
        claimed: Iterable[_Claimed],
        missed: Mapping[UUID, int],
        refused: dict[UUID, tuple[str, str]],
        now: datetime,
    ) -> tuple[list[_Claimed], list[tuple[int, datetime]]]:
        """Decide what each schedule owes, as far as the time for it lasts; one that cannot be planned is refused."""
        monotonic = self._bell.clock.monotonic
        turn_ends = (began := monotonic()) + _TURN_SECONDS
        finished: list[_Claimed] = []
        wakeups: list[tuple[int, datetime]] = []
        occurrence_count = 0
        for one in claimed:
            schedule = one.schedule
            try:
                if schedule.timezone_version != TIMEZONE_VERSION:
                    wakeups += await self._move(session, one, now)
                    schedule = one.schedule
                one.plan = plan(
                    one.facts,
                    one.overrides,
                    cursor=schedule.planned_until,
                    now=now,
                    horizon=self._horizon,
                    missed_before=missed.get(schedule.id, 0),
                )
                await self._state(session, one, now)
            except DATABASE_ERRORS:
                raise
            except Exception as error:
                refused[schedule.id] = schedule.tenant, _reason(error)
                continue
            finished.append(one)
            occurrence_count += len(one.plan.occurrences)
            if monotonic() >= turn_ends:
                if occurrence_count >= _OCCURRENCES_MAX or monotonic() - began >= _WORK_SECONDS:
                    break
                await asyncio.sleep(0)
                turn_ends = monotonic() + _TURN_SECONDS
        return finished, wakeups

    async def _move(self, session: Session, one: _Claimed, now: datetime) -> list[tuple[int, datetime]]:
        """Bring what older timezone data planned to where ours put it; answers with whom to wake."""
        tx = Transaction(session, one.schedule.tenant)
        await session.execute("SAVEPOINT timebell_move")
        try:
            one.schedule, moved_count = await self._mover.move(tx, one.schedule, one.overrides, now=now)
        except DATABASE_ERRORS:
            raise
        except Exception:
            # It will be parked as it was, and the others go on in this transaction.
            await session.execute("ROLLBACK TO SAVEPOINT timebell_move")
            raise
        await session.execute("RELEASE SAVEPOINT timebell_move")
        self.counters.moved += moved_count
        if moved_count:
            log.info(
                "newer timezone data moved occurrences",
                schedule=str(one.schedule.id),
                timezone=one.schedule.timezone,
                count=moved_count,
            )
        return tx.wakeups

    async def _state(self, session: Session, one: _Claimed, now: datetime) -> None:
        """State what each occurrence owes; whoever asks for the impossible is found before anything is written."""
        assert one.plan is not None
        schedule = one.schedule
        for occurrence in one.plan.occurrences:
            if occurrence.state != "planned":
                continue
            id = occurrence_id(schedule.id, occurrence.original_local, occurrence.fold)
            one.agendas[id] = await self._bell.agendas.stated(
                session,
                tenant=schedule.tenant,
                subject=subject_of(id),
                anchor=occurrence.occurs_at,
                steps=steps_of(schedule, one.facts, occurrence, now),
                correlation_id=schedule.correlation_id,
            )

    async def _write(
        self, session: Session, finished: Sequence[_Claimed], now: datetime
    ) -> list[tuple[int, datetime]]:
        columns: dict[str, list[Any]] = {}
        for one in finished:
            assert one.plan is not None
            for name, values in occurrence_columns(one.schedule, one.plan.occurrences).items():
                columns.setdefault(name, []).extend(values)
        wakeups: list[tuple[int, datetime]] = []
        if columns.get("ids"):
            inserted = await self._schedules.insert_occurrences(session, columns=columns)
            wakeups = await self._begin(session, finished, inserted)
            self.counters.planned += len(inserted)
        await self._store.finish_plan(session, columns=_finish_columns(finished, now))
        return wakeups

    async def _begin(
        self, session: Session, finished: Sequence[_Claimed], inserted: set[UUID]
    ) -> list[tuple[int, datetime]]:
        """Begin the agendas of the occurrences that are new. One that was withdrawn and comes back has an agenda."""
        agendas = [stated for one in finished for id, stated in one.agendas.items() if id in inserted]
        begun = await self._bell.agendas.begin_many(session, agendas, is_told=False)
        back: dict[str, list[StatedAgenda]] = {}
        for stated, diff in zip(agendas, begun.diffs, strict=True):
            if diff is None:
                back.setdefault(stated.tenant, []).append(stated)
        wakeups = [(row["slot"], row["run_at"]) for row in begun.due]
        for tenant, returning in back.items():
            tx = Transaction(session, tenant)
            await self._bell.agendas.set_many(tx, returning, reason="planned", actor=None)
            wakeups += tx.wakeups
        return wakeups

    async def _park(self, session: Session, refused: Mapping[UUID, tuple[str, str]]) -> None:
        if not refused:
            return
        await self._store.park_schedules(
            session, ids=list(refused), reasons=[reason for _, reason in refused.values()]
        )
        for id, (tenant, reason) in refused.items():
            await self._bell.record(
                Transaction(session, tenant),
                "schedule.parked",
                {"reason": reason},
                subject=f"schedule:{id}",
            )
            log.warning("a schedule cannot be planned and was parked", schedule=str(id), reason=reason)
        self.counters.parked += len(refused)


def _reason(error: Exception) -> str:
    """Why a schedule cannot be planned, in words that its owner may read; a bug is named for those who mend it."""
    if isinstance(error, TimebellError):
        return str(error)[:REASON_MAX]
    log.error("planning failed", exc_info=error)
    return f"{type(error).__name__}: {error}"[:REASON_MAX]


def _finish_columns(finished: Iterable[_Claimed], now: datetime) -> dict[str, list[Any]]:
    plans = [(one, one.plan) for one in finished if one.plan is not None]
    return {
        "ids": [one.schedule.id for one, _ in plans],
        "planned_untils": [plan.planned_until for _, plan in plans],
        "plan_ats": [plan.plan_at for _, plan in plans],
        "states": ["ended" if plan.is_over else "active" for _, plan in plans],
        "settled_untils": [now - one.facts.over_after for one, _ in plans],
    }
