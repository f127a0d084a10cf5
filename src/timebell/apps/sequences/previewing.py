"""The preview of a sequence: what it would tell about a subject, real or invented, without writing anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from timebell.apps.sequences.enrolling import Enrolling
from timebell.apps.sequences.guards import context_of
from timebell.apps.sequences.models import (
    GRACE,
    Enrolment,
    MessageSequence,
    SequenceStep,
    Slip,
    Subject,
)
from timebell.apps.sequences.refusals import no_sequence
from timebell.apps.sequences.routing import CHANNELS
from timebell.apps.sequences.rows import person_of, sequence_of
from timebell.apps.sequences.rules import EVENTS, REFUSALS, plan
from timebell.apps.sequences.store import SequenceStore
from timebell.kernel import Timebell, Transaction
from timebell.notify import Channel, Content, Notify, Recipient, Rendered, channels_for

# So many characters of texts are shown at most; the messages after them are without.
TEXTS_CHARS_MAX: Final = 1_000_000
# Why the subject would not enter the sequence, whatever its messages would be.
ENTERS_NOT: Final[Mapping[str, str]] = {
    "inactive": "the sequence is not active",
    "subtype": "the sequence is for another subtype",
    "entered": "the subject has entered it before, and the same event starts nothing again",
}
_NO_CHANNEL: Final = "none of its channels can reach the contact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a preview is asked for. `invented` are those of the subject's people who are not there; without `event_at`
    the event happens now. With `step`, that step alone. A booking has the status that the event gives it, unless it
    `keeps_status`."""

    subject: Subject
    invented: Mapping[UUID, Recipient] = field(default_factory=dict)
    event_at: datetime | None = None
    step: str | None = None
    keeps_status: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedText:
    language: str
    content: Content


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedMessage:
    """A message as it would be planned, and what it would say. `reason` is why it would not be sent, `why` the same in
    words. `is_text_left_out`: it has a text, but there was no room for it."""

    step: SequenceStep
    recipient: Recipient
    role: str
    is_invented: bool
    due_at: datetime | None
    reason: str | None = None
    why: str | None = None
    channel: Channel | None = None
    text: PreviewedText | None = None
    is_text_left_out: bool = False

    @property
    def status(self) -> Literal["scheduled", "skipped"]:
        return "scheduled" if self.reason is None else "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """`enters_not`: why the event would not start the sequence for this subject; the messages are those that it would
    make if it did."""

    sequence: MessageSequence
    subject: Subject
    event_at: datetime
    messages: Sequence[PreviewedMessage]
    enters_not: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sheet:
    """What was read for a preview."""

    sequence: MessageSequence
    subject: Subject
    people: Mapping[UUID, Recipient]
    event_at: datetime
    now: datetime
    enters_not: str | None


class Previewing:
    """Plans by the same rules as when it happens, and renders by the same texts."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._bell = bell
        self._notify = notify
        self._enrolling = Enrolling(bell, notify)
        self._store = SequenceStore(bell.clock)

    async def read(self, tx: Transaction, sequence_id: UUID, question: Question) -> _Sheet:
        row = await self._store.read_sequence(tx, id=sequence_id)
        if row is None:
            raise no_sequence(sequence_id)
        sequence = sequence_of(row)
        clock = await self._store.read_clock(tx)
        event_at = clock if question.event_at is None else question.event_at
        subject, now = question.subject, event_at
        people = {**await self._enrolling.people(tx, [subject]), **question.invented}
        entered_at = await self._entered_at(tx, sequence_id, subject.subject)
        if entered_at is not None and question.event_at is None:
            # What the version of today would mean for it, with what happened as it did.
            event_at, now = entered_at, clock
        else:
            subject = _as_of(question, sequence, event_at)
        return _Sheet(
            sequence=sequence,
            subject=subject,
            people=people,
            event_at=event_at,
            now=now,
            enters_not=_enters_not(sequence, subject, has_entered=entered_at is not None),
        )

    async def show(self, tenant: str, sheet: _Sheet, question: Question) -> Preview:
        """Without a transaction: texts may take a while."""
        policy = await self._notify.policies.get(tenant=tenant)
        steps = [step for step in sheet.sequence.terms.steps if question.step in (None, step.key)]
        enrolment = Enrolment(
            sequence_id=sheet.sequence.id,
            entry=1,
            version=sheet.sequence.version,
            event_at=sheet.event_at,
            terms=replace(sheet.sequence.terms, steps=tuple(steps)),
        )
        roles = dict(sheet.subject.people)
        there = {id: person_of(one, roles[id]) for id, one in sheet.people.items() if id in roles}
        messages: list[PreviewedMessage] = []
        room = TEXTS_CHARS_MAX
        for slip in plan(sheet.subject, there, [enrolment]):
            message = _planned(slip, sheet, question)
            if room > 0:
                message = await self._with_text(tenant, sheet, slip, message, policy.default_language)
                room -= 0 if message.text is None else len(message.text.content.text)
            else:
                message = replace(message, is_text_left_out=message.channel is not None)
            messages.append(message)
        return Preview(
            sequence=sheet.sequence,
            subject=sheet.subject,
            event_at=sheet.event_at,
            messages=messages,
            enters_not=sheet.enters_not,
        )

    async def _entered_at(self, tx: Transaction, sequence_id: UUID, subject: str) -> datetime | None:
        for row in await self._store.read_enrolments(tx, subjects=[subject]):
            if row["sequence_id"] == sequence_id:
                entered_at: datetime = row["event_at"]
                return entered_at
        return None

    async def _with_text(
        self, tenant: str, sheet: _Sheet, slip: Slip, message: PreviewedMessage, default_language: str
    ) -> PreviewedMessage:
        """On the first of its channels for which the template has a text, as where it is sent."""
        context = context_of(sheet.subject, message.recipient)
        unfit: PreviewedMessage | None = None
        for channel in channels_for(CHANNELS[slip.step.channel], message.recipient):
            answer = await self._notify.templates.render(
                tenant,
                slip.step.template,
                None,
                channel=channel,
                recipient=message.recipient,
                context=context,
                default_language=default_language,
                due_at=slip.due_at,
                expires_at=slip.expires_at,
            )
            if isinstance(answer, Rendered):
                text = PreviewedText(language=answer.language, content=answer.content)
                return replace(message, channel=channel, text=text)
            unfit = unfit or _unfit(message, channel, answer.reason, answer.detail)
            if answer.reason != "template_missing":
                return _unfit(message, channel, answer.reason, answer.detail)
        return message if unfit is None else unfit


