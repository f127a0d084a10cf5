"""`Sequences`: sequences as data. Each verb takes part in the transaction that it is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import orjson

from timebell.apps.sequences.desks import total
from timebell.apps.sequences.enrolling import Enrolling
from timebell.apps.sequences.models import (
    STEPS_MAX,
    Application,
    By,
    MessageSequence,
    NewSequence,
    SequenceChange,
    SequenceStep,
    Subject,
    Terms,
)
from timebell.apps.sequences.refusals import UnfitTemplates, no_sequence, too_many_sequences
from timebell.apps.sequences.rows import sequence_of
from timebell.apps.sequences.rules import BOOKING_EVENTS, check_step
from timebell.apps.sequences.store import Row, SequenceStore
from timebell.apps.sequences.terms import terms_columns
from timebell.errors import InvalidInput, NotFound
from timebell.kernel import Ids, Timebell, Transaction
from timebell.notify import Notify, Template

APPLY: Final = "sequences.apply"
SEQUENCES_MAX: Final = 500
# So many subjects are planned in one transaction.
BATCH: Final = 50
# What the subject of a sequence has to say, by the first part of a variable's name.
_OF_CONTACT: Final = frozenset({"name", "email", "phone", "language"})
_OF_BOOKING: Final = frozenset({"eventName", "subtype", "status", "location", "startAt", "endAt", "timezone"})


class Sequences:
    """What an event starts, in versions. Whoever is enrolled keeps the version that they began with until another is
    applied to them."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._bell = bell
        self._notify = notify
        self._enrolling = Enrolling(bell, notify)
        self._store = SequenceStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def save(self, tx: Transaction, new: NewSequence, *, by: By) -> MessageSequence:
        """A new sequence, its first version."""
        await self._check(tx, new.trigger_event, new.terms)
        if await self._store.count_sequences(tx) >= SEQUENCES_MAX:
            raise too_many_sequences(SEQUENCES_MAX)
        id = self._ids.new()
        await self._store.insert_sequence(
            tx,
            id=id,
            name=new.name,
            trigger_event=new.trigger_event,
            subtype=new.subtype,
            is_active=new.is_active,
        )
        await self._store.insert_version(
            tx, sequence_id=id, version=1, actor=by.name, **terms_columns(new.terms)
        )
        await self._record(tx, "sequence.saved", id, by, {"version": 1, "name": new.name})
        return await self.get(tx, id)

    async def get(self, tx: Transaction, id: UUID) -> MessageSequence:
        row = await self._store.read_sequence(tx, id=id)
        if row is None:
            raise no_sequence(id)
        return sequence_of(row)

    async def hold(self, tx: Transaction, id: UUID) -> MessageSequence:
        """The sequence as it is, which nobody else changes until the transaction ends."""
        if not await self._store.lock_sequence(tx, id=id):
            raise no_sequence(id)
        return await self.get(tx, id)

    async def change(
        self, tx: Transaction, sequence: MessageSequence, change: SequenceChange, *, by: By
    ) -> MessageSequence:
        """What is named becomes different. Other steps or conditions are a new version, for those who come from now
        on; the same again is the same version."""
        terms = Terms(
            steps=sequence.terms.steps if change.steps is None else change.steps,
            conditions=sequence.terms.conditions if change.conditions is None else change.conditions,
        )
        event = change.trigger_event or sequence.trigger_event
        await self._check(tx, event, terms)
        version = sequence.version
        if terms != sequence.terms:
            version += 1
            await self._store.insert_version(
                tx, sequence_id=sequence.id, version=version, actor=by.name, **terms_columns(terms)
            )
        await self._store.update_sequence(
            tx,
            id=sequence.id,
            name=change.name or sequence.name,
            trigger_event=event,
            subtype=change.subtype if "subtype" in change.named else sequence.subtype,
            is_active=sequence.is_active if change.is_active is None else change.is_active,
            version=version,
        )
        await self._record(tx, "sequence.changed", sequence.id, by, {"version": version})
        return await self.get(tx, sequence.id)

    async def delete(self, tx: Transaction, sequence: MessageSequence, *, by: By) -> Application:
        """Nobody enters it any more, and whoever is in it gets nothing further from it."""
        await self._store.delete_sequence(tx, id=sequence.id)
        await self._record(tx, "sequence.deleted", sequence.id, by, {"version": sequence.version})
        return await self._begin(tx, sequence.id, None, by=by)

    async def apply(self, tx: Transaction, sequence: MessageSequence, *, by: By) -> Application:
        """Let everybody who is enrolled go on with the current version: the first of them at once, the others by a job,
        some at a time."""
        application = await self._begin(tx, sequence.id, sequence.version, by=by)
        await self._record(
            tx,
            "sequence.applied",
            sequence.id,
            by,
            {"version": sequence.version, "enrolled_count": application.enrolled_count},
        )
        return application

    async def go_on(self, tx: Transaction, application_id: UUID, *, after: str, by: By) -> str | None:
        """Apply it to some more; answers with the last of those, or None once all have it."""
        row = await self._store.read_application(tx, id=application_id)
        if row is None or row["finished_at"] is not None:
            return None
        application = application_of(row)
        subjects = await self._store.list_enrolled(
            tx, sequence_id=application.sequence_id, version=application.version, after=after, limit=BATCH
        )
        counts = await self._apply_to(tx, application, subjects, by=by)
        is_over = len(subjects) < BATCH
        summed = Counter(application.counts)
        summed.update(counts)
        await self._store.note_application(
            tx,
            id=application_id,
            done_count=len(subjects),
            counts=orjson.dumps(summed).decode(),
            is_over=is_over,
        )
        return None if is_over else subjects[-1]

    async def application(self, tx: Transaction, sequence_id: UUID, id: UUID) -> Application:
        row = await self._store.read_application(tx, id=id)
        if row is None or row["sequence_id"] != sequence_id:
            raise NotFound(f"nothing of the id {id} was applied to this sequence")
        return application_of(row)

    async def _begin(self, tx: Transaction, sequence_id: UUID, version: int | None, *, by: By) -> Application:
        id = self._ids.new()
        enrolled = await self._store.count_enrolled(tx, sequence_id=sequence_id, version=version)
        await self._store.insert_application(
            tx, id=id, sequence_id=sequence_id, version=version, enrolled_count=enrolled, actor=by.name
        )
        last = await self.go_on(tx, id, after="", by=by)
        if last is not None:
            payload = {"application_id": str(id), "after": last}
            await self._bell.enqueue(
                tx, APPLY, payload, subject=f"sequence-application:{id}", correlation_id=by.correlation_id
            )
        return await self.application(tx, sequence_id, id)

    async def _apply_to(
        self, tx: Transaction, application: Application, subjects: Sequence[str], *, by: By
    ) -> dict[str, int]:
        """Together, or each by itself where one of them cannot have the version: that one keeps what it has."""
        try:
            async with tx.all_or_nothing():
                return await self._apply_to_all(tx, application, subjects, by=by)
        except InvalidInput:
            if len(subjects) == 1:
                return {"refused": 1}
        counts: Counter[str] = Counter()
        for subject in subjects:
            counts.update(await self._apply_to(tx, application, [subject], by=by))
        return counts

    async def _apply_to_all(
        self, tx: Transaction, application: Application, subjects: Sequence[str], *, by: By
    ) -> dict[str, int]:
        held: dict[str, Subject] = await self._enrolling.hold(tx, subjects)
        names = sorted(held)
        if application.version is None:
            await self._store.end_enrolments(
                tx, subjects=names, reason="sequence_deleted", sequence_id=application.sequence_id
            )
        else:
            await self._store.move_enrolments(
                tx, subjects=names, sequence_id=application.sequence_id, version=application.version
            )
        reason = "sequence deleted" if application.version is None else "sequence changed"
        return total(await self._enrolling.replan(tx, list(held.values()), reason, by=by))

    async def _check(self, tx: Transaction, event: str, terms: Terms) -> None:
        """Steps that can be kept, with templates that can be told about what the event is about."""
        if not 1 <= len(terms.steps) <= STEPS_MAX:
            raise InvalidInput(f"must be 1 to {STEPS_MAX}, are {len(terms.steps)}", field="steps")
        keys = [step.key for step in terms.steps]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise InvalidInput(f"the key {twice!r} is there twice; give each step its own", field="steps")
        for step in terms.steps:
            check_step(step)
        read: dict[str, Template | None] = {}
        for key in sorted({step.template for step in terms.steps}):
            try:
                read[key] = await self._notify.templates.read(key, tenant=tx.tenant)
            except NotFound:
                read[key] = None
        unfit = [
            (place, message)
            for place, step in enumerate(terms.steps)
            for message in _unfit(step, read[step.template], is_booking=event in BOOKING_EVENTS)
        ]
        if unfit:
            raise UnfitTemplates(unfit)

    async def _record(self, tx: Transaction, name: str, id: UUID, by: By, data: Mapping[str, Any]) -> None:
        await self._bell.record(
            tx, name, data, subject=f"sequence-terms:{id}", actor=by.name, correlation_id=by.correlation_id
        )


