"""What must hold of everything that services asked for: what came to the queue, against what was to come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from tests.apps.scheduler.simulation.asked import Sending, Wish
from tests.apps.scheduler.simulation.broker import DUE, Arrival, WorldServer
from tests.history import Violation
from tests.history_records import NEVER
from tests.simulation.ending import Ending
from tests.simulation.process import SEEN_SECONDS
from timebell.apps.scheduler.topology import CANCELS, REQUESTS

_ROWS = """
SELECT r.tenant, r.id, r.due_at, r.start_at, s.status, s.fired_count
FROM scheduler.requests r LEFT JOIN scheduler.standings s USING (tenant, id) ORDER BY r.tenant, r.id
"""
_DEAD = "SELECT DISTINCT tenant, payload->>'id' AS id FROM timebell.dead_jobs WHERE kind = 'scheduler.fire'"
_SEEN = timedelta(seconds=SEEN_SECONDS)
_SOON = timedelta(seconds=30)
_SKIPPED_AFTER = timedelta(seconds=60)
# By then whoever published something has said so, unless it was kept from it.
_SETTLED = timedelta(minutes=10)
# A name that was cancelled before it was asked for is free again after a day.
_REMEMBERED = timedelta(hours=23)
# What came to its end so long ago is pruned.
_PRUNED = timedelta(days=29)

Text = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the services know. `marks` are the instants at which somebody asked to start each job."""

    wishes: Sequence[Wish]
    sendings: Sequence[Sending]
    arrivals: Sequence[Arrival]
    marks: Mapping[str, Sequence[datetime]]
    server: WorldServer


@dataclass(slots=True, kw_only=True)
class Case:
    """All that is known of one wish."""

    wish: Wish
    row: Mapping[str, Any] | None
    is_dead: bool
    arrivals: dict[datetime, list[Arrival]] = field(default_factory=lambda: defaultdict(list))

    @property
    def in_force(self) -> Sending | None:
        """The request that the row bears the timing of."""
        if self.row is None:
            return None
        start_at = self.row["due_at"] or self.row["start_at"]
        return next((each for each in self.wish.requests if each.instants[0] == start_at), None)


class Evidence:
    """Says whether something explains that what was due did not come, or came again."""

    def __init__(self, told: Told, ending: Ending) -> None:
        self._told = told
        self._ending = ending
        self.until = ending.until
        self.overdue = ending.until - ending.grace

    def is_explained(self, wish: Wish, due_at: datetime, until: datetime) -> bool:
        """A fault was near, of a process, the broker, or of this very message."""
        since = min(due_at, wish.taken_at or due_at)
        return self.was_hit(since, until) or message_id(wish, due_at) in self._told.server.spoiled

    def was_hit(self, since: datetime, until: datetime) -> bool:
        return self._ending.was_hit(since, until) or self._told.server.was_hit(since, until)

    def is_repeatable(self, first: Arrival, second: datetime) -> bool:
        """Whether the one who published it first did not hear that it had arrived, or could not say so."""
        if not first.is_heard:
            return True
        return any(
            fault.node == first.node and fault.invoked_at <= second and fault.ends_at >= first.at
            for fault in self._ending.faults
        )

    def begun_at(self, arrival: Arrival) -> datetime:
        """When its attempt was about to be marked."""
        marks = self._told.marks.get(arrival.job_id, ())
        return max((mark for mark in marks if mark <= arrival.at), default=arrival.at)


def message_id(wish: Wish, due_at: datetime) -> str:
    return f"{wish.tenant}/{wish.id}/{due_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def check_fired(told: Told, ending: Ending) -> list[Violation]:
    rows = {(row["tenant"], row["id"]): row for row in ending.monitor.execute(_ROWS).fetchall()}
    dead = {(row["tenant"], row["id"]) for row in ending.monitor.execute(_DEAD).fetchall()}
    cases = {
        wish.key: Case(wish=wish, row=rows.get(wish.key), is_dead=wish.key in dead) for wish in told.wishes
    }
    found = [
        Violation(invariant="rows", key="/".join(key), text="nobody asked for it")
        for key in rows
        if key not in cases
    ]
    for arrival in told.arrivals:
        if arrival.key in cases:
            cases[arrival.key].arrivals[arrival.due_at].append(arrival)
        else:
            found.append(Violation(invariant="strange", key=arrival.message_id, text="nobody asked for it"))
    evidence = Evidence(told, ending)
    for case in cases.values():
        texts = [
            *_strange(case),
            *_refired(case, evidence),
            *_after_cancel(case, evidence),
            *_replaced(case, evidence),
            *_stale(case, evidence),
            *(_unfired_again(case, evidence) if case.wish.is_recurring else _unfired(case, evidence)),
            *_untrue(case, evidence),
        ]
        key = "/".join(case.wish.key)
        found += [Violation(invariant=invariant, key=key, text=text) for invariant, text in texts]
    found += [Violation(invariant=name, key=key, text=text) for name, key, text in _left(told, evidence)]
    return sorted(found, key=lambda each: (each.invariant, each.key, each.text))


