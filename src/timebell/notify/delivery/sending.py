"""One way of telling, tried: through which provider, how often, and what follows from its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from timebell.kernel import Job
from timebell.notify.delivery.answers import (
    call_check,
    delay_after,
    error_class_of,
    is_about_nobody,
    way_given_by,
)
from timebell.notify.delivery.calling import Called, Caller, Stopped
from timebell.notify.delivery.desk import CappedSend, Desk, Started
from timebell.notify.delivery.facts import Known, Tried
from timebell.notify.delivery.turns import Asker, Turn
from timebell.notify.models import Check, Policy
from timebell.notify.provider import Channel, Provider, Rejected, Sent, Unavailable, Uncertain
from timebell.notify.rules.deciding import Facts, Hold, Skip, refusal, wait
from timebell.notify.rules.intents import Intent
from timebell.notify.rules.routing import Candidate, destination_of, leg_named
from timebell.notify.rules.standing import Standing, together
from timebell.notify.rules.uncertainty import remedy_for
from timebell.notify.templates.models import Rendered, Unrendered

# How long something that waits, for a person or for a provider, is kept where it does not expire before.
ATTENTION: Final = timedelta(days=30)

TOLD: Final = frozenset({"sent", "delivered", "suppressed"})

_BREAKER_WAIT_MIN: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The recipient was told on this channel, or may have been."""

    channel: Channel
    standing: Standing
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledOut:
    """This way will not work; `address` None: nor will another address on the channel. `otherwise`: it may after all,
    and is worth waiting for where there is no other way."""

    reason: str
    address: str | None = None
    otherwise: Hold | None = None
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _NotNow:
    """The provider certainly did not take it; it may at `until`."""

    until: datetime
    reason: str
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refused:
    """The provider will not take it; another may."""

    reason: str
    checks: tuple[Check, ...] = ()


Step = Ended | Hold | Skip | RuledOut


