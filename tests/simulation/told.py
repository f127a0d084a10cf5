"""What must hold of everything that was to be told: what the database says of it, against what arrived outside."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import psycopg

from tests.history import Record, Violation
from tests.simulation.agreed import Turn
from tests.simulation.notes import QUIET, QUIET_HOURS, QUIET_ZONE, TEMPLATE, addresses_of
from tests.simulation.post import Arrival

_SETTLED = """
SELECT n.id::text AS job_id, n.state, n.settled_at, n.urgency, n.template, n.subject,
    coalesce(n.context->>'name', n.context->>'title') AS name,
    coalesce(n.context->>'person', (SELECT r.name FROM timebell_notify.recipients r
        WHERE (r.tenant, r.id) = (n.tenant, n.recipient_id))) AS person,
    ARRAY(SELECT t.started_at FROM timebell_notify.deliveries d JOIN timebell_notify.attempts t
        ON (t.tenant, t.delivery_id) = (d.tenant, d.id)
        WHERE (d.tenant, d.notification_id) = (n.tenant, n.id) ORDER BY t.started_at) AS attempts,
    ARRAY(SELECT i.created_at FROM timebell_notify.inbox i
        WHERE (i.tenant, i.id) = (n.tenant, n.id) ORDER BY i.seq) AS shown
