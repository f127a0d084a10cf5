"""What must hold of what people agreed on: of their meetings as they are at any moment, and of the whole story."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from typing import Any, Literal
from uuid import UUID

import psycopg

from tests.history import Violation
from tests.history_records import NEVER
from timebell.apps.meetings.models import Slot, subject_of

Verb = Literal["propose", "accept", "deny", "reschedule", "cancel", "complete", "hold", "add", "remove"]

# Written down once more, so that the app is not asked whether it is right.
OFFSETS = {
    "24h_before": timedelta(hours=24),
    "1h_before": timedelta(hours=1),
    "15m_before": timedelta(minutes=15),
}
EDGES = frozenset(
    {
        ("pending", "accepted"),
        ("pending", "denied"),
        ("pending", "rescheduled"),
        ("pending", "cancelled"),
        ("accepted", "completed"),
        ("accepted", "cancelled"),
        ("accepted", "rescheduled"),
    }
)
_LEAVES: Mapping[Verb, str] = {
    "deny": "denied",
    "reschedule": "rescheduled",
    "cancel": "cancelled",
    "complete": "completed",
}
MOVES: Mapping[Verb, str] = {**_LEAVES, "accept": "accepted"}
_ITSELF = "meetings"

_MEETINGS = """
SELECT m.id, m.title, m.requester_id, m.status, m.accepted_start, m.accepted_end, m.parent_meeting_id, m.root_id,
    ARRAY(SELECT p.recipient_id FROM meetings.meeting_participants p WHERE p.meeting_id = m.id ORDER BY 1) AS people,
    ARRAY(SELECT b.recipient_id FROM meetings.busy b WHERE b.meeting_id = m.id AND b.kind = 'meeting'
        AND b.during = tstzrange(m.accepted_start, m.accepted_end) ORDER BY 1) AS busy,
    (SELECT count(*) FROM meetings.busy b WHERE b.meeting_id = m.id AND b.kind = 'meeting') AS busy_count
FROM meetings.meeting_requests m ORDER BY m.id
"""
_OWED = """
SELECT subject, step, due_at, started_by IS NOT NULL OR cancel_requested_at IS NOT NULL AS is_under_way
FROM timebell.jobs WHERE subject LIKE 'meeting:%' AND step IS NOT NULL ORDER BY subject, step
"""
_EVENTS = "SELECT meeting_id, from_status, to_status, actor FROM meetings.meeting_status_events ORDER BY id"
_NOTICES = """
SELECT subject, template, array_agg(recipient_id ORDER BY recipient_id) AS people
FROM timebell_notify.notifications WHERE template LIKE 'meetings.%' GROUP BY subject, template
"""
_CALENDARS = """
SELECT m.root_id, n.recipient_id, n.context->>'calendar' AS text FROM timebell_notify.notifications n
JOIN meetings.meeting_requests m ON n.subject = 'meeting:' || m.id
WHERE n.context ? 'calendar' ORDER BY n.id
"""
_REMINDED = """
SELECT n.subject, n.context->>'title' AS title,
    ARRAY(SELECT t.started_at FROM timebell_notify.deliveries d JOIN timebell_notify.attempts t
        ON (t.tenant, t.delivery_id) = (d.tenant, d.id)
        WHERE (d.tenant, d.notification_id) = (n.tenant, n.id)
        UNION ALL SELECT i.created_at FROM timebell_notify.inbox i WHERE (i.tenant, i.id) = (n.tenant, n.id)) AS told,
    n.expires_at
