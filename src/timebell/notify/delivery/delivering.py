"""`notify.deliver`: one run of the job that tells one notification.

Everything that is learnt on the way is written down before the run ends. A run that waits for something answers with
`Snooze`, so that until the last moment there is one job, which can be cancelled or withdrawn.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from timebell.errors import InvalidInput
from timebell.kernel import Dead, Done, Job, Outcome, Retry, Snooze, Timebell
from timebell.kernel.guards import Unwanted, ask_guard
from timebell.notify.delivery.calling import Caller, Stopped
from timebell.notify.delivery.desk import Desk, Progress, Skipped
from timebell.notify.delivery.digest_entries import refused_by
from timebell.notify.delivery.digests import Digests, Left
from timebell.notify.delivery.facts import Known, Tried, as_noted, known_of
from timebell.notify.delivery.sending import TOLD, Ended, RuledOut, Sender
from timebell.notify.models import Check
from timebell.notify.people.opt_outs import OptOuts
from timebell.notify.people.senders import channel_of
from timebell.notify.people.unsubscribing import Unsubscribing
from timebell.notify.planning.contexts import Untold
from timebell.notify.planning.notes import note_of
from timebell.notify.provider import Channel, Provider
from timebell.notify.rules.deciding import Facts, Hold, Send, Skip, decide_leg, decide_whole
from timebell.notify.rules.intents import Intent, as_due, intent_of
from timebell.notify.rules.routing import Leg, leg_named, legs_of
from timebell.notify.rules.standing import Standing, together
from timebell.notify.templates.templates import Templates

_ROUNDS_MAX = 50
_STOPPED: Final = timedelta(seconds=5)
_LASTING: Final = TOLD | {"uncertain", "failed"}


class Deliverer:
    """The handler. It holds the providers; what runs share beside them is made once for each bell."""

    def __init__(self, providers: Sequence[Provider]) -> None:
        self._providers = tuple(providers)

    async def __call__(self, job: Job) -> Outcome:
        try:
            intent = as_due(intent_of(job.payload), job.due_at, job.expires_at)
        except InvalidInput as error:
            return Dead(str(error))
        try:
            return await self._run_again(job, intent, job.bell.shared.one(_Room))
        except Untold as untold:
            return untold.outcome

    async def _run_again(self, job: Job, intent: Intent, room: _Room) -> Outcome:
        """Once, or a second time where something stopped it."""
        try:
            return await self._run(job, intent, room)
        except Stopped as stopped:
            if job.is_cancel_requested:
                return Snooze(delay=_STOPPED, reason=str(stopped))
            # It is seen now what stopped it, unless that is still going on.
            try:
                return await self._run(job, intent, room)
            except Stopped as again:
                return Snooze(delay=_STOPPED, reason=str(again))

    async def _run(self, job: Job, intent: Intent, room: _Room) -> Outcome:
        note = note_of(job, intent, is_noted=bool(job.payload.get("is_noted")))
        row = await room.desk.facts(note)
        if row["state"] is None:
            raise Stopped("its recipient is being erased")
        intent = as_noted(intent, row)
        known = known_of(row, job, intent)
        if known.is_settled:
            return Done()
        caller = Caller(job, intent, room.desk, room.templates, room.unsubscribing.url)
        sender = Sender(job, intent, room.desk, caller, self._providers)
        return await _Run(job, intent, room, caller, sender).go(known)


class _Room:
    """What the runs on one bell share."""

    def __init__(self, bell: Timebell) -> None:
        self.desk = Desk(bell)
        self.templates = bell.shared.one(Templates)
        self.digests = Digests(bell, self.templates)
        self.unsubscribing = Unsubscribing(bell.settings, OptOuts(bell))


class _Run:
    """One run. `checks` is what was considered, in order."""

    def __init__(self, job: Job, intent: Intent, room: _Room, caller: Caller, sender: Sender) -> None:
        self._job = job
        self._intent = intent
        self._desk = room.desk
        self._digests = room.digests
        self._caller = caller
        self._sender = sender
        self._checks: list[Check] = []
        self._skipped: list[Skipped] = []
        # A digest that it was in. As long as it waits it keeps to that, or it would join another.
        self._left: UUID | None = None

    async def go(self, known: Known) -> Outcome:
        known = await self._sender.mend(known)
        refused = await self._ask_guard()
        if isinstance(refused, Retry):
            return refused
        whole = refused or decide_whole(known.facts)
        if whole is not None:
            self._checks += whole.checks
            return await self._end([whole], known.facts.now, known.tried)
        if self._intent.digest is not None:
            outcome = await self._join_digest(known.facts)
            if outcome is not None:
                return outcome
        return await self._tell(known)

    async def _ask_guard(self) -> Skip | Retry | None:
        """Is it still wanted? Asked at every run: much may have happened while it waited."""
        name = self._intent.guard
        answer = await ask_guard(self._job, name)
        if isinstance(answer, Unwanted):
            return Skip(reason="guard_refused", checks=(refused_by(answer),))
        if answer is None and name is not None:
            self._checks.append(Check(name="guard", verdict="passed", detail={"guard": name}))
        return answer

    async def _join_digest(self, facts: Facts) -> Outcome | None:
        """Its job goes on waiting, so that it can be cancelled until the digest closes and ends it. None where it is
        to be told by itself after all."""
        assert facts.recipient is not None
        waiting = await self._digests.join(self._job, self._intent, facts.recipient, facts.now)
        if waiting is None:
            return Done()
        if isinstance(waiting, Left):
            self._left = waiting.digest_id
            detail = {"digest_id": str(waiting.digest_id)}
            self._checks.append(Check(name="left_digest", verdict="passed", detail=detail))
            return None
        check = Check(
            name="digest",
            verdict="held",
            reason="held_digest",
            detail={"digest_id": str(waiting.digest_id), "closes_at": waiting.closes_at.isoformat()},
        )
        self._checks.append(check)
        await self._note(
            Standing("held", "held_digest"),
            facts.now,
            held_until=waiting.closes_at,
            digest_id=waiting.digest_id,
        )
        return Snooze(until=waiting.look_at, reason="held_digest", cursor=waiting.cursor)

    async def _tell(self, known: Known) -> Outcome:
        facts = known.facts
        assert facts.recipient is not None
        legs = legs_of(self._intent.route, facts.recipient)
        channels = {each.channel for leg in legs for each in leg.candidates}
        parts = [part for part in known.unapproved if channel_of(part) in channels]
        if parts:
            self._checks.append(Check(name="sender", verdict="refused", detail={"parts": parts}))
        if self._intent.digest_id is not None:
            told = await self._digests.close(self._job, self._intent.digest_id, facts)
            if isinstance(told, Snooze):
                return told
            if told is None:
                return await self._end([Skip(reason="empty_digest")], facts.now, known.tried)
            self._caller.add_context(told)
        ends: list[Ended | Hold | Skip] = []
        for leg in legs:
            end = await self._go_along(leg, facts, known)
            ends.append(end)
            if isinstance(end, Ended) and end.channel == "inbox":
                facts = replace(facts, is_in_inbox=True)
        if self._caller.has_read:
            detail = {"context_from": self._intent.context_from}
            self._checks.append(Check(name="context", verdict="passed", detail=detail))
        return await self._end(ends, facts.now)

    async def _go_along(self, leg: Leg, facts: Facts, known: Known) -> Ended | Hold | Skip:
        """Try the ways of one leg, best first, until one works, one has to wait, or none is left."""
        tried = [each for each in known.tried if leg_named(each.channel, self._intent.route) == leg.name]
        begun = next((each for each in tried if each.state in TOLD or each.state == "uncertain"), None)
        if begun is not None and begun.state in TOLD and begun.channel != "push":
            return Ended(channel=begun.channel, standing=Standing(begun.state, begun.reason))
        is_in_doubt = begun is not None and begun.state == "uncertain"
        waits = self._waits(leg, "held_report" if is_in_doubt else "held_retry")
        if waits is not None and facts.now < waits.until:
            return self._wait_for(leg, waits)
        if begun is not None:
            step = await self._go_on(leg, facts, begun, tried)
            if not isinstance(step, RuledOut):
                return self._wait_for(leg, step)
            facts = replace(facts, ruled_out={(begun.channel, step.address): step.reason})
        otherwise: Hold | None = None
        for _ in range(_ROUNDS_MAX):
            verdict = decide_leg(facts, leg)
            self._checks += verdict.checks
            if isinstance(verdict, Skip) and otherwise is not None:
                return otherwise
            if not isinstance(verdict, Send):
                self._note_skipped(leg, verdict, {each.channel for each in tried} | self._sender.called)
                return verdict
            candidate = verdict.candidate
            same = [other for other in leg.candidates if other.channel == candidate.channel]
            step = await self._sender.send(facts, candidate, same, tried)
            self._checks += step.checks
            if not isinstance(step, RuledOut):
                return self._wait_for(leg, step)
            otherwise = otherwise or step.otherwise
            facts = replace(
                facts, ruled_out={**facts.ruled_out, (candidate.channel, step.address): step.reason}
            )
        raise AssertionError(f"leg {leg.name!r} has more than {_ROUNDS_MAX} ways")

    async def _go_on(
        self, leg: Leg, facts: Facts, begun: Tried, tried: Sequence[Tried]
    ) -> Ended | Hold | Skip | RuledOut:
        """A leg on which somebody may have been told stays on that channel and at that address, as long as that is
        allowed; a push may still have devices to reach."""
        as_it_is = Ended(channel=begun.channel, standing=Standing(begun.state, begun.reason))
        same = [
            candidate
            for candidate in leg.candidates
            if candidate.channel == begun.channel
            and (begun.channel == "push" or candidate.value == begun.address)
        ]
        verdict = decide_leg(facts, replace(leg, candidates=same, checks=()))
        self._checks += verdict.checks
        if isinstance(verdict, Hold):
            return verdict
        if isinstance(verdict, Skip) or verdict.candidate.channel != begun.channel:
            return as_it_is
        step = await self._sender.send(facts, verdict.candidate, same, tried)
        self._checks += step.checks
        return step

    def _waits(self, leg: Leg, reason: str) -> Hold | None:
        """What an earlier run had the leg wait for; another leg may have woken this run before."""
        until = (self._job.cursor or {}).get(reason, {}).get(leg.name)
        return None if until is None else Hold(until=datetime.fromisoformat(until), reason=reason)

    def _wait_for(self, leg: Leg, end: Ended | Hold | Skip) -> Ended | Hold | Skip:
        if isinstance(end, Hold) and end.reason in ("held_retry", "held_report"):
            self._sender.cursor.setdefault(end.reason, {})[leg.name] = end.until.isoformat()
        return end

    def _note_skipped(self, leg: Leg, verdict: Hold | Skip, called: Set[Channel]) -> None:
        """Each channel that was refused is a delivery that was skipped, with its reason. One that was `called` has a
        delivery; one whose provider could not be called in time has none."""
        if isinstance(verdict, Hold):
            return
        for check in (*leg.checks, *verdict.checks):
            channel = check.detail.get("channel")
            if check.verdict != "refused" or channel is None:
                continue
            if check.name != "route" or (check.reason == "exhausted" and channel not in called):
                self._skipped.append(Skipped(channel=channel, reason=check.reason or "no_channel"))

    async def _end(
        self, ends: Sequence[Ended | Hold | Skip], now: datetime, before: Sequence[Tried] = ()
    ) -> Outcome:
        """Sum up what became of the legs: settled, or to be asked again when the first of them may go on.

        Where the run was stopped as a whole, what was told `before` is told all the same.
        """
        holds = [end for end in ends if isinstance(end, Hold)]
        if holds:
            first = min(holds, key=lambda hold: hold.until)
            await self._note(_while_held(first.reason), now, held_until=first.until, digest_id=self._left)
            return Snooze(until=first.until, reason=first.reason, cursor=self._sender.cursor or None)
        parts = [
            Standing(end.state, end.reason) if isinstance(end, Skip) else end.standing
            for end in ends
            if not isinstance(end, Hold)
        ]
        parts += [Standing(each.state, each.reason) for each in before if each.state in _LASTING]
        await self._note(together(parts), now)
        return Done()

    async def _note(
        self,
        standing: Standing,
        now: datetime,
        *,
        held_until: datetime | None = None,
        digest_id: UUID | None = None,
    ) -> None:
        await self._desk.note(
            Progress(
                tenant=self._job.tenant,
                id=self._job.id,
                recipient_id=self._intent.recipient,
                state=standing.state,
                reason=standing.reason,
                decision={"at": now.isoformat(), "checks": [_check_json(check) for check in self._checks]},
                held_until=held_until,
                digest_id=digest_id,
                closes_digest=self._intent.digest_id,
                is_settled=held_until is None,
                has_untaken=self._sender.has_untaken,
                may_be_reported=self._sender.may_be_reported,
                skipped=tuple({skip.channel: skip for skip in self._skipped}.values()),
            )
        )


def _while_held(reason: str) -> Standing:
    """What is shown meanwhile. A text that is incomplete waits for a person; who may have been told, for a report."""
    if reason == "template_incomplete":
        return Standing("skipped", reason)
    return Standing("uncertain" if reason == "held_report" else "held", reason)


def _check_json(check: Check) -> dict[str, Any]:
    said = {"name": check.name, "verdict": check.verdict, "reason": check.reason, "detail": check.detail}
    return {name: value for name, value in said.items() if value}