def _strange(case: Case) -> Iterator[Text]:
    """Only what was asked for, not before its time, with its payload, and to those whom it concerns."""
    wish = case.wish
    for due_at, arrivals in case.arrivals.items():
        if due_at not in wish.instants:
            yield "strange", f"came for {due_at.isoformat()}, which nobody asked for"
        for arrival in arrivals:
            if arrival.at < due_at:
                yield "strange", f"came at {arrival.at.isoformat()}, before {due_at.isoformat()}"
            if arrival.payload not in [each.payload for each in wish.requests]:
                yield "strange", f"came with {arrival.payload}"
            names = (message_id(wish, due_at), f"schedule.due.{wish.tenant}")
            if (arrival.message_id, arrival.routing_key) != names:
                yield "strange", f"came as {arrival.message_id} by {arrival.routing_key}"


def _refired(case: Case, evidence: Evidence) -> Iterator[Text]:
    """What came twice came from one job, and a fault was near."""
    is_one = len(case.wish.timings) == 1
    for due_at, arrivals in case.arrivals.items():
        if is_one and len({arrival.job_id for arrival in arrivals}) > 1:
            yield "rows", f"two jobs were paid for {due_at.isoformat()}"
        for first, second in pairwise(arrivals):
            # A time that was replaced and comes back is owed again.
            is_its_own = is_one or first.job_id == second.job_id
            if is_its_own and not evidence.is_repeatable(first, second.at):
                text = f"came at {first.at.isoformat()} and again at {second.at.isoformat()}"
                yield "refired", f"{due_at.isoformat()} {text}, and nothing was in the way"


def _after_cancel(case: Case, evidence: Evidence) -> Iterator[Text]:
    """From when a cancel was acknowledged on, nothing begins any more."""
    taken_at = case.wish.cancel_taken_at
    late = [each for each in case.wish.requests if _is_forgotten(each, case.wish)]
    for arrivals in case.arrivals.values():
        for arrival in arrivals:
            begun_at = evidence.begun_at(arrival)
            if begun_at > taken_at and not late:
                text = f"begun at {begun_at.isoformat()}, cancelled at {taken_at.isoformat()}"
                yield "after_cancel", f"came at {arrival.at.isoformat()}, {text}"


def _replaced(case: Case, evidence: Evidence) -> Iterator[Text]:
    """Once the last request was taken, nothing begins for a time that is not the one in force."""
    taken = [each.last_taken_at for each in case.wish.requests if each.last_taken_at]
    if case.in_force is None or not taken:
        return
    for due_at, arrivals in case.arrivals.items():
        for arrival in arrivals if due_at not in case.in_force.instants else ():
            begun_at = evidence.begun_at(arrival)
            if begun_at > max(taken):
                text = f"another time took its place by {max(taken).isoformat()}"
                yield "strange", f"{due_at.isoformat()} was begun at {begun_at.isoformat()}, and {text}"


def _stale(case: Case, evidence: Evidence) -> Iterator[Text]:
    """Nothing begins that is too late by its policy."""
    request = case.in_force
    if request is None or request.misfire is None:
        return
    for due_at, over_at in _windows(request):
        for arrival in case.arrivals.get(due_at, ()):
            begun_at = evidence.begun_at(arrival)
            if begun_at >= over_at:
                text = f"{due_at.isoformat()} was begun at {begun_at.isoformat()}"
                yield "strange", f"{request.misfire}: {text}, and over at {over_at.isoformat()}"


def _windows(request: Sending) -> Iterator[tuple[datetime, datetime]]:
    """Of what recurs: each instant, and until when it may be made up for."""
    for due_at, next_at in zip(request.instants, [*request.instants[1:], NEVER], strict=True):
        match request.misfire:
            case "fire_once":
                yield due_at, next_at
            case "skip":
                yield due_at, due_at + _SKIPPED_AFTER
            case _:
                yield due_at, NEVER


def _is_forgotten(request: Sending, wish: Wish) -> bool:
    """Whether it came so long after its cancel that nobody knew of that any more."""
    last = request.last_taken_at or NEVER
    return bool(wish.cancels) and (request.is_under_way or last > wish.cancel_taken_at + _REMEMBERED)


def _unfired(case: Case, evidence: Evidence) -> Iterator[Text]:
    """What is due once came, unless it was cancelled or another time took its place while there was time."""
    wish = case.wish
    asked = {each.instants[0] for each in wish.requests if each.is_confirmed}
    if not asked:
        return
    written = case.row["due_at"] if case.row is not None else None
    due_at = written or min(asked)
    seen_at = max(due_at, wish.taken_at or due_at) + _SEEN
    came = case.arrivals.get(due_at)
    if came is None:
        is_owed = due_at < evidence.overdue and not case.is_dead
        is_kept = not wish.cancels or (
            wish.cancel_sent_at > seen_at and not evidence.is_explained(wish, due_at, wish.cancel_sent_at)
        )
        if is_owed and is_kept and (written is not None or len(asked) == 1):
            yield "unfired", f"due at {due_at.isoformat()}, and it never came"
    elif len(asked) == 1 and came[0].at > seen_at and not evidence.is_explained(wish, due_at, came[0].at):
        text = f"due at {due_at.isoformat()}, and it came at {came[0].at.isoformat()}"
        yield "unfired", f"{text}, and nothing was in the way"