FROM timebell_notify.notifications n WHERE n.template = 'meetings.reminder' ORDER BY n.id
"""
_HOLDS = "SELECT meeting_id::text, expires_at FROM meetings.busy WHERE kind = 'hold' AND expires_at < %s ORDER BY 1, 2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Somebody did something about a meeting, or tried to. `name` is theirs alone; the database has it as the actor.

    `answer` is "done", or the code of the refusal. Without `answered_at` nobody knows what came of it.
    """

    name: str
    verb: Verb
    person: str
    meeting_id: UUID | None = None
    slots: tuple[Slot, ...] = ()
    number: int = 0
    others: tuple[str, ...] = ()
    invoked_at: datetime = NEVER
    answered_at: datetime | None = None
    answer: str | None = None
    # Whether there was anything to do; one who takes part already is not added again.
    is_changing: bool = True

    @property
    def subject(self) -> str:
        assert self.meeting_id is not None
        return subject_of(self.meeting_id)

    @property
    def ends_at(self) -> datetime:
        """The latest instant at which it may have taken effect."""
        return self.answered_at or NEVER

    @property
    def is_ending(self) -> bool:
        return self.verb in _LEAVES and self.answer in ("done", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A meeting as the database has it."""

    id: UUID
    title: str
    requester: UUID
    status: str
    slot: Slot | None
    parent: UUID | None
    root: UUID
    people: Sequence[UUID]
    busy: Sequence[UUID]
    busy_count: int

    def plan(self) -> dict[str, datetime]:
        """The steps that its state implies, each with when it is due."""
        if self.status != "accepted" or self.slot is None:
            return {}
        reminders = {
            f"{type}:{person}": self.slot.start - offset
            for person in self.people
            for type, offset in OFFSETS.items()
        }
        return {**reminders, "complete": self.slot.end}


class Agreed:
    """Looks at the meetings of a world while it goes on: each look is one moment, and at each everything must fit."""

    def __init__(self, monitor: psycopg.Connection[Any]) -> None:
        self._monitor = monitor
        self._found: dict[tuple[str, str, str], str] = {}

    def look(self, now: datetime, after: str, *, overdue: datetime | None = None) -> None:
        """`after` is what happened last. What was due at `overdue` must be over by now."""
        rows, owed = self._read()
        for row in rows:
            for invariant, text in [
                *_plan(row, owed.get(subject_of(row.id), {}), now, overdue),
                *_busy(row),
            ]:
                self._found.setdefault((invariant, row.title, text), after)
        for one, other in combinations([row for row in rows if row.status == "accepted"], 2):
            for text in _overlap(one, other):
                self._found.setdefault(("overlap", one.title, text), after)

    def _read(self) -> tuple[list[Row], dict[str, dict[str, tuple[datetime, bool]]]]:
        """At one moment, although by two statements."""
        with self._monitor.transaction():
            self._monitor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            found = self._monitor.execute(_MEETINGS).fetchall()
            steps = self._monitor.execute(_OWED).fetchall()
        owed: dict[str, dict[str, tuple[datetime, bool]]] = defaultdict(dict)
        for step in steps:
            owed[step["subject"]][step["step"]] = (step["due_at"], step["is_under_way"])
        return [_row(each) for each in found], owed

    def rows(self) -> list[Row]:
        return self._read()[0]

    def check(self, turns: Sequence[Turn], *, until: datetime, grace: timedelta) -> list[Violation]:
        """What the looks found, and what the story tells in the end."""
        self.look(until, "the end", overdue=until - grace)
        rows = self.rows()
        titles = {row.id: row.title for row in rows}
        found = [
            Violation(invariant=invariant, key=key, text=f"{text} (seen after {after})")
            for (invariant, key, text), after in self._found.items()
        ]
        events: dict[UUID, list[Mapping[str, Any]]] = defaultdict(list)
        for event in self._monitor.execute(_EVENTS).fetchall():
            events[event["meeting_id"]].append(event)
        notices = self._monitor.execute(_NOTICES).fetchall()
        told = {(each["subject"], each["template"]): each["people"] for each in notices}
        for row in rows:
            texts = [*_story(row, events[row.id]), *_lineage(row, rows), *_notices(row, rows, told)]
            found += [Violation(invariant=invariant, key=row.title, text=text) for invariant, text in texts]
        found += [*_truth(turns, events, titles), *self._silence(turns), *self._calendars(titles)]
        for hold in self._monitor.execute(_HOLDS, [until - grace]).fetchall():
            text = f"held until {hold['expires_at'].isoformat()}, and still in the way"
            found.append(Violation(invariant="hold", key=titles[UUID(hold["meeting_id"])], text=text))
        return sorted(found, key=lambda each: (each.invariant, each.key, each.text))

    def _silence(self, turns: Sequence[Turn]) -> Iterator[Violation]:
        """Of a meeting nobody is reminded once somebody heard that it does not take place, nor once it has begun."""
        left = {
            turn.subject: turn
            for turn in turns
            if turn.verb in _LEAVES and turn.answer == "done" and turn.answered_at is not None
        }
        for row in self._monitor.execute(_REMINDED).fetchall():
            turn = left.get(row["subject"])
            for at in row["told"]:
                if turn is not None and at > turn.ends_at:
                    text = f"reminded at {at.isoformat()}, after {turn.name} was answered at {turn.ends_at.isoformat()}"
                    yield Violation(invariant="silence", key=row["title"], text=text)
                if at >= row["expires_at"]:
                    text = f"reminded at {at.isoformat()}, when it had begun"
                    yield Violation(invariant="silence", key=row["title"], text=text)

    def _calendars(self, titles: Mapping[UUID, str]) -> Iterator[Violation]:
        """To calendars a lineage is one entry, and no two messages to one person are of the same SEQUENCE."""
        seen: Counter[tuple[UUID, UUID, str]] = Counter()
        for row in self._monitor.execute(_CALENDARS).fetchall():
            uids = set(re.findall(r"^UID:(.+?)\r?$", row["text"], re.MULTILINE))
            if uids != {f"{row['root_id']}@timebell"}:
                text = f"a calendar was told of {', '.join(sorted(uids))}"
                yield Violation(invariant="uid", key=titles[row["root_id"]], text=text)
            (sequence,) = re.findall(r"^SEQUENCE:(\d+)", row["text"], re.MULTILINE)
            seen[row["root_id"], row["recipient_id"], sequence] += 1
        for (root, _, sequence), count in seen.items():
            if count > 1:
                text = f"{count} messages of SEQUENCE {sequence} to one person"
                yield Violation(invariant="uid", key=titles[root], text=text)


def _row(found: Mapping[str, Any]) -> Row:
    start, end = found["accepted_start"], found["accepted_end"]
    return Row(
        id=found["id"],
        title=found["title"],
        requester=found["requester_id"],
        status=found["status"],
        slot=None if start is None else Slot(start, end),
        parent=found["parent_meeting_id"],
        root=found["root_id"],
        people=found["people"],
        busy=found["busy"],
        busy_count=found["busy_count"],
    )


def _plan(
    row: Row, owed: Mapping[str, tuple[datetime, bool]], now: datetime, overdue: datetime | None
) -> Iterator[tuple[str, str]]:
    """What is pending is what the state implies, less what came before. What was under way by then ends by itself."""
    stated = row.plan()
    for step, (due_at, is_under_way) in owed.items():
        if overdue is not None and due_at < overdue:
            yield "plan", f"{step} was due at {due_at.isoformat()}, and is still owed"
        elif stated.get(step) != due_at and not is_under_way:
            yield "plan", f"{row.status}, and {step} is owed for {due_at.isoformat()}"
    for step, due_at in stated.items():
        if due_at > now and step not in owed:
            yield "plan", f"{row.status}, and {step} is not owed for {due_at.isoformat()}"


def _busy(row: Row) -> Iterator[tuple[str, str]]:
    wanted = list(row.people) if row.status == "accepted" else []
    if row.busy_count != len(wanted) or (wanted and list(row.busy) != wanted):
        yield "busy", f"{row.status} with {len(row.people)}, and {row.busy_count} are busy with it"


def _overlap(one: Row, other: Row) -> Iterator[str]:
    assert one.slot is not None
    assert other.slot is not None
    if one.slot.start < other.slot.end and other.slot.start < one.slot.end:
        for person in sorted(set(one.people) & set(other.people)):
            yield f"{person} is in {other.title} too, from {other.slot.start.isoformat()} on"


def _story(row: Row, events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """From the first state to the one that it has, by edges that there are."""
    steps = sorted(
        [(event["from_status"], event["to_status"]) for event in events],
        key=lambda step: step[0] != "pending",
    )
    told = " ".join(f"{before}→{after}" for before, after in steps)
    joined = all(first[1] == second[0] for first, second in pairwise(steps))
    ends = (steps[0][0], steps[-1][1]) if steps else ("pending", "pending")
    if not set(steps) <= EDGES or not joined or ends != ("pending", row.status):
        yield "story", f"{row.status}, and it is told as {told or 'nothing'}"


def _lineage(row: Row, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    by_id = {each.id: each for each in rows}
    children = [each for each in rows if each.parent == row.id]
    if len(children) != (row.status == "rescheduled"):
        yield "lineage", f"{row.status}, and {len(children)} came of it"
    first = row
    while first.parent is not None:
        first = by_id[first.parent]
    if row.root != first.id:
        yield "uid", f"the first of its lineage is {first.id}, and it says {row.root}"


def _notices(
    row: Row, rows: Sequence[Row], told: Mapping[tuple[str, str], Sequence[UUID]]
) -> Iterator[tuple[str, str]]:
    """Whom it concerns is told what became of it, once: of a denial its requester, of the rest everybody."""
    wanted: dict[tuple[str, str], Sequence[UUID]] = {
        (subject_of(row.id), "meetings.denied"): [row.requester] if row.status == "denied" else [],
        (subject_of(row.id), "meetings.cancelled"): row.people if row.status == "cancelled" else [],
    }
    for child in rows:
        if child.parent == row.id:
            wanted[subject_of(child.id), "meetings.rescheduled"] = row.people
    for (subject, template), people in wanted.items():
        if told.get((subject, template), []) != list(people):
            yield (
                "notice",
                f"{row.status}, and {template} is told to {len(told.get((subject, template), []))}",
            )
    accepted = told.get((subject_of(row.id), "meetings.accepted"), [])
    if len(set(accepted)) != len(accepted) or bool(accepted) != (row.slot is not None):
        yield "notice", f"{row.status}, and that it was accepted is told to {len(accepted)}"


def _truth(
    turns: Sequence[Turn], events: Mapping[UUID, Sequence[Mapping[str, Any]]], titles: Mapping[UUID, str]
) -> Iterator[Violation]:
    """Each was told what came of it."""
    written = [event for each in events.values() for event in each]
    by_actor: dict[str, list[str]] = defaultdict(list)
    for event in written:
        by_actor[event["actor"]].append(event["to_status"])
    by_actor.pop(_ITSELF, None)
    for turn in turns:
        did = by_actor.pop(turn.name, [])
        wanted = [MOVES[turn.verb]] if turn.verb in MOVES else []
        allowed = [wanted] if turn.answer == "done" else [[], wanted] if turn.answer is None else [[]]
        if did not in allowed:
            key = turn.name if turn.meeting_id is None else titles[turn.meeting_id]
            text = f"{turn.name} was answered {turn.answer}, and is written down as {did or 'nothing'}"
            yield Violation(invariant="answer", key=key, text=text)
    for actor in by_actor:
        yield Violation(invariant="answer", key=actor, text="is written down, and nobody of that name asked")
