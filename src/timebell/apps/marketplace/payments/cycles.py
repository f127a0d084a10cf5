"""The weekly cycle of a zone: three schedules by its wall clock, one set for all bookings there.

A run only enqueues, some bookings in each transaction; what is to be done about a booking is done by a job of its own,
which looks again when it runs. The same run twice makes nothing new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.models import SYSTEM, By
from timebell.apps.marketplace.payments.alerting import RUN_MISSED
from timebell.apps.marketplace.payments.weekly_store import WeeklyStore
from timebell.apps.marketplace.payments.weeks import (
    PAID_AHEAD,
    RUNS,
    Period,
    Run,
    cutoff_of,
    first_instant,
    first_run,
    local_date,
    next_week,
    wall_instant,
)
from timebell.errors import UnknownTimezone
from timebell.kernel import Alerts, Done, Enqueue, Job, Outcome, Snooze, Step, Timebell, Transaction

ENQUEUE_PAYMENTS: Final = "marketplace.enqueue_payments"
ENQUEUE_WARNINGS: Final = "marketplace.enqueue_warnings"
ENQUEUE_CUTOFFS: Final = "marketplace.enqueue_cutoffs"
CHARGE: Final = "marketplace.charge"
WARN: Final = "marketplace.warn"
CUT_OFF: Final = "marketplace.cut_off"
# What a run of a zone came to, beside what became of each booking.
WEEKLY_RUNS: Final = "marketplace_weekly_runs"

BATCH: Final = 100
_KINDS: Final[Mapping[Run, str]] = {
    "payments": ENQUEUE_PAYMENTS,
    "warnings": ENQUEUE_WARNINGS,
    "cutoffs": ENQUEUE_CUTOFFS,
}
# A run that comes after the cutoff says that it was left out, and does nothing else; so it must come.
_GRACE: Final = timedelta(days=6)
# Longer than any outage after which a run is still made up for.
_KEPT: Final = timedelta(days=400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """What one run is about: a day of the week in which it was meant to be, and what that week pays for.

    `at` is when the run was meant to be, and `cutoff` until when its week pays.
    """

    run: Run
    timezone: str
    day: date
    at: datetime
    period: Period
    cutoff: datetime

    @classmethod
    def of(cls, run: Run, timezone: str, day: date) -> Week:
        """Raises `UnknownTimezone` where the zone is not known, or not any more."""
        weekly = RUNS[run]
        at = first_instant(day, timezone)
        if run != "cutoffs":
            at = wall_instant(datetime.combine(day, weekly.at), timezone)
        return cls(
            run=run,
            timezone=timezone,
            day=day,
            at=at,
            period=next_week(day, timezone),
            cutoff=cutoff_of(day, timezone),
        )

    def payload(self, booking_id: UUID, *, correlation_id: str, **more: Any) -> dict[str, Any]:
        """What the job of one booking is given."""
        return {
            "booking_id": str(booking_id),
            "timezone": self.timezone,
            "period_start": self.period.start.isoformat(),
            "period_end": self.period.end.isoformat(),
            "run_on": self.day.isoformat(),
            "correlation_id": correlation_id,
            **more,
        }


class Cycles:
    """Makes the schedules of zones, and enqueues what their runs are for."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = WeeklyStore(bell.clock)

    async def ensure(self, tx: Transaction, timezone: str, *, by: By) -> None:
        """The zone has its three schedules, from the first project there on."""
        if await self._store.read_cycle(tx, timezone=timezone) is not None:
            return
        await self._store.lock_cycle(tx, timezone=timezone)
        if await self._store.read_cycle(tx, timezone=timezone) is not None:
            return
        now = await self._store.read_time(tx)
        made = {run: await self._schedule(tx, run, timezone, now, by) for run in RUNS}
        await self._store.insert_cycle(tx, timezone=timezone, schedules=made)

    async def _schedule(self, tx: Transaction, run: Run, timezone: str, now: datetime, by: By) -> UUID:
        start = first_run(run, local_date(now, timezone))
        if wall_instant(start, timezone) <= now:
            start += timedelta(days=7)
        is_cutoff = run == "cutoffs"
        change = await self._bell.schedules.create(
            tx,
            timezone=timezone,
            recurrence=RUNS[run].recurrence,
            start_local=start,
            steps=[Step(key="enqueue", kind=_KINDS[run], offset=timedelta(0))],
            payload={"timezone": timezone},
            catch_up="all" if is_cutoff else "latest",
            grace=None if is_cutoff else _GRACE,
            owner=SYSTEM,
            subject=f"weekly_cycle:{timezone}",
            actor=by.name,
            correlation_id=by.correlation_id,
        )
        return change.schedule.id

    async def enqueue(self, job: Job, run: Run) -> Outcome:
        """One batch of the bookings that a run is for. Nothing outside is asked for anything."""
        timezone, day = job.payload["timezone"], _day_of(job)
        try:
            week = Week.of(run, timezone, day)
        except UnknownTimezone as error:
            await self._tell(job, run, timezone, day, "weekly_cycle.needs_review", str(error))
            return Done()
        if run != "cutoffs" and await self._store.read_time(job.tx) >= week.cutoff:
            await self._tell(job, run, timezone, day, "weekly_cycle.skipped", "the cutoff has passed")
            return Done()
        limit = job.batch(BATCH)
        rows = await self._store.list_weekly_bookings(
            job.tx,
            timezone=timezone,
            period_start=week.period.start,
            funded_before=None if run == "payments" else week.at + PAID_AHEAD,
            after=None if job.cursor is None else UUID(job.cursor["after"]),
            limit=limit,
        )
        correlation_id = job.correlation_id or str(job.id)
        await self._bell.enqueue_many(
            job.tx, [_job(week, row["id"], row["attempt"], correlation_id) for row in rows]
        )
        if len(rows) < limit:
            return Done()
        last = str(rows[-1]["id"])
        return Snooze(delay=timedelta(0), reason="more to come", cursor={"after": last})

    async def _tell(self, job: Job, run: Run, timezone: str, day: date, event: str, why: str) -> None:
        said = {"run": run, "timezone": timezone, "day": day.isoformat(), "reason": why}
        await self._bell.record(
            job.tx,
            event,
            said,
            subject=f"weekly_cycle:{timezone}",
            actor=SYSTEM,
            correlation_id=job.correlation_id,
        )
        detail = f"the {run} of {day.isoformat()} in {timezone} did not happen: {why}"
        subject = f"weekly_cycle:{timezone}:{run}:{day.isoformat()}"
        await Alerts(self._bell).open(job.tx, RUN_MISSED, subject=subject, detail=detail)
        outcome = event.rpartition(".")[2]
        job.tx.after_commit.append(lambda: self._bell.tallies.add(WEEKLY_RUNS, run, outcome))


