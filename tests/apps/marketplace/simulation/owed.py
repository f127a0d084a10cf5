"""What must hold of a marketplace in a world: money, states, what people were told, and what happens by itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

import psycopg

from tests.apps.marketplace.simulation.accounts import Accounts
from tests.apps.marketplace.simulation.deals import EVENTS, Turn
from tests.apps.marketplace.simulation.insured import Insured
from tests.apps.marketplace.simulation.moves import Move, at_of, read_moves
from tests.apps.marketplace.simulation.standing import Standing
from tests.apps.marketplace.simulation.weekly import ON_ITS_WAY, Weekly, wall
from tests.history import Violation
from tests.simulation.ending import Ending

_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
# As J-15 has them.
_BOOKING_EDGES = {
    (None, "Active"),
    ("Active", "Payment_Paused_Dispute"),
    ("Active", "Suspended_Insurance"),
    ("Active", "Cancelled"),
    ("Active", "Completed"),
    ("Payment_Paused_Dispute", "Active"),
    ("Payment_Paused_Dispute", "Suspended_Insurance"),
    ("Payment_Paused_Dispute", "Cancelled"),
    ("Suspended_Insurance", "Active"),
    ("Suspended_Insurance", "Payment_Paused_Dispute"),
    ("Suspended_Insurance", "Cancelled"),
}
_SHIFT_EDGES = {
    (None, "Scheduled"),
    ("Scheduled", "Working"),
    ("Scheduled", "Cancelled"),
    ("Working", "Draft"),
    ("Working", "Pending_Verification"),
    ("Draft", "Pending_Verification"),
    ("Pending_Verification", "Verified"),
    ("Pending_Verification", "Disputed"),
    ("Disputed", "Verified"),
    # Of what the clock alone approved.
    ("Verified", "Disputed"),
}
_DISPUTE_EDGES = {
    (None, "Open"),
    *(("Open", word) for word in ("Settled", "Resolved", "Legal_Hold")),
    *(("Legal_Hold", word) for word in ("Settled", "Resolved")),
}
_EDGES = {"staffing_bookings": _BOOKING_EDGES, "time_log": _SHIFT_EDGES, "disputes": _DISPUTE_EDGES}
_SUBJECTS = {
    "staffing_bookings": "staffing",
    "time_log": "time_log",
    "pending_payments": "payment",
    "disputes": "dispute",
}
_PAYMENT_EVENTS = {
    (None, "Pending"): "payment.created",
    ("Pending", "Succeeded"): "payment.succeeded",
    ("Pending", "Failed"): "payment.failed",
    ("Pending", "Cancelled"): "payment.cancelled",
    ("Succeeded", "Refunded"): "payment.refunded",
    ("Cancelled", "Refunded"): "payment.refunded",
    ("Failed", "Refunded"): "payment.refunded",
}
_RECORDED = """
SELECT name, subject, actor, data, occurred_at FROM timebell.events
WHERE subject LIKE 'staffing:%' OR subject LIKE 'time_log:%' OR subject LIKE 'payment:%' OR subject LIKE 'incident:%'
    OR subject LIKE 'weekly_cycle:%' OR subject LIKE 'dispute:%' OR subject LIKE 'policy:%' ORDER BY id
"""
_TOLD = """
SELECT n.template, n.subject, n.recipient_id::text AS person, n.id::text AS id, n.created_at,
    ARRAY(SELECT t.started_at FROM timebell_notify.deliveries d JOIN timebell_notify.attempts t
        ON (t.tenant, t.delivery_id) = (d.tenant, d.id)
        WHERE (d.tenant, d.notification_id) = (n.tenant, n.id) ORDER BY t.started_at) AS attempts
FROM timebell_notify.notifications n WHERE n.template LIKE 'marketplace.%' ORDER BY n.id
"""
_RETRIES = """
SELECT subject, count(*) AS count FROM (SELECT id, subject FROM timebell.jobs WHERE kind = 'marketplace.retry_payment'
    UNION SELECT id, subject FROM timebell.job_log WHERE kind = 'marketplace.retry_payment') found GROUP BY subject
