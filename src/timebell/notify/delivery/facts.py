"""Facts of a notification: what is known of it when its job runs, read from its row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

import orjson

from timebell.db.pool import Row
from timebell.kernel import Job
from timebell.notify.delivery.answers import Costs, is_spent
from timebell.notify.models import Policy
from timebell.notify.people.policies import policy_of
from timebell.notify.people.recipient_rows import recipient_of
from timebell.notify.people.senders import as_approved
from timebell.notify.provider import Channel, Content
from timebell.notify.reasons import DeliveryState
from timebell.notify.rules.consent import Suppressed
from timebell.notify.rules.deciding import Facts
from timebell.notify.rules.intents import Intent


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A delivery of the notification as an earlier run left it. `is_open`: its last attempt was never answered."""

    id: UUID
    channel: Channel
    provider: str
    address: str
    state: DeliveryState
    reason: str | None
    number: int
    costs: Costs
    is_open: bool
    provider_id: str | None
    language: str | None
    content: Content | None
    created_at: datetime
    updated_at: datetime

    def is_spent(self, policy: Policy) -> bool:
        """Whether it is not tried again."""
        return self.state == "failed" or is_spent(self.costs, policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Everything that was read. `is_settled`: nothing more is to be done about it. `unapproved`: what of the policy's
    sender the tenant may not use."""

    facts: Facts
    tried: Sequence[Tried]
    is_settled: bool
    unapproved: Sequence[str] = ()


def as_noted(intent: Intent, row: Row) -> Intent:
    """What was planned, with what was decided since: another version of its template, or what its context lacked."""
    if row["mended"] is not None:
        intent = replace(intent, context={**intent.context, **orjson.loads(row["mended"])})
    if row["template_version"] == intent.template_version:
        return intent
    return replace(intent, template_version=row["template_version"])


def known_of(row: Row, job: Job, intent: Intent) -> Known:
    recipient = None if row["id"] is None else recipient_of(row)
    suppressed = orjson.loads(row["suppressed"] or "[]")
    tried = [_tried(each) for each in orjson.loads(row["deliveries"] or "[]")]
    said = _policy(row["policy"], row["policy_revision"], intent.attempts_max)
    policy = _with_approved(said, job.tenant, row["senders"])
    return Known(
        facts=Facts(
            now=row["now"],
            intent=intent,
            due_at=job.due_at,
            recipient=recipient,
            policy=policy,
            suppressed=[
                Suppressed(channel=channel, address=address, message_class=message_class)
                for channel, address, message_class in suppressed
            ],
            is_in_inbox=any(each.channel == "inbox" and each.state == "sent" for each in tried),
            is_digest=intent.digest_id is not None,
        ),
        tried=tried,
        is_settled=bool(row["is_settled"]),
        unapproved=sorted(said.sender.keys() - policy.sender.keys()),
    )


@lru_cache(maxsize=1_000)
def _policy(stored: str | None, revision: int | None, attempts_max: int | None) -> Policy:
    """The same text is the same policy, and few tenants change theirs between two notifications."""
    policy = Policy() if stored is None else policy_of(orjson.loads(stored), revision or 0)
    return policy if attempts_max is None else replace(policy, attempts_max=attempts_max)


def _with_approved(policy: Policy, tenant: str, stored: str | None) -> Policy:
    """An approval may have been withdrawn since the policy was saved."""
    if not policy.sender:
        return policy
    approved = {(kind, value) for kind, value in orjson.loads(stored or "[]")}
    return replace(policy, sender=as_approved(tenant, policy.sender, approved))


def _tried(stored: dict[str, Any]) -> Tried:
    content = stored["content"]
    return Tried(
        id=UUID(stored["id"]),
        channel=stored["channel"],
        provider=stored["provider"],
        address=stored["address"],
        state=stored["state"],
        reason=stored["reason"],
        number=stored["number"],
        costs=Costs(stored["failure_count"], stored["rate_limited_count"]),
        is_open=stored["is_open"],
        provider_id=stored["provider_id"],
        language=stored["language"],
        content=None if content is None else Content(**content),
        created_at=datetime.fromisoformat(stored["created_at"]),
        updated_at=datetime.fromisoformat(stored["updated_at"]),
    )
