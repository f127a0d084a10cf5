"""Entries of a digest: what its template is given of each thing told, and the question whether that is still wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from timebell.db.pool import Row
from timebell.kernel import Job
from timebell.kernel.guards import Unwanted
from timebell.notify.models import Check, Digest
from timebell.notify.rules.deciding import Facts, refusal
from timebell.notify.rules.intents import Intent, route_from
from timebell.notify.rules.routing import Candidate, legs_of


def ways_of(facts: Facts) -> list[Candidate]:
    """The ways that a digest may go."""
    assert facts.recipient is not None
    legs = legs_of(facts.intent.route, facts.recipient)
    return [way for leg in legs for way in leg.candidates if refusal(facts, way) is None]


def refusal_of(member: Row, facts: Facts, ways: Sequence[Candidate]) -> Check | None:
    """Why a member may not be told any more, if that is known without asking its guard.

    A digest says the same on each of its `ways`, so what may not be told on one of them is not in it.
    """
    expires_at = member["expires_at"]
    if expires_at is not None and facts.now >= expires_at:
        return refused("expiry", "expired", {"expires_at": expires_at.isoformat()})
    intent = replace(
        facts.intent, topic=member["topic"], message_class=member["class"], urgency=member["urgency"]
    )
    own = replace(facts, intent=intent)
    return next((check for way in ways if (check := refusal(own, way)) is not None), None)


def refused(name: str, reason: str, detail: Mapping[str, Any]) -> Check:
    return Check(name=name, verdict="refused", reason=reason, detail=detail)


def refused_by(answer: Unwanted) -> Check:
    why = {} if answer.why is None else {"why": answer.why}
    return refused("guard", "guard_refused", {"guard": answer.guard, **why})


def entry_of(member: Row, read: Mapping[str, Any]) -> dict[str, Any]:
    """What the template of a digest is given of one member; what was `read` goes over what was planned."""
    return {
        **orjson.loads(member["context"]),
        **read,
        "subject": member["subject"],
        "due_at": member["due_at"].isoformat(),
        "template": member["template"],
    }


def with_fewer(context: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the template is given if there is no room for all entries: the first half, and the rest as a number."""
    entries, more_count = context["entries"], context["more_count"]
    kept = len(entries) // 2
    if not kept:
        return None
    return {**context, "entries": entries[:kept], "more_count": more_count + len(entries) - kept}


def job_of(member: Row, job: Job) -> Job:
    """The job of a member as it was until it was taken into the digest."""
    digest = member["digest"]
    intent = Intent(
        recipient=member["recipient_id"],
        template=member["template"],
        template_version=member["template_version"],
        topic=member["topic"],
        message_class=member["class"],
        route=route_from(orjson.loads(member["route"])),
        context=orjson.loads(member["context"]),
        urgency=member["urgency"],
        context_from=member["context_from"],
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
