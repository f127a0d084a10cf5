"""The calls of one run to the outside: render, write an attempt down, call a provider, write down its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from timebell.db.failures import DATABASE_ERRORS
from timebell.kernel import Job
from timebell.kernel.tracing import traced
from timebell.logs import Logger
from timebell.notify.delivery.answers import (
    NOT_SENT,
    Costs,
    cost_of,
    detail_of,
    is_spent,
    leaves_doubt,
    told_of,
    within,
)
from timebell.notify.delivery.desk import Answered, Desk, Recorded, Start, Started
from timebell.notify.delivery.digest_entries import with_fewer
from timebell.notify.delivery.facts import Tried
from timebell.notify.inbox.entries import InboxEntry
from timebell.notify.people.unsubscribing import WayOut
from timebell.notify.planning.contexts import read_context
from timebell.notify.provider import Answer, Channel, Content, Parcel, Provider, Sent, Unavailable
from timebell.notify.rules.deciding import Facts
from timebell.notify.rules.intents import Intent
from timebell.notify.rules.routing import Candidate
from timebell.notify.rules.standing import Standing
from timebell.notify.templates.models import Rendered, Unrendered
from timebell.notify.templates.templates import Templates

log = Logger("timebell.notify")

# A context may well have something else under the name.
_CALENDAR: Final = "BEGIN:VCALENDAR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A call that was made, and what came of it. `costs` has those before it too, and `is_last` says that they allow no
    other. `is_in_doubt`: an attempt before it may have been taken, and still may after this answer. `overtaken`: a
    report had said more by then."""

    first_tried_at: datetime
    answered_at: datetime
    answer: Answer
    costs: Costs
    is_last: bool
    is_in_doubt: bool = False
    overtaken: Standing | None = None


class Stopped(Exception):
    """The run may not go on as it is: what it was to tell is being erased, was cancelled, expired or was reported on
    meanwhile, or is told by another."""


