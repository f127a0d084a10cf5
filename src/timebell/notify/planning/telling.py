"""`tell`: one notification for one recipient, in the caller's transaction, told by a job of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from timebell.db.pool import Row
from timebell.errors import InvalidInput, NotFound
from timebell.kernel import Cancelled, Enqueue, Step, Timebell, Transaction
from timebell.kernel.jobs import encode_payload
from timebell.kernel.models import check_id, check_name, check_whole
from timebell.kernel.options import NamedStepOptions
from timebell.kernel.transaction import check_transaction
from timebell.notify.delivery.delivery_store import Columns, DeliveryStore
from timebell.notify.models import Policy, Tell
from timebell.notify.people.policies import policy_of
from timebell.notify.people.policy_store import PolicyStore
from timebell.notify.people.recipient_rows import recipient_of
from timebell.notify.planning.notes import Note, note_columns
from timebell.notify.planning.telling_store import TellingStore
from timebell.notify.rules.deciding import Facts, plan
from timebell.notify.rules.intents import KEY_MAX, VERSION_MAX, Intent, check_tell, route_of
from timebell.notify.templates.templates import Pinned, Templates

DELIVER = "notify.deliver"
TELL_MAX = 10_000
KEY_LIFETIME = timedelta(days=90)
# Before everything: what is planned then is planned alike at every instant.
_EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The notification that stands for what was asked; `created` is False where its key had been used before."""

    id: UUID
    created: bool


class Teller:
    """Plans notifications. Nothing is sent here: the job that is due does that, and can be cancelled until then."""

    def __init__(self, bell: Timebell, templates: Templates) -> None:
        self._bell = bell
        self._templates = templates
        self._store = TellingStore(bell.clock)
        self._deliveries = DeliveryStore(bell.clock)
        self._policies = PolicyStore(bell.clock)

    async def tell_many(self, tx: Transaction, tells: Sequence[Tell]) -> list[Told]:
        """Answered in the same order; all of them or none."""
        check_transaction(tx)
        if len(tells) > TELL_MAX:
            raise InvalidInput(f"{len(tells)} at once, the limit is {TELL_MAX}; send several", field="tells")
        if not tells:
            return []
        intents, due_ats = await self._planned(tx, tells)
        jobs = [
            Enqueue(
                kind=DELIVER,
                payload={**intent.payload(), "is_noted": True},
                due_at=due_at,
                subject=tell.subject,
                key=tell.key,
                key_lifetime=None if tell.key is None else KEY_LIFETIME,
                urgency=tell.urgency,
                correlation_id=tell.correlation_id,
            )
            for tell, intent, due_at in zip(tells, intents, due_ats, strict=True)
        ]
        enqueued = await self._bell.enqueue_many(tx, jobs)
        notes = [
            Note(
                tenant=tx.tenant,
                id=job.id,
                intent=intent,
                due_at=due_at,
                subject=tell.subject,
                key=tell.key,
                correlation_id=tell.correlation_id,
            )
            for job, tell, intent, due_at in zip(enqueued, tells, intents, due_ats, strict=True)
            if job.created
        ]
        if notes:
            await self._deliveries.insert_notifications(tx.session, columns=note_columns(notes))
        return [Told(id=job.id, created=job.created) for job in enqueued]

    async def steps(
        self, tx: Transaction, asked: Sequence[tuple[Tell, NamedStepOptions]], *, anchor: datetime | None
    ) -> list[Step]:
        """The steps of an agenda that tell these. With the anchor, quiet hours are seen coming."""
        if not asked:
            return []
        bare = [_bare_step(tell, step) for tell, step in asked]
        is_timed = [anchor is not None or step.at is not None for step in bare]
        tells = [
            _timed(tell, step, anchor) if timed else tell
            for (tell, _), step, timed in zip(asked, bare, is_timed, strict=True)
        ]
        intents, due_ats = await self._planned(tx, tells, now=_EVER)
        return [
            _telling_step(step, tell, intent, early) if timed else _untimed_step(step, intent)
            for step, tell, intent, early, timed in zip(bare, tells, intents, due_ats, is_timed, strict=True)
        ]

    async def withdraw(self, tx: Transaction, answers: Sequence[Cancelled]) -> None:
        """Note of notifications that their jobs were cancelled: some before they ran, some will not run again."""
        ended = [one.id for one in answers if one.answer in ("cancelled", "too_late", "undecided")]
        ids = [one.id for one in answers if one.answer == "cancelled"]
        if ended:
            await self._store.withdraw_notifications(tx.session, tenant=tx.tenant, ids=ended)
        if not ids:
            return
        columns: Columns = {
            "tenants": [tx.tenant] * len(ids),
            "notification_ids": list(ids),
            "states": ["skipped"] * len(ids),
            "reasons": ["withdrawn"] * len(ids),
        }
        await self._deliveries.abandon_deliveries(tx.session, columns=columns)

    async def mend(self, tx: Transaction, id: UUID, context: Mapping[str, Any]) -> bool:
        """Add to the context of one that was not told yet, and try it again at once, if it waits for that."""
        check_transaction(tx)
        check_id("id", id)
        if not isinstance(context, Mapping):
            raise InvalidInput("must be a mapping of names to values", field="context")
        more = encode_payload(context, self._bell.settings.payload_bytes_max, field="context")
        if not await self._store.mend_context(tx.session, tenant=tx.tenant, id=id, context=more):
            raise NotFound(f"this tenant has no notification {id} that is still to be told")
        return bool(await self._bell.hasten(tx, [id]))

    async def repin(self, tx: Transaction, template: str, version: int | None) -> int:
        """Have everything that was planned with another version of a template told with this one."""
        check_transaction(tx)
        check_name("template", template, longest=KEY_MAX, required=True)
        check_whole("version", version, 1, VERSION_MAX)
        (pinned,) = await self._templates.pin(tx, [(template, version)])
        about: dict[str, Any] = {"tenant": tx.tenant, "key": template, "version": pinned.version}
        async with tx.all_or_nothing():
            await self._store.move_template(tx.session, **about)
            moved = await self._store.repin_notifications(tx.session, **about)
            waiting = [row["id"] for row in moved if row["is_waiting"]]
            for start in range(0, len(waiting), TELL_MAX):
                await self._bell.hasten(tx, waiting[start : start + TELL_MAX])
            data = {"key": template, "version": pinned.version, "moved_count": len(moved)}
            await self._bell.record(tx, "template.repinned", data, subject=f"template:{template}")
        return len(moved)

    async def _planned(
        self, tx: Transaction, tells: Sequence[Tell], *, now: datetime | None = None
    ) -> tuple[list[Intent], list[datetime | None]]:
        """What each will be told with, and when it is due; as if it were planned `now`, where that is given."""
        for tell in tells:
            check_tell(tell)
        asked = list(dict.fromkeys((tell.template, tell.template_version) for tell in tells))
        pinned = dict(zip(asked, await self._templates.pin(tx, asked), strict=True))
        ids = sorted({tell.recipient for tell in tells})
        people = {
            row["id"]: row for row in await self._store.read_told(tx.session, tenant=tx.tenant, ids=ids)
        }
        policy = await self._policy(tx) if any(row["quiet_hours"] for row in people.values()) else Policy()
        intents: list[Intent] = []
        due_ats: list[datetime | None] = []
        for tell in tells:
            if tell.recipient not in people:
                raise NotFound(f"recipient: there is no {tell.recipient}; add it first")
            intent = _intent(tell, pinned[tell.template, tell.template_version])
            intents.append(intent)
            due_ats.append(_due(tell.due_at, intent, people[tell.recipient], policy, now))
        return intents, due_ats

    async def _policy(self, tx: Transaction) -> Policy:
        row = await self._policies.read_policy(tx.session, tenant=tx.tenant)
        return Policy() if row is None else policy_of(orjson.loads(row["policy"]))


