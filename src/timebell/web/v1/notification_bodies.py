"""Request and response bodies about notifications and their deliveries."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, get_args
from uuid import UUID

from pydantic import Field, WrapValidator

from timebell.kernel.models import CancelAnswer
from timebell.notify import Channel, Check, Delivery, Digest, Notification, Tell, Told
from timebell.notify import Route as Channels
from timebell.notify.reasons import DeliveryState, NotificationState
from timebell.web.operation.fields import Input, Instant, Name, Output, PageQuery, either
from timebell.web.operation.routes import Answer
from timebell.web.v1.job_fields import BULK_MAX, Refusal, or_refusal

Key = Annotated[str, Field(min_length=1, max_length=100)]
Version = Annotated[int, Field(ge=1, le=2**31 - 1)]
Urgency = Literal["normal", "time_bound", "critical"]
OnQuiet = Literal["early", "other_channel", "inbox_only", "drop"]
FirstOf = Annotated[
    Literal["preferred"] | Annotated[list[Channel], Field(min_length=1, max_length=6)],
    Field(description="The first of these that works, or the recipient's preferred one."),
    either(f'give "preferred", or a list of one to six of {", ".join(get_args(Channel))}'),
]
Also = Annotated[list[Channel], Field(max_length=6, description="Besides, on each of these.")]
Reason = Annotated[str, Field(min_length=1, max_length=2_000)]
Sort = Literal["created_at", "-created_at"]
# As a notification is its job, its context is part of a payload inside.
TELL_NAMES: Final = {"recipient": "recipient_id", "payload": "context"}


class DigestInput(Input):
    """Told together with others of the same key when the window closes, a recurrence on the recipient's clock."""

    key: Key
    closes: Annotated[str, Field(min_length=1, max_length=200, examples=["FREQ=DAILY;BYHOUR=8;BYMINUTE=0"])]
    template: Key
    is_sent_empty: bool = False


class NotificationInput(Input):
    """What somebody is to be told, at once or when it is due."""

    recipient_id: UUID
    template: Key
    context: Annotated[
        dict[str, Any],
        Field(description="The template's variables; `type` and `data` are those of the inbox entry."),
    ] = Field(default_factory=dict)
    channels: FirstOf = "preferred"
    also: Also = Field(default_factory=list)
    urgency: Urgency = "normal"
    topic: Key | None = None
    subject: Name | None = None
    key: Annotated[Name, Field(description="Told once, however often it is asked for.")] | None = None
    due_at: Instant | None = None
    expires_at: Annotated[Instant, Field(description="When it would be of no more use.")] | None = None
    guard: Name | None = None
    digest: DigestInput | None = None
    on_quiet: OnQuiet | None = None
    template_version: Version | None = None

    def tell(self, correlation_id: str) -> Tell:
        return Tell(
            recipient=self.recipient_id,
            template=self.template,
            context=self.context,
            channels=Channels(first=self.channels, also=self.also),
            urgency=self.urgency,
            topic=self.topic,
            subject=self.subject,
            key=self.key,
            due_at=self.due_at,
            expires_at=self.expires_at,
            guard=self.guard,
            digest=None if self.digest is None else Digest(**self.digest.model_dump()),
            on_quiet=self.on_quiet,
            template_version=self.template_version,
            correlation_id=correlation_id,
        )


class NotificationsInput(Input):
    """What is to be told, together. One that is refused leaves the others as they are."""

    notifications: Annotated[
        list[Annotated[NotificationInput, WrapValidator(or_refusal)]],
        Field(min_length=1, max_length=BULK_MAX),
    ]


class WithdrawInput(Input):
    reason: Reason = "withdrawn"


class WithdrawManyInput(Input):
    subject: Name
    reason: Reason = "withdrawn"


class MendInput(Input):
    context: Annotated[dict[str, Any], Field(description="What is added to the context, or said better.")]


class NotificationsQuery(PageQuery):
    recipient_id: UUID | None = None
    subject: Name | None = None
    state: NotificationState | None = None
    template: Key | None = None
    sort: Sort = "created_at"


class WhyNotQuery(Input):
    recipient_id: UUID
    template: Key
    at: Instant | None = None
    urgency: Urgency = "normal"
    topic: Key | None = None


class DeliveriesQuery(PageQuery):
    recipient_id: UUID | None = None
    notification_id: UUID | None = None
    state: DeliveryState | None = None
    channel: Channel | None = None
    sort: Sort = "created_at"


