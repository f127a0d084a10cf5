"""What a digest makes of what it tells: an entry for its template, and the question whether it is still wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson

from timebell.db.pool import Row
from timebell.kernel import Job
from timebell.notify.consent import opt_out_against
from timebell.notify.intents import Intent
from timebell.notify.models import Digest, Recipient, Route


def refusal(member: Row, route: Route, recipient: Recipient, now: datetime) -> dict[str, Any] | None:
    """Why a member may not be told any more, if that is known without asking its guard."""
    expires_at = member["expires_at"]
    if expires_at is not None and now >= expires_at:
        return refused("expiry", "expired", {"expires_at": expires_at.isoformat()})
    # A digest says the same on each of its channels, so what is unwanted on one of them is not in it.
    named = (recipient.channel_preference or "email",) if isinstance(route.first, str) else route.first
    for channel in (*named, *route.also):
        if opt_out_against(
            recipient.opt_outs, topic=member["topic"], channel=channel, urgency=member["urgency"]
        ):
            return refused("consent", "opted_out", {"channel": channel})
    return None


def refused(name: str, reason: str, detail: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "verdict": "refused", "reason": reason, "detail": detail}


def entry_of(member: Row) -> dict[str, Any]:
    """What the template of a digest is given of one member."""
    return {
        **orjson.loads(member["context"]),
        "subject": member["subject"],
        "due_at": member["due_at"].isoformat(),
        "template": member["template"],
    }


def job_of(member: Row, job: Job) -> Job:
    """The job of a member as it was until it was taken into the digest."""
    route = orjson.loads(member["route"])
    first = route["first"]
    digest = member["digest"]
    intent = Intent(
        recipient=member["recipient_id"],
        template=member["template"],
        template_version=member["template_version"],
        topic=member["topic"],
        message_class=member["class"],
        route=Route(first=first if first == "preferred" else tuple(first), also=tuple(route.get("also", ()))),
        context=orjson.loads(member["context"]),
        urgency=member["urgency"],
        guard=member["guard"],
        expires_at=member["expires_at"],
        on_quiet=member["on_quiet"],
        digest=None if digest is None else Digest(**orjson.loads(digest)),
    )
    return replace(
        job,
        id=member["id"],
        payload=intent.payload(),
        due_at=member["due_at"],
        subject=member["subject"],
        key=member["key"],
        correlation_id=member["correlation_id"],
        cursor=None,
        beat=None,
    )
