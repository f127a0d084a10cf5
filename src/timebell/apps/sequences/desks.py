"""Desks: each decides about the messages of one subject while it is planned. Nothing is read or written here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from timebell.apps.sequences.models import Enrolment, Happened, KeptMessage, Slip, SlipName, Subject
from timebell.kernel import AgendaDiff, Ids

# The steps of an agenda that are no messages: what a booking does by itself.
TRANSITIONS: Final = frozenset({"check-in", "complete"})
_COUNTED: Final = ("kept", "moved", "added", "withdrawn")


@dataclass(slots=True, kw_only=True)
class Desk:
    """What is known of one subject while it is planned, and what is to be written about it.

    `kept` are its messages as they were planned before, `written` as they are planned now, of which `owed` are to be
    sent. `cancelled` are those that are not planned any more, each with its reason.
    """

    subject: Subject
    enrolments: Sequence[Enrolment] = ()
    kept: Mapping[SlipName, KeptMessage] = field(default_factory=dict)
    slips: dict[SlipName, Slip] = field(default_factory=dict)
    written: dict[UUID, tuple[KeptMessage, Slip]] = field(default_factory=dict)
    owed: list[UUID] = field(default_factory=list)
    cancelled: dict[UUID, str] = field(default_factory=dict)

    def decide(self, slip: Slip, now: datetime, ids: Ids) -> None:
        """What is planned for one message. One that came to its end stays as it is."""
        self.slips[slip.name] = slip
        kept = self.kept.get(slip.name)
        if kept is not None and kept.is_final:
            return
        planned = KeptMessage(
            id=ids.new() if kept is None else kept.id,
            name=slip.name,
            status="scheduled",
            reason=None,
            due_at=slip.due_at,
            job_id=None if kept is None else kept.job_id,
            is_final=False,
        )
        why = slip.refusal
        is_kept = kept is not None and kept.status == "scheduled" and kept.due_at == slip.due_at
        if why is None and not is_kept and slip.is_past(now):
            why = "past"
        if why is None:
            self.owed.append(planned.id)
        else:
            planned = replace(planned, status="skipped", reason=why)
        self.written[planned.id] = (planned, slip)

    def miss_template(self, id: UUID) -> None:
        """Its template is gone, which is no reason to send nothing else."""
        planned, slip = self.written[id]
        self.written[id] = (replace(planned, status="skipped", reason="template_missing"), slip)

    def settle(self, diff: AgendaDiff, perhaps_sent: Set[UUID]) -> None:
        """Put down what the kernel made of each message.

        One whose job is neither there nor was withdrawn came to its end after its messages were read: it is left to be
        what it became. So is one whose job was withdrawn and is among those that have `perhaps_sent` it, or it would be
        sent by another job when it is planned again.
        """
        jobs = {change.key: change.job_id for change in (*diff.kept, *diff.moved, *diff.added)}
        late = {change.key for change in diff.skipped}
        withdrawn = {change.key for change in diff.withdrawn}
        # Whatever was being sent as this was planned, or has been, is left to become what it becomes.
        left = {change.key for change in (*diff.too_late, *diff.done, *diff.cut_off)}
        left |= {change.key for change in diff.kept if change.was_due_at is not None}
        left |= {change.key for change in diff.withdrawn if change.job_id in perhaps_sent}
        left |= {str(kept.id) for kept in self.kept.values() if kept.is_open} - jobs.keys() - withdrawn
        for id, (planned, slip) in list(self.written.items()):
            key = str(id)
            before = self.kept.get(slip.name)
            if key in left and before is not None:
                self.written[id] = (before, slip)
            elif key in late:
                self.written[id] = (replace(planned, status="skipped", reason="past"), slip)
            elif key in jobs:
                self.written[id] = (replace(planned, job_id=jobs[key]), slip)
        for name, kept in self.kept.items():
            if kept.is_open and name not in self.slips and str(kept.id) not in left:
                self.cancelled[kept.id] = self._why_not_any_more(name)

    def changed(self) -> Iterator[tuple[KeptMessage, Slip]]:
        """The messages of which something else is planned than before."""
        return ((kept, slip) for kept, slip in self.written.values() if self.kept.get(slip.name) != kept)

    def scheduled_count(self, entered: set[tuple[str, UUID, int]]) -> int:
        """How many messages an event scheduled: those of the sequences that the subject entered by it."""
        return sum(
            planned.status == "scheduled" and (self.subject.subject, slip.sequence_id, slip.entry) in entered
            for planned, slip in self.written.values()
        )

    def _why_not_any_more(self, name: SlipName) -> str:
        """Why a message that was scheduled is no longer planned at all."""
        sequence_id, entry, step, _ = name
        for enrolment in self.enrolments:
            if (enrolment.sequence_id, enrolment.entry) == (sequence_id, entry):
                if enrolment.ended_reason is not None:
                    return enrolment.ended_reason
                is_there = step in {each.key for each in enrolment.terms.steps}
                return "contact_removed" if is_there else "step_removed"
        return "cancelled"


def counts_of(diff: AgendaDiff) -> dict[str, int]:
    """How many messages were kept, moved, added and withdrawn."""
    return {name: sum(change.key not in TRANSITIONS for change in getattr(diff, name)) for name in _COUNTED}


def total(happened: Iterable[Happened]) -> dict[str, int]:
    """What was changed about several subjects, together."""
    counts: Counter[str] = Counter(dict.fromkeys(_COUNTED, 0))
    for each in happened:
        counts.update(each.diff)
    return dict(counts)