def _unfit(step: SequenceStep, template: Template | None, *, is_booking: bool) -> Iterator[str]:
    """What is wrong with the template of a step."""
    if template is None:
        yield f"step {step.key!r}: there is no template {step.template!r}; save it first"
        return
    channel = "email" if step.channel == "preferred" else step.channel
    if channel not in {text.channel for text in template.texts}:
        yield f"step {step.key!r}: {step.template!r} has no text for {channel}; add one, or choose another channel"
    for variable in template.variables:
        if variable.policy != "default" and not _is_known(variable.name, is_booking=is_booking):
            about = "a booking and its contact" if is_booking else "the facts and the contact"
            yield (
                f"step {step.key!r}: {step.template!r} needs {variable.name}, which {about} do not have; "
                "give it a default, or leave it out"
            )


def _is_known(path: str, *, is_booking: bool) -> bool:
    root, _, rest = path.partition(".")
    if root == "contact":
        return not rest or rest in _OF_CONTACT
    if is_booking:
        return root == "booking" and (not rest or rest in _OF_BOOKING)
    return root == "facts"


def application_of(row: Row) -> Application:
    return Application(
        id=UUID(int=row["id"].int),
        sequence_id=UUID(int=row["sequence_id"].int),
        version=row["version"],
        enrolled_count=row["enrolled_count"],
        done_count=row["done_count"],
        counts=orjson.loads(row["counts"]),
        created_at=row["created_at"],
        finished_at=row["finished_at"],
    )