def charge_job(
    week: Week, booking_id: UUID, attempt: int, correlation_id: str, *, key: str | None = None
) -> Enqueue:
    """The job that charges one week of a booking; `attempt` is known before, so that running it again is the same
    attempt."""
    return _enqueue(
        CHARGE,
        week,
        booking_id,
        week.payload(booking_id, correlation_id=correlation_id, attempt=attempt),
        correlation_id,
        key,
    )


def _job(week: Week, booking_id: UUID, attempt: int, correlation_id: str) -> Enqueue:
    if week.run == "payments":
        return charge_job(week, booking_id, attempt, correlation_id)
    kind = WARN if week.run == "warnings" else CUT_OFF
    payload = week.payload(booking_id, correlation_id=correlation_id)
    return _enqueue(kind, week, booking_id, payload, correlation_id, None)


def _enqueue(
    kind: str, week: Week, booking_id: UUID, payload: dict[str, Any], correlation_id: str, key: str | None
) -> Enqueue:
    return Enqueue(
        kind=kind,
        payload=payload,
        key=key or f"{booking_id}:{week.period.start.date().isoformat()}",
        key_lifetime=_KEPT,
        correlation_id=correlation_id,
        on_conflict="keep",
    )


def _day_of(job: Job) -> date:
    """The day for which the run was meant, however late it is."""
    return datetime.fromisoformat(job.payload["original_local"]).date()


async def enqueue_payments(job: Job) -> Outcome:
    return await Cycles(job.bell).enqueue(job, "payments")


async def enqueue_warnings(job: Job) -> Outcome:
    return await Cycles(job.bell).enqueue(job, "warnings")


async def enqueue_cutoffs(job: Job) -> Outcome:
    return await Cycles(job.bell).enqueue(job, "cutoffs")
