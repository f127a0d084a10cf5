"""Enrolment and planning: which subject entered which sequence, and the messages that are owed because of it.

Whatever happens to a subject, everything about it is planned anew and compared with what is there, so that what is
pending is always what the plan says. Many subjects are planned together, in as many statements as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import orjson

from timebell.apps.sequences.desks import TRANSITIONS, Desk, counts_of
from timebell.apps.sequences.guards import CONTEXT, IS_WANTED
from timebell.apps.sequences.models import (
    GRACE,
    BookingSettings,
    By,
    Enrolment,
    Happened,
    KeptMessage,
    Slip,
    SlipName,
    Subject,
)
from timebell.apps.sequences.rows import (
    enrolment_of,
    kept_of,
    message_columns,
    people_columns,
    person_of,
    subject_columns,
    subject_of,
)
from timebell.apps.sequences.rules import plan
from timebell.apps.sequences.store import Row, SequenceStore
from timebell.apps.sequences.terms import terms_of
from timebell.errors import InvalidInput, NotFound, RevisionConflict
from timebell.kernel import Agenda, AgendaDiff, Ids, NamedStepOptions, Step, Timebell, Transaction
from timebell.notify import Notify, Recipient, Tell

CHECK_IN: Final = "sequences.check_in"
COMPLETE: Final = "sequences.complete"
# Messages wait in a queue of their own, so that they can be counted, paused and limited by themselves.
MESSAGES: Final = "sequences.messages"
_ASKED_MAX: Final = 500
_FIRST_ENTRY: Final = 1


class Enrolling:
    """Plans subjects, in the transaction that it is given."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._bell = bell
        self._notify = notify
        self._store = SequenceStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def add(
        self,
        tx: Transaction,
        subjects: Sequence[Subject],
        events: Sequence[str],
        *,
        people: Mapping[UUID, Recipient],
        by: By,
        entry: int = _FIRST_ENTRY,
    ) -> list[Happened]:
        """Subjects that are new, with the events that brought them and all whom they concern; answered in the same
        order. Nothing that was just written, or was read before, is read again."""
        added = await self._store.insert_subjects(tx, columns=subject_columns(subjects))
        taken = [each.subject for each in subjects if each.subject not in added]
        if taken:
            raise RevisionConflict(f"{taken[0]} is there by now; try again")
        await self._store.replace_people(tx, columns=people_columns(subjects))
        entered = [row for event in events for row in await self._enrol(tx, subjects, event, entry)]
        desks = await self._desks(tx, subjects, entered)
        now = subjects[0].created_at
        return await self._plan(tx, desks, events[-1], now=now, people=people, by=by, entered=entered)

    async def hold(
        self, tx: Transaction, subjects: Sequence[str], *, event: str | None = None
    ) -> dict[str, Subject]:
        """Those of these subjects that are there, which nobody else changes until the transaction ends.

        What the `event` starts that is about to happen to them is held before them, as where a version is applied to
        them; and so is whom they concern, as where one of those is erased. So nobody waits for each other.
        """
        if event is not None:
            await self._store.read_listening(tx, event=event)
        seen = await self._store.read_subjects(tx, subjects=list(subjects))
        await self.hold_people(tx, {UUID(int=id.int) for row in seen for id in row["recipient_ids"] or ()})
        locked = await self._store.lock_subjects(tx, subjects=sorted(row["subject"] for row in seen))
        return await self.read(tx, sorted(locked))

    async def hold_people(self, tx: Transaction, ids: Iterable[UUID]) -> None:
        """None of these people is erased before the transaction ends."""
        asked = sorted(set(ids))
        for start in range(0, len(asked), _ASKED_MAX):
            await self._notify.recipients.hold(tx, asked[start : start + _ASKED_MAX])

    async def read(self, tx: Transaction, subjects: Sequence[str]) -> dict[str, Subject]:
        rows = await self._store.read_subjects(tx, subjects=list(subjects))
        return {row["subject"]: subject_of(row) for row in rows}

    async def write(self, tx: Transaction, subject: Subject) -> Subject:
        """What is said of a subject from now on, as it is read then. It is held."""
        await self._store.update_subject(
            tx,
            subject=subject.subject,
            status=subject.status,
            subtype=subject.subtype,
            starts_at=subject.starts_at,
            ends_at=subject.ends_at,
            timezone=subject.timezone,
            facts=orjson.dumps(subject.facts).decode(),
        )
        await self._store.replace_people(tx, columns=people_columns([subject]))
        return (await self.read(tx, [subject.subject]))[subject.subject]

    async def happen(
        self,
        tx: Transaction,
        subject: Subject,
        event: str,
        *,
        by: By,
        entry: int = _FIRST_ENTRY,
        cancels: bool = False,
    ) -> Happened:
        """An event about a subject that is held, with all that is said of it now. One that cancels ends whatever the
        subject had entered before, and then starts what listens to it."""
        if cancels:
            await self._store.end_enrolments(tx, subjects=[subject.subject], reason="cancelled")
        entered = await self._enrol(tx, [subject], event, entry)
        (happened,) = await self._replan(tx, [subject], event, by=by, entered=entered)
        return happened

    async def replan(
        self, tx: Transaction, subjects: Sequence[Subject], reason: str, *, by: By
    ) -> list[Happened]:
        """State anew what is owed about subjects that are held."""
        return await self._replan(tx, subjects, reason, by=by)

    async def people(self, tx: Transaction, subjects: Iterable[Subject]) -> dict[UUID, Recipient]:
        ids = sorted({id for subject in subjects for id, _ in subject.people})
        found: dict[UUID, Recipient] = {}
        for start in range(0, len(ids), _ASKED_MAX):
            some = await self._notify.recipients.get_many(tx, ids[start : start + _ASKED_MAX])
            found |= {UUID(int=id.int): one for id, one in some.items()}
        return found

    async def _enrol(
        self, tx: Transaction, subjects: Sequence[Subject], event: str, entry: int
    ) -> Sequence[Row]:
        """Let subjects enter the sequences that an event starts; answers with those that had not before."""
        listening = await self._store.read_listening(tx, event=event)
        entering = [
            (subject.subject, row["id"], entry, row["version"])
            for subject in subjects
            for row in listening
            if row["subtype"] is None or row["subtype"] == subject.subtype
        ]
        if not entering:
            return []
        names = ("subjects", "sequence_ids", "entries", "versions")
        columns = {name: [row[place] for row in entering] for place, name in enumerate(names)}
        return await self._store.insert_enrolments(tx, columns=columns)

    async def _replan(
        self,
        tx: Transaction,
        subjects: Sequence[Subject],
        reason: str,
        *,
        by: By,
        entered: Sequence[Row] = (),
    ) -> list[Happened]:
        now = await self._store.read_clock(tx)
        people = await self.people(tx, subjects)
        names = [subject.subject for subject in subjects]
        desks = await self._desks(tx, subjects, await self._store.read_enrolments(tx, subjects=names))
        kept: dict[str, dict[SlipName, KeptMessage]] = {name: {} for name in names}
        for row in await self._store.read_messages(tx, subjects=names):
            message = kept_of(row)
            kept[row["subject"]][message.name] = message
        for desk in desks:
            desk.kept = kept[desk.subject.subject]
        return await self._plan(tx, desks, reason, now=now, people=people, by=by, entered=entered)

    async def _plan(
        self,
        tx: Transaction,
        desks: Sequence[Desk],
        reason: str,
        *,
        now: datetime,
        people: Mapping[UUID, Recipient],
        by: By,
        entered: Sequence[Row],
    ) -> list[Happened]:
        for desk in desks:
            there = {id: person_of(people[id], role) for id, role in desk.subject.people if id in people}
            for slip in plan(desk.subject, there, desk.enrolments):
                desk.decide(slip, now, self._ids)
            self._check_room(desk)
        agendas = await self._agendas(tx, desks, by)
        diffs = await self._bell.set_agendas(tx, agendas, reason=reason, actor=by.name)
        perhaps_sent = await self._perhaps_sent(tx, diffs)
        for desk, diff in zip(desks, diffs, strict=True):
            desk.settle(diff, perhaps_sent)
        rows = [(desk.subject.subject, *each) for desk in desks for each in desk.changed()]
        if rows:
            await self._store.write_messages(tx, columns=message_columns(rows))
        ended = {id: why for desk in desks for id, why in desk.cancelled.items()}
        if ended:
            await self._store.cancel_messages(tx, ids=list(ended), reasons=list(ended.values()))
        new = {(row["subject"], UUID(int=row["sequence_id"].int), row["entry"]) for row in entered}
        return [
            Happened(subject=desk.subject, enrolled=desk.scheduled_count(new), diff=counts_of(diff))
            for desk, diff in zip(desks, diffs, strict=True)
        ]

    async def _perhaps_sent(self, tx: Transaction, diffs: Sequence[AgendaDiff]) -> set[UUID]:
        """The withdrawn jobs whose message may have been sent. It is asked when they are gone, so that none of them is
        begun after the answer."""
        withdrawn = [
            change.job_id for diff in diffs for change in diff.withdrawn if change.key not in TRANSITIONS
        ]
        job_ids = [id for id in withdrawn if id is not None]
        return await self._store.read_perhaps_sent(tx, job_ids=job_ids) if job_ids else set()

    async def _desks(self, tx: Transaction, subjects: Sequence[Subject], rows: Sequence[Row]) -> list[Desk]:
        """A desk for each subject, with what it has entered."""
        versions = sorted({(UUID(int=row["sequence_id"].int), row["version"]) for row in rows})
        said = await self._store.read_versions(
            tx, sequence_ids=[id for id, _ in versions], versions=[version for _, version in versions]
        )
        terms = {
            (UUID(int=row["sequence_id"].int), row["version"]): terms_of(row["conditions"], row["steps"])
            for row in said
        }
        enrolments: dict[str, list[Enrolment]] = {subject.subject: [] for subject in subjects}
        for row in rows:
            enrolments[row["subject"]].append(enrolment_of(row, terms))
        return [Desk(subject=subject, enrolments=enrolments[subject.subject]) for subject in subjects]

    def _check_room(self, desk: Desk) -> None:
        most = self._bell.settings.steps_max - 2
        if len(desk.owed) > most:
            raise InvalidInput(
                f"{desk.subject.subject} would have {len(desk.owed)} messages to come, the limit is {most}; "
                "take fewer contacts, or fewer steps for all of them",
                field="contacts",
            )

    async def _agendas(self, tx: Transaction, desks: Sequence[Desk], by: By) -> list[Agenda]:
        """What is owed about each subject: its messages, and what a booking does by itself."""
        owed = [(desk, id) for desk in desks for id in desk.owed]
        asked = [(_tell(desk.written[id][1]), _step_terms(id, desk.written[id][1])) for desk, id in owed]
        steps = await self._steps(tx, asked) if asked else []
        told: dict[str, list[Step]] = {desk.subject.subject: [] for desk in desks}
        for (desk, id), step in zip(owed, steps, strict=True):
            if step is None:
                desk.miss_template(id)
            else:
                told[desk.subject.subject].append(step)
        settings = await self._settings(tx, desks)
        return [
            Agenda(
                subject=desk.subject.subject,
                anchor=desk.subject.starts_at,
                steps=[*told[desk.subject.subject], *_by_itself(desk.subject, settings)],
                correlation_id=by.correlation_id,
            )
            for desk in desks
        ]

    async def _steps(
        self, tx: Transaction, asked: Sequence[tuple[Tell, NamedStepOptions]]
    ) -> list[Step | None]:
        """The steps that tell these; None where a template is missing by now, which is no reason to send nothing."""
        try:
            return list(await self._notify.steps(tx, asked))
        except NotFound:
            there = await self._templates_there(tx, {tell.template for tell, _ in asked})
            left = [each for each in asked if each[0].template in there]
            steps = iter(await self._notify.steps(tx, left))
            return [next(steps) if tell.template in there else None for tell, _ in asked]

    async def _templates_there(self, tx: Transaction, keys: set[str]) -> set[str]:
        there: set[str] = set()
        for key in sorted(keys):
            try:
                await self._notify.templates.pin(tx, [(key, None)])
            except NotFound:
                continue
            there.add(key)
        return there

    async def _settings(self, tx: Transaction, desks: Sequence[Desk]) -> BookingSettings:
        if not any(desk.subject.status in ("confirmed", "checked_in") for desk in desks):
            return BookingSettings()
        return await self._store.hold_settings(tx)


def _tell(slip: Slip) -> Tell:
    step = slip.step
    return Tell(
        recipient=slip.recipient_id,
        template=step.template,
        channels="preferred" if step.channel == "preferred" else (step.channel,),
        expires_at=slip.expires_at,
        guard=IS_WANTED,
        context_from=CONTEXT,
    )


def _step_terms(id: UUID, slip: Slip) -> NamedStepOptions:
    """Owed once, however often its time moves; and what nobody knows the end of is not sent again."""
    return {
        "key": str(id),
        "at": slip.due_at,
        "queue": MESSAGES,
        "once": True,
        "cut_off": "leave",
        "late": "grace",
        "grace": GRACE,
    }


def _by_itself(subject: Subject, settings: BookingSettings) -> list[Step]:
    """The next transition of a booking that comes by itself."""
    if not subject.is_booking:
        return []
    if subject.status == "confirmed" and settings.checks_in_at_start:
        return [Step(key="check-in", kind=CHECK_IN, at=subject.starts_at, late="run")]
    if subject.status == "checked_in" and settings.completes_at_end:
        return [Step(key="complete", kind=COMPLETE, at=subject.ends_at, late="run")]
    return []
