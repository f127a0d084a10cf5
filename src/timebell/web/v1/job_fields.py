"""Request and response bodies about jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args
from uuid import UUID

from pydantic import AfterValidator, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from timebell.kernel import Enqueue
from timebell.kernel.insights import ListedState
from timebell.kernel.models import REASON_MAX, CancelAnswer, JobState, OnConflict, Urgency
from timebell.web.operation.fields import Duration, Input, Instant, Name, Output, PageQuery, either
from timebell.web.operation.operations import refusal_of

BULK_MAX = 1_000
# Timebell's own. What their payloads say was checked by whoever wrote them, and nobody checks it again.
_RESERVED = ("notify.", "timebell.")


def is_reserved(kind: str) -> bool:
    return kind.startswith(_RESERVED)


def _not_reserved(kind: str) -> str:
    if is_reserved(kind):
        raise ValueError(
            "is one of Timebell's own kinds; give a kind of your app, or tell people with POST /v1/notifications"
        )
    return kind


Kind = Annotated[str, Field(min_length=3, max_length=200, examples=["office.ring"])]
OwnKind = Annotated[Kind, AfterValidator(_not_reserved)]
Reason = Annotated[str, Field(min_length=1, max_length=REASON_MAX, description="Why, for the record.")]
Attempts = Annotated[int, Field(ge=1, le=100)]
Priority = Annotated[int, Field(ge=-100, le=100)]


class JobInput(Input):
    """A job to be enqueued, due at once unless `due_at` or `delay` says otherwise.

    A `key` is the caller's own name for it among the unfinished jobs of its kind: the same job sent twice is one job.
    """

    kind: OwnKind
    payload: dict[str, Any] = Field(default_factory=dict)
    due_at: Instant | None = None
    delay: Duration | None = None
    subject: Name | None = None
    key: Name | None = None
    key_lifetime: Duration | None = None
    queue: Name | None = None
    expires_at: Instant | None = None
    priority: Priority = 0
    urgency: Urgency = "normal"
    max_attempts: Attempts | None = None
    guard: Name | None = None
    correlation_id: Name | None = None
    on_conflict: OnConflict = "same"

    def asked(self, correlation_id: str) -> Enqueue:
        """What is asked of the kernel. A job that names no cause has this request for one."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return Enqueue(**{**given, "correlation_id": self.correlation_id or correlation_id})


def or_refusal(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    try:
        return read(value)
    except ValidationError as error:
        return refusal_of(error)


class JobsInput(Input):
    """Jobs to be enqueued together. One that is refused leaves the others as they are."""

    jobs: Annotated[
        list[Annotated[JobInput, WrapValidator(or_refusal)]], Field(min_length=1, max_length=BULK_MAX)
    ]


class EnqueuedOutput(Output):
    """The job that now stands for what was asked; `created` is false where its key had been used for it before."""

    id: UUID
    created: bool


class RefusedField(Output):
    pointer: str
    code: str
    message: str


class Refusal(Output):
    """Why one of several was refused, in the words of a problem."""

    status: int
    code: str
    detail: str
    errors: list[RefusedField]


class JobResult(Output):
    """What became of one of the jobs, by its place in the list: it has an `id`, or a `refusal`."""

    index: int
    id: UUID | None
    created: bool
    refusal: Refusal | None


class JobResults(Output):
    data: list[JobResult]
    refused_count: int


class JobOutput(Output):
    """A job, finished or not. What is not known of it in its state is null; `run_at` is the next try. `error` is what
    the last failed attempt said, and where it failed; also while the job waits for the next one."""

    id: UUID
    kind: str
    queue: str
    state: JobState
    due_at: Instant
    attempt: int
    subject: str | None
    key: str | None
    step: str | None
    revision: int | None
    reason: str | None
    error_class: str | None
    error: str | None
    max_attempts: int | None
    run_at: Instant | None
    expires_at: Instant | None
    created_at: Instant | None
    started_at: Instant | None
    finished_at: Instant | None
    cancel_requested_at: Instant | None
    correlation_id: str | None


class JourneyEntryOutput(Output):
    at: Instant
    what: str
    reason: str | None
    details: dict[str, Any]


class AgendaOutput(Output):
    """The agenda that the job is a step of: planned under `planned_revision`, and at `revision` now."""

    subject: str
    step: str
    planned_revision: int | None
    revision: int | None
    anchor: Instant | None
    updated_at: Instant | None


class JourneyOutput(Output):
    """Everything known of one job, in order. `is_cut` says that there was more, and the newest is here."""

    job: JobOutput
    agenda: AgendaOutput | None
    entries: list[JourneyEntryOutput]
    is_cut: bool


class JobsQuery(PageQuery):
    """Which jobs: `unfinished` are pending and running, `finished` all that came to an end but for the dead."""

    state: Annotated[
        ListedState, either(f"give one of unfinished, finished, {', '.join(get_args(JobState))}")
    ] = "unfinished"
    kind: Name | None = None
    queue: Name | None = None
    subject: Name | None = None
    key: Name | None = None
    sort: Literal["created_at", "-created_at"] = "created_at"


class CancelInput(Input):
    reason: Reason = "cancelled"


class CancelManyInput(CancelInput):
    """What to cancel: the job that a kind and a key name, or all about a subject."""

    kind: Kind | None = None
    key: Name | None = None
    subject: Name | None = None


class CancelledOutput(Output):
    """The truth about one job. `cancelled`: it will not start. `too_late`: it is running, is told, and is not tried
    again. `undecided`: another transaction holds it, and nothing is known yet; what was asked is done as soon as it is
    free, and who must know asks again. `already_final`: it had ended, in the state given."""

    id: UUID
    answer: CancelAnswer
    state: JobState | None


class CancelledJobs(Output):
    data: list[CancelledOutput]
