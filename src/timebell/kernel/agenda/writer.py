"""Setting an agenda: lock it, read what is owed and what was paid, reconcile, write the difference."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from timebell.clock import Ids
from timebell.config import Settings
from timebell.db.pool import Row, Session
from timebell.errors import InvalidInput
from timebell.kernel.jobs.catalogue import Catalogue
from timebell.kernel.jobs.columns import shorten
from timebell.kernel.jobs.enqueueing import encode_payload, insert_columns, move_columns
from timebell.kernel.models import REASON_MAX, Agenda, AgendaDiff, Step, StepChange, check_name
from timebell.kernel.records import quickly_made
from timebell.kernel.statements import Columns
from timebell.kernel.store import Store
from timebell.kernel.transaction import Transaction, check_transaction
from timebell.rules.agenda import CUT_OFF, OwedStep, Reconciled, UnfinishedStep, begin, reconcile


class StepForm(NamedTuple):
    """What is the same about a step whenever it is due and whatever it is about. Few forms stand for many jobs."""

    step: str
    kind: str
    queue: str
    guard: str | None
    priority: int
    urgency: str
    max_attempts: int | None
    step_order: int | None


@dataclass(frozen=True, slots=True, eq=False)
class JsonText:
    """A payload as it is written. Two that mean the same are equal, however PostgreSQL writes them."""

    text: str

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JsonText):
            return NotImplemented
        return self.text == other.text or bool(orjson.loads(self.text) == orjson.loads(other.text))

    __hash__ = None  # type: ignore[assignment]


class StepContent(NamedTuple):
    """Everything about a step but its time."""

    form: StepForm
    payload: JsonText


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class StatedAgenda:
    """What should be owed about a subject, checked and not yet written."""

    tenant: str
    subject: str
    anchor: datetime | None
    owed: Sequence[OwedStep]
    correlation_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The answer to beginning many agendas, in their order; None where a subject had one already.

    `due` names the slots in which something is due soon, as `Transaction.note_due` takes them. `job_count` jobs were
    enqueued, with payloads of so many bytes.
    """

    diffs: Sequence[AgendaDiff | None]
    due: Sequence[Row]
    job_count: int = 0
    payload_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """An agenda that is locked and compared with what there is, and the ids that its new jobs will have, by step."""

    agenda: StatedAgenda
    revision: int
    change: Reconciled
    given_up: Sequence[UnfinishedStep]
    added: Mapping[str, UUID]


def compared(
    agenda: StatedAgenda, tx: Transaction, locked: Row, unfinished: Sequence[Row], done: Sequence[Row]
) -> tuple[int, Reconciled, Sequence[UnfinishedStep]]:
    """The revision, what changes, and the jobs that were given up while they ran and came back unfinished."""
    live, given_up = _unfinished(unfinished, tx)
    ends = [(row["step"], row["due_at"].astimezone(UTC), row["state"]) for row in done]
    # How these ended is not written down yet; whoever withdraws them does it. What was owed until now was cancelled.
    revision = locked["revision"]
    states = {
        row["id"]: CUT_OFF if row["revision"] < revision - 1 else "cancelled"
        for row in unfinished
        if row["has_run"]
    }
    ends += [(step.key, step.due_at, states[step.job_id]) for step in given_up if step.job_id in states]
    return revision, reconcile(agenda.owed, live, ends, locked["now"]), given_up


# The parameters of `skip_steps.sql` for each field of a row.
SKIPPED = {
    "ids": "id",
    "tenants": "tenant",
    "subjects": "subject",
    "steps": "step",
    "kinds": "kind",
    "queues": "queue",
    "due_ats": "due_at",
    "reasons": "reason",
    "correlation_ids": "correlation_id",
}
# The parameters of `forget_cut_off.sql` for each field of a row.
CUT_OFF_ENDS = {"subjects": "subject", "steps": "step", "due_ats": "due_at"}
# The parameters of `begin_steps.sql` for the fields of a form, but for the name of the step.
_FORM = ("kinds", "queues", "guards", "priorities", "urgencies", "max_attempts", "step_orders")
UNTOLD = AgendaDiff(revision=1)


def about(agenda: StatedAgenda) -> dict[str, Any]:
    return {"tenant": agenda.tenant, "subject": agenda.subject, "correlation_id": agenda.correlation_id}


