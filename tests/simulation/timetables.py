"""What recurs in a world: schedules that ring by the hour, with occurrences that are left out, and that end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

from tests.history import Violation
from tests.simulation.asking import Unhurried
from tests.simulation.callers import LOSSES
from tests.simulation.ending import Ending
from tests.simulation.process import LEASE_SECONDS, SEEN_SECONDS, Process
from timebell.errors import TimebellError
from timebell.kernel import Step

_ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata")
_RUNS = """
SELECT DISTINCT ON (l.id) l.id::text AS job_id, l.correlation_id AS name, l.due_at, l.state FROM timebell.job_log l
WHERE l.correlation_id LIKE 'bell%%' AND l.state <> 'pending'
    AND NOT EXISTS (SELECT FROM timebell.jobs j WHERE j.id = l.id)
ORDER BY l.id, l.logged_at DESC, l.version DESC
"""
# An occurrence that is about to happen when it is left out may happen.
_NEAR = timedelta(minutes=5)
# What is late by faults when its schedule is ended is withdrawn.
_SEEN = timedelta(seconds=SEEN_SECONDS)
_LATE = timedelta(seconds=LEASE_SECONDS * 2)


@dataclass(slots=True, kw_only=True)
class Timetable:
    """A schedule as whoever made it knows it. What is `skipped` was left out for sure, what is `doubtful` perhaps."""

    name: str
    zone: str
    start_local: datetime
    hours: int
    id: UUID | None = None
    made_at: datetime | None = None
    end_asked_at: datetime | None = None
    is_ended_in_calm: bool = False
    skipped: set[datetime] = field(default_factory=set)
    doubtful: set[datetime] = field(default_factory=set)

    def instants(self, until: datetime) -> Iterator[datetime]:
        """When it rings, worked out by adding hours: no zone changes its clock in these days."""
        at = self.start_local.replace(tzinfo=ZoneInfo(self.zone)).astimezone(UTC)
        while at < until:
            yield at
            at += timedelta(hours=self.hours)


class Timetables(Unhurried):
    """Those who want something again and again."""

    name = "timetables"

    def _begin(self) -> None:
        self._made: list[Timetable] = []

    async def live(self, days: float) -> None:
        a_day = self._scene.schedules_a_day
        await self._live(days, {self._make: a_day, self._leave_out: a_day / 2, self._end: a_day / 2})

    def _make(self) -> None:
        process = self._process()
        mode = self._chance.choice(self._scene.modes)
        self._let(process, self._create(process, self._timetable(minutes_max=600), mode))

    def _timetable(self, *, minutes_max: int) -> Timetable:
        zone = self._chance.choice(_ZONES)
        begins = self._now() + timedelta(minutes=self._chance.randint(1, minutes_max))
        return Timetable(
            name=self._name("bell"),
            zone=zone,
            start_local=begins.astimezone(ZoneInfo(zone)).replace(tzinfo=None, microsecond=0),
            hours=self._chance.choice([3, 5, 8]),
        )

    async def _create(self, process: Process, timetable: Timetable, mode: str) -> None:
        async with process.bell.transaction() as tx:
            made = await process.bell.schedules.create(
                tx,
                timezone=timetable.zone,
                start_local=timetable.start_local,
                recurrence=f"FREQ=HOURLY;INTERVAL={timetable.hours}",
                steps=[Step(key="ring", kind=f"sim.{mode}", offset=timedelta(0))],
                catch_up="all",
                payload={"is_steady": True, "is_brief": True},
                correlation_id=timetable.name,
            )
        timetable.id, timetable.made_at = made.schedule.id, self._now()
        self._made.append(timetable)
        process.wire.counts["schedules"] += 1

    def _some(self) -> Timetable | None:
        going = [each for each in self._made if each.end_asked_at is None]
        return self._chance.choice(going) if going else None

    def _leave_out(self) -> None:
        timetable = self._some()
        if timetable is None:
            return
        ahead = [
            at for at in timetable.instants(self._now() + timedelta(hours=24)) if at > self._now() + _NEAR
        ]
        if ahead:
            process = self._process()
            self._let(process, self._skip(process, timetable, self._chance.choice(ahead)))

    async def _skip(self, process: Process, timetable: Timetable, at: datetime) -> None:
        assert timetable.id is not None
        timetable.doubtful.add(at)
        local = at.astimezone(ZoneInfo(timetable.zone)).replace(tzinfo=None)
        try:
            async with process.bell.transaction() as tx:
                await process.bell.schedules.override(tx, timetable.id, local, skip=True)
        except TimebellError:
            timetable.doubtful.discard(at)
            return
        if self._now() < at:
            timetable.skipped.add(at)

    def _end(self) -> None:
        timetable = self._some()
        if timetable is not None:
            timetable.end_asked_at = self._now()
            process = self._process()
            self._let(process, self._stop(process, timetable))

    async def _stop(self, process: Process, timetable: Timetable) -> None:
        assert timetable.id is not None
        async with process.bell.transaction() as tx:
            await process.bell.schedules.end(tx, timetable.id)

    async def afterwards(self) -> None:
        """One more. All of them go on for a while in calm, and then end, so that a world has an end."""
        if not self._scene.schedules_a_day:
            return
        process = self._process()
        await process.run(self._create(process, self._timetable(minutes_max=60), "plain"))
        await asyncio.sleep(10 * 3600)
        for timetable in self._made:
            if timetable.end_asked_at is None:
                timetable.end_asked_at, timetable.is_ended_in_calm = self._now(), True
                await self._stop_again(timetable)

    async def _stop_again(self, timetable: Timetable) -> None:
        process = self._process()
        try:
            await process.run(self._stop(process, timetable))
        except LOSSES as error:
            raise RuntimeError(f"{timetable.name} cannot be ended although all is calm") from error

    def _regret(self, id: UUID) -> None:
        raise NotImplementedError

    def check(self, ending: Ending) -> Sequence[Violation]:
        """Each occurrence happened, once and in time, unless it was left out."""
        rung: Counter[tuple[str, datetime]] = Counter()
        states: dict[tuple[str, datetime], str] = {}
        began: dict[tuple[str, datetime], datetime] = {}
        for row in ending.monitor.execute(_RUNS).fetchall():
            key = (row["name"], row["due_at"])
            rung[key] += row["state"] == "done"
            states[key] = row["state"]
            starts = ending.starts.get(row["job_id"])
            if starts:
                began[key] = min(start.invoked_at for start in starts)
        found = []
        for timetable in self._made:
            assert timetable.made_at is not None
            for at in timetable.instants(timetable.end_asked_at or ending.until):
                key = (timetable.name, at)
                text = None
                if rung[key] > 1:
                    text = f"{at.isoformat()} happened {rung[key]} times"
                elif rung[key] and at in timetable.skipped:
                    text = f"{at.isoformat()} happened, although it was left out"
                elif (
                    not rung[key]
                    and at not in timetable.doubtful
                    and timetable.made_at + _NEAR < at < self._sure(timetable)
                    and not self._was_taken_back(timetable, at, states.get(key), key in began, ending)
                ):
                    text = f"{at.isoformat()} did not happen: {states.get(key, 'never owed')}"
                elif (
                    key in began
                    and at > timetable.made_at
                    and began[key] > at + _SEEN
                    and not ending.was_hit(at, began[key])
                ):
                    text = f"{at.isoformat()} began at {began[key].isoformat()}, and nothing was in the way"
                if text is not None:
                    found.append(Violation(invariant="timetable", key=timetable.name, text=text))
        return found

    def _was_taken_back(
        self, timetable: Timetable, at: datetime, state: str | None, has_begun: bool, ending: Ending
    ) -> bool:
        """Whether it still waited when all was ended: a fault kept it from its time, or an attempt of it had failed."""
        assert timetable.end_asked_at is not None
        return state == "cancelled" and (has_begun or ending.was_hit(at, timetable.end_asked_at))

    def _sure(self, timetable: Timetable) -> datetime:
        """Until when nothing kept it from happening; what was owed when it was ended may be withdrawn before it ran."""
        assert timetable.end_asked_at is not None
        return timetable.end_asked_at - (_SEEN if timetable.is_ended_in_calm else _LATE)
