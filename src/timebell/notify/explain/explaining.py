"""Why something was told, or was not, or would not be: in words, from what was stored when it was decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal
from uuid import UUID

import orjson

from timebell.db.pool import Row
from timebell.errors import NotFound
from timebell.kernel import Timebell
from timebell.kernel.bell import DEFAULT_TENANT
from timebell.kernel.insights import Insights, JobLine
from timebell.kernel.models import check_name
from timebell.notify.delivery.answers import NOT_SENT
from timebell.notify.delivery.capping import room_at
from timebell.notify.delivery.delivery_store import Columns, DeliveryStore
from timebell.notify.explain.notification_store import NotificationStore
from timebell.notify.explain.notifications import Notifications, Story
from timebell.notify.models import Check, Delivery, Notification, Policy, Tell
from timebell.notify.people.policies import policy_of
from timebell.notify.people.recipient_rows import recipient_of
from timebell.notify.planning.telling import DELIVER
from timebell.notify.provider import CHANNELS, Channel
from timebell.notify.reasons import REASONS
from timebell.notify.rules.consent import Suppressed
from timebell.notify.rules.deciding import Facts, Hold, Send, Verdict, decide, wait
from timebell.notify.rules.intents import Intent, check_tell, route_of
from timebell.notify.rules.recipient_checks import check_recipient_id
from timebell.notify.rules.sentences import instant, sentences, summary
from timebell.notify.templates.models import Template
from timebell.notify.templates.templates import Templates

# How far from the instant that somebody asks about they may have meant another.
AROUND: Final = timedelta(days=1)
_FIRST: Final = datetime.min.replace(tzinfo=UTC) + AROUND
_LAST: Final = datetime.max.replace(tzinfo=UTC) - AROUND
_ALIKE_MAX = 10
_LOOK_MAX = 5_000
_NOBODY = UUID(int=0)
# Where the job is gone, these are said of the notification all the same.
_TOLD_IN_PART: Final = frozenset({"sent", "delivered", "suppressed", "uncertain"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """One thing that was considered, in words; `check` is what the words were made from."""

    at: datetime
    text: str
    check: Check | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What became of a notification: in one sentence, and step by step in the order in which it happened.

    `notification` is None where an agenda has planned it and it was not due yet.
    """

    id: UUID
    summary: str
    story: Sequence[Reasoning]
    notification: Notification | None = None
    deliveries: Sequence[Delivery] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot:
    """Whether a recipient would be told something at an instant, by what is known now.

    `alike` are the notifications that there were within a day of that instant, with what became of each.
    """

    recipient_id: UUID
    template: str
    at: datetime
    answer: Literal["told", "held", "not_told"]
    summary: str
    story: Sequence[Reasoning]
    until: datetime | None = None
    alike: Sequence[Explanation] = ()


