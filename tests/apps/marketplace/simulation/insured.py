"""While a company of a world has no valid insurance: what is stopped, who is told, and who is booked or clocks in.

And that nobody hears of what has ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import psycopg

from tests.apps.marketplace.simulation.deals import Turn
from tests.apps.marketplace.simulation.moves import Move, at_of
from tests.apps.marketplace.simulation.weekly import Lives, between
from tests.history import Violation
from tests.simulation.ending import Ending

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
# When no fault is near: what one job does may have to wait for a hint that was lost, and telling takes two.
_SLACK = timedelta(hours=5)
_TOLD_IN = timedelta(hours=9, minutes=30)
_MEMBERS = """
SELECT company_id::text, recipient_id::text, role FROM marketplace.company_members
WHERE role IN ('borrower_admin', 'borrower_manager', 'lender_admin', 'lender_manager') ORDER BY 1, 2, 3
"""
_WORKERS = "SELECT id::text, recipient_id::text FROM marketplace.workers ORDER BY id"
_STOPPED = "marketplace.insurance_invalid"
_REMINDERS = ("marketplace.still_working", "marketplace.clock_out_now")
_OF_BOOKING = ("marketplace.action_required", "marketplace.final_warning")
_UNRESOLVED = "marketplace.dispute_unresolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapse:
    """A company has had an insurance of a type, and has none that is valid, from one instant to another."""

    company: str
    since: datetime
    until: datetime


def lapses_of(moves: Sequence[Move], end: datetime) -> list[Lapse]:
    """Of each company, by the dates of its insurances and by what was done to them."""
    of: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for move in moves:
        if move.place == "insurance_policies":
            of[move.row["company_id"], move.row["type"]].append(move.row)
    found: list[Lapse] = []
    for (company, _), rows in of.items():
        instants = {at_of(row, "updated_at") for row in rows}
        instants |= {
            datetime.combine(date.fromisoformat(row["expiration_date"]) + _DAY, time(), UTC) for row in rows
        }
        since: datetime | None = None
        for at in sorted(instant for instant in instants if instant < end):
            state = {row["id"]: row for row in rows if at_of(row, "updated_at") <= at}
            is_covered = any(
                row["is_active"] and row["expiration_date"] >= at.astimezone(UTC).date().isoformat()
                for row in state.values()
            )
            if is_covered and since is not None:
                found.append(Lapse(company=company, since=since, until=at))
            since = None if is_covered else since or at
        if since is not None:
            found.append(Lapse(company=company, since=since, until=end))
    return found


class Insured:
    """All that is known of the insurances of a world that is over."""

    def __init__(
        self,
        monitor: psycopg.Connection[Any],
        moves: Sequence[Move],
        lives: Lives,
        turns: Sequence[Turn],
        told: Sequence[Mapping[str, Any]],
        ending: Ending,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._moves, self._lives, self._turns, self._told, self._ending = moves, lives, turns, told, ending
        self._lapses = lapses_of(moves, ending.until)
        self._members: defaultdict[str, set[str]] = defaultdict(set)
        for row in monitor.execute(_MEMBERS).fetchall():
            self._members[row["company_id"]].add(row["recipient_id"])
        self._workers = {row["id"]: row["recipient_id"] for row in monitor.execute(_WORKERS).fetchall()}

    def check(self) -> Iterator[Violation]:
        self.counts["staffing_lapses"] = len(self._lapses)
        yield from self._unstopped()
        yield from self._uninsured()
        yield from self._told_to_stop()
        yield from self._refused()
        yield from self._after_the_end()

    def _is_quiet(self, since: datetime, until: datetime) -> bool:
        """Whether nothing explains that something was not done meanwhile."""
        return not self._ending.was_hit(since, until)

    def _of_company(self, company: str) -> Iterator[tuple[str, Sequence[Move]]]:
        for (place, id), life in self._lives.items():
            row = life[0].row
            if place == "staffing_bookings" and company in (
                row["borrower_company_id"],
                row["lender_company_id"],
            ):
                yield id, life

    def _unstopped(self) -> Iterator[Violation]:
        """A lapse stops what goes on, and when all are insured again nothing is suspended."""
        for lapse in self._lapses:
            by = lapse.since + _SLACK
            if by >= lapse.until or not self._is_quiet(lapse.since, by):
                continue
            for id, life in self._of_company(lapse.company):
                if at_of(life[0].row, "created_at") > lapse.since:
                    continue
                self.counts["staffing_lapses_seen"] += 1
                rows = between(life, by, lapse.until - _SECOND)
                if any(row["status"] in ("Active", "Payment_Paused_Dispute") for row in rows):
                    yield _violation("unstopped", id, f"no insurance from {lapse.since} to {lapse.until}")
        last = max((lapse.until for lapse in self._lapses), default=None)
        if last is None or last + _SLACK > self._ending.until - self._ending.grace:
            return
        for (place, id), life in self._lives.items():
            if place == "staffing_bookings" and life[-1].row["status"] == "Suspended_Insurance":
                yield _violation("unresumed", id, f"all are insured from {last} on, and it is suspended")

    def _uninsured(self) -> Iterator[Violation]:
        """Nobody is booked by whoever began to when an insurance had ended."""
        for turn in self._turns:
            life = self._lives.get(("staffing_bookings", str(turn.booking_id)))
            if turn.verb != "book" or turn.answer != "done" or life is None:
                continue
            made_at = at_of(life[0].row, "created_at")
            for lapse in self._lapses:
                if lapse.since < turn.invoked_at and made_at < lapse.until:
                    yield _violation("uninsured", turn.name, f"booked without an insurance at {made_at}")

    def _told_to_stop(self) -> Iterator[Violation]:
        """Each of the six roles of what a policy has stopped, once for each time that it ended."""
        revised: defaultdict[str, list[datetime]] = defaultdict(list)
        stopped: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for move in self._moves:
            if move.place == "insurance_policies":
                revised[move.row["id"]].append(at_of(move.row, "updated_at"))
            elif move.place == "insurance_stops" and move.before is None and move.row["ended_work"]:
                stopped[move.row["policy_id"]].append(move.row)
        told: defaultdict[str, list[tuple[datetime, str]]] = defaultdict(list)
        for each in self._told:
            if each["template"] == _STOPPED:
                told[each["subject"].partition(":")[2]].append((each["created_at"], each["person"]))
        for policy, all_told in told.items():
            concerned = {person for stop in stopped[policy] for person in self._concerned(stop)}
            for _, person in all_told:
                if person not in concerned:
                    yield _violation("stop_told", policy, f"{person} has nothing to do with what it stopped")
        for policy, instants in revised.items():
            for since, until in zip(instants, [*instants[1:], self._ending.until], strict=True):
                times = Counter(person for at, person in told[policy] if since <= at < until)
                for person, count in times.items():
                    if count > 1:
                        yield _violation("stop_told", policy, f"{person} was told to stop {count} times")
                for stop in stopped[policy]:
                    yield from self._heard(policy, stop, since, until, times)

    def _heard(
        self, policy: str, stop: Mapping[str, Any], since: datetime, until: datetime, times: Counter[str]
    ) -> Iterator[Violation]:
        at = at_of(stop, "stopped_at")
        if not since <= at < until or at + _TOLD_IN >= until or not self._is_quiet(since, at + _TOLD_IN):
            return
        life = self._lives["staffing_bookings", stop["booking_id"]]
        if any(row["status"] == "Cancelled" for row in between(life, at, at + _TOLD_IN)):
            return
        self.counts["staffing_stops_told"] += 1
        for person in self._concerned(stop):
            if not times[person]:
                yield _violation("stop_told", policy, f"{person} was not told to stop at {at}")

    def _concerned(self, stop: Mapping[str, Any]) -> set[str]:
        booking = self._lives["staffing_bookings", stop["booking_id"]][0].row
        return {
            self._workers[booking["worker_id"]],
            booking["supervisor_id"],
            *self._members[booking["borrower_company_id"]],
            *self._members[booking["lender_company_id"]],
        }

    def _refused(self) -> Iterator[Violation]:
        """Nobody is kept from work but where J-15.3 says so."""
        for turn in self._turns:
            if turn.verb != "clock-in" or turn.answer != "clock_in_refused" or turn.answered_at is None:
                continue
            shift = self._lives["time_log", str(turn.time_log_id)]
            bookings = self._lives["staffing_bookings", shift[0].row["booking_id"]]
            self.counts["staffing_kept_out"] += 1
            rows = between(bookings, turn.invoked_at, turn.answered_at)
            today = turn.answered_at.astimezone(ZoneInfo(rows[0]["timezone"])).date().isoformat()
            is_refused = any(
                row["clock_in_hold"]
                or row["status"] in ("Suspended_Insurance", "Cancelled")
                or today > row["end_date"]
                # Of one that was released its status does not say that it is stopped.
                or (row["status"] == "Completed" and bool(self._lapses))
                for row in rows
            )
            states = between(shift, turn.invoked_at, turn.answered_at)
            if not is_refused and all(row["status"] != "Cancelled" for row in states):
                yield _violation("gate", turn.name, "somebody was kept from work, and nothing is against it")

    def _after_the_end(self) -> Iterator[Violation]:
        """What ended by somebody who was answered that it had: nobody is begun to be told of it."""
        ended: dict[str, datetime] = {}
        for turn in self._turns:
            is_ending = turn.verb == "cancel" or (turn.verb == "dispute" and turn.option == "B")
            id = str(turn.booking_id)
            if not is_ending or turn.answer != "done" or turn.answered_at is None:
                continue
            if self._lives["staffing_bookings", id][-1].row["status"] == "Cancelled":
                ended[id] = min(ended.get(id, turn.answered_at), turn.answered_at)
        about: dict[str, tuple[str, tuple[str, ...]]] = {f"staffing:{id}": (id, _OF_BOOKING) for id in ended}
        for (place, id), life in self._lives.items():
            booking = life[0].row.get("booking_id")
            if booking in ended and place == "time_log":
                about[f"time_log:{id}"] = (booking, _REMINDERS)
            elif booking in ended and place == "disputes":
                about[f"dispute:{id}"] = (booking, (_UNRESOLVED,))
        for each in self._told:
            booking, templates = about.get(each["subject"], ("", ()))
            if each["template"] in templates and any(at > ended[booking] for at in each["attempts"]):
                text = f"{each['template']} was begun after its booking ended at {ended[booking]}"
                yield _violation("hush_ended", each["subject"], text)


def _violation(invariant: str, key: str, text: str) -> Violation:
    return Violation(invariant=invariant, key=key, text=text)
