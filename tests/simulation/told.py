"""What must hold of everything that was to be told: what the database says of it, against what arrived outside."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from tests.history import Record, Violation
from tests.simulation.ending import Change, Ending
from tests.simulation.notes import QUIET, QUIET_HOURS, QUIET_ZONE, TEMPLATE, addresses_of
from tests.simulation.parts import parts
from tests.simulation.post import Arrival, Call
from tests.simulation.process import SEEN_SECONDS

_SETTLED = """
SELECT n.id::text AS job_id, n.state, n.settled_at, n.urgency, n.template, n.subject, n.due_at, n.expires_at, n.guard,
    n.route, n.reason, n.digest IS NOT NULL AS is_gathered,
    coalesce(n.context->>'name', n.context->>'title', n.template) AS name,
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
_SEEN = timedelta(seconds=SEEN_SECONDS)
PREFERRED = ("email", "sms", "whatsapp")
# What follows where one channel alone is named, and cannot be used.
_INSTEAD = {"sms": ("sms", "email"), "whatsapp": ("whatsapp", "sms", "email")}
_NOT_TOLD = frozenset({"failed", "skipped"})
# What somebody is answered who takes back what is not over yet.
_HEARD = frozenset({"cancelled", "too_late", "undecided"})


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
    due_at: datetime
    expires_at: datetime | None
    guard: str | None
    route: Mapping[str, Any]
    reason: str | None
    is_gathered: bool
    attempts: Sequence[datetime]
    shown: Sequence[datetime]
    arrivals: list[Arrival] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    # What may have let its guard refuse it.
    endings: list[Change] = field(default_factory=list)
    starts: list[Record] = field(default_factory=list)
    cancels: list[Record] = field(default_factory=list)
    final: Record | None = None
    # From when on nothing may begin any more, since somebody was told that it would not.
    withdrawn_at: datetime | None = None


