"""What must have happened about meetings: who was to be reminded and to be told, and what had to be written down."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.apps.meetings.simulation.agreed import MOVES, OFFSETS, Row, Turn
from tests.history import Record, Violation
from tests.simulation.ending import Ending
from tests.simulation.process import READ_AHEAD_SECONDS, SEEN_SECONDS
from timebell.apps.meetings.models import subject_of

_MOVED = """
SELECT meeting_id, to_status, actor, created_at FROM meetings.meeting_status_events ORDER BY created_at, id
"""
_RECORDED = "SELECT subject, name, actor FROM timebell.events WHERE subject LIKE 'meeting:%' ORDER BY 1, 2, 3"
_NOTICED = """
SELECT subject, template, recipient_id FROM timebell_notify.notifications
WHERE template IN ('meetings.proposed', 'meetings.added', 'meetings.removed')
"""
# Two who change a meeting at once may be written down at instants that lie a little apart from those of their answers.
_ABOUT = timedelta(minutes=1)
_SEEN = timedelta(seconds=SEEN_SECONDS)
_AHEAD = timedelta(seconds=READ_AHEAD_SECONDS)
_RECORDS = {
    "add": "meeting.participant_added",
    "remove": "meeting.participant_removed",
    "hold": "meeting.held",
}
_TELLS = {"add": "meetings.added", "remove": "meetings.removed"}


def check_owed(
    ending: Ending, rows: Sequence[Row], turns: Sequence[Turn], people: Mapping[str, UUID]
) -> Iterator[Violation]:
    moved = ending.monitor.execute(_MOVED).fetchall()
    for row in rows:
        mine = [turn for turn in turns if turn.meeting_id == row.id]
        steps = {each["to_status"]: each["created_at"] for each in moved if each["meeting_id"] == row.id}
        for text in _unreminded(row, mine, steps, ending, people):
            yield Violation(invariant="unreminded", key=row.title, text=text)
    yield from _unnoticed(ending, rows, turns, people)
    yield from _unrecorded(ending, rows, turns, moved)


def _unreminded(
    row: Row, turns: Sequence[Turn], steps: Mapping[str, datetime], ending: Ending, people: Mapping[str, UUID]
) -> Iterator[str]:
    """Of a meeting that came to its start everybody was reminded, as often as there was time for."""
    if row.slot is None or "accepted" not in steps or row.slot.start > ending.until:
        return
    left_at = min((at for status, at in steps.items() if status != "accepted"), default=None)
    if left_at is not None and left_at < row.slot.start:
        return
    for person in row.people:
        since = _taking_part_since(person, steps["accepted"], turns, people)
        for type, offset in OFFSETS.items():
            due_at = row.slot.start - offset
            if since is None or due_at <= since + _ABOUT:
                continue
            finals = ending.finals.get(f"{subject_of(row.id)}/{type}:{person}", [])
            must_be = not finals or _was_seen(since, due_at, row.slot.start, ending)
            if must_be and not any(_was_reminded(final, due_at, row.slot.start, ending) for final in finals):
                states = ", ".join(str(final.state) for final in finals)
                yield f"{type} of {row.slot.start.isoformat()} for {person}: {states or 'never owed'}"


def _was_seen(since: datetime, due_at: datetime, starts_at: datetime, ending: Ending) -> bool:
    """Whether a node had to see in time that it is owed. A hint may have been lost of what is due soon; the next sweep
    after it is due finds it, and may come too late."""
    return ending.was_announced(since) or since + _AHEAD < due_at or due_at + _SEEN < starts_at


def _taking_part_since(
    person: UUID, accepted_at: datetime, turns: Sequence[Turn], people: Mapping[str, UUID]
) -> datetime | None:
    """From when on it was certain that they do; None where it was not for long, or nobody knows."""
    about = [turn for turn in turns if turn.verb in _TELLS and people[turn.others[0]] == person]
    changing = [turn for turn in about if turn.is_changing or turn.answer is None]
    if not changing:
        return accepted_at
    if len(changing) > 1 or changing[0].verb != "add" or changing[0].answered_at is None:
        return None
    return max(accepted_at, changing[0].answered_at)


def _was_reminded(final: Record, due_at: datetime, starts_at: datetime, ending: Ending) -> bool:
    """That it was told on each leg is looked at with all that was told."""
    if final.state in ("done", "dead"):
        return True
    return bool(ending.starts.get(final.job_id or "")) or ending.was_hit(due_at, starts_at)


def _unnoticed(
    ending: Ending, rows: Sequence[Row], turns: Sequence[Turn], people: Mapping[str, UUID]
) -> Iterator[Violation]:
    """Each who is asked, added, or removed by another is told so, once for each time."""
    told = Counter(
        (each["subject"], each["template"], each["recipient_id"])
        for each in ending.monitor.execute(_NOTICED).fetchall()
    )
    titles = {subject_of(row.id): row.title for row in rows}
    certain: Counter[tuple[str, str, UUID]] = Counter()
    possible: Counter[tuple[str, str, UUID]] = Counter()
    asked = {turn.name: turn for turn in turns if turn.verb == "propose"}
    for row in rows:
        if row.parent is None:
            for other in asked[row.title].others:
                certain[subject_of(row.id), "meetings.proposed", people[other]] += 1
    for turn in turns:
        if turn.verb in _TELLS and not (turn.verb == "remove" and turn.others[0] == turn.person):
            key = (turn.subject, _TELLS[turn.verb], people[turn.others[0]])
            if turn.answer == "done" and turn.is_changing:
                certain[key] += 1
            elif turn.answer is None:
                possible[key] += 1
    for key in sorted({*told, *certain}, key=str):
        if not certain[key] <= told[key] <= certain[key] + possible[key]:
            subject, template, person = key
            text = f"{person} was told {template} {told[key]} times instead of {certain[key]}"
            yield Violation(invariant="notice", key=titles[subject], text=text)


def _unrecorded(
    ending: Ending, rows: Sequence[Row], turns: Sequence[Turn], moved: Sequence[Mapping[str, Any]]
) -> Iterator[Violation]:
    """Whatever somebody did about a meeting stands in the audit trail, once and under their name."""
    recorded = Counter(
        (each["subject"], each["name"], each["actor"])
        for each in ending.monitor.execute(_RECORDED).fetchall()
    )
    titles = {subject_of(row.id): row.title for row in rows}
    due: Counter[tuple[str, str, str]] = Counter()
    perhaps: Counter[tuple[str, str, str]] = Counter()
    for each in moved:
        due[subject_of(each["meeting_id"]), f"meeting.{each['to_status']}", each["actor"]] += 1
    proposed: dict[str, int] = defaultdict(int)
    for (subject, name, _), count in recorded.items():
        proposed[subject] += count if name == "meeting.proposed" else 0
    for row in rows:
        if proposed[subject_of(row.id)] != 1:
            text = f"proposed, and that is recorded {proposed[subject_of(row.id)]} times"
            yield Violation(invariant="audit", key=row.title, text=text)
    for turn in turns:
        if turn.verb in _RECORDS and turn.meeting_id is not None:
            key = (turn.subject, _RECORDS[turn.verb], turn.name)
            due[key] += turn.answer == "done" and turn.is_changing
            perhaps[key] += turn.answer is None
        elif turn.verb in MOVES and turn.meeting_id is not None and turn.answer == "done":
            key = (turn.subject, f"meeting.{MOVES[turn.verb]}", turn.name)
            due[key] = max(due[key], 1)
    for key in sorted({*due, *(each for each in recorded if each[1] != "meeting.proposed")}):
        if not due[key] <= recorded[key] <= due[key] + perhaps[key]:
            subject, name, actor = key
            text = f"{name} by {actor} is recorded {recorded[key]} times instead of {due[key]}"
            yield Violation(invariant="audit", key=titles[subject], text=text)
