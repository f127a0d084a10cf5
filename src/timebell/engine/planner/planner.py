"""The planner: looks at schedules when it is time to, and writes the occurrences that have come within reach.

Everything about the schedules that one tick claims is one transaction and a few statements, so a planner that dies
leaves nothing half planned, and any number of them share the work. Planning itself is the kernel's, the same that an
edit asks; here are the claims, the limits of a tick, and what becomes of a schedule that cannot be planned.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import asyncpg

from timebell.db.failures import DATABASE_ERRORS
from timebell.db.pool import Row, Session
from timebell.engine.planner.planner_store import PlannerStore
from timebell.engine.planner.timezones import TimezoneWatch
from timebell.errors import OldTimezoneData, TimebellError
from timebell.kernel.bell import Timebell
from timebell.kernel.models import REASON_MAX
from timebell.kernel.schedules import (
    Planning,
    ScheduleMover,
    Writing,
    check_timezones,
    override_of,
    schedule_of,
)
from timebell.kernel.transaction import Transaction
from timebell.logs import Logger
from timebell.rules.planned import Override

log = Logger("timebell.planner")

# One transaction stays short whatever the schedules ask for; those that it leaves are claimed by the next.
_OCCURRENCES_MAX = 5_000
_JOBS_MAX = 10_000
_WORK_SECONDS = 0.5
# How many of them are under way at once, so that neither this process nor the database waits for the other.
_WIDTH = 2
# How often each of them looks in one tick, at most.
_LOOKS_MAX = 10
# How long the planner may think before the others in this process get their turn.
_TURN_SECONDS = 0.002
# Five seconds a minute, so that the planners of a cluster do not all look at one instant.
_JITTER = 1 / 12
_TICKS_MAX = 100_000
# What is wrong with a row, and not with the database.
_REFUSALS = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError)
# How many are tried one by one after that, before the rest is tried together again.
_APART_MAX = 50


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
        self._plans = bell.schedules.plans
        self._mover = ScheduleMover(bell.schedules)
        self._is_busy = False
        self.timezones = TimezoneWatch(bell.database, self._store)

    async def tick(self) -> float:
        has_more = await self.timezones.tick()
        if not self.timezones.is_behind:
            has_more |= await self._plan_side_by_side()
        every = self._bell.settings.tuning.plan_seconds
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

    async def run_next(self, now: datetime) -> None:
        """The same where something is known to be due, and the timezones have not changed since the last look."""
        for _ in range(_TICKS_MAX):
            if self.timezones.is_behind or await self._plan() == 0:
                return
            due_at = await self.next_instant()
            if due_at is None or due_at > now:
                return

    async def next_instant(self) -> datetime | None:
        """When there is something to plan next."""
        async with self._bell.database.connection() as session:
            return await self._store.read_next_plan(session)

    async def _plan_side_by_side(self) -> bool:
        """While the database writes what some schedules owe, the next are thought about; answers whether any were.

        Where the last look found nothing there is nothing to do meanwhile; of a small pool, the others need the rest.
        """
        width = min(_WIDTH, self._bell.settings.pool_size // 2) if self._is_busy else 1
        looks = _LOOKS_MAX if width > 1 else 1
        results = await asyncio.gather(*[self._plan_on(looks) for _ in range(width)], return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        self._is_busy = any(results)
        return self._is_busy

    async def _plan_on(self, looks: int) -> bool:
        """Plan while there is something, and answer whether there was; nobody waits for whoever plans beside it."""
        until = self._bell.clock.monotonic() + _WORK_SECONDS
        for look in range(looks):
            if await self._plan() == 0:
                return look > 0
            if self._bell.clock.monotonic() >= until:
                break
        return True

    async def _plan(self) -> int:
        """Claim schedules and plan them; answers with how many were claimed."""
        try:
            return await self._plan_together()
        except OldTimezoneData:
            # Somebody brought newer data since we looked. The next look will say so.
            return 0

    async def _plan_together(self) -> int:
        try:
            async with self._bell.database.transaction() as session:
                rows, versions = await self._claim(session, self._bell.settings.tuning.plan_batch)
                wakeups = await self._plan_claimed(session, rows, versions)
        except _REFUSALS as error:
            log.warning("the database refuses what was planned; it is tried one by one", error=str(error))
            return await self._plan_apart()
        self._bell.wakeups.hint(wakeups)
        return len(rows)

    async def _plan_apart(self) -> int:
        """Plan a few schedules each on its own; where the database refuses what one owes, that one is parked."""
        wakeups: list[tuple[int, datetime]] = []
        async with self._bell.database.transaction() as session:
            rows, versions = await self._claim(session, _APART_MAX)
            for row in rows:
                try:
                    async with _all_or_nothing(session):
                        wakeups += await self._plan_claimed(session, [row], versions)
                except _REFUSALS as error:
                    await self._park(session, {row["id"]: (row["tenant"], _reason(error))})
        self._bell.wakeups.hint(wakeups)
        return len(rows)

    async def _claim(self, session: Session, limit: int) -> tuple[Sequence[Row], dict[str, str]]:
        """Schedules to plan, locked, and the first version of the data of each of their timezones."""
        rows = await self._store.claim_schedules(session, limit=limit)
        return rows, await check_timezones(self._plans.store, session, {row["timezone"] for row in rows})

    async def _plan_claimed(
        self, session: Session, rows: Sequence[Row], versions: Mapping[str, str]
    ) -> list[tuple[int, datetime]]:
        """Plan as many of the schedules as the time lasts for; answers with whom to wake."""
        if not rows:
            return []
        now: datetime = rows[0]["now"].astimezone(UTC)
        refused: dict[UUID, tuple[str, str]] = {}
        claimed = await self._read(session, rows, refused)
        planned, wakeups = await self._expand(session, claimed, versions, refused, now)
        await self._miss(session, planned, now)
        stated = await self._state(session, planned, refused, now)
        wakeups += await self._write(session, stated, now)
        await self._park(session, refused)
        self.counters.claimed += len(stated) + len(refused)
        return wakeups

    async def _read(
        self, session: Session, rows: Sequence[Row], refused: dict[UUID, tuple[str, str]]
    ) -> list[Planning]:
        claimed: dict[UUID, Planning] = {}
        overrides: dict[UUID, list[Override]] = {}
        for row in rows:
            try:
                overrides[row["id"]] = []
                claimed[row["id"]] = Planning.of(schedule_of(row), overrides[row["id"]])
            except Exception as error:
                refused[row["id"]] = row["tenant"], _reason(error)
        for row in await self._plans.store.read_overrides(session, schedule_ids=list(claimed)):
            overrides[row["schedule_id"]].append(override_of(row))
        return list(claimed.values())

    async def _expand(
        self,
        session: Session,
        claimed: Iterable[Planning],
        versions: Mapping[str, str],
        refused: dict[UUID, tuple[str, str]],
        now: datetime,
    ) -> tuple[list[Planning], list[tuple[int, datetime]]]:
        """Decide when each schedule occurs, as far as the time for it lasts; who cannot be planned is refused."""
        began = self._bell.clock.monotonic()
        planned: list[Planning] = []
        wakeups: list[tuple[int, datetime]] = []
        occurrence_count = job_count = 0
        async for one in self._by_turns(claimed):
            try:
                if one.schedule.timezone_version < versions[one.schedule.timezone]:
                    wakeups += await self._move(session, one, now)
                self._plans.expand(one, cursor=one.schedule.planned_until, now=now)
            except DATABASE_ERRORS:
                raise
            except Exception as error:
                refused[one.schedule.id] = one.schedule.tenant, _reason(error)
                continue
            planned.append(one)
            occurrence_count += len(one.plan.occurrences)
            job_count += len(one.plan.occurrences) * len(one.schedule.steps)
            if occurrence_count >= _OCCURRENCES_MAX or job_count >= _JOBS_MAX:
                break
            if self._bell.clock.monotonic() - began >= _WORK_SECONDS:
                break
        return planned, wakeups

    async def _by_turns(self, claimed: Iterable[Planning]) -> AsyncIterator[Planning]:
        """One after the other, while the others in this process get their turn."""
        monotonic = self._bell.clock.monotonic
        turn_ends = monotonic() + _TURN_SECONDS
        for one in claimed:
            yield one
            if monotonic() >= turn_ends:
                await asyncio.sleep(0)
                turn_ends = monotonic() + _TURN_SECONDS

    async def _miss(self, session: Session, planned: Sequence[Planning], now: datetime) -> None:
        """Look for occurrences that are over and that nobody paid; what is caught up tells how many they are."""
        over_ats = [now - one.facts.over_after for one in planned]
        ids = [one.schedule.id for one in planned]
        missed = await self._store.miss_occurrences(session, schedule_ids=ids, over_ats=list(over_ats))
        for one, over_at in zip(planned, over_ats, strict=True):
            one.settled_until = over_at
            if one.schedule.id in missed:
                one.plan = one.plan.counting(missed[one.schedule.id])
        self.counters.missed += sum(missed.values())

    async def _move(self, session: Session, one: Planning, now: datetime) -> list[tuple[int, datetime]]:
        """Bring what older timezone data planned to where ours put it; answers with whom to wake.

        A schedule that cannot be moved is parked as it was, and the others go on in this transaction.
        """
        tx = Transaction(session, one.schedule.tenant)
        async with _all_or_nothing(session):
            one.schedule, moved_count = await self._mover.move(tx, one.schedule, one.overrides, now=now)
        self.counters.moved += moved_count
        if moved_count:
            which = {"schedule": str(one.schedule.id), "timezone": one.schedule.timezone}
            log.info("newer timezone data moved occurrences", **which, count=moved_count)
        return tx.wakeups

    async def _state(
        self,
        session: Session,
        planned: Iterable[Planning],
        refused: dict[UUID, tuple[str, str]],
        now: datetime,
    ) -> list[Planning]:
        """State what each occurrence owes; whoever asks for the impossible is found before anything is written."""
        stated: list[Planning] = []
        async for one in self._by_turns(planned):
            try:
                await self._plans.state(session, one, now)
            except DATABASE_ERRORS:
                raise
            except Exception as error:
                refused[one.schedule.id] = one.schedule.tenant, _reason(error)
            else:
                stated.append(one)
        return stated

    async def _write(
        self, session: Session, stated: Sequence[Planning], now: datetime
    ) -> list[tuple[int, datetime]]:
        writing = Writing(session=session, now=now, reason="planned")
        written = await self._plans.write(writing, stated, is_told=False)
        await self._plans.settle(session, stated)
        self.counters.planned += written.occurrence_count
        tallies = self._bell.tallies
        tallies.occurrences += written.occurrence_count
        tallies.planned_jobs += written.begun.job_count
        tallies.enqueued += written.begun.job_count
        due = [(row["slot"], row["run_at"]) for row in written.begun.due]
        return [*due, *(wakeup for tx in writing.parts.values() for wakeup in tx.wakeups)]

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


@asynccontextmanager
async def _all_or_nothing(session: Session) -> AsyncIterator[None]:
    """Undo what was begun in it if it fails, and leave the transaction as it was before."""
    await session.execute("SAVEPOINT timebell_plan")
    try:
        yield
    except Exception:
        await session.execute("ROLLBACK TO SAVEPOINT timebell_plan")
        raise
    await session.execute("RELEASE SAVEPOINT timebell_plan")


def _reason(error: Exception) -> str:
    """Why a schedule cannot be planned, in words that its owner may read; a bug is named for those who mend it."""
    if isinstance(error, TimebellError):
        return str(error)[:REASON_MAX]
    log.error("planning failed", exc_info=error)
    return f"{type(error).__name__}: {error}"[:REASON_MAX]