class Sender:
    """Sends for one run. `cursor` is what its next run must know of this one."""

    def __init__(
        self, job: Job, intent: Intent, desk: Desk, caller: Caller, providers: Sequence[Provider]
    ) -> None:
        self._job = job
        self._intent = intent
        self._desk = desk
        self._caller = caller
        self._providers = providers
        self._counted: set[tuple[str, Channel | None]] = set()
        self.called: set[Channel] = set()
        self._turns: dict[str, Turn] = {}
        self.may_be_reported = any(one.traits.reports for one in providers)
        self.has_untaken = False
        self.cursor: dict[str, Any] = {}

    async def mend(self, known: Known) -> Known:
        """An attempt that nobody answered was cut off by a crash: it may have reached the provider."""
        if not known.tried:
            return known
        self.has_untaken = any(each.state == "pending" for each in known.tried)
        mended = []
        for each in known.tried:
            if each.is_open:
                started = Started(delivery_id=each.id, number=each.number, started_at=each.updated_at)
                recorded = await self._caller.record(started, Uncertain(reason="crashed"))
                if recorded.overtaken is not None:
                    raise Stopped("a report told what became of it")
                each = replace(
                    each, is_open=False, state="uncertain", reason="crashed", updated_at=known.facts.now
                )
            mended.append(each)
        return replace(known, tried=tuple(mended))

    async def send(
        self, facts: Facts, candidate: Candidate, same: Sequence[Candidate], tried: Sequence[Tried]
    ) -> Step:
        """Tell on the channel of the candidate. A push goes to every device, which is what `same` is for."""
        if candidate.channel == "inbox":
            return await self._show(facts)
        leg = leg_named(candidate.channel, self._intent.route)
        self._counted |= {(leg, name) for each in tried if each.number for name in (None, each.channel)}
        if candidate.channel != "push":
            return await self._send_to(facts, candidate, tried)
        devices = [each for each in same if refusal(facts, each) is None]
        steps = [await self._send_to(facts, each, tried) for each in devices]
        checks = tuple(check for step in steps for check in step.checks)
        holds = [step for step in steps if isinstance(step, Hold)]
        if holds:
            return replace(min(holds, key=lambda hold: hold.until), checks=checks)
        ends = [step.standing for step in steps if isinstance(step, Ended)]
        if ends:
            return Ended(channel="push", standing=together(ends), checks=checks)
        if isinstance(steps[0], RuledOut):
            return replace(steps[0], address=None, checks=checks)
        return replace(steps[0], checks=checks)

    async def _show(self, facts: Facts) -> Step:
        rendered = await self._caller.render(facts, "inbox")
        if isinstance(rendered, Unrendered):
            return self._unrendered(facts, "inbox", rendered)
        await self._go_ahead()
        await self._caller.show(rendered, facts.now)
        return Ended(channel="inbox", standing=Standing("sent", "shown"))

    async def _send_to(self, facts: Facts, candidate: Candidate, tried: Sequence[Tried]) -> Step:
        """To one address, through the first provider that takes it."""
        channel, address = candidate.channel, candidate.value
        providers = self._providers_for(channel, facts.policy)
        if not providers:
            return RuledOut(reason="provider_missing")
        before = {each.provider: each for each in tried if (each.channel, each.address) == (channel, address)}
        told = next((each for each in before.values() if each.state in TOLD), None)
        if told is not None:
            return Ended(channel=channel, standing=Standing(told.state, told.reason))
        doubtful = next((each for each in before.values() if each.state == "uncertain"), None)
        if doubtful is not None:
            return await self._settle_doubt(facts, candidate, doubtful, tried, providers)
        spent = {each.provider: each for each in before.values() if each.is_spent(facts.policy)}
        left = [one for one in providers if one.name not in spent]
        if not left:
            reason = next((each.reason for each in spent.values() if each.state == "failed"), None)
            return RuledOut(reason=reason or "exhausted", address=address)
        return await self._try_each(facts, candidate, left, before)

    async def _try_each(
        self,
        facts: Facts,
        candidate: Candidate,
        providers: Sequence[Provider],
        before: Mapping[str, Tried],
    ) -> Step:
        """One provider after the other, as long as each certainly did not take it."""
        waits: list[tuple[datetime, str, str]] = []
        checks: list[Check] = []
        reason = "exhausted"
        rendered = await self._rendered(facts, candidate.channel, before)
        if isinstance(rendered, Unrendered):
            return self._unrendered(facts, candidate.channel, rendered)
        for provider in providers:
            step = await self._try(facts, candidate, provider, rendered, before)
            if isinstance(step, _NotNow):
                waits.append((step.until, step.reason, provider.name))
                checks += step.checks
            elif isinstance(step, _Refused):
                reason = step.reason
                checks += step.checks
            else:
                return replace(step, checks=(*checks, *step.checks))
        if not waits:
            return RuledOut(reason=reason, checks=tuple(checks))
        until, reason, name = min(waits)
        if reason == "held_rate":
            return self._wait_for_turn(facts, self._turns[name], checks)
        held = wait(facts, until, name="provider", held=reason, skipped="exhausted")
        if isinstance(held, Skip) or facts.now >= facts.due_at + ATTENTION:
            # Another channel may still be in time.
            return RuledOut(reason="exhausted", checks=(*checks, *held.checks))
        return replace(held, checks=(*checks, *held.checks))

    def _wait_for_turn(self, facts: Facts, turn: Turn, checks: Sequence[Check]) -> Step:
        """Until it is called, or comes by itself a little after its turn. Where that would be too late another way may
        be in time; yet the line may also be shorter than it looks."""
        expires_at = facts.intent.expires_at
        held = wait(facts, turn.at, name="provider", held="held_rate", skipped="rate_limited")
        if isinstance(held, Hold):
            until = turn.ask_at if expires_at is None else min(turn.ask_at, expires_at)
            return replace(held, until=until, checks=(*checks, *held.checks))
        assert expires_at is not None
        after_all = Hold(until=expires_at, reason="held_rate")
        return RuledOut(reason="rate_limited", checks=(*checks, *held.checks), otherwise=after_all)

    async def _try(
        self,
        facts: Facts,
        candidate: Candidate,
        provider: Provider,
        rendered: Rendered,
        before: Mapping[str, Tried],
    ) -> Step | _NotNow | _Refused:
        leave = await self._job.destinations.ask(destination_of(provider, self._job.tenant, candidate))
        tried = before.get(provider.name)
        if leave.held_until is not None:
            until = max(leave.held_until, facts.now + _BREAKER_WAIT_MIN)
            way_given = way_given_by(tried.costs) if tried is not None else timedelta(0)
            return _NotNow(until=until + way_given, reason="held_breaker")
        turn = await self._turn(provider)
        if turn is not None:
            return _NotNow(until=turn.at, reason="held_rate")
        no_room = await self._take_cap(facts, candidate.channel)
        if no_room is not None:
            return no_room
        await self._go_ahead()
        self.called.add(candidate.channel)
        called = await self._caller.call(facts, candidate, provider, rendered, tried)
        if not is_about_nobody(called.answer):
            asked = called.answer.retry_after if isinstance(called.answer, Unavailable) else None
            await self._job.destinations.answered(leave, error_class_of(called.answer), asked)
        return await self._after(facts, candidate, provider, called)

    async def _go_ahead(self) -> None:
        """After a call, which may have taken long, it is asked whether it is still to be told."""
        if self.called and not await self._job.heartbeat():
            raise Stopped("it was cancelled while it was being told")

    async def _after(
        self, facts: Facts, candidate: Candidate, provider: Provider, called: Called
    ) -> Step | _NotNow | _Refused:
        checks = (call_check(candidate, provider, called.answer),)
        if called.overtaken is not None:
            if called.overtaken.state in TOLD:
                return Ended(channel=candidate.channel, standing=called.overtaken, checks=checks)
            if called.overtaken.state != "failed":
                raise Stopped("another node has its job, and has tried it since")
            return RuledOut(
                reason=called.overtaken.reason or "rejected", address=candidate.value, checks=checks
            )
        if called.is_in_doubt:
            return self._doubt(facts, candidate, provider, called, checks)
        match called.answer:
            case Sent(is_captured=is_captured):
                standing = Standing("suppressed", "demo") if is_captured else Standing("sent", "accepted")
                return Ended(channel=candidate.channel, standing=standing, checks=checks)
            case Rejected(blame="account"):
                return _Refused(reason="rejected", checks=checks)
            case Rejected(blame=blame, is_gone=is_gone):
                if is_gone and candidate.address is not None and candidate.address.id is not None:
                    await self._desk.mark_gone((self._job.tenant, candidate.address.id))
                address = candidate.value if blame == "address" else None
                return RuledOut(reason="rejected", address=address, checks=checks)
            case Unavailable():
                if called.is_last:
                    return _Refused(reason="exhausted", checks=checks)
                self.has_untaken = True
                delay = delay_after(facts.policy, called.costs, called.answer)
                return _NotNow(until=called.answered_at + delay, reason="held_retry", checks=checks)
            case Uncertain():
                return self._doubt(facts, candidate, provider, called, checks)

    def _doubt(
        self,
        facts: Facts,
        candidate: Candidate,
        provider: Provider,
        called: Called,
        checks: tuple[Check, ...],
    ) -> Step:
        """No answer came. What can be done about it is done by the next run; no other way is tried meanwhile."""
        age = called.answered_at - called.first_tried_at
        remedy = remedy_for(provider.traits, self._intent.urgency, age)
        if remedy == "leave" or (remedy == "again" and (called.is_last or age >= ATTENTION)):
            standing = Standing("uncertain", "no_answer")
            return Ended(channel=candidate.channel, standing=standing, checks=checks)
        delay = delay_after(facts.policy, called.costs, called.answer)
        if remedy == "wait":
            delay = timedelta(seconds=facts.policy.report_wait_seconds)
        return Hold(until=called.answered_at + delay, reason="held_report", checks=checks)

    async def _settle_doubt(
        self,
        facts: Facts,
        candidate: Candidate,
        doubtful: Tried,
        tried: Sequence[Tried],
        providers: Sequence[Provider],
    ) -> Step:
        """Go on with a delivery that may have arrived: send it again, ask, wait, or leave it at that."""
        standing = Standing("uncertain", doubtful.reason or "no_answer")
        left = Ended(channel=candidate.channel, standing=standing)
        provider = next((one for one in providers if one.name == doubtful.provider), None)
        if provider is None or doubtful.content is None:
            return left
        remedy = remedy_for(provider.traits, self._intent.urgency, facts.now - doubtful.created_at)
        check = Check(
            name="uncertain",
            verdict="passed",
            reason=doubtful.reason,
            detail={**candidate.detail(), "provider": provider.name, "remedy": remedy},
        )
        if remedy == "look_up":
            found = await self._caller.look_up(facts, candidate, provider, doubtful, doubtful.content)
            if isinstance(found, Sent):
                standing = Standing("sent", "accepted")
                return Ended(channel=candidate.channel, standing=standing, checks=(check,))
            if isinstance(found, Unavailable):
                # It certainly was not taken, so every way is open again.
                cleared = [replace(each, state="pending") if each is doubtful else each for each in tried]
                step = await self._send_to(facts, candidate, cleared)
                return replace(step, checks=(check, *step.checks))
            remedy = "wait"
        if remedy == "again" and not doubtful.is_spent(facts.policy):
            step = await self._try_each(facts, candidate, [provider], {provider.name: doubtful})
            return replace(step, checks=(check, *step.checks))
        until = doubtful.updated_at + timedelta(seconds=facts.policy.report_wait_seconds)
        if remedy == "wait" and facts.now < until:
            return Hold(until=until, reason="held_report", checks=(check,))
        return replace(left, checks=(check,))

    async def _take_cap(self, facts: Facts, channel: Channel) -> Hold | RuledOut | None:
        """Count it towards what the recipient may get; what is critical is told all the same, and not counted.

        It counts once, however many devices, providers and attempts it takes.
        """
        leg = leg_named(channel, self._intent.route)
        caps = tuple(
            cap
            for cap in facts.policy.caps
            if cap.channel in (None, channel) and (leg, cap.channel) not in self._counted
        )
        if not caps or self._intent.urgency == "critical":
            return None
        room_at = await self._desk.take_sends(
            CappedSend(tenant=self._job.tenant, recipient_id=self._intent.recipient, caps=caps)
        )
        if room_at is None:
            self._counted |= {(leg, cap.channel) for cap in caps}
            return None
        held = wait(facts, room_at, name="cap", held="held_capped", skipped="capped")
        return RuledOut(reason="capped", checks=tuple(held.checks)) if isinstance(held, Skip) else held

    async def _turn(self, provider: Provider) -> Turn | None:
        """When the provider's rate allows the call; None: now, once. Whoever waits does not ask again in the same
        run, however many devices it has."""
        rate, turn = provider.traits.rate_per_second, self._turns.get(provider.name)
        if rate is not None and turn is None:
            asker = Asker(tenant=self._job.tenant, notification_id=self._job.id, urgency=self._intent.urgency)
            turn = await self._desk.turns.ask(provider.name, rate, asker)
            if turn is not None and turn.soon is not None:
                await self._job.bell.clock.sleep(turn.soon.total_seconds())
                turn = await self._desk.turns.ask(provider.name, rate, asker)
            if turn is not None:
                self._turns[provider.name] = turn
        return turn

    def _providers_for(self, channel: Channel, policy: Policy) -> list[Provider]:
        able = {one.name: one for one in self._providers if channel in one.traits.channels}
        named = policy.providers.get(channel)
        return list(able.values()) if named is None else [able[name] for name in named if name in able]

    async def _rendered(
        self, facts: Facts, channel: Channel, before: Mapping[str, Tried]
    ) -> Rendered | Unrendered:
        """What may have been taken is repeated as it was: a key stands for one content. What certainly was not says
        what is true now; only a digest says what was true as it closed."""
        for tried in before.values():
            is_kept = tried.state == "uncertain" or self._intent.digest_id is not None
            if is_kept and tried.content is not None:
                return Rendered(content=tried.content, language=tried.language or "")
        return await self._caller.render(facts, channel)

    def _unrendered(self, facts: Facts, channel: Channel, unrendered: Unrendered) -> Step:
        check = Check(
            name="template",
            verdict="refused",
            reason=unrendered.reason,
            detail={"channel": channel, "detail": unrendered.detail, "names": list(unrendered.names)},
        )
        may_wait = not unrendered.is_final and facts.policy.on_missing == "hold"
        if unrendered.reason != "template_incomplete" or not may_wait:
            return RuledOut(reason=unrendered.reason, checks=(check,))
        until = self._intent.expires_at or self._job.due_at + ATTENTION
        if until <= facts.now:
            return Skip(reason="template_incomplete", checks=(check,))
        return Hold(until=until, reason="template_incomplete", checks=(check,))
