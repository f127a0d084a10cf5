"""The meaning of a provider's answer: for the delivery, for its attempts, and for whoever asks later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any, Final, Literal, NamedTuple

from timebell.notify.models import Check, Policy
from timebell.notify.provider import Answer, Handover, Provider, Rejected, Sent, Unavailable, Uncertain
from timebell.notify.rules.routing import Candidate
from timebell.rules.backoff import RETRY_AFTER_MAX, UNCOUNTED_DELAY_MIN, ErrorClass

# So often a provider may turn one delivery away with an instant to come back at.
RATE_LIMITED_MAX: Final = 10
_WAY_GIVEN: Final = timedelta(seconds=5)

# A call that was given up before anything had been handed over.
NOT_SENT: Final = Unavailable(reason="not_sent", error_class="unavailable", about="nobody")


async def within(deadline: timedelta, call: Awaitable[Answer], handover: Handover | None = None) -> Answer:
    """A provider that breaks its own deadline, or raises, leaves it open whether it had sent; unless it marks the
    `handover`, and had not come so far."""
    try:
        async with asyncio.timeout(deadline.total_seconds()):
            return await call
    except TimeoutError:
        detail: dict[str, Any] = {"seconds": deadline.total_seconds()}
    except Exception as error:
        detail = {"error": f"{type(error).__name__}: {error}"[:500]}
    if handover is not None and not handover.has_begun:
        return Unavailable(reason="no_answer", error_class="unavailable", detail=detail)
    return Uncertain(reason="no_answer", detail=detail)


def told_of(answer: Answer, *, is_last: bool = False, is_in_doubt: bool = False) -> tuple[str, str, str]:
    """The word for the answer, the state that the delivery has after it, and the reason.

    `is_in_doubt`: an earlier attempt may have been taken, and a no to this one does not always say otherwise.
    """
    if is_in_doubt and leaves_doubt(answer):
        return told_of(answer)[0], "uncertain", "no_answer"
    match answer:
        case Sent(is_captured=True):
            return "sent", "suppressed", "demo"
        case Sent():
            return "sent", "sent", "accepted"
        case Rejected():
            return "rejected", "failed", "rejected"
        case Unavailable() if is_last:
            return "unavailable", "failed", "exhausted"
        case Unavailable():
            return "unavailable", "pending", "held_retry"
        case Uncertain(reason="crashed"):
            return "uncertain", "uncertain", "crashed"
        case Uncertain():
            return "uncertain", "uncertain", "no_answer"


def detail_of(answer: Answer) -> dict[str, Any]:
    """What the provider said, kept short: it is shown to whoever asks why."""
    said = {} if isinstance(answer, Sent) else {"said": answer.reason[:500]}
    return {
        name: storable(value) if isinstance(value, str) else value
        for name, value in {**answer.detail, **said}.items()
    }


def storable(text: str) -> str:
    """A stranger's words without what PostgreSQL cannot store, so that what happened can still be written down."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "?")


def leaves_doubt(answer: Answer) -> bool:
    """Whether what was uncertain before the answer still is. What is wrong with the address or the content was wrong
    all along; that the provider is away, or turns our account away, says nothing about what it took before."""
    return isinstance(answer, Unavailable) or (isinstance(answer, Rejected) and answer.blame == "account")


Cost = Literal["nothing", "attempt", "limit"]


class Costs(NamedTuple):
    """What the calls at one delivery have used up: attempts, and times that it was turned away by a rate limit."""

    failure_count: int = 0
    rate_limited_count: int = 0

    def plus(self, cost: Cost) -> Costs:
        return Costs(self.failure_count + (cost == "attempt"), self.rate_limited_count + (cost == "limit"))


def cost_of(answer: Answer) -> Cost:
    """What a call uses up. Each that was made and did not succeed is an attempt, whoever was at fault.

    One that names the instant to come back at has promised to take it then, which is counted apart. Where the provider
    was not asked, or our own process ended, which the engine counts, it is nothing.
    """
    match answer:
        case Sent() | Unavailable(about="nobody") | Uncertain(reason="crashed"):
            return "nothing"
        case Unavailable(error_class="rate_limited", retry_after=timedelta()):
            return "limit"
        case _:
            return "attempt"


def is_about_nobody(answer: Answer) -> bool:
    """Whether the provider was not asked: then its breaker learns neither that it is well nor that it is not."""
    return isinstance(answer, Unavailable | Uncertain) and answer.about == "nobody"


def error_class_of(answer: Answer) -> ErrorClass | None:
    """How a provider failed, for its breaker; None where it answered. What it says of one parcel is an answer: others
    will fare better."""
    if isinstance(answer, Sent | Rejected) or answer.about == "parcel":
        return None
    return answer.error_class if isinstance(answer, Unavailable) else "unavailable"


def is_spent(costs: Costs, policy: Policy) -> bool:
    """Whether no further call may be made."""
    return costs.failure_count >= policy.attempts_max or costs.rate_limited_count >= RATE_LIMITED_MAX


def delay_after(policy: Policy, costs: Costs, answer: Answer) -> timedelta:
    """How long to wait after an answer: as the policy says, and never shorter than the provider asked for, within
    reason. A provider that asks for the first time is taken at its word; if it asks again, the policy counts too."""
    asked = timedelta(0)
    if isinstance(answer, Unavailable) and answer.retry_after is not None:
        asked = min(max(answer.retry_after, UNCOUNTED_DELAY_MIN), RETRY_AFTER_MAX)
    match cost_of(answer):
        case "attempt":
            return max(asked, _planned(policy, costs.failure_count))
        case "limit" if costs.rate_limited_count <= 1:
            return asked
        case "limit":
            return max(asked, _planned(policy, costs.rate_limited_count - 1))
        case "nothing":
            return max(asked, _planned(policy, costs.failure_count), UNCOUNTED_DELAY_MIN)


def _planned(policy: Policy, count: int) -> timedelta:
    """The delay after so many; the last one repeats."""
    delays = policy.retry_delays_seconds
    return timedelta(seconds=delays[min(max(count, 1), len(delays)) - 1])


def way_given_by(costs: Costs) -> timedelta:
    """How much later than others a delivery asks whether a provider is back. Who asks first makes a call that counts,
    so those who have lost most come last."""
    return sum(costs) * _WAY_GIVEN


def call_check(candidate: Candidate, provider: Provider, answer: Answer) -> Check:
    word, _, reason = told_of(answer)
    return Check(
        name="provider",
        verdict="passed" if isinstance(answer, Sent) else "refused",
        reason=reason,
        detail={**candidate.detail(), "provider": provider.name, "answer": word, **detail_of(answer)},
    )
