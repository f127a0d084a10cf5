"""Why messages are sent then, or are not: from what is stored, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from timebell.apps.sequences.models import OTHER, Message, SequenceStep, Subject
from timebell.apps.sequences.reading import Reading
from timebell.apps.sequences.refusals import no_message
from timebell.apps.sequences.rows import person_of, subject_of
from timebell.apps.sequences.rules import anchor_of, due_at
from timebell.apps.sequences.sentences import (
    NOT_SENT,
    Measured,
    instant,
    measured,
    plan_words,
    say_condition,
    say_timing,
    summary,
)
from timebell.apps.sequences.store import SequenceStore
from timebell.apps.sequences.terms import terms_of
from timebell.errors import NotFound
from timebell.kernel import Page, Timebell, Transaction
from timebell.notify import Explanation, Notify


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing that was considered, in words, and when, where that is known."""

    text: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What decides about a message, as it is stored. `step` is None where the version that applies has it no more;
    `anchor_at` is the instant that it is counted from, and `planned_at` where that leads to by now."""

    message: Message
    subject: Subject
    sequence_name: str | None
    version: int
    event_at: datetime
    measured_at: datetime
    step: SequenceStep | None
    anchor_at: datetime | None
    planned_at: datetime | None
    conditions: Sequence[Measured]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    grounds: Grounds
    summary: str
    story: Sequence[Line]


class Explaining:
    """Answers from what is stored, and decides nothing."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._notify = notify
        self._reading = Reading(bell, notify)
        self._store = SequenceStore(bell.clock)

    async def read(self, tx: Transaction, id: UUID) -> Grounds:
        message = await self._reading.message(tx, id)
        row = await self._store.read_wanted(tx, id=id)
        if row is None:
            raise no_message(id)
        sequence = await self._store.read_sequence(tx, id=message.sequence_id)
        recipient = (await self._notify.recipients.get_many(tx, [message.recipient_id])).get(
            message.recipient_id
        )
        subject, terms = subject_of(row), terms_of(row["conditions"], row["steps"])
        role = dict(subject.people).get(message.recipient_id)
        person = None if recipient is None or role is None else person_of(recipient, role)
        measured_at = max(row["event_at"], subject.dates_at)
        step = next((each for each in terms.steps if each.key == message.step), None)
        anchor = None if step is None else anchor_of(step, subject, row["event_at"])
        conditions = list(measured("sequence", terms.conditions, subject, person, measured_at))
        if step is not None:
            conditions += measured("step", step.conditions, subject, person, measured_at)
        return Grounds(
            message=message,
            subject=subject,
            sequence_name=None if sequence is None else sequence["name"],
            version=row["version"],
            event_at=row["event_at"],
            measured_at=measured_at,
            step=step,
            anchor_at=anchor,
            planned_at=None if step is None or anchor is None else due_at(step, anchor, subject.timezone),
            conditions=conditions,
        )

    async def explain(self, tenant: str, grounds: Grounds) -> Explained:
        """Without a transaction: notify reads for itself what it considered."""
        told = await self._told(tenant, grounds.message)
        said = summary(grounds.message, told, grounds.subject.timezone)
        story = [*_lines(grounds), Line(text=said)]
        if told is not None:
            story += [Line(text=line.text, at=line.at) for line in told.story]
            story += [] if told.summary == said else [Line(text=told.summary)]
        return Explained(grounds=grounds, summary=said, story=story)

    async def not_sent(
        self, tx: Transaction, recipient_id: UUID, *, limit: int, cursor: str | None
    ) -> Page[Message]:
        """The messages that did not go to somebody, in the order of their making."""
        return await self._reading.messages(
            tx, statuses=NOT_SENT, person=recipient_id, limit=limit, cursor=cursor
        )

    async def why(self, tenant: str, message: Message) -> str:
        told = await self._told(tenant, message) if plan_words(message) is None else None
        return summary(message, told)

    async def _told(self, tenant: str, message: Message) -> Explanation | None:
        """What notify has to say of it; nothing where it was never planned, or is no longer kept there."""
        if message.job_id is None:
            return None
        try:
            return await self._notify.explain(message.job_id, tenant=tenant)
        except NotFound:
            return None


def _lines(grounds: Grounds) -> Iterator[Line]:
    message, timezone = grounds.message, grounds.subject.timezone
    name = "Its sequence, which was deleted since,"
    if grounds.sequence_name is not None:
        name = f"The sequence {grounds.sequence_name!r}"
    yield Line(
        text=f"{name} began for {message.subject.removeprefix(OTHER)} at {instant(grounds.event_at, timezone)}; "
        f"version {grounds.version} applies to it.",
        at=grounds.event_at,
    )
    if grounds.step is None:
        yield Line(text=f"That version has no step {message.step!r}.")
    else:
        yield Line(text=say_timing(grounds.step, grounds.anchor_at, timezone))
    moved = grounds.planned_at is not None and grounds.planned_at != message.due_at
    if moved and message.due_at is not None:
        yield Line(
            text=f"That was decided later; this message had been planned for {instant(message.due_at, timezone)}."
        )
    for one in grounds.conditions:
        is_of_days = one.name in ("minDaysOut", "maxDaysOut")
        yield Line(text=say_condition(one), at=grounds.measured_at if is_of_days else None)
