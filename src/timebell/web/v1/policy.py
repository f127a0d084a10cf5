"""`/v1/policy`: what a tenant decides about its notifications."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from timebell.notify import Channel, Policy
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Input, Output
from timebell.web.operation.routes import Answer, Route

OnQuiet = Literal["early", "other_channel", "inbox_only", "drop"]
Urgency = Literal["normal", "time_bound", "critical"]
SenderPart = Literal["email", "email_name", "reply_to", "sms", "whatsapp"]
_DELAY_MAX: Final = 30 * 86_400


class CapInput(Input):
    """At most `count` in any `per_seconds` to one recipient, on one channel or on all of them together."""

    count: Annotated[int, Field(ge=1, le=1_000)]
    per_seconds: Annotated[float, Field(ge=1, le=366 * 86_400)]
    channel: Channel | None = None


class CapOutput(Output):
    count: int
    per_seconds: float
    channel: Channel | None


class PolicyEdit(Input):
    """What to decide; what is left out stays, and null goes back to the default."""

    default_language: Annotated[str, Field(min_length=2, max_length=20)] | None = None
    default_timezone: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    on_missing: Literal["hold", "skip"] | None = None
    on_quiet: dict[Urgency, OnQuiet] | None = None
    caps: Annotated[list[CapInput], Field(max_length=20)] | None = None
    providers: (
        dict[
            Channel,
            Annotated[
                list[Annotated[str, Field(min_length=1, max_length=100)]], Field(min_length=1, max_length=20)
            ],
        ]
        | None
    ) = None
    sender: dict[SenderPart, Annotated[str, Field(min_length=1, max_length=200)]] | None = None
    attempts_max: Annotated[int, Field(ge=1, le=20)] | None = None
    retry_delays_seconds: (
        Annotated[list[Annotated[float, Field(ge=0, le=_DELAY_MAX)]], Field(min_length=1, max_length=20)]
        | None
    ) = None
    report_wait_seconds: Annotated[float, Field(ge=0, le=_DELAY_MAX)] | None = None


class PolicyOutput(Output):
    """What holds: what was decided, and the defaults for the rest. `revision` is 0 while nothing was decided."""

    default_language: str
    default_timezone: str
    on_missing: Literal["hold", "skip"]
    on_quiet: dict[Urgency, OnQuiet]
    caps: list[CapOutput]
    providers: dict[Channel, list[str]]
    sender: dict[str, str]
    attempts_max: int
    retry_delays_seconds: list[float]
    report_wait_seconds: float
    revision: int


async def get_policy(call: Call) -> Answer:
    """The policy of this tenant."""
    return _shown(await call.notify.policies.get(tenant=call.tenant))


async def edit_policy(call: Call, body: PolicyEdit) -> Answer:
    """Decide what is named. What is held already is judged by the new policy when it is tried again."""
    changes: dict[str, Any] = body.model_dump(exclude_unset=True)
    changed = await call.notify.policies.change(
        call.tx, if_revision=call.if_revision, actor=call.by, **changes
    )
    return _shown(changed)


def _shown(policy: Policy) -> Answer:
    caps = [
        CapOutput(count=cap.count, per_seconds=cap.per.total_seconds(), channel=cap.channel)
        for cap in policy.caps
    ]
    content = PolicyOutput(
        default_language=policy.default_language,
        default_timezone=policy.default_timezone,
        on_missing=policy.on_missing,
        on_quiet=dict(policy.on_quiet),
        caps=caps,
        providers={channel: list(names) for channel, names in policy.providers.items()},
        sender=dict(policy.sender),
        attempts_max=policy.attempts_max,
        retry_delays_seconds=list(policy.retry_delays_seconds),
        report_wait_seconds=policy.report_wait_seconds,
        revision=policy.revision,
    )
    return Answer(content=content, revision=policy.revision)


_TAG: Final = "policy"

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="GET",
        path="/v1/policy",
        run=get_policy,
        summary="Get the policy",
        tag=_TAG,
        answer=PolicyOutput,
    ),
    Route(
        method="PATCH",
        path="/v1/policy",
        run=edit_policy,
        summary="Change the policy",
        tag=_TAG,
        scope="admin",
        body=PolicyEdit,
        answer=PolicyOutput,
        idempotency="optional",
        example={"default_timezone": "Europe/Berlin", "caps": [{"count": 5, "per_seconds": 86400}]},
    ),
)