def _as_of(question: Question, sequence: MessageSequence, event_at: datetime) -> Subject:
    """The subject as the event leaves it: its dates were decided by then, and a booking has the status of the event."""
    subject = replace(question.subject, dates_at=event_at)
    if not subject.is_booking or question.keeps_status:
        return subject
    status = next((each for each, event in EVENTS.items() if event == sequence.trigger_event), subject.status)
    return replace(subject, status=status)


def _enters_not(sequence: MessageSequence, subject: Subject, *, has_entered: bool) -> str | None:
    if has_entered:
        return "entered"
    if not sequence.is_active:
        return "inactive"
    return "subtype" if sequence.subtype not in (None, subject.subtype) else None


def _planned(slip: Slip, sheet: _Sheet, question: Question) -> PreviewedMessage:
    recipient = sheet.people[slip.recipient_id]
    reason = slip.refusal
    if reason is None and slip.due_at is not None and slip.due_at < sheet.now - GRACE:
        reason = "past"
    why = None if reason is None else REFUSALS[reason]
    channel = next(iter(channels_for(CHANNELS[slip.step.channel], recipient)), None)
    if reason is None and channel is None:
        reason, why = "no_channel", _NO_CHANNEL
    return PreviewedMessage(
        step=slip.step,
        recipient=recipient,
        role=dict(sheet.subject.people)[slip.recipient_id],
        is_invented=slip.recipient_id in question.invented,
        due_at=slip.due_at,
        reason=reason,
        why=why,
        channel=channel,
    )


def _unfit(message: PreviewedMessage, channel: Channel, reason: str, detail: str) -> PreviewedMessage:
    """What the plan refused, it refused before there was anything to say."""
    if message.reason is not None:
        return message
    return replace(message, channel=channel, reason=reason, why=detail)
