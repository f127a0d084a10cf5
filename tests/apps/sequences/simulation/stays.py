"""What must hold of bookings in a world: what is owed about them at any moment, and what was done about them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

import psycopg

from tests.apps.sequences.oracle import Contact, Entered, Known, Name, expected
from tests.history import Violation
from tests.history_records import NEVER
from tests.simulation.ending import Ending

Verb = Literal["book", "dates", "people", "confirm", "check-in", "complete", "cancel", "apply"]
_SUBJECTS = """
SELECT s.subject, s.status, s.subtype, s.starts_at, s.ends_at, s.timezone, s.dates_at, s.facts->>'eventName' AS name,
    ARRAY(SELECT p.recipient_id::text FROM sequences.subject_people p
        WHERE (p.tenant, p.subject) = (s.tenant, s.subject) ORDER BY p.ordinal) AS people
FROM sequences.subjects s ORDER BY s.subject
"""
_ENTERED = """
SELECT e.subject, e.sequence_id::text AS sequence, e.entry, e.event_at, e.ended_reason, v.conditions, v.steps,
    q.trigger_event, e.version < q.version AND e.ended_reason IS NULL AS is_old
FROM sequences.enrolments e JOIN sequences.sequences q ON (q.tenant, q.id) = (e.tenant, e.sequence_id)
JOIN sequences.sequence_versions v
    ON (v.tenant, v.sequence_id, v.version) = (e.tenant, e.sequence_id, e.version)
ORDER BY e.subject, e.sequence_id, e.entry
"""
# A provider took it, or nobody knows whether one did.
_MAY_BE_TAKEN = """(d.state IN ('sent', 'delivered', 'suppressed', 'uncertain') OR EXISTS (
    SELECT FROM timebell_notify.attempts o
    WHERE (o.tenant, o.delivery_id) = (d.tenant, d.id) AND o.answer IS NULL))"""
# What may have been taken is over too, also where its job was withdrawn: it is not owed a second time.
_MESSAGES = f"""
SELECT m.id::text, m.subject, m.sequence_id::text AS sequence, m.entry, m.step, m.recipient_id::text AS contact,
    m.status, m.due_at, EXISTS (SELECT FROM timebell.agenda_done d
        WHERE (d.tenant, d.subject, d.step) = (m.tenant, m.subject, m.id::text)) OR EXISTS (
        SELECT FROM timebell.job_log l
        JOIN timebell_notify.deliveries d ON (d.tenant, d.notification_id) = (l.tenant, l.id)
        WHERE (l.tenant, l.subject, l.step) = (m.tenant, m.subject, m.id::text) AND {_MAY_BE_TAKEN}) AS is_over
FROM sequences.messages m ORDER BY m.id
"""
# What was begun is under way until it ends, also while it waits to be tried again: then it keeps its time.
_OWED = """
SELECT j.subject, j.step, j.due_at, j.started_by IS NOT NULL OR j.cancel_requested_at IS NOT NULL
    OR EXISTS (SELECT FROM timebell.job_log l WHERE l.tenant = j.tenant AND l.id = j.id) AS is_under_way
FROM timebell.jobs j WHERE j.subject LIKE 'booking:%' AND j.step IS NOT NULL ORDER BY j.subject, j.step
"""
_TOLD = f"""
SELECT m.subject, m.id::text, q.trigger_event, t.started_at, n.id::text AS job_id, {_MAY_BE_TAKEN} AS may_be_taken
FROM sequences.messages m JOIN sequences.sequences q ON (q.tenant, q.id) = (m.tenant, m.sequence_id)
JOIN (SELECT id, subject, step FROM timebell.jobs UNION SELECT id, subject, step FROM timebell.job_log) j
    ON (j.subject, j.step) = (m.subject, m.id::text)