def _unfired_again(case: Case, evidence: Evidence) -> Iterator[Text]:
    """Each occurrence of what recurs came, unless it was cancelled, or too late for its policy."""
    wish = case.wish
    request = case.in_force or next((each for each in wish.requests if len(wish.timings) == 1), None)
    if request is None or request.misfire is None or wish.taken_at is None or case.is_dead:
        return
    # What was due before it was certain that this is what is wanted may have been left out.
    taken = [each.last_taken_at for each in wish.requests if each.last_taken_at]
    taken_at = wish.taken_at if len(wish.timings) == 1 else max(taken)
    for due_at, policy_at in _windows(request):
        if due_at < taken_at or due_at >= evidence.overdue or due_at in case.arrivals:
            continue
        seen_at = due_at + _SOON if due_at > taken_at + _SEEN else taken_at + _SEEN
        over_at = min(policy_at, wish.cancel_sent_at)
        if seen_at < over_at and (over_at == NEVER or not evidence.is_explained(wish, due_at, over_at)):
            yield "unfired", f"{request.misfire}: {due_at.isoformat()} never came"


def _untrue(case: Case, evidence: Evidence) -> Iterator[Text]:
    """What is said of it in the end is what became of it."""
    wish, row = case.wish, case.row
    taken = [each for each in wish.requests if each.taken_at is not None]
    last_at = max(wish.instants, default=evidence.until)
    if row is None or row["status"] is None:
        is_old = max([last_at, *(each.taken_at or last_at for each in taken)]) < evidence.until - _PRUNED
        if taken and not wish.cancels and not is_old and not all(map(_is_too_late, taken)):
            yield "rows", "taken, and there is no row"
        return
    came = {due_at for due_at, arrivals in case.arrivals.items() if arrivals}
    if case.in_force is not None:
        last_at = max(case.in_force.instants)
    match row["status"]:
        case "done" if row["due_at"] is not None and row["due_at"] not in came:
            yield "rows", f"done for {row['due_at']}, and it never came"
        case "done" if last_at > evidence.until:
            yield "rows", f"done, and the last is for {last_at.isoformat()}"
        case "cancelled" if not wish.cancels:
            yield "rows", "cancelled, and nobody asked for that"
        case "cancelled" if not wish.is_recurring:
            yield from _cancelled_and_came(case, evidence)
        case "pending" if wish.cancel_taken_at != NEVER and not case.is_dead:
            yield "rows", "pending, and its cancel was taken"
        case "pending" if last_at < evidence.overdue and not case.is_dead:
            yield "rows", f"pending, and the last was for {last_at.isoformat()}"
        case _:
            pass
    if wish.is_calm and wish.is_recurring and row["fired_count"] != len(came):
        yield "rows", f"{len(came)} came, and {row['fired_count']} are counted"


def _cancelled_and_came(case: Case, evidence: Evidence) -> Iterator[Text]:
    """It came all the same only where nobody could say that it had, be it that the cancel was too late by then."""
    for due_at, arrivals in case.arrivals.items():
        last = arrivals[-1]
        if not evidence.is_repeatable(last, max(case.wish.cancel_taken_at, last.at + _SETTLED)):
            yield "rows", f"cancelled, and {due_at.isoformat()} came at {last.at.isoformat()}"


def _is_too_late(request: Sending) -> bool:
    """What recurs and was over when it was taken is refused, unless it was known."""
    taken_at = request.last_taken_at
    return request.misfire is not None and taken_at is not None and taken_at >= max(request.instants)


def _left(told: Told, evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    """What is in the queues in the end: nothing to take, and a copy of each message that nobody can use."""
    for queue in (REQUESTS, CANCELS):
        for message in told.server.messages(queue):
            yield "untaken", message.message_id or "", f"is still in {queue}"
    if len(told.server.messages(DUE)) != len(told.arrivals):
        yield "strange", DUE, "holds other messages than came"
    for sending in told.sendings:
        reasons = told.server.dead.get(sending.name, [])
        if sending.sort == "poison" and sending.is_confirmed and not reasons:
            yield "letters", sending.name, f"{sending.reason}, and there is no copy of it"
        expected = "bad_rule" if _is_too_late(sending) else sending.reason
        for reason in reasons:
            if reason != expected:
                yield "letters", sending.name, f"{expected}, and it was given up as {reason}"
        until = sending.last_taken_at or evidence.until
        is_explained = sending.name in told.server.spoiled or evidence.was_hit(sending.sent_at, until)
        if len(reasons) > max(1, sending.copy_count) and not is_explained:
            yield "letters", sending.name, f"{len(reasons)} copies of it were made"