class Explainer:
    """Answers from what is stored, and decides nothing that a delivery would not decide alike."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = NotificationStore(bell.clock)
        self._deliveries = DeliveryStore(bell.clock)
        self._notifications = Notifications(bell)
        self._templates = bell.shared.one(Templates)
        self._insights = Insights(bell.database, bell.clock)

    async def explain(self, id: UUID, *, tenant: str = DEFAULT_TENANT) -> Explanation:
        """Everything that was considered about a notification, and what came of it."""
        story = await self._notifications.find(id, tenant=tenant)
        job = None
        if story is None or story.notification.settled_at is None:
            job = await self._insights.job(tenant, id)
        if story is not None:
            return _explained(story, job)
        if job is None or job.kind != DELIVER:
            raise NotFound(f"this tenant has no notification {id}")
        text = f"It is planned and due at {instant(job.due_at)}; nothing was considered yet."
        if job.state not in ("pending", "running"):
            text = _ended(job)
        return Explanation(id=id, summary=text, story=())

    async def why_not(
        self,
        recipient: UUID,
        template: str,
        at: datetime | None = None,
        *,
        tenant: str = DEFAULT_TENANT,
        tell: Tell | None = None,
    ) -> WhyNot:
        """Would the recipient be told it at that instant, or now? If not, what stands in the way?

        A `tell` says what else would be asked for: channels, urgency, topic, when it expires. Guards, providers and the
        values of variables are known only when it comes to it.
        """
        check_name("tenant", tenant, required=True)
        check_recipient_id(recipient, "recipient")
        tell = Tell(recipient=recipient, template=template) if tell is None else tell
        tell = replace(tell, recipient=recipient, template=template, due_at=at)
        check_tell(tell)
        row, sent = await self._read(tenant, recipient)
        asked_at = row["now"] if at is None else at
        timezone = row["timezone"] or "UTC"
        alike = await self._alike(tenant, tell, asked_at)
        try:
            found = await self._templates.read(template, tenant=tenant)
        except NotFound:
            check = Check(name="template", verdict="refused", reason="template_missing")
            return _answer(tell, asked_at, None, [check], timezone, alike)
        facts = _facts(row, asked_at, tell, found)
        decision = decide(facts)
        if decision.whole is not None:
            return _answer(tell, asked_at, decision.whole, decision.whole.checks, timezone, alike)
        verdicts = [_within_caps(facts, verdict, sent) for verdict in decision.legs.values()]
        checks = [check for verdict in verdicts for check in verdict.checks]
        return _answer(tell, asked_at, _best(verdicts), checks, timezone, alike)

    async def _read(self, tenant: str, recipient: UUID) -> tuple[Row, dict[str, list[datetime]]]:
        columns: Columns = {"tenants": [tenant], "ids": [_NOBODY], "recipient_ids": [recipient]}
        async with self._bell.database.connection() as session:
            (row,) = await self._deliveries.read_facts(session, columns=columns)
            sent = await self._store.read_recent_sends(session, tenant=tenant, recipient_id=recipient)
        return row, sent

    async def _alike(self, tenant: str, tell: Tell, at: datetime) -> list[Explanation]:
        async with self._bell.database.connection() as session:
            ids = await self._store.list_alike(
                session,
                tenant=tenant,
                recipient_id=tell.recipient,
                template=tell.template,
                from_at=max(at, _FIRST) - AROUND,
                until_at=min(at, _LAST) + AROUND,
                look_max=_LOOK_MAX,
                limit=_ALIKE_MAX,
            )
        return [await self.explain(id, tenant=tenant) for id in ids]


def _explained(story: Story, job: JobLine | None) -> Explanation:
    notification, timezone = story.notification, story.timezone
    said = summary(notification, story.deliveries, timezone)
    lines = list(_lines(story))
    if job is not None and notification.settled_at is None and job.state in ("cancelled", "dead", "expired"):
        if notification.state not in _TOLD_IN_PART:
            said = _ended(job)
        lines.append(Reasoning(at=job.finished_at or notification.due_at, text=said))
    return Explanation(
        id=notification.id,
        summary=said,
        story=tuple(lines),
        notification=notification,
        deliveries=story.deliveries,
    )


def _ended(job: JobLine) -> str:
    """The job is gone: cancelled by hand, withdrawn with its agenda, or given up."""
    why = f": {job.reason}" if job.reason else ""
    if job.state == "dead":
        return f"Its job was given up and waits for an operator{why}."
    return (
        f"It was withdrawn before it was told{why}." if job.state == "cancelled" else f"It was not told{why}."
    )


def _lines(story: Story) -> Iterator[Reasoning]:
    """What was asked for, then what was considered and what was given up, then what is still open."""
    notification, timezone = story.notification, story.timezone
    if notification.created_at is not None:
        yield Reasoning(at=notification.created_at, text=_asked(notification, timezone))
    considered = [
        Reasoning(at=decision.at, text=text, check=check)
        for decision in story.decisions
        for text, check in sentences(decision.checks, timezone)
    ]
    attempts = [(each.provider, attempt) for each in story.deliveries for attempt in each.attempts]
    # A run that is given up comes to no decision, so these are told by their attempts alone.
    given_up = [
        Reasoning(
            at=attempt.started_at,
            text=f"{provider} was being called when its process was stopped; nothing had been handed over.",
        )
        for provider, attempt in attempts
        if attempt.detail.get("said") == NOT_SENT.reason
    ]
    yield from sorted([*given_up, *considered], key=lambda line: line.at)
    for provider, attempt in attempts:
        if attempt.answer is None:
            yield Reasoning(at=attempt.started_at, text=f"{provider} was called, and has not answered yet.")


def _asked(notification: Notification, timezone: str) -> str:
    what = f"{notification.template!r}"
    if notification.template_version is not None:
        what += f" (version {notification.template_version})"
    about = "" if notification.subject is None else f" about {notification.subject!r}"
    expires = ""
    if notification.expires_at is not None:
        expires = f", of use until {instant(notification.expires_at, timezone)}"
    return f"{what} was asked for{about}, due at {instant(notification.due_at, timezone)}{expires}."


def _facts(row: Row, at: datetime, tell: Tell, template: Template) -> Facts:
    """What decides, as it is now, with the clock at the instant asked about."""
    told_on = {text.channel for text in template.texts}
    silent: dict[tuple[Channel, str | None], str] = {
        (channel, None): "template_missing" for channel in CHANNELS if channel not in told_on
    }
    return Facts(
        now=at,
        intent=Intent(
            recipient=tell.recipient,
            template=tell.template,
            template_version=template.version,
            topic=tell.topic or template.topic,
            message_class=template.message_class,
            route=route_of(tell.channels),
            urgency=tell.urgency,
            expires_at=tell.expires_at,
            on_quiet=tell.on_quiet,
        ),
        due_at=at,
        recipient=None if row["id"] is None else recipient_of(row),
        policy=Policy() if row["policy"] is None else policy_of(orjson.loads(row["policy"])),
        suppressed=[
            Suppressed(channel=channel, address=address, message_class=message_class)
            for channel, address, message_class in orjson.loads(row["suppressed"] or "[]")
        ],
        ruled_out=silent,
    )


def _within_caps(facts: Facts, verdict: Verdict, sent: Mapping[str, Sequence[datetime]]) -> Verdict:
    """The caps, as they were used up by now. What is critical, and the inbox, have none."""
    if not isinstance(verdict, Send) or facts.intent.urgency == "critical":
        return verdict
    channel = verdict.candidate.channel
    if channel == "inbox":
        return verdict
    caps = [cap for cap in facts.policy.caps if cap.channel in (None, channel)]
    rooms = [room_at(sent.get(cap.channel or "", ()), cap, facts.now) for cap in caps]
    until = max((room for room in rooms if room is not None), default=None)
    if until is None:
        return verdict
    capped = wait(facts, until, name="cap", held="held_capped", skipped="capped")
    return replace(capped, checks=(*verdict.checks, *capped.checks))


def _best(verdicts: Sequence[Verdict]) -> Verdict | None:
    """Whoever is told on one channel is told."""
    for kind in (Send, Hold):
        found = next((verdict for verdict in verdicts if isinstance(verdict, kind)), None)
        if found is not None:
            return found
    return next(iter(verdicts), None)


def _answer(
    tell: Tell,
    at: datetime,
    verdict: Verdict | None,
    checks: Sequence[Check],
    timezone: str,
    alike: Sequence[Explanation],
) -> WhyNot:
    told: Literal["told", "held", "not_told"] = "not_told"
    until = None
    if isinstance(verdict, Send):
        told, said = "told", "Nothing stands in the way"
    elif isinstance(verdict, Hold):
        told, until = "held", verdict.until
        said = f"It would be held until {instant(until, timezone)}: {REASONS[verdict.reason]}"
    else:
        reason = "template_missing" if verdict is None else verdict.reason
        said = f"It would not be told: {REASONS.get(reason, reason)}"
    return WhyNot(
        recipient_id=tell.recipient,
        template=tell.template,
        at=at,
        answer=told,
        summary=f"{said}.",
        story=tuple(Reasoning(at=at, text=text, check=check) for text, check in sentences(checks, timezone)),
        until=until,
        alike=tuple(alike),
    )