def begun_columns(begun: Sequence[tuple[StatedAgenda, OwedStep, UUID]]) -> Columns:
    forms: dict[tuple[Any, ...], int] = {}
    contents = [content_of(step) for _, step, _ in begun]
    columns: Columns = {
        "ids": [id for _, _, id in begun],
        "tenants": [agenda.tenant for agenda, _, _ in begun],
        "subjects": [agenda.subject for agenda, _, _ in begun],
        "correlation_ids": [agenda.correlation_id for agenda, _, _ in begun],
        "due_ats": [step.due_at for _, step, _ in begun],
        "expires_ats": [step.expires_at for _, step, _ in begun],
        "payloads": [content.payload.text for content in contents],
        "steps": [content.form.step for content in contents],
        "forms": [forms.setdefault(content.form[1:], len(forms) + 1) for content in contents],
    }
    shorten(columns, alike=["tenants"], absent=["correlation_ids", "expires_ats"])
    for place, parameter in enumerate(_FORM):
        columns[parameter] = [form[place] for form in forms]
    return columns


def begun_diff(
    begun: Sequence[tuple[StatedAgenda, OwedStep, UUID]], late: Sequence[tuple[OwedStep, str]]
) -> AgendaDiff:
    return AgendaDiff(
        revision=1,
        added=tuple(StepChange(key=step.key, due_at=step.due_at, job_id=id) for _, step, id in begun),
        skipped=tuple(StepChange(key=step.key, due_at=step.due_at, reason=why) for step, why in late),
    )


def by_subject(rows: Iterable[Row]) -> defaultdict[str, list[Row]]:
    result: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        result[row["subject"]].append(row)
    return result


def columns_of(rows: Sequence[dict[str, Any]], fields: dict[str, str]) -> Columns:
    return {parameter: [row[field] for row in rows] for parameter, field in fields.items()}


def content_of(step: OwedStep) -> StepContent:
    assert isinstance(step.content, StepContent)
    return step.content


def job_fields(step: OwedStep) -> dict[str, Any]:
    content = content_of(step)
    return {
        **content.form._asdict(),
        "due_at": step.due_at,
        "expires_at": step.expires_at,
        "payload": content.payload.text,
        "correlation_id": None,
    }


def _unfinished(rows: Sequence[Row], tx: Transaction) -> tuple[list[UnfinishedStep], list[UnfinishedStep]]:
    """The unfinished steps, apart from those that were given up while they ran and came back unfinished."""
    live: list[UnfinishedStep] = []
    given_up: list[UnfinishedStep] = []
    for row in rows:
        step = UnfinishedStep(
            job_id=row["id"],
            key=row["step"],
            # A driver may answer in its connection's zone, and an hour that comes twice there equals none.
            due_at=row["due_at"].astimezone(UTC),
            expires_at=None if row["expires_at"] is None else row["expires_at"].astimezone(UTC),
            # A handler that sets the agenda in its own transaction is itself running.
            is_started=row["is_started"] or row["id"] == tx.running_job,
            content=StepContent(
                StepForm(*[row[name] for name in StepForm._fields]), JsonText(row["payload"])
            ),
        )
        (given_up if row["is_superseded"] and not step.is_started else live).append(step)
    return live, given_up


def diff_of(revision: int, change: Reconciled, added: Mapping[str, UUID], reason: str) -> AgendaDiff:
    return AgendaDiff(
        revision=revision,
        kept=tuple(
            StepChange(
                key=step.key,
                due_at=step.due_at,
                job_id=old.job_id,
                was_due_at=None if old.due_at == step.due_at else old.due_at,
            )
            for step, old in (*change.kept, *change.changed)
        ),
        moved=tuple(
            StepChange(
                key=step.key,
                due_at=step.due_at,
                job_id=old.job_id,
                was_due_at=old.due_at,
                reason=_again(step, change),
            )
            for step, old in change.moved
        ),
        added=tuple(
            StepChange(key=step.key, due_at=step.due_at, job_id=added[step.key], reason=_again(step, change))
            for step in change.added
        ),
        withdrawn=tuple(
            StepChange(key=old.key, due_at=old.due_at, job_id=old.job_id, reason=reason)
            for old in change.withdrawn
        ),
        skipped=tuple(
            StepChange(key=step.key, due_at=step.due_at, reason=why) for step, why in change.skipped
        ),
        too_late=tuple(
            StepChange(key=old.key, due_at=old.due_at, job_id=old.job_id) for old in change.too_late
        ),
        done=tuple(StepChange(key=step.key, due_at=step.due_at, reason=state) for step, state in change.done),
        cut_off=tuple(StepChange(key=step.key, due_at=step.due_at) for step in change.cut_off),
    )


