"""Between agendas and their rows: what is compared, what is written, and what is told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from timebell.db.pool import Row
from timebell.kernel.columns import shorten
from timebell.kernel.models import AgendaDiff, StepChange
from timebell.kernel.records import quickly_made
from timebell.kernel.statements import Columns
from timebell.kernel.transaction import Transaction
from timebell.rules.agenda import CUT_OFF, OwedStep, Reconciled, UnfinishedStep, reconcile


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