class ToldOutput(Output):
    """The notification; `created` is false where its key had been used before, and this is the one of then."""

    id: UUID
    created: bool


class ToldResult(Output):
    """What became of one of them, by its place in the list: it has an `id`, or a `refusal`."""

    index: int
    id: UUID | None
    created: bool
    refusal: Refusal | None


class ToldResults(Output):
    data: list[ToldResult]
    refused_count: int


class WithdrawnOutput(Output):
    """`cancelled`: it will not be told. `too_late`: it is being told, and not tried again. `undecided`: it is not begun
    any more, and whether it is being told is not known yet; ask again. `already_final`: it had ended, in that state."""

    id: UUID
    answer: CancelAnswer
    state: str | None


class WithdrawnNotifications(Output):
    data: list[WithdrawnOutput]


class ReleasedOutput(Output):
    """`is_released` is false where it did not wait for another try."""

    id: UUID
    is_released: bool


class NotificationOutput(Output):
    id: UUID
    recipient_id: UUID
    template: str
    template_version: int | None
    topic: str
    message_class: Literal["transactional", "marketing"]
    urgency: Urgency
    channels: Literal["preferred"] | list[Channel]
    also: list[Channel]
    context: dict[str, Any]
    due_at: Instant
    expires_at: Instant | None
    state: NotificationState
    reason: str | None
    held_until: Instant | None
    subject: str | None
    key: str | None
    digest_id: UUID | None
    correlation_id: str | None
    created_at: Instant | None
    settled_at: Instant | None


class AttemptOutput(Output):
    """One call of a provider. Without an `answer` nobody knows yet whether it was taken."""

    number: int
    started_at: Instant
    answered_at: Instant | None
    answer: Literal["sent", "rejected", "unavailable", "uncertain"] | None
    reason: str | None
    detail: dict[str, Any]


class DeliveryLine(Output):
    """One notification on one channel through one provider."""

    id: UUID
    notification_id: UUID
    recipient_id: UUID
    channel: Channel
    provider: str
    address: str
    state: DeliveryState
    reason: str | None
    language: str | None
    provider_id: str | None
    attempt_count: int
    sent_at: Instant | None
    delivered_at: Instant | None
    created_at: Instant | None
    updated_at: Instant | None


class DeliveryOutput(DeliveryLine):
    """With what was said, and every attempt."""

    content: dict[str, Any] | None
    attempts: list[AttemptOutput]


class CheckOutput(Output):
    name: str
    verdict: Literal["passed", "refused", "held", "chosen"]
    reason: str | None
    detail: dict[str, Any]


class DecisionOutput(Output):
    """What was considered at one instant, in order."""

    at: Instant
    checks: list[CheckOutput]


class StoryOutput(NotificationOutput):
    """A notification and everything that happened to it; `timezone` is that of its recipient."""

    timezone: str
    deliveries: list[DeliveryOutput]
    decisions: list[DecisionOutput]


class ReasoningOutput(Output):
    """One thing that was considered, in words, and what the words were made from."""

    at: Instant
    text: str
    check: CheckOutput | None


class ExplanationOutput(Output):
    """What became of it: in one sentence, and step by step."""

    id: UUID
    summary: str
    story: list[ReasoningOutput]


class WhyNotOutput(Output):
    """Whether somebody would be told something at an instant, by what is known now, and what became of what was like it
    within a day of then."""

    recipient_id: UUID
    template: str
    at: Instant
    answer: Literal["told", "held", "not_told"]
    summary: str
    story: list[ReasoningOutput]
    until: Instant | None
    alike: list[ExplanationOutput]


def told_answer(told: Told) -> Answer:
    content = ToldOutput(id=told.id, created=told.created)
    return Answer(content=content, headers={"location": f"/v1/notifications/{told.id}"})


def shown_notification(one: Notification) -> NotificationOutput:
    return NotificationOutput(**values_of(one))


def values_of(one: Notification) -> dict[str, Any]:
    names = NotificationOutput.model_fields.keys() - {"channels", "also"}
    first = one.route.first
    return {
        **{name: getattr(one, name) for name in names},
        "channels": first if isinstance(first, str) else list(first),
        "also": list(one.route.also),
    }


def shown_line(one: Delivery) -> DeliveryLine:
    return DeliveryLine.model_validate(one)


def shown_delivery(one: Delivery) -> DeliveryOutput:
    return DeliveryOutput.model_validate(one)


def shown_check(one: Check) -> CheckOutput:
    return CheckOutput.model_validate(one)