FROM timebell_notify.notifications n ORDER BY n.id
"""
_SEQUENCES = """
SELECT recipient_id::text, array_agg(i.seq ORDER BY i.seq) AS seqs, max(e.last_seq) AS last
FROM timebell_notify.inbox i LEFT JOIN timebell_notify.inbox_ends e USING (tenant, recipient_id)
GROUP BY recipient_id ORDER BY recipient_id
"""
_STRAY = """
SELECT i.title, i.seq FROM timebell_notify.inbox i
WHERE NOT EXISTS (SELECT FROM timebell_notify.notifications n WHERE (n.tenant, n.id) = (i.tenant, i.id))
ORDER BY i.title, i.seq
"""
_TOLD = frozenset({"sent", "delivered"})
_NOT_TOLD = frozenset({"failed", "skipped"})


@dataclass(slots=True, kw_only=True)
class Note:
    """Everything that is known about one notification."""

    job_id: str
    template: str
    subject: str | None
    name: str
    person: str
    urgency: str
    state: str
    settled_at: datetime | None
    attempts: Sequence[datetime]
    shown: Sequence[datetime]
    arrivals: list[Arrival] = field(default_factory=list)
    starts: list[Record] = field(default_factory=list)
    final: Record | None = None
    # From when on nothing may begin any more, since somebody was told that it would not.
    withdrawn_at: datetime | None = None


def check_told(
    history: Sequence[Record],
    arrivals: Sequence[Arrival],
    monitor: psycopg.Connection[Any],
    turns: Sequence[Turn] = (),
) -> list[Violation]:
    notes = {row["job_id"]: Note(**row) for row in monitor.execute(_SETTLED).fetchall()}
    found = [
        Violation(invariant="unknown", key=each.name, text=f"{each.provider} took what nobody noted")
        for each in arrivals
        if each.job_id not in notes
    ]
    _sort(notes, history, arrivals, turns)
    for note in notes.values():
        texts = [
            *_unsettled(note),
            *_truth(note),
            *_unwritten(note),
            *_twice(note),
            *_after_cancel(note),
            *_quiet(note),
            *_mixed_up(note),
        ]
        found += [Violation(invariant=invariant, key=note.name, text=text) for invariant, text in texts]
    for row in monitor.execute(_STRAY).fetchall():
        text = f"shown as number {row['seq']}, and nobody knows of it"
        found.append(Violation(invariant="inbox", key=row["title"], text=text))
    for row in monitor.execute(_SEQUENCES).fetchall():
        if row["seqs"] != list(range(1, len(row["seqs"]) + 1)) or row["last"] != len(row["seqs"]):
            text = f"numbered {row['seqs']}, and the last is said to be {row['last']}"
            found.append(Violation(invariant="inbox", key=row["recipient_id"], text=text))
    return sorted(found, key=lambda each: (each.invariant, each.key, each.text))


def _sort(
    notes: Mapping[str, Note], history: Iterable[Record], arrivals: Iterable[Arrival], turns: Iterable[Turn]
) -> None:
    for arrival in arrivals:
        if arrival.job_id in notes:
            notes[arrival.job_id].arrivals.append(arrival)
    # What changed an agenda: a plan that was stated, or what somebody did about a meeting.
    plans: dict[str | None, list[Record | Turn]] = defaultdict(list)
    for turn in turns:
        if turn.meeting_id is not None:
            plans[turn.subject].append(turn)
    for record in history:
        if record.op == "plan":
            plans[record.key].append(record)
        note = notes.get(record.job_id or "")
        if note is None:
            continue
        if record.op == "start":
            note.starts.append(record)
        elif record.op == "final":
            note.final = record
        elif record.op == "cancel" and record.answer == "cancelled" and record.answered_at:
            note.withdrawn_at = min(note.withdrawn_at or record.answered_at, record.answered_at)
    for note in notes.values():
        over_at = None if note.final is None else note.final.answered_at
        if note.final is not None and note.final.state == "withdrawn" and over_at is not None:
            # It counts from when the plan that left it out began; the answer came later, and is what somebody heard.
            by = [plan for plan in plans[note.subject] if plan.invoked_at <= over_at <= plan.ends_at]
            note.withdrawn_at = max((plan.ends_at for plan in by), default=over_at)


def _unsettled(note: Note) -> Iterator[tuple[str, str]]:
    if note.final is None:
        yield "unsettled", "noted, and there is no job"
    elif note.final.state == "done" and (note.settled_at is None or note.state in ("pending", "held")):
        yield "unsettled", f"its job is done, and it is {note.state}"


def _truth(note: Note) -> Iterator[tuple[str, str]]:
    has_arrived = bool(note.arrivals or note.shown)
    if note.settled_at is not None and note.state in _TOLD and not has_arrived:
        yield "truth", f"{note.state}, and nothing arrived"
    elif note.settled_at is not None and note.state in _NOT_TOLD and has_arrived:
        yield "truth", f"{note.state}, and it arrived all the same"


def _unwritten(note: Note) -> Iterator[tuple[str, str]]:
    for arrival in note.arrivals:
        if arrival.started_at is None and not arrival.is_uncertain:
            yield "unwritten", f"{arrival.provider} took it, and no attempt was under way in the database"


def _twice(note: Note) -> Iterator[tuple[str, str]]:
    for number, arrival in enumerate(note.arrivals):
        if not number:
            continue
        if arrival.is_keyed and any(before.is_keyed for before in note.arrivals[:number]):
            yield "twice", f"{arrival.provider} takes keys, and took it again on {arrival.node}"
        elif not arrival.is_uncertain:
            yield "twice", f"taken again by {arrival.provider}, and nobody had said that it might be"


def _after_cancel(note: Note) -> Iterator[tuple[str, str]]:
    withdrawn_at = note.withdrawn_at
    if withdrawn_at is None:
        return
    for at in [*note.attempts, *note.shown]:
        if at > withdrawn_at:
            yield "after_cancel", f"told at {at.isoformat()}, withdrawn at {withdrawn_at.isoformat()}"


def _quiet(note: Note) -> Iterator[tuple[str, str]]:
    """By night only what was decided by day and took its time."""
    if note.person != QUIET or note.urgency == "critical":
        return
    for arrival in note.arrivals:
        decided_at = max(
            (each.invoked_at for each in note.starts if each.invoked_at <= arrival.at), default=None
        )
        if decided_at and arrival.started_at and _is_night(decided_at) and _is_night(arrival.started_at):
            yield "quiet", f"{arrival.provider} was called at {arrival.started_at.isoformat()}"


def _is_night(instant: datetime) -> bool:
    local = instant.astimezone(ZoneInfo(QUIET_ZONE)).time()
    return local >= QUIET_HOURS.start or local < QUIET_HOURS.end


def _mixed_up(note: Note) -> Iterator[tuple[str, str]]:
    for arrival in note.arrivals:
        is_its = arrival.text == note.name if note.template == TEMPLATE else note.name in arrival.text
        if arrival.name != note.name or not is_its:
            yield "mixed_up", f"{arrival.provider} took the text of {arrival.text}"
        if arrival.address not in addresses_of(note.person):
            yield "mixed_up", f"{arrival.provider} took it for {arrival.address}"