JOIN timebell_notify.notifications n ON n.id = j.id
JOIN timebell_notify.deliveries d ON (d.tenant, d.notification_id) = (n.tenant, n.id)
JOIN timebell_notify.attempts t ON (t.tenant, t.delivery_id) = (d.tenant, d.id)
"""
_STANDINGS = "SELECT subject, id::text, status FROM sequences.standings ORDER BY id"
_RECORDED = "SELECT subject, name, actor FROM timebell.events WHERE subject LIKE 'booking:%'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Somebody did something about a booking, or tried to. `name` is theirs alone; the audit trail has it as the actor.

    `answer` is "done", or the code of the refusal. Without `answered_at` nobody knows what came of it.
    """

    name: str
    verb: Verb
    booking_id: UUID | None = None
    people: tuple[str, ...] = ()
    starts_at: datetime | None = None
    ends_at_then: datetime | None = None
    number: int = 0
    invoked_at: datetime = NEVER
    answered_at: datetime | None = None
    answer: str | None = None

    @property
    def subject(self) -> str:
        return f"booking:{self.booking_id}"

    @property
    def ends_at(self) -> datetime:
        """The latest instant at which it may have taken effect."""
        return self.answered_at or NEVER

    @property
    def is_ending(self) -> bool:
        """Whether somebody may not be told any more what was owed to them."""
        return self.verb in ("cancel", "people", "check-in", "complete") and self.answer in ("done", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A job called a provider for a message. `may_be_taken`: the provider took it, or nobody knows whether it did."""

    subject: str
    message: str
    job_id: str
    at: datetime
    may_be_taken: bool


def doubled(begun: Iterable[Begun]) -> Iterator[Begun]:
    """Each call for a message that another job had called for before, and that may have been taken then.

    What was certainly not taken may be withdrawn, and begun by another job when it is planned again.
    """
    taken: dict[tuple[str, str], str] = {}
    for each in sorted(begun, key=lambda one: one.at):
        name = (each.subject, each.message)
        if taken.get(name, each.job_id) != each.job_id:
            yield each
        elif each.may_be_taken:
            taken[name] = each.job_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A booking as the database has it, with what was written and is owed about it."""

    subject: str
    name: str
    known: Known
    entered: Sequence[Entered]
    messages: Mapping[Name, Mapping[str, Any]]
    owed: Mapping[str, tuple[datetime, bool]]
    is_old: bool


class Stays:
    """Looks at the bookings of a world while it goes on: each look is one moment, and at each everything must fit."""

    def __init__(self, monitor: psycopg.Connection[Any], contacts: Mapping[str, Contact]) -> None:
        self._monitor = monitor
        self._contacts = contacts
        self._found: dict[tuple[str, str, str], str] = {}

    def look(self, now: datetime, after: str, *, overdue: datetime | None = None) -> None:
        """`after` is what happened last. What was due at `overdue` must be over by now."""
        for row in self._read():
            for text in self._plan(row, now, overdue):
                self._found.setdefault(("plan", row.name, text), after)

    def _plan(self, row: Row, now: datetime, overdue: datetime | None) -> Iterator[str]:
        """What is pending is what the state implies, less what came before. What was under way ends by itself."""
        slips = expected(row.known, self._contacts, row.entered)
        stated = {
            row.messages[name]["id"]: slip.due_at
            for name, slip in slips.items()
            if name in row.messages and not slip.reasons
        }
        stated |= _by_itself(row.known)
        for step, (due_at, is_under_way) in row.owed.items():
            if overdue is not None and due_at < overdue:
                yield f"{step} was due at {due_at.isoformat()}, and is still owed"
            elif stated.get(step) != due_at and not is_under_way:
                yield f"{row.known.status}, and {step} is owed for {due_at.isoformat()}"
        over = {each["id"] for each in row.messages.values() if each["is_over"]}
        for step, when in stated.items():
            if when is not None and when > now and step not in row.owed and step not in over:
                yield f"{row.known.status}, and {step} is not owed for {when.isoformat()}"
        for name in slips:
            if name not in row.messages:
                yield f"{name[2]} for {name[3]} is nowhere"
        going_on = sum(not each.is_ended for each in row.entered)
        if row.known.status == "cancelled" and going_on > 1:
            # One sequence listens to each event here.
            yield f"cancelled, and {going_on} sequences go on"
        if row.is_old and overdue is not None:
            yield "an older version counts after another was applied"

    def _read(self) -> list[Row]:
        """At one moment, although by several statements."""
        with self._monitor.transaction():
            self._monitor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            subjects, entered, messages, owed = (
                self._monitor.execute(asked).fetchall() for asked in (_SUBJECTS, _ENTERED, _MESSAGES, _OWED)
            )
        of_each = [_by_subject(rows) for rows in (entered, messages, owed)]
        return [_row(each, *(rows[each["subject"]] for rows in of_each)) for each in subjects]

    def check(self, turns: Sequence[Turn], ending: Ending) -> list[Violation]:
        """What the looks found, and what the story tells in the end."""
        self.look(ending.until, "the end", overdue=ending.until - ending.grace)
        found = [
            Violation(invariant=invariant, key=key, text=f"{text} (seen after {after})")
            for (invariant, key, text), after in self._found.items()
        ]
        rows = self._read()
        names = {row.subject: row.name for row in rows}
        found += self._silence(turns, names, {arrival.job_id for arrival in ending.post.arrivals})
        found += self._unfinished(rows, names, ending)
        found += self._unrecorded(turns, names)
        return sorted(found, key=lambda each: (each.invariant, each.key, each.text))

    def _silence(
        self, turns: Sequence[Turn], names: Mapping[str, str], arrived: Set[str]
    ) -> Iterator[Violation]:
        """Once somebody heard that it is cancelled nothing is begun but what listens to that; and each is told once.

        `arrived` are the jobs of which something arrived, whatever the database knows of it.
        """
        cancelled = {turn.subject: turn for turn in turns if turn.verb == "cancel" and turn.answer == "done"}
        begun: list[Begun] = []
        for row in self._monitor.execute(_TOLD).fetchall():
            turn, at = cancelled.get(row["subject"]), row["started_at"]
            begun.append(
                Begun(
                    subject=row["subject"],
                    message=row["id"],
                    job_id=row["job_id"],
                    at=at,
                    may_be_taken=row["may_be_taken"] or row["job_id"] in arrived,
                )
            )
            if turn is not None and at > turn.ends_at and row["trigger_event"] != "booking_cancelled":
                text = (
                    f"told at {at.isoformat()}, after {turn.name} was answered at {turn.ends_at.isoformat()}"
                )
                yield Violation(invariant="silence", key=names[row["subject"]], text=text)
        for each in doubled(begun):
            text = f"{each.message} was begun again at {each.at.isoformat()}, and may have been taken before"
            yield Violation(invariant="doubled", key=names[each.subject], text=text)

    def _unfinished(
        self, rows: Sequence[Row], names: Mapping[str, str], ending: Ending
    ) -> Iterator[Violation]:
        """Nothing is on its way in the end, and bookings have gone on by themselves."""
        due = {each["id"]: each["due_at"] for row in rows for each in row.messages.values()}
        for each in self._monitor.execute(_STANDINGS).fetchall():
            is_due = due[each["id"]] is not None and due[each["id"]] < ending.until - ending.grace
            if is_due and each["status"] in ("scheduled", "sending"):
                text = f"{each['id']} is {each['status']} long after its time"
                yield Violation(invariant="unsent", key=names[each["subject"]], text=text)
        for row in rows:
            turns_at = {"confirmed": row.known.start, "checked_in": row.known.end}.get(str(row.known.status))
            if turns_at is not None and turns_at < ending.until - ending.grace:
                text = f"{row.known.status}, and its time came at {turns_at.isoformat()}"
                yield Violation(invariant="unturned", key=row.name, text=text)

    def _unrecorded(self, turns: Sequence[Turn], names: Mapping[str, str]) -> Iterator[Violation]:
        """What somebody did stands in the audit trail once, under their name; what they were refused does not."""
        recorded = Counter(each["actor"] for each in self._monitor.execute(_RECORDED).fetchall())
        for turn in turns:
            if turn.verb == "apply":
                continue
            least = int(turn.answer == "done")
            most = int(turn.answer in ("done", None))
            if not least <= recorded[turn.name] <= most:
                text = f"{turn.name} was answered {turn.answer}, and is recorded {recorded[turn.name]} times"
                key = names.get(turn.subject, turn.name)
                yield Violation(invariant="audit", key=key, text=text)


def _by_itself(known: Known) -> dict[str, datetime | None]:
    """Bookings here check in and complete by themselves."""
    if known.status == "confirmed":
        return {"check-in": known.start}
    return {"complete": known.end} if known.status == "checked_in" else {}


def _by_subject(rows: Sequence[Mapping[str, Any]]) -> defaultdict[str, list[Mapping[str, Any]]]:
    found: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["subject"]].append(row)
    return found


def _row(
    found: Mapping[str, Any],
    entered: Sequence[Mapping[str, Any]],
    messages: Sequence[Mapping[str, Any]],
    owed: Sequence[Mapping[str, Any]],
) -> Row:
    return Row(
        subject=found["subject"],
        name=found["name"],
        known=Known(
            timezone=found["timezone"],
            start=found["starts_at"],
            end=found["ends_at"],
            subtype=found["subtype"],
            status=found["status"],
            dates_at=found["dates_at"],
            people=found["people"],
        ),
        entered=[
            Entered(
                sequence=each["sequence"],
                entry=each["entry"],
                event_at=each["event_at"],
                conditions=each["conditions"],
                steps=each["steps"],
                is_ended=each["ended_reason"] is not None,
            )
            for each in entered
        ],
        messages={
            (each["sequence"], each["entry"], each["step"], each["contact"]): each for each in messages
        },
        owed={each["step"]: (each["due_at"], each["is_under_way"]) for each in owed},
        is_old=any(each["is_old"] for each in entered),
    )


def soon(instant: datetime | None, now: datetime) -> bool:
    return instant is not None and now < instant < now + timedelta(days=1)
