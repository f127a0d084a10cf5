"""Request and response bodies about recipients."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import Field

from timebell.notify import Channel, OptOut, Recipient
from timebell.web.operation.fields import Input, Instant, Output, PageQuery

Name = Annotated[str, Field(min_length=1, max_length=200)]
Email = Annotated[str, Field(min_length=3, max_length=254, examples=["ada@example.org"])]
Phone = Annotated[str, Field(min_length=3, max_length=50, examples=["+49 170 1234567"])]
Zone = Annotated[str, Field(min_length=1, max_length=100, examples=["Europe/Berlin"])]
Language = Annotated[str, Field(min_length=2, max_length=20, examples=["de-AT"])]
Topic = Annotated[str, Field(min_length=1, max_length=100)]
TimeOfDay = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$", examples=["22:00"])]
AddressKind = Literal["email", "phone", "push", "webhook"]


class QuietHoursInput(Input):
    """When they want peace, on their own clock: from `start` to before `end`, which may be on the next day."""

    start: TimeOfDay
    end: TimeOfDay
    days: Annotated[list[Annotated[int, Field(ge=0, le=6)]], Field(min_length=1, max_length=7)] = Field(
        default=[0, 1, 2, 3, 4, 5, 6], description="The weekdays on which it begins; Monday is 0."
    )
    time_bound: Annotated[
        Literal["pass", "hold"], Field(description="Whether what cannot wait may pass.")
    ] = "pass"
    channels: Annotated[list[Channel], Field(min_length=1, max_length=6)] = Field(
        default=["email", "sms", "whatsapp", "push"], description="The channels that are quiet."
    )


class RecipientInput(Input):
    """Somebody who can be told things. Without a timezone or language they have those of the tenant's policy."""

    name: Name
    external_id: Annotated[Name, Field(description="The tenant's own id for them.")] | None = None
    email: Email | None = None
    phone: Phone | None = None
    timezone: Zone | None = None
    language: Language | None = None
    channel_preference: Channel | None = None
    whatsapp_opt_in: bool = False
    quiet_hours: QuietHoursInput | None = None


class RecipientEdit(Input):
    """What to change; what is left out stays, and null takes back what may be absent.

    An `email` or `phone` takes the place of every address of its kind.
    """

    name: Name = Field(default_factory=str)
    external_id: Name | None = None
    email: Email | None = None
    phone: Phone | None = None
    timezone: Zone = Field(default_factory=str)
    language: Language = Field(default_factory=str)
    channel_preference: Channel | None = None
    whatsapp_opt_in: bool = Field(default_factory=bool)
    quiet_hours: QuietHoursInput | None = None


class AddressInput(Input):
    """One more way to reach them.

    `detail` belongs to the kind: for `push` the `keys` that the browser gave, for `webhook` the `secret` that what is
    sent is signed with. It is kept and never shown.
    """

    kind: AddressKind
    value: Annotated[str, Field(min_length=1, max_length=2_000)]
    detail: dict[str, Any] = Field(default_factory=dict)


class OptOutInput(Input):
    """What they do not want: a topic, a channel, a topic on a channel, or with neither anything at all."""

    topic: Topic | None = None
    channel: Channel | None = None


class OptOutQuery(Input):
    """Just the topic and channel that the opt-out has; a wider one still stands."""

    topic: Topic | None = None
    channel: Channel | None = None


class RecipientsQuery(PageQuery):
    external_id: (
        Annotated[Name, Field(description="Only the one that the tenant itself calls so.")] | None
    ) = None
    sort: Literal["created_at", "-created_at"] = "created_at"


class ExportQuery(Input):
    limit: Annotated[int, Field(ge=1, le=500, strict=False)] = 100
    cursor: Annotated[str, Field(min_length=1, max_length=400)] | None = None


class QuietHoursOutput(Output):
    start: str
    end: str
    days: list[int]
    time_bound: Literal["pass", "hold"]
    channels: list[Channel]


class AddressOutput(Output):
    id: UUID
    kind: AddressKind
    value: str
    verified_at: Instant | None
    gone_at: Annotated[Instant | None, Field(description="When it was found to be no more.")]


class OptOutOutput(Output):
    topic: Annotated[str | None, Field(description="Null stands for every topic.")]
    channel: Annotated[Channel | None, Field(description="Null stands for every channel.")]


class RecipientOutput(Output):
    """A recipient. `email` and `phone` are the addresses that are used first; `addresses` has them all."""

    id: UUID
    name: str
    external_id: str | None
    email: str | None
    phone: str | None
    timezone: str
    language: str
    channel_preference: Channel | None
    whatsapp_opt_in: bool
    quiet_hours: QuietHoursOutput | None
    addresses: list[AddressOutput]
    opt_outs: list[OptOutOutput]
    revision: int
    created_at: Instant
    updated_at: Instant


class ErasureOutput(Output):
    """What was still owed to them: `withdrawn`, or `too_late` because it was being told just then; `undecided` is what
    another transaction held, and is one of the two."""

    id: UUID
    withdrawn: list[UUID]
    too_late: list[UUID]
    undecided: list[UUID]


class ExportOutput(Output):
    """A page of everything that is kept about somebody; the first says who they are, what apps keep comes last."""

    document: dict[str, Any]
    next_cursor: str | None
    has_more: bool


_SAME: Final = (
    "id",
    "name",
    "external_id",
    "timezone",
    "language",
    "channel_preference",
    "whatsapp_opt_in",
    "revision",
    "created_at",
    "updated_at",
)


def shown_recipient(recipient: Recipient) -> RecipientOutput:
    usable = {one.kind: one.value for one in reversed(recipient.addresses) if one.gone_at is None}
    hours = recipient.quiet_hours
    return RecipientOutput(
        **{name: getattr(recipient, name) for name in _SAME},
        email=usable.get("email"),
        phone=usable.get("phone"),
        quiet_hours=None
        if hours is None
        else QuietHoursOutput(
            start=hours.start.isoformat("minutes"),
            end=hours.end.isoformat("minutes"),
            days=sorted(hours.days),
            time_bound=hours.time_bound,
            channels=sorted(hours.channels),
        ),
        addresses=[AddressOutput.model_validate(one) for one in recipient.addresses],
        opt_outs=[shown_opt_out(one) for one in recipient.opt_outs],
    )


def shown_opt_out(one: OptOut) -> OptOutOutput:
    return OptOutOutput(topic=one.topic, channel=one.channel)
