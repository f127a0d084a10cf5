"""Setting an agenda: lock it, read what is owed and what was paid, reconcile, write the difference."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from timebell.clock import Ids
from timebell.config import Settings
from timebell.db.pool import Row
from timebell.errors import InvalidInput
from timebell.kernel.catalogue import Catalogue
from timebell.kernel.enqueueing import encode_payload, insert_columns, move_columns
from timebell.kernel.models import REASON_MAX, AgendaDiff, Step, StepChange, check_name
from timebell.kernel.store import Store
from timebell.kernel.transaction import Transaction, check_transaction
from timebell.rules.agenda import OwedStep, Reconciled, UnfinishedStep, reconcile


class AgendaWriter:
    """Writes agendas in the caller's transaction."""

    def __init__(self, store: Store, catalogue: Catalogue, ids: Ids, settings: Settings) -> None:
        self._store = store
        self._catalogue = catalogue
        self._ids = ids
        self._settings = settings

    async def set(
        self,
        tx: Transaction,
        *,
        subject: str,
        anchor: datetime | None,
        steps: Sequence[Step],
        reason: str,
        actor: str | None,
        correlation_id: str | None,
    ) -> AgendaDiff:
        check_transaction(tx)
        check_name("subject", subject, required=True)
        check_name("reason", reason, longest=REASON_MAX, required=True)
        check_name("actor", actor)
        check_name("correlation_id", correlation_id)
        owed = [await self._owed(tx, step, anchor, order) for order, step in enumerate(self._checked(steps))]
        agenda = await self._store.lock_agenda(tx.session, tenant=tx.tenant, subject=subject, anchor=anchor)
        unfinished, given_up = _unfinished(
            await self._store.read_agenda(tx.session, tenant=tx.tenant, subject=subject), tx
        )
        done = await self._store.read_agenda_done(tx.session, tenant=tx.tenant, subject=subject)
        ends = [(row["step"], row["due_at"].astimezone(UTC), row["state"]) for row in done]
        change = reconcile(owed, unfinished, ends, agenda["now"])
        added = await self._write(
            tx, subject, agenda["revision"], change, given_up, reason, actor, correlation_id
        )
        return _diff(agenda["revision"], change, added, reason)

    def _checked(self, steps: Sequence[Step]) -> Sequence[Step]:
        if len(steps) > self._settings.steps_max:
            raise InvalidInput(f"{len(steps)} steps, the limit is {self._settings.steps_max}", field="steps")
        keys = [step.key for step in steps]
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise InvalidInput(f"the step {twice!r} is stated twice", field="steps")
        return steps

    async def _owed(self, tx: Transaction, step: Step, anchor: datetime | None, order: int) -> OwedStep:
        if step.offset is not None and abs(step.offset) > timedelta(days=self._settings.offset_days_max):
            raise InvalidInput(
                f"step {step.key!r}: must be within {self._settings.offset_days_max} days of the anchor",
                field="offset",
            )
        due_at = step.due_at(anchor)
        content = {
            "kind": step.kind,
            "queue": await self._catalogue.queue_for(tx.session, step.kind, step.queue),
            "guard": step.guard,
            "priority": step.priority,
            "urgency": step.urgency,
            "max_attempts": step.max_attempts,
            "step_order": order if step.ordered else None,
            "payload": orjson.loads(encode_payload(step.payload, self._settings.payload_bytes_max)),
        }
        return OwedStep(
            key=step.key,
            due_at=due_at,
            expires_at=step.expiry(due_at),
            late=step.late,
            grace=step.grace,
            once=step.once,
            content=content,
        )

    async def _write(
        self,
        tx: Transaction,
        subject: str,
        revision: int,
        change: Reconciled,
        given_up: list[UnfinishedStep],
        reason: str,
        actor: str | None,
        correlation_id: str | None,
    ) -> dict[str, Any]:
        """Carry the change out; answers with the ids of the jobs that were added, by step."""
        if change.kept:
            await self._store.keep_steps(
                tx.session, ids=[old.job_id for _, old in change.kept], revision=revision
            )
        altered = [*change.changed, *change.moved]
        if altered:
            rows = [{**_job_fields(step), "id": old.job_id} for step, old in altered]
            tx.note_due(
                await self._store.move_steps(tx.session, revision=revision, columns=move_columns(rows))
            )
        withdrawn = [old.job_id for old in (*change.withdrawn, *given_up)]
        if withdrawn:
            await self._store.withdraw_steps(tx.session, ids=withdrawn, reason=reason, actor=actor)
        if change.too_late:
            await self._store.supersede_steps(tx.session, ids=[old.job_id for old in change.too_late])
        if change.skipped:
            await self._skip(tx, subject, change, correlation_id)
        added = {step.key: self._ids.new() for step in change.added}
        if added:
            rows = [
                {
                    **_job_fields(step),
                    "id": added[step.key],
                    "subject": subject,
                    "key": None,
                    "delay": 0.0,
                    "correlation_id": correlation_id,
                }
                for step in change.added
            ]
            tx.note_due(
                await self._store.insert_jobs(
                    tx.session, tenant=tx.tenant, revision=revision, columns=insert_columns(rows)
                )
            )
        return added

    async def _skip(
        self, tx: Transaction, subject: str, change: Reconciled, correlation_id: str | None
    ) -> None:
        rows = [(_job_fields(step), reason) for step, reason in change.skipped]
        await self._store.skip_steps(
            tx.session,
            tenant=tx.tenant,
            subject=subject,
            correlation_id=correlation_id,
            columns={
                "ids": [self._ids.new() for _ in rows],
                "steps": [row["step"] for row, _ in rows],
                "kinds": [row["kind"] for row, _ in rows],
                "queues": [row["queue"] for row, _ in rows],
                "due_ats": [row["due_at"] for row, _ in rows],
                "reasons": [reason for _, reason in rows],
            },
        )