def _intent(tell: Tell, template: Pinned) -> Intent:
    return Intent(
        recipient=tell.recipient,
        template=tell.template,
        template_version=template.version,
        topic=tell.topic or template.topic,
        message_class=template.message_class,
        route=route_of(tell.channels),
        context=tell.context,
        context_from=tell.context_from,
        urgency=tell.urgency,
        guard=tell.guard,
        expires_at=tell.expires_at,
        on_quiet=tell.on_quiet,
        digest=tell.digest,
        attempts_max=tell.attempts_max,
        move=template.move,
    )


def _bare_step(tell: Tell, step: NamedStepOptions) -> Step:
    if tell.due_at is not None or tell.key is not None or tell.subject is not None:
        raise InvalidInput("a step has its own key, instant and subject; leave those out", field="tell")
    check_tell(tell)
    try:
        return Step(kind=DELIVER, urgency=tell.urgency, **step)
    except TypeError as error:
        raise InvalidInput(f"step: {error}") from None


def _timed(tell: Tell, step: Step, anchor: datetime | None) -> Tell:
    due_at = step.due_at(anchor)
    ends = [at for at in (step.expiry(due_at), tell.expires_at) if at is not None]
    return replace(tell, due_at=due_at, expires_at=min(ends, default=None))


def _telling_step(step: Step, tell: Tell, intent: Intent, early: datetime | None) -> Step:
    if tell.due_at is not None and early is not None and early != tell.due_at:
        step = _brought_forward(step, tell.due_at, early)
    # The delivery minds the expiry itself, so that it is known why the recipient was not told.
    return replace(step, payload=intent.payload(), expires_after=None, expires_at=None)


def _untimed_step(step: Step, intent: Intent) -> Step:
    """When it is due is known later, and then by when it must be told."""
    intent = replace(intent, expires_after=step.expires_after)
    return replace(step, payload=intent.payload(), expires_after=None)


def _brought_forward(step: Step, due_at: datetime, early: datetime) -> Step:
    """The step at an earlier instant, which is the same whenever it is stated, so that what was told is known as done.

    It is late when it would have been late at the instant that it was due.
    """
    if step.late == "run":
        return replace(step, offset=None, at=early)
    return replace(step, offset=None, at=early, late="grace", grace=step.grace + (due_at - early))


def _due(
    due_at: datetime | None, intent: Intent, row: Row, policy: Policy, now: datetime | None
) -> datetime | None:
    """The instant asked for, or one before the quiet hours that would make it too late."""
    if due_at is None or intent.expires_at is None or row["quiet_hours"] is None:
        return due_at
    recipient = recipient_of(row)
    return plan(
        Facts(now=now or row["now"], intent=intent, due_at=due_at, recipient=recipient, policy=policy)
    )