"""
_REMINDERS = frozenset({"marketplace.still_working", "marketplace.clock_out_now"})
_RUNGS = (
    "marketplace.timesheet_submitted",
    "marketplace.timesheet_pending",
    "marketplace.timesheet_urgent",
)
# Once about each thing; the others are told again as an end is moved, or week by week.
_ONCE = frozenset({*_RUNGS, "marketplace.auto_approved", "marketplace.worker_released"})
# Whoever is answered one of these hears no more of the others.
_SILENCED: Mapping[str, frozenset[str]] = {
    "submit": _REMINDERS,
    "force": _REMINDERS,
    "verify": frozenset(_RUNGS),
    "dispute": frozenset({*_RUNGS, "marketplace.auto_approved"}),
}
_APPROVED_AFTER = timedelta(hours=4)


class Books:
    """All that is known of a world that is over."""

    def __init__(self, monitor: psycopg.Connection[Any], turns: Sequence[Turn], ending: Ending) -> None:
        self._turns = turns
        # What came about, by its name.
        self.counts: Counter[str] = Counter()
        self._ending = ending
        self._moves = read_moves(monitor)
        self._events: Sequence[Mapping[str, Any]] = monitor.execute(_RECORDED).fetchall()
        self._told: Sequence[Mapping[str, Any]] = monitor.execute(_TOLD).fetchall()
        retries = monitor.execute(_RETRIES).fetchall()
        self._retries = Counter({row["subject"]: row["count"] for row in retries})
        self._overdue = ending.until - ending.grace
        # The states of each thing that has some, in their order.
        self._lives: defaultdict[tuple[str, str], list[Move]] = defaultdict(list)
        for move in self._moves:
            if "id" in move.row:
                self._lives[move.place, move.row["id"]].append(move)
        self._insured = Insured(monitor, self._moves, self._lives, turns, self._told, ending)
        self._calm_at = min(
            (turn.invoked_at for turn in turns if turn.name.startswith("calm")), default=ending.until
        )

    def check(self) -> list[Violation]:
        accounts = Accounts(self._moves)
        accounts.check_periods()
        accounts.check_outside(
            {
                ref
                for ref, each in accounts.movements.items()
                if at_of(each, "created_at")
                < (self._overdue if each["call"] != "charge" else self._ending.until - ON_ITS_WAY)
            }
        )
        for movement in accounts.movements.values():
            self.counts[f"staffing_{movement['call']}_{movement['state']}"] += 1
        weekly = Weekly(
            self._lives,
            self._events,
            since=min((turn.invoked_at for turn in self._turns), default=self._overdue),
            calm_at=self._calm_at,
            until=self._ending.until,
            overdue=self._overdue,
        )
        weekly.counts = self._insured.counts = self.counts
        standing = Standing(self._moves)
        self.counts.update(standing.counts)
        found = [
            *accounts.violations(),
            *self._edges(),
            *self._unrecorded(),
            *self._released(),
            *self._silence(),
            *self._approvals(),
            *self._unsettled(),
            *self._left_over(accounts),
            *weekly.check(),
            *standing.violations(),
            *self._retried(standing.retries),
            *self._insured.check(),
        ]
        return sorted(found, key=lambda each: (each.invariant, each.key, each.text))

    def _changes(self, place: str) -> Iterator[tuple[Move, Any, Any]]:
        """Each change of a status."""
        for move in self._moves:
            if move.place == place and move.after is not None and move.was("status") != move.after["status"]:
                yield move, move.was("status"), move.after["status"]

    def _edges(self) -> Iterator[Violation]:
        for place, edges in _EDGES.items():
            for move, before, after in self._changes(place):
                if (before, after) not in edges:
                    yield _violation("edge", move.row["id"], f"{before} became {after}")
                if (before, after) == ("Verified", "Disputed") and move.was("verified_by") != "auto":
                    yield _violation("edge", move.row["id"], "somebody had verified it, and it was disputed")

    def _unrecorded(self) -> Iterator[Violation]:
        """What somebody did stands in the audit trail once, under their name; and each change of a status, once."""
        by_actor = Counter((each["actor"], each["name"]) for each in self._events)
        for turn in self._turns:
            if turn.verb in EVENTS:
                least, most = int(turn.answer == "done"), int(turn.answer in ("done", None))
                times = by_actor[turn.name, EVENTS[turn.verb]]
                if not least <= times <= most:
                    text = f"answered {turn.answer}, and is recorded {times} times"
                    yield _violation("audit", turn.name, text)
        told: Counter[tuple[str, Any, Any]] = Counter()
        named: Counter[tuple[str, str]] = Counter()
        for each in self._events:
            before, after = each["data"].get("before") or {}, each["data"].get("after") or {}
            named[each["subject"], each["name"]] += 1
            if "status" in after:
                told[each["subject"], before.get("status"), after["status"]] += 1
        for place, subject in _SUBJECTS.items():
            changed: Counter[tuple[str, Any, Any]] = Counter()
            for move, before, after in self._changes(place):
                changed[f"{subject}:{move.row['id']}", before, after] += 1
            for (about, before, after), times in changed.items():
                is_payment = place == "pending_payments"
                if (place, before) == ("time_log", None):
                    # They are ordered with their booking.
                    continue
                event = _PAYMENT_EVENTS.get((before, after), "")
                recorded = named[about, event] if is_payment else told[about, before, after]
                if recorded != times:
                    text = f"{before} became {after} {times} times, and is recorded {recorded} times"
                    yield _violation("audit", about, text)

    def _released(self) -> Iterator[Violation]:
        """Who is released was asked to pay for that very week, has not paid, and nothing is disputed. Nor is anybody
        charged while something is."""
        asked: set[str] = set()
        contested: defaultdict[str, set[str]] = defaultdict(set)
        payments: dict[str, Mapping[str, Any]] = {}
        for move in self._moves:
            row = move.row
            if move.place == "simulator_movements" and row["call"] == "charge":
                asked.add(row["payment_id"])
            elif move.place == "pending_payments":
                payments[row["id"]] = row
                if move.before is None and contested[row["booking_id"]]:
                    yield _violation(
                        "contested", row["booking_id"], "it was charged, and something is disputed"
                    )
            elif move.place in ("disputes", "incident_reports"):
                of_booking = contested[row["booking_id"]]
                (of_booking.add if row["status"] in ("Open", "Pending") else of_booking.discard)(row["id"])
            elif move.place == "staffing_bookings" and row["status"] == "Completed" != move.was("status"):
                monday = date.fromisoformat(row["end_date"]) + _DAY
                start = wall(row["timezone"], monday)
                mine = [
                    each
                    for each in payments.values()
                    if each["booking_id"] == row["id"] and at_of(each, "period_start") == start
                ]
                if not any(each["id"] in asked for each in mine):
                    yield _violation("unasked", row["id"], f"released without being asked for {monday}")
                if any(each["status"] in ("Succeeded", "Pending") for each in mine):
                    text = f"released, and {monday} was paid for or about to be"
                    yield _violation("released_paid", row["id"], text)
                self.counts["staffing_released"] += 1
                if contested[row["id"]]:
                    yield _violation("contested", row["id"], "it was released, and something is disputed")

    def _retried(self, expected: Counter[str]) -> Iterator[Violation]:
        """After the last of what is disputed one job charges for it: never none, and never two."""
        self.counts["staffing_retries"] += expected.total()
        for booking in {*expected, *(subject.partition(":")[2] for subject in self._retries)}:
            count = self._retries[f"staffing:{booking}"]
            if count != expected[booking]:
                text = f"{expected[booking]} times nothing was disputed any more, and {count} jobs charged"
                yield _violation("retried", booking, text)

    def _silence(self) -> Iterator[Violation]:
        """Nobody is told what somebody was answered to have ended; and no rung is climbed twice."""
        ended: dict[tuple[str, str], Turn] = {}
        for turn in self._turns:
            if turn.answer == "done":
                for template in _SILENCED.get(turn.verb, ()):
                    ended.setdefault((turn.subject, template), turn)
        rungs: Counter[tuple[str, str, str]] = Counter()
        for each in self._told:
            rungs[each["template"], each["subject"], each["person"]] += 1
            by = ended.get((each["subject"], each["template"]))
            if by is not None and any(at > by.ends_at for at in each["attempts"]):
                text = f"{each['template']} was begun after {by.name} was answered at {by.ends_at}"
                yield _violation("hush", each["subject"], text)
        for (template, subject, _), times in rungs.items():
            if template in _ONCE and times > 1:
                yield _violation("told_twice", subject, f"{template} for one person {times} times")

    def _approvals(self) -> Iterator[Violation]:
        """The clock approves when its time has come and nothing was disputed before; and then it does."""
        disputed = {turn.subject for turn in self._turns if turn.verb == "dispute" and turn.answer == "done"}
        rung = {(each["subject"], each["template"]) for each in self._told}
        for (place, id), life in self._lives.items():
            if place != "time_log":
                continue
            row, subject = life[-1].row, f"time_log:{id}"
            for move in life:
                is_auto = move.row["verified_by"] == "auto" and move.was("verified_by") is None
                if is_auto and at_of(move.row, "verified_at") < at_of(move.row, "auto_approval_time"):
                    yield _violation("hasty_approval", subject, "the clock approved it before its time")
            if subject in disputed and row["verified_by"] == "auto":
                yield _violation("beaten", subject, "it was disputed, and the clock approved it all the same")
            if row["status"] == "Pending_Verification" and at_of(row, "auto_approval_time") < self._overdue:
                yield _violation(
                    "unapproved", subject, f"it was to be approved at {row['auto_approval_time']}"
                )
            if row["clock_out_time"] is not None and (subject, _RUNGS[0]) not in rung:
                decided = [at_of(each.row, "updated_at") for each in life if each.row["status"] in _DECIDED]
                since, until = at_of(row, "clock_out_time"), min([*decided, self._overdue])
                is_explained = not self._ending.was_announced(since) or self._ending.was_hit(since, until)
                if until - since > _HOUR and not is_explained:
                    yield _violation("unclimbed", subject, "nobody was told that it was submitted")
        for turn in self._turns:
            if turn.verb == "dispute" and turn.answer == "dispute_too_late":
                yield from self._refused(turn)

    def _refused(self, turn: Turn) -> Iterator[Violation]:
        """A dispute that was there in time is too late only for what somebody verified, or what has begun to leave."""
        life = self._lives["time_log", str(turn.time_log_id)]
        row, answered_at = life[-1].row, turn.answered_at
        if row["clock_out_time"] is None or answered_at is None:
            return
        was_in_time = at_of(row, "clock_out_time") < turn.invoked_at
        is_untouched = row["status"] == "Pending_Verification" or not any(
            each.row["status"] in _DECIDED for each in life if at_of(each.row, "updated_at") <= answered_at
        )
        if was_in_time and is_untouched and answered_at <= at_of(row, "clock_out_time") + _APPROVED_AFTER:
            yield _violation("refused_dispute", turn.name, "it was in time, and nothing was decided")

    def _unsettled(self) -> Iterator[Violation]:
        """In the end nothing is to leave, and nobody waits for a payment, but for one that the provider never heard of
        and that may still be asked for."""
        heard = {move.row["payment_id"] for move in self._moves if move.place == "simulator_movements"}
        for (place, id), life in self._lives.items():
            row = life[-1].row
            is_old = at_of(row, "updated_at") < self._overdue if "updated_at" in row else False
            if place == "payouts" and row["state"] in ("pending", "sending") and is_old:
                yield _violation("unsettled", row["booking_id"], f"the {row['sort']} {id} is {row['state']}")
            if place != "pending_payments" or row["status"] != "Pending":
                continue
            is_open = id not in heard and at_of(row, "period_start") > self._overdue
            if at_of(row, "created_at") < self._ending.until - ON_ITS_WAY and not is_open:
                yield _violation("unsettled", row["booking_id"], f"the payment {id} is Pending")

    def _left_over(self, accounts: Accounts) -> Iterator[Violation]:
        """In the end nothing is held for a shift that is decided, and frozen only while something is disputed."""
        undecided = {
            life[-1].row["booking_id"]
            for (place, _), life in self._lives.items()
            if place == "disputes" and life[-1].row["status"] in ("Open", "Legal_Hold")
        }
        for (shift, payment), sums in accounts.of_shift.items():
            row = self._lives["time_log", shift][-1].row
            settled = accounts.payments[payment]["settled_at"]
            last = max(at_of(row, "updated_at"), datetime.fromisoformat(settled))
            if sums["held"] and row["status"] in _OVER and last < self._overdue:
                text = f"{row['status']}, and {sums['held']} is held for it"
                yield _violation("left_over", shift, text)
            is_kept = row["status"] == "Cancelled" and row["booking_id"] in undecided
            if sums["frozen"] and row["status"] != "Disputed" and not is_kept:
                yield _violation("left_over", shift, f"{row['status']}, and {sums['frozen']} is frozen")


_DECIDED = frozenset({"Verified", "Disputed"})
_OVER = frozenset({"Verified", "Disputed", "Cancelled"})


def _violation(invariant: str, key: str, text: str) -> Violation:
    return Violation(invariant=invariant, key=key, text=text)