def _job_fields(step: OwedStep) -> dict[str, Any]:
    content = step.content
    assert isinstance(content, dict)
    return {
        **content,
        "step": step.key,
        "due_at": step.due_at,
        "expires_at": step.expires_at,
        "payload": orjson.dumps(content["payload"]).decode(),
        "correlation_id": None,
    }


def _unfinished(rows: Sequence[Row], tx: Transaction) -> tuple[list[UnfinishedStep], list[UnfinishedStep]]:
    """The unfinished steps, apart from those that were given up while they ran and came back unfinished."""
    live: list[UnfinishedStep] = []
    given_up: list[UnfinishedStep] = []
    for row in rows:
        content = {
            name: row[name]
            for name in ("kind", "queue", "guard", "priority", "urgency", "max_attempts", "step_order")
        }
        step = UnfinishedStep(
            job_id=row["id"],
            key=row["step"],
            # A driver may answer in its connection's zone, and an hour that comes twice there equals none.
            due_at=row["due_at"].astimezone(UTC),
            expires_at=None if row["expires_at"] is None else row["expires_at"].astimezone(UTC),
            # A handler that sets the agenda in its own transaction is itself running.
            is_started=row["is_started"] or row["id"] == tx.running_job,
            content={**content, "payload": orjson.loads(row["payload"])},
        )
        (given_up if row["is_superseded"] and not step.is_started else live).append(step)
    return live, given_up


def _diff(revision: int, change: Reconciled, added: dict[str, Any], reason: str) -> AgendaDiff:
    return AgendaDiff(
        revision=revision,
        kept=tuple(
            StepChange(key=step.key, due_at=step.due_at, job_id=old.job_id)
            for step, old in (*change.kept, *change.changed)
        ),
        moved=tuple(
            StepChange(key=step.key, due_at=step.due_at, job_id=old.job_id, was_due_at=old.due_at)
            for step, old in change.moved
        ),
        added=tuple(
            StepChange(key=step.key, due_at=step.due_at, job_id=added[step.key]) for step in change.added
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
        done=tuple(StepChange(key=step.key, due_at=step.due_at) for step in change.done),
    )