class Caller:
    """The hands of one run."""

    def __init__(
        self,
        job: Job,
        intent: Intent,
        desk: Desk,
        templates: Templates,
        unsubscribe_url: Callable[[WayOut], str | None],
    ) -> None:
        self._job = job
        self._intent = intent
        self._desk = desk
        self._templates = templates
        self._unsubscribe_url = unsubscribe_url
        self._context: Mapping[str, Any] = intent.context
        self.has_read = False

    def add_context(self, more: Mapping[str, Any]) -> None:
        self._context = {**self._context, **more}

    async def _read_context(self) -> None:
        """Once in a run, and not before there is something to render."""
        if self._intent.context_from is not None and not self.has_read:
            self.add_context(await read_context(self._intent.context_from, self._job))
            self.has_read = True

    async def render(self, facts: Facts, channel: Channel) -> Rendered | Unrendered:
        """What the texts say; what the context has under `data` goes along as it is, for programs that read it, and
        what it has under `calendar` goes along with a mail.

        Of a digest that is too long for the channel, as much as there is room for.
        """
        await self._read_context()
        rendered = await self._render(facts, channel, self._context)
        if self._intent.digest_id is not None:
            shorter = with_fewer(self._context)
            while shorter and isinstance(rendered, Unrendered) and rendered.reason == "template_failed":
                rendered = await self._render(facts, channel, shorter)
                shorter = with_fewer(shorter)
        if isinstance(rendered, Unrendered):
            return rendered
        data, calendar = self._context.get("data"), self._context.get("calendar")
        if isinstance(data, Mapping):
            rendered = replace(rendered, content=replace(rendered.content, data=data))
        if channel == "email" and isinstance(calendar, str) and calendar.startswith(_CALENDAR):
            rendered = replace(rendered, content=replace(rendered.content, calendar=calendar))
        return rendered

    async def _render(
        self, facts: Facts, channel: Channel, context: Mapping[str, Any]
    ) -> Rendered | Unrendered:
        assert facts.recipient is not None
        return await self._templates.render(
            self._job.tenant,
            self._intent.template,
            self._intent.template_version,
            channel=channel,
            recipient=facts.recipient,
            default_language=facts.policy.default_language,
            context=context,
            due_at=self._job.due_at,
            expires_at=self._intent.expires_at,
            unsubscribe_url=self._way_out(channel),
        )

    async def show(self, rendered: Rendered, now: datetime) -> None:
        """The inbox is ours: it is shown, and known to be, in one transaction."""
        is_shown = await self._desk.show(
            InboxEntry(
                tenant=self._job.tenant,
                notification_id=self._job.id,
                job_version=self._job.version,
                recipient_id=self._intent.recipient,
                content=rendered.content,
                language=rendered.language,
                type=str(self._context.get("type", self._intent.topic)),
                priority=self._intent.urgency,
                payload=rendered.content.data,
                subject=self._job.subject,
                due_at=self._job.due_at,
                expires_at=self._intent.expires_at,
            )
        )
        if not is_shown:
            raise Stopped("its recipient is being erased, another node has its job, or its time has passed")
        waited = (now - self._job.due_at).total_seconds()
        self._job.bell.tallies.told("inbox", "inbox", "sent", waited)

    async def call(
        self, facts: Facts, candidate: Candidate, provider: Provider, rendered: Rendered, before: Tried | None
    ) -> Called:
        """The attempt is written down before the call and completed after it; in between it may have been made."""
        was_in_doubt = before is not None and before.state == "uncertain"
        started = await self._start(candidate, provider, rendered, is_in_doubt=was_in_doubt)
        first_tried_at = started.started_at if before is None else before.created_at
        parcel = self._parcel(facts, candidate, rendered.content, started, first_tried_at)
        monotonic = self._job.bell.clock.monotonic
        began = monotonic()
        about = {"timebell.channel": candidate.channel, "timebell.provider": provider.name}
        marked = parcel.handover if provider.traits.marks_handover else None
        try:
            with traced("timebell.send", about, is_outward=True):
                answer = await within(provider.traits.timeout, provider.send(parcel), marked)
        except asyncio.CancelledError:
            if marked is not None and not marked.has_begun:
                await self._not_sent(started, is_in_doubt=was_in_doubt)
            raise
        # From when it was owed: the database says when the attempt began, and the rest is what it took.
        waited = (started.started_at - self._job.due_at).total_seconds() + monotonic() - began
        costs = (Costs() if before is None else before.costs).plus(cost_of(answer))
        is_last = is_spent(costs, facts.policy)
        recorded = await self.record(started, answer, is_last=is_last, is_in_doubt=was_in_doubt)
        word, state, _ = told_of(answer, is_last=is_last, is_in_doubt=was_in_doubt)
        (log.debug if isinstance(answer, Sent) else log.info)(
            "a provider answered",
            delivery_id=str(started.delivery_id),
            channel=candidate.channel,
            provider=provider.name,
            answer=word,
        )
        self._job.bell.tallies.told(
            candidate.channel, provider.name, state, waited if isinstance(answer, Sent) else None
        )
        return Called(
            first_tried_at=first_tried_at,
            answered_at=recorded.answered_at,
            answer=answer,
            costs=costs,
            is_last=is_last,
            is_in_doubt=was_in_doubt and leaves_doubt(answer),
            overtaken=recorded.overtaken,
        )

    async def _start(
        self, candidate: Candidate, provider: Provider, rendered: Rendered, *, is_in_doubt: bool
    ) -> Started:
        """Write down that the provider is about to be called."""
        starting = self._desk.start.ask(
            Start(
                tenant=self._job.tenant,
                notification_id=self._job.id,
                job_version=self._job.version,
                recipient_id=self._intent.recipient,
                channel=candidate.channel,
                provider=provider.name,
                address=candidate.value,
                language=rendered.language,
                content=rendered.content,
                expires_at=self._intent.expires_at,
            )
        )
        try:
            started = await starting
        except asyncio.CancelledError:
            # It may be written down by now, and nothing was called yet.
            with suppress(*DATABASE_ERRORS):
                written = await starting
                if written is not None:
                    await self._not_sent(written, is_in_doubt=is_in_doubt)
            raise
        if started is None:
            raise Stopped("its recipient is being erased, another node has its job, or its time has passed")
        return started

    async def _not_sent(self, started: Started, *, is_in_doubt: bool) -> None:
        """The run is given up, and it is known that nothing was sent: the next one need not wonder."""
        log.info("a send was given up before anything was handed over", delivery_id=str(started.delivery_id))
        with suppress(*DATABASE_ERRORS):
            await self.record(started, NOT_SENT, is_in_doubt=is_in_doubt)

    async def look_up(
        self, facts: Facts, candidate: Candidate, provider: Provider, tried: Tried, content: Content
    ) -> Answer:
        """What the provider knows of an attempt that it never answered; a yes or a no settles that attempt."""
        started = Started(delivery_id=tried.id, number=tried.number, started_at=tried.updated_at)
        parcel = self._parcel(facts, candidate, content, started, tried.created_at)
        found = await within(provider.traits.timeout, provider.look_up(parcel))
        if isinstance(found, Sent | Unavailable):
            await self.record(started, found, is_counted=False)
        return found

    def record(
        self,
        started: Started,
        answer: Answer,
        *,
        is_last: bool = False,
        is_in_doubt: bool = False,
        is_counted: bool = True,
    ) -> asyncio.Future[Recorded]:
        word, state, reason = told_of(answer, is_last=is_last, is_in_doubt=is_in_doubt)
        return self._desk.record.ask(
            Answered(
                tenant=self._job.tenant,
                delivery_id=started.delivery_id,
                number=started.number,
                answer=word,
                state=state,
                reason=reason,
                provider_id=answer.provider_id if isinstance(answer, Sent) else None,
                detail=detail_of(answer),
                cost=cost_of(answer) if is_counted else "nothing",
            )
        )

    def _parcel(
        self, facts: Facts, candidate: Candidate, content: Content, started: Started, first_tried_at: datetime
    ) -> Parcel:
        assert facts.recipient is not None
        return Parcel(
            delivery_id=started.delivery_id,
            tenant=self._job.tenant,
            key=f"timebell-{started.delivery_id}",
            channel=candidate.channel,
            address=candidate.value,
            content=content,
            detail={} if candidate.address is None else candidate.address.detail,
            sender=facts.policy.sender,
            recipient_name=facts.recipient.name,
            unsubscribe_url=self._way_out(candidate.channel),
            attempted_at=started.started_at,
            first_tried_at=first_tried_at,
            expires_at=self._intent.expires_at,
            is_urgent=self._intent.urgency != "normal",
        )

    def _way_out(self, channel: Channel) -> str | None:
        way = WayOut(
            tenant=self._job.tenant,
            recipient=self._intent.recipient,
            topic=self._intent.topic,
            channel=channel,
        )
        return self._unsubscribe_url(way)