def check_told(ending: Ending) -> list[Violation]:
    arrivals, monitor = ending.post.arrivals, ending.monitor
    notes = {row["job_id"]: Note(**row) for row in monitor.execute(_SETTLED).fetchall()}
    found = [
        Violation(invariant="unknown", key=each.name, text=f"{each.provider} took what nobody noted")
        for each in arrivals
        if each.job_id not in notes
    ]
    _sort(notes, ending)
    for note in notes.values():
        texts = [
            *_unsettled(note),
            *_truth(note),
            *_unwritten(note),
            *_twice(note),
            *_after_cancel(note),
            *_quiet(note),
            *_mixed_up(note),
            *_untold(note, ending),
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


def _sort(notes: Mapping[str, Note], ending: Ending) -> None:
    for arrival in ending.post.arrivals:
        if arrival.job_id in notes:
            notes[arrival.job_id].arrivals.append(arrival)
    for call in ending.post.called:
        if call.job_id in notes:
            notes[call.job_id].calls.append(call)
    # What changed an agenda: a plan that was stated, or what somebody did about what an app knows of.
    plans: dict[str | None, list[Record | Change]] = defaultdict(list)
    endings: dict[str | None, list[Change]] = defaultdict(list)
    for change in ending.changes:
        plans[change.subject].append(change)
        if change.is_ending:
            endings[change.subject].append(change)
    for record in ending.history:
        if record.op == "plan":
            plans[record.key].append(record)
        note = notes.get(record.job_id or "")
        if note is None:
            continue
        if record.op == "start":
            note.starts.append(record)
        elif record.op == "final":
            note.final = record
        elif record.op == "cancel":
            note.cancels.append(record)
        if record.op == "cancel" and record.answer == "cancelled" and record.answered_at:
            note.withdrawn_at = min(note.withdrawn_at or record.answered_at, record.answered_at)
    for note in notes.values():
        note.endings = endings[note.subject]
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
    has_arrived = bool(note.arrivals or note.shown or note.is_gathered)
    if note.settled_at is not None and note.state in _TOLD and not has_arrived:
        yield "truth", f"{note.state}, and nothing arrived"
    elif note.settled_at is not None and note.state in _NOT_TOLD and has_arrived:
        yield "truth", f"{note.state}, and it arrived all the same"


def _unwritten(note: Note) -> Iterator[tuple[str, str]]:
    for arrival in note.arrivals:
        if arrival.started_at is None and not arrival.is_uncertain:
            yield "unwritten", f"{arrival.provider} took it, and no attempt was under way in the database"


def _twice(note: Note) -> Iterator[tuple[str, str]]:
    """On each leg of its route: whoever is told by two channels is told once by each."""
    also = note.route.get("also") or ()
    legs: defaultdict[str, list[Arrival]] = defaultdict(list)
    for arrival in note.arrivals:
        before = legs[arrival.channel if arrival.channel in also else "first"]
        if before and arrival.is_keyed and any(each.is_keyed for each in before):
            yield "twice", f"{arrival.provider} takes keys, and took it again on {arrival.node}"
        elif before and not arrival.is_uncertain:
            yield "twice", f"taken again by {arrival.provider}, and nobody had said that it might be"
        before.append(arrival)


def _after_cancel(note: Note) -> Iterator[tuple[str, str]]:
    """Also where the answer is that its job runs already: it is called back until the moment of a call."""
    answered = [each.answered_at for each in note.cancels if each.answered_at and each.answer in _HEARD]
    withdrawn_at = min([*answered, *([note.withdrawn_at] if note.withdrawn_at else [])], default=None)
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
    words = next((part.texts[note.template] for part in parts() if note.template in part.texts), note.name)
    for arrival in note.arrivals:
        is_its = arrival.text == note.name if note.template == TEMPLATE else words in arrival.text
        if arrival.name != note.name or not is_its:
            yield "mixed_up", f"{arrival.provider} took the text of {arrival.text}"
        if arrival.address not in addresses_of(note.person):
            yield "mixed_up", f"{arrival.provider} took it for {arrival.address}"


def _untold(note: Note, ending: Ending) -> Iterator[tuple[str, str]]:
    """Whatever nobody took back was told on each leg of its route, or something outside kept it from being told."""
    final = note.final
    if final is None or final.state not in ("done", "expired") or note.withdrawn_at is not None:
        return
    if note.is_gathered or note.reason == "empty_digest":
        # It is told in another, and whether it is is looked at where it was asked for.
        return
    for channels in _legs(note.route):
        has_arrived = any(each.channel in channels for each in note.arrivals)
        if (
            not has_arrived
            and not ("inbox" in channels and note.shown)
            and not _is_explained(note, channels, ending)
        ):
            yield (
                "untold",
                f"{note.state} ({note.reason}) for {note.person} by {' or '.join(channels)}, and nothing was",
            )


def _legs(route: Mapping[str, Any]) -> list[Sequence[str]]:
    first = PREFERRED if route["first"] == "preferred" else route["first"]
    if len(first) == 1:
        first = _INSTEAD.get(first[0], first)
    return [first, *([each] for each in route.get("also") or ())]


def _is_explained(note: Note, channels: Sequence[str], ending: Ending) -> bool:
    over_at = note.settled_at or (note.final and note.final.answered_at) or ending.until
    reachable = {"inbox", "email", *(("sms", "whatsapp") if len(addresses_of(note.person)) > 1 else ())}
    is_night = (
        note.person == QUIET
        and note.urgency != "critical"
        and any(_is_night(start.invoked_at) for start in note.starts)
    )
    return (
        not reachable & set(channels)
        or any(each.invoked_at <= over_at for each in note.cancels)
        or any(each.channel in channels and not each.is_sent for each in note.calls)
        or is_night
        or (note.reason == "capped" and note.expires_at is not None and over_at < note.expires_at)
        or (note.guard is not None and any(each.invoked_at <= over_at for each in note.endings))
        or (
            note.expires_at is not None
            and over_at >= note.expires_at
            and (
                ending.was_hit(note.due_at, note.expires_at)
                # No hint may have told of it, and the next sweep may have come too late.
                or note.due_at < note.expires_at < note.due_at + _SEEN
            )
        )
    )