def _again(step: OwedStep, change: Reconciled) -> str | None:
    return CUT_OFF if step.key in change.again else None


# How many agendas are checked in one go.
_PACE = 100


class AgendaWriter:
    """Writes agendas in the caller's transaction."""

    def __init__(self, store: Store, catalogue: Catalogue, ids: Ids, settings: Settings) -> None:
        self._store = store
        self._catalogue = catalogue
        self._ids = ids
        self._settings = settings

    async def set(self, tx: Transaction, agenda: Agenda, *, reason: str, actor: str | None) -> AgendaDiff:
        _check(tx, reason, actor)
        (stated,) = await self._stated(tx, [agenda])
        subject, anchor = agenda.subject, agenda.anchor
        locked = await self._store.lock_agenda(tx.session, tenant=tx.tenant, subject=subject, anchor=anchor)
        unfinished = await self._store.read_agenda(tx.session, tenant=tx.tenant, subject=subject)
        done = await self._store.read_agenda_done(tx.session, tenant=tx.tenant, subject=subject)
        settling = self._settling(tx, stated, locked, unfinished, done)
        await self._write(tx, [settling], reason, actor)
        return diff_of(settling.revision, settling.change, settling.added, reason)

    async def set_many(
        self, tx: Transaction, agendas: Sequence[StatedAgenda], *, reason: str, actor: str | None
    ) -> dict[str, AgendaDiff]:
        """As `set` for several subjects of one tenant, in a few statements for all; answers by subject."""
        check_transaction(tx)
        return await self._settle(tx, agendas, await self._lock(tx, agendas), reason, actor)

    async def set_all(
        self, tx: Transaction, agendas: Sequence[Agenda], *, reason: str, actor: str | None
    ) -> list[AgendaDiff]:
        """As `set_many`, and where a subject had no agenda there is nothing to read or to compare."""
        _check(tx, reason, actor)
        stated = await self._stated(tx, agendas)
        locked = await self._lock(tx, stated)
        new = [agenda for agenda in stated if locked[agenda.subject]["revision"] == 1]
        known = [agenda for agenda in stated if locked[agenda.subject]["revision"] > 1]
        diffs = await self._settle(tx, known, locked, reason, actor)
        if new:
            begun = await self._begin(tx.session, new, locked[new[0].subject]["now"])
            tx.note_due(begun.due)
            tx.count("enqueued", begun.job_count)
            tx.count("payload_bytes", begun.payload_bytes)
            diffs |= {agenda.subject: diff for agenda, diff in zip(new, begun.diffs, strict=True) if diff}
        return [diffs[agenda.subject] for agenda in agendas]

    async def _lock(self, tx: Transaction, agendas: Sequence[StatedAgenda]) -> dict[str, Row]:
        if not agendas:
            return {}
        rows = await self._store.lock_agendas(
            tx.session,
            tenant=tx.tenant,
            subjects=[agenda.subject for agenda in agendas],
            anchors=[agenda.anchor for agenda in agendas],
        )
        return {row["subject"]: row for row in rows}

    async def _settle(
        self,
        tx: Transaction,
        agendas: Sequence[StatedAgenda],
        locked: Mapping[str, Row],
        reason: str,
        actor: str | None,
    ) -> dict[str, AgendaDiff]:
        if not agendas:
            return {}
        subjects = [agenda.subject for agenda in agendas]
        unfinished = by_subject(
            await self._store.read_agendas(tx.session, tenant=tx.tenant, subjects=subjects)
        )
        done = by_subject(
            await self._store.read_agendas_done(tx.session, tenant=tx.tenant, subjects=subjects)
        )
        settling = [
            self._settling(
                tx, agenda, locked[agenda.subject], unfinished[agenda.subject], done[agenda.subject]
            )
            for agenda in agendas
        ]
        await self._write(tx, settling, reason, actor)
        return {one.agenda.subject: diff_of(one.revision, one.change, one.added, reason) for one in settling}

    async def _stated(self, tx: Transaction, agendas: Sequence[Agenda]) -> list[StatedAgenda]:
        stated: list[StatedAgenda] = []
        for agenda in agendas:
            stated.append(
                await self.stated(
                    tx.session,
                    tenant=tx.tenant,
                    subject=agenda.subject,
                    anchor=agenda.anchor,
                    steps=agenda.steps,
                    correlation_id=agenda.correlation_id,
                )
            )
            if len(stated) % _PACE == 0:
                # What else this process does is not held up by the many.
                await asyncio.sleep(0)
        return stated

    async def stated(
        self,
        session: Session,
        *,
        tenant: str,
        subject: str,
        anchor: datetime | None,
        steps: Sequence[Step],
        correlation_id: str | None = None,
    ) -> StatedAgenda:
        """Check what should be owed about one of many subjects, before anything is written about any."""
        forms = await self.forms(session, steps)
        return StatedAgenda(
            tenant=tenant,
            subject=subject,
            anchor=anchor,
            owed=[self._owed(step, form, anchor) for step, form in zip(steps, forms, strict=True)],
            correlation_id=correlation_id,
        )

    async def begin_many(
        self, session: Session, agendas: Sequence[StatedAgenda], *, is_told: bool = True
    ) -> Begun:
        """As `set` for each of them, in a few statements for all, since nothing has to be compared.

        A subject that has an agenda already is left as it is; `set` must be asked about it. Whoever does not want to
        be told gets diffs without steps.
        """
        if not agendas:
            return Begun(diffs=(), due=())
        answer = await self._store.begin_agendas(
            session,
            columns={
                "tenants": [agenda.tenant for agenda in agendas],
                "subjects": [agenda.subject for agenda in agendas],
                "anchors": [agenda.anchor for agenda in agendas],
            },
        )
        known = set(zip(answer["tenants"], answer["subjects"], strict=True))
        return await self._begin(session, agendas, answer["now"], known=known, is_told=is_told)

    async def _begin(
        self,
        session: Session,
        agendas: Sequence[StatedAgenda],
        now: datetime,
        *,
        known: Collection[tuple[str, str]] = (),
        is_told: bool = True,
    ) -> Begun:
        """Write the first steps of agendas that are there and empty; those that are known are left out."""
        diffs: list[AgendaDiff | None] = []
        begun: list[tuple[StatedAgenda, OwedStep, UUID]] = []
        skipped: list[dict[str, Any]] = []
        ids = iter(self._ids.many(sum(len(agenda.owed) for agenda in agendas)))
        for agenda in agendas:
            if known and (agenda.tenant, agenda.subject) in known:
                diffs.append(None)
                continue
            added, late = begin(agenda.owed, now)
            new = [(agenda, step, next(ids)) for step in added]
            begun += new
            skipped += [
                {**job_fields(step), **about(agenda), "id": next(ids), "reason": reason}
                for step, reason in late
            ]
            diffs.append(begun_diff(new, late) if is_told else UNTOLD)
        if skipped:
            await self._store.skip_steps(session, columns=columns_of(skipped, SKIPPED))
        due = await self._store.begin_steps(session, columns=begun_columns(begun)) if begun else ()
        bytes_written = sum(len(content_of(step).payload.text) for _, step, _ in begun)
        return Begun(diffs=diffs, due=due, job_count=len(begun), payload_bytes=bytes_written)

    def _checked(self, steps: Sequence[Step]) -> Sequence[Step]:
        if len(steps) > self._settings.steps_max:
            raise InvalidInput(f"{len(steps)} steps, the limit is {self._settings.steps_max}", field="steps")
        keys = [step.key for step in steps]
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise InvalidInput(f"the step {twice!r} is stated twice", field="steps")
        return steps

    async def forms(self, session: Session, steps: Sequence[Step]) -> list[StepForm]:
        """Check what can be checked about steps before it is known when they are due."""
        return [await self._form(session, step, order) for order, step in enumerate(self._checked(steps))]

    async def _form(self, session: Session, step: Step, order: int) -> StepForm:
        if step.offset is not None and abs(step.offset) > timedelta(
            days=self._settings.tuning.offset_days_max
        ):
            raise InvalidInput(
                f"step {step.key!r}: must be within {self._settings.tuning.offset_days_max} days of the anchor",
                field="offset",
            )
        return StepForm(
            step=step.key,
            kind=step.kind,
            queue=await self._catalogue.queue_for(session, step.kind, step.queue),
            guard=step.guard,
            priority=step.priority,
            urgency=step.urgency,
            max_attempts=step.max_attempts,
            step_order=order if step.ordered else None,
        )

    def content(self, form: StepForm, payload: Mapping[str, Any]) -> StepContent:
        return StepContent(form, JsonText(encode_payload(payload, self._settings.payload_bytes_max)))

    def _owed(self, step: Step, form: StepForm, anchor: datetime | None) -> OwedStep:
        due_at = step.due_at(anchor)
        return OwedStep(
            key=step.key,
            due_at=due_at,
            expires_at=step.expiry(due_at),
            late=step.late,
            grace=step.grace,
            once=step.once,
            cut_off=step.cut_off,
            content=self.content(form, step.payload),
        )

    def _settling(
        self,
        tx: Transaction,
        agenda: StatedAgenda,
        locked: Row,
        unfinished: Sequence[Row],
        done: Sequence[Row],
    ) -> Settling:
        revision, change, given_up = compared(agenda, tx, locked, unfinished, done)
        return Settling(
            agenda=agenda,
            revision=revision,
            change=change,
            given_up=given_up,
            added={step.key: self._ids.new() for step in change.added},
        )

    async def _write(
        self, tx: Transaction, settling: Sequence[Settling], reason: str, actor: str | None
    ) -> None:
        """Carry the changes out. Jobs of one revision share a statement, and most agendas have the same."""
        withdrawn = [old.job_id for one in settling for old in (*one.change.withdrawn, *one.given_up)]
        if withdrawn:
            await self._store.withdraw_steps(tx.session, ids=withdrawn, reason=reason, actor=actor)
            tx.count("cancelled", len(withdrawn))
        again = [
            {"subject": one.agenda.subject, "step": step.key, "due_at": step.due_at}
            for one in settling
            for step in (*one.change.added, *(moved for moved, _ in one.change.moved))
            if step.key in one.change.again
        ]
        if again:
            await self._store.forget_cut_off(
                tx.session, tenant=tx.tenant, columns=columns_of(again, CUT_OFF_ENDS)
            )
        for revision in sorted({one.revision for one in settling}):
            await self._rewrite(tx, [one for one in settling if one.revision == revision], revision)
        too_late = [old.job_id for one in settling for old in one.change.too_late]
        if too_late:
            await self._store.supersede_steps(tx.session, ids=too_late)
        skipped = [
            {**job_fields(step), **about(one.agenda), "id": self._ids.new(), "reason": why}
            for one in settling
            for step, why in one.change.skipped
        ]
        if skipped:
            await self._store.skip_steps(tx.session, columns=columns_of(skipped, SKIPPED))

    async def _rewrite(self, tx: Transaction, settling: Sequence[Settling], revision: int) -> None:
        kept = [old.job_id for one in settling for _, old in one.change.kept]
        if kept:
            await self._store.keep_steps(tx.session, ids=kept, revision=revision)
        altered = [pair for one in settling for pair in (*one.change.changed, *one.change.moved)]
        if altered:
            rows = [{**job_fields(step), "id": old.job_id} for step, old in altered]
            tx.note_due(
                await self._store.move_steps(tx.session, revision=revision, columns=move_columns(rows))
            )
        rows = [
            {**job_fields(step), **about(one.agenda), "id": one.added[step.key], "key": None, "delay": 0.0}
            for one in settling
            for step in one.change.added
        ]
        if rows:
            tx.note_due(
                await self._store.insert_jobs(
                    tx.session, tenant=tx.tenant, revision=revision, columns=insert_columns(rows)
                )
            )
            tx.count("enqueued", len(rows))
            tx.count("payload_bytes", sum(len(row["payload"]) for row in rows))


def _check(tx: Transaction, reason: str, actor: str | None) -> None:
    check_transaction(tx)
    check_name("reason", reason, longest=REASON_MAX, required=True)
    check_name("actor", actor)
