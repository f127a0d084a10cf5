"""What the weekly cycle was to do in a world, worked out anew from what became of each booking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from tests.apps.marketplace.simulation.moves import Move, at_of
from tests.history import Violation

_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
# A payment may be young enough to be on its way: a late report, and hints that were lost.
ON_ITS_WAY = timedelta(hours=20)
Lives = Mapping[tuple[str, str], Sequence[Move]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """A Wednesday of a zone, up to when its week may be paid for, and when that week begins and ends."""

    at: datetime
    warned_at: datetime
    cutoff: datetime
    start: datetime
    end: datetime


def weeks_of(zone: str, since: datetime, until: datetime) -> Iterator[Week]:
    """Those whose Wednesday and cutoff are within a world."""
    day = since.date() - _DAY * since.weekday()
    while day < until.date():
        at = wall(zone, day + 2 * _DAY, 10)
        cutoff = wall(zone, day + 3 * _DAY)
        if since < at and cutoff < until:
            start, end = wall(zone, day + 7 * _DAY), wall(zone, day + 14 * _DAY)
            warned_at = wall(zone, day + 2 * _DAY, 14)
            yield Week(at=at, warned_at=warned_at, cutoff=cutoff, start=start, end=end)
        day += 7 * _DAY


def wall(zone: str, day: date, hour: int = 0) -> datetime:
    return datetime.combine(day, time(hour), ZoneInfo(zone)).astimezone(UTC)


class Weekly:
    """Asks of each booking and each Wednesday. From `calm_at` on nothing explains that something is missing."""

    def __init__(
        self,
        lives: Lives,
        events: Sequence[Mapping[str, Any]],
        *,
        since: datetime,
        calm_at: datetime,
        until: datetime,
        overdue: datetime,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._lives = lives
        self._events = events
        self._since = since
        self._calm_at = calm_at
        self._until = until
        self._overdue = overdue

    def check(self) -> Iterator[Violation]:
        """Each Wednesday whoever has to pay is asked to, or somebody is told why not; and at the cutoff who has not is
        released."""
        for (place, id), life in self._lives.items():
            if place == "staffing_bookings":
                for week in weeks_of(life[0].row["timezone"], self._since, self._overdue):
                    if self._is_due(id, life, week):
                        yield from self._asked(id, life, week)

    def _is_due(self, id: str, life: Sequence[Move], week: Week) -> bool:
        """Whether it was to be paid for, all the while from Wednesday to the cutoff."""
        is_active = (
            all(row["status"] == "Active" for row in between(life, week.at, week.cutoff))
            and at_of(life[0].row, "created_at") < week.at - _MINUTE
        )
        return is_active and not self._is_contested(id, week.cutoff) and self._has_work(id, week, week.cutoff)

    def _is_contested(self, id: str, until: datetime) -> bool:
        """Whether anything was disputed or reported by then, be it that a report was closed."""
        for (place, _), life in self._lives.items():
            if place in ("disputes", "incident_reports") and life[0].row["booking_id"] == id:
                name = "dispute_filed_at" if place == "disputes" else "reported_at"
                if at_of(life[0].row, name) < until + _HOUR:
                    return True
        return False

    def _has_work(self, id: str, week: Week, until: datetime) -> bool:
        return any(
            week.start <= at_of(life[0].row, "scheduled_start") < week.end
            and life[0].row["amount"] > 0
            and all(row["status"] == "Scheduled" for row in between(life, week.at, until))
            for (place, _), life in self._lives.items()
            if place == "time_log" and life[0].row["booking_id"] == id
        )

    def _asked(self, id: str, life: Sequence[Move], week: Week) -> Iterator[Violation]:
        self.counts["staffing_weeks_due"] += 1
        zone, is_calm = life[0].row["timezone"], week.at > self._calm_at
        names = {
            each["name"]
            for each in self._events
            if each["subject"] in (f"staffing:{id}", f"weekly_cycle:{zone}") and each["occurred_at"] > week.at
        }
        payments = [
            each[-1].row
            for (place, _), each in self._lives.items()
            if place == "pending_payments"
            and each[0].row["booking_id"] == id
            and at_of(each[0].row, "period_start") == week.start
        ]
        is_told = not is_calm and names & {"payment.skipped", "weekly_cycle.skipped"}
        if not payments and not is_told:
            yield Violation(
                invariant="unasked_week", key=id, text=f"nobody was asked to pay for the week of {week.start}"
            )
        failed = [
            each
            for each in payments
            if each["status"] == "Failed" and at_of(each, "settled_at") < min(week.warned_at, week.cutoff)
        ]
        if not failed or len(failed) != len(payments):
            return
        if is_calm and "staffing_booking.warned" not in names:
            yield Violation(invariant="unwarned", key=id, text=f"the week of {week.start} is not paid for")
        is_active = all(row["status"] == "Active" for row in between(life, week.cutoff, self._overdue))
        is_late = self._until - week.cutoff > ON_ITS_WAY
        is_free = "payment.needs_review" not in names and not self._is_contested(id, self._overdue)
        if is_active and is_late and is_free and self._has_work(id, week, self._overdue):
            yield Violation(invariant="unreleased", key=id, text=f"the week of {week.start} is not paid for")


def between(life: Sequence[Move], since: datetime, until: datetime) -> list[Mapping[str, Any]]:
    """As it was at one instant, and all that it became until another."""
    before = [move.row for move in life if at_of(move.row, "updated_at") <= since]
    return [*before[-1:], *(each.row for each in life if since < at_of(each.row, "updated_at") <= until)]
