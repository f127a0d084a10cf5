"""Digests: several notifications told as one, when the window that they joined closes.

Who is in a window is decided in the database. Joining one keeps it open until the join is committed, and closing it
waits for whoever is joining; so nothing is in two digests, and however many workers find that a window is missing, one
of them makes it. Until it closes, each that joined is a job that waits, and can be cancelled, moved and withdrawn like
any other. Those that still wait then are told with it, and their jobs end in the transaction that closes it; the others
go their own way, and join the next one if they are still to be told. Where the job of the digest died before it could
close, each is told by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from timebell.clock import Ids
from timebell.db.pool import Row
from timebell.errors import NotFound
from timebell.kernel import Job, Retry, Snooze, Timebell, Transaction
from timebell.kernel.guards import ask_guard
from timebell.kernel.transaction import check_transaction
from timebell.notify.delivery.delivery_store import Columns, DeliveryStore
from timebell.notify.delivery.digest_entries import entry_of, job_of, refusal_of, refused, refused_by, ways_of
from timebell.notify.delivery.digest_store import DigestStore
from timebell.notify.models import Check, Digest, Recipient
from timebell.notify.planning.contexts import Unread, Untold, read_context
from timebell.notify.planning.notes import Note, note_columns
from timebell.notify.planning.telling import DELIVER
from timebell.notify.rules.deciding import Facts
from timebell.notify.rules.intents import Intent
from timebell.notify.rules.windows import closing_after
from timebell.notify.templates.templates import Pinned, Templates

_CANCELLED_MAX: Final = 10_000


class Dissolver:
    """Takes digests back, with everything in them, in the transaction of the caller."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = DigestStore(bell.clock)
        self._notes = DeliveryStore(bell.clock)

    async def dissolve(
        self, tx: Transaction, notification_ids: Sequence[UUID], *, reason: str, actor: str | None = None
    ) -> None:
        """Withdraw what waits in the digests that these notifications, which were withdrawn, would have told.

        Whatever is beyond the bound, or runs just then, finds that it is settled.
        """
        check_transaction(tx)
        digests = await self._store.dissolve_digests(
            tx.session, tenant=tx.tenant, notification_ids=list(notification_ids)
        )
        if not digests:
            return
        members = await self._store.list_members(
            tx.session, tenant=tx.tenant, digest_ids=[row["id"] for row in digests], limit=_CANCELLED_MAX
        )
        for id in members:
            await self._bell.cancel(tx, id=id, reason=reason, actor=actor)
        columns: Columns = {
            "tenants": [tx.tenant] * len(digests),
            "digest_ids": [row["id"] for row in digests],
            "notification_ids": [row["notification_id"] for row in digests],
            "states": [row["state"] for row in digests],
            "reasons": ["withdrawn"] * len(digests),
        }
        await self._notes.settle_digest_members(tx.session, columns=columns)

    async def late(
        self, tx: Transaction, *, subject: str | None = None, id: UUID | None = None
    ) -> list[UUID]:
        """What is about the subject, or is named, and is in a digest that is being told."""
        return await self._store.list_late_members(tx.session, tenant=tx.tenant, subject=subject, id=id)


MEMBERS_MAX: Final = 1_000
MEMBERS_BYTES_MAX: Final = 1_000_000
_TAKEN_MAX = 10_000
_WINDOWS_MAX = 10
_JOINS_MAX = 10
_GUARDS_BETWEEN_BEATS = 50
# A digest may be told a little late; only what is then still in it, or was left out of it, looks what became of that.
_LITTLE = timedelta(minutes=5)
# How often, and for how long, a digest that closes waits for what somebody is deciding about.
_LOOKS_MAX = 3
_MOMENT = timedelta(seconds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A notification in a digest. Its job is snoozed with the `cursor`, until it has to `look_at` what became of it."""

    digest_id: UUID
    closes_at: datetime
    look_at: datetime

    @property
    def cursor(self) -> dict[str, Any]:
        return _mark(self.digest_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A notification whose digest was given up before it closed, and which is therefore told by itself."""

    digest_id: UUID


class _Overtaken(Exception):
    """Somebody else was faster, so it has to be looked at again; or nobody is going to tell the digest, `untold`."""

    def __init__(self, untold: UUID | None) -> None:
        super().__init__()
        self.untold = untold


class _LeftOut(NamedTuple):
    """A member that is not told after all, and what was considered."""

    id: UUID
    check: Check


class _Entries(NamedTuple):
    """What is told of each, and of how many it was decided."""

    told: list[dict[str, Any]]
    decided_count: int


class _Busy(Exception):
    """A part of the digest is being decided about."""


class Digests:
    """Joining and closing digests, on one bell."""

    def __init__(self, bell: Timebell, templates: Templates | None = None) -> None:
        self._bell = bell
        self._store = DigestStore(bell.clock)
        self._notes = DeliveryStore(bell.clock)
        self._dissolver = Dissolver(bell)
        self._templates = templates or bell.shared.one(Templates)
        self._ids = Ids(bell.chance)

    async def join(
        self, job: Job, intent: Intent, recipient: Recipient, now: datetime
    ) -> Waiting | Left | None:
        """Put the notification of the job into the window that is open for it, or leave it where it waits already.

        None where it was settled meanwhile. A window that nobody is going to tell any more is dissolved, and one whose
        job was given up is left.
        """
        for _ in range(_JOINS_MAX):
            try:
                async with self._bell.transaction(tenant=job.tenant) as tx:
                    return await self._join(tx, job, intent, recipient, now)
            except _Overtaken as overtaken:
                if overtaken.untold is not None:
                    async with self._bell.transaction(tenant=job.tenant) as tx:
                        await self._dissolver.dissolve(
                            tx, [overtaken.untold], reason="its digest was withdrawn"
                        )
        raise AssertionError(f"others were faster to put {job.id} into a digest {_JOINS_MAX} times")

    async def close(self, job: Job, digest_id: UUID, facts: Facts) -> dict[str, Any] | Snooze | None:
        """Close the window, unless that was done, and answer with what its template is given: `entries`, in the order
        in which they were due, and `more_count`, how many there are besides.

        None where there is nothing to tell. What is no longer wanted is left out and settled as skipped; once the
        digest has been written it is told as it was. `Snooze` where somebody is deciding about a part of it just then.
        """
        assert facts.recipient is not None
        look_count = (job.cursor or {}).get("look_count", 0)
        try:
            async with self._bell.transaction(tenant=job.tenant) as tx:
                window = await self._store.lock_digest(
                    tx.session, tenant=tx.tenant, id=digest_id, notification_id=job.id
                )
                if window is None:
                    return None
                if window["closed_at"] is None:
                    await self._store.close_digest(tx.session, tenant=tx.tenant, id=digest_id)
                    await self._take(tx, digest_id, is_patient=look_count < _LOOKS_MAX)
                    if window["is_sent_empty"]:
                        timezone = facts.recipient.timezone
                        await self._open(tx, _digest_of(window), facts.intent, timezone, facts.now)
                members = await self._store.read_digest_members(
                    tx.session,
                    tenant=tx.tenant,
                    digest_id=digest_id,
                    limit=MEMBERS_MAX,
                    bytes_max=MEMBERS_BYTES_MAX,
                )
        except _Busy:
            cursor = {**(job.cursor or {}), "look_count": look_count + 1}
            return Snooze(delay=_MOMENT, reason="held_digest", cursor=cursor)
        more_count = members[0]["member_count"] - len(members) if members else 0
        if not window["is_written"]:
            members = await self._still_wanted(job, members, facts)
        entries = await self._entries(job, members, facts, is_written=window["is_written"])
        more_count += len(members) - entries.decided_count
        if not entries.told and not more_count and not window["is_written"] and not window["is_sent_empty"]:
            return None
        return {"entries": entries.told, "more_count": more_count}

    async def _join(
        self, tx: Transaction, job: Job, intent: Intent, recipient: Recipient, now: datetime
    ) -> Waiting | Left | None:
        """Locks are taken in the order in which a digest that closes takes them: the digest, then what is in it."""
        assert intent.digest is not None
        member = await self._store.read_member(tx.session, tenant=tx.tenant, id=job.id)
        if member["is_settled"]:
            return None
        before = member["digest_id"]
        if before is not None and not member["is_owed"]:
            raise _Overtaken(member["notification_id"])
        if before is not None and member["is_given_up"] and not member["is_closed"]:
            return Left(digest_id=before)
        if before is not None and (member["is_closed"] or job.cursor == _mark(before)):
            return _waiting(before, member["closes_at"], now)
        # It never joined; or it did and then crashed, or was moved or changed, which takes the cursor away.
        if before is not None and _is_same(member, job, intent.digest):
            digest_id, closes_at = before, member["closes_at"]
        else:
            digest_id, closes_at = await self._open(tx, intent.digest, intent, recipient.timezone, now)
        joined = await self._store.join_digest(
            tx.session,
            tenant=tx.tenant,
            id=job.id,
            intent=intent,
            due_at=job.due_at,
            before=before,
            digest_id=digest_id,
            closes_at=closes_at,
        )
        if joined is None:
            raise _Overtaken(None)
        if not joined["is_owed"]:
            raise _Overtaken(joined["notification_id"])
        return _waiting(digest_id, closes_at, now)

    async def _take(self, tx: Transaction, digest_id: UUID, *, is_patient: bool) -> None:
        """What still waits here is told with the digest, so its jobs have nothing left to do; the rest goes its way."""
        mark = _mark(digest_id)
        waiting = await self._store.list_members(
            tx.session, tenant=tx.tenant, digest_ids=[digest_id], limit=_TAKEN_MAX
        )
        taken = await self._bell.finish(tx, waiting, cursor=mark, reason="told in a digest")
        if is_patient and len(taken) < len(waiting):
            about: dict[str, Any] = {
                "digest_id": digest_id,
                "waiting": waiting,
                "taken": taken,
                "cursor": mark,
            }
            if await self._store.find_busy_members(tx.session, tenant=tx.tenant, **about):
                raise _Busy
        await self._store.release_members(tx.session, tenant=tx.tenant, digest_id=digest_id, taken=taken)

    async def _open(
        self, tx: Transaction, digest: Digest, like: Intent, timezone: str, after: datetime
    ) -> tuple[UUID, datetime]:
        """The next window that has not closed; whoever makes it also makes the notification that tells it."""
        closes_at = after
        for _ in range(_WINDOWS_MAX):
            closes_at = closing_after(digest.closes, timezone, closes_at)
            new_id = self._ids.new()
            id = await self._store.open_digest(
                tx.session,
                tenant=tx.tenant,
                id=new_id,
                recipient_id=like.recipient,
                digest=digest,
                closes_at=closes_at,
            )
            if id is None:
                continue
            if id == new_id:
                await self._plan(tx, digest, like, id, closes_at)
            return id, closes_at
        raise AssertionError(
            f"{_WINDOWS_MAX} windows of the digest {digest.key!r} have closed before their time"
        )

    async def _plan(
        self, tx: Transaction, digest: Digest, like: Intent, id: UUID, closes_at: datetime
    ) -> None:
        """It goes the way of the first that joined, and as urgently."""
        pinned = await self._pin(tx, digest, like)
        intent = Intent(
            recipient=like.recipient,
            template=pinned.key,
            template_version=pinned.version,
            topic=pinned.topic,
            message_class=pinned.message_class,
            route=like.route,
            urgency=like.urgency,
            digest_id=id,
            move=pinned.move,
        )
        key = f"digest:{id}"
        job = await self._bell.enqueue(
            tx,
            DELIVER,
            {**intent.payload(), "is_noted": True},
            due_at=closes_at,
            key=key,
            urgency=intent.urgency,
        )
        note = Note(tenant=tx.tenant, id=job.id, intent=intent, due_at=closes_at, key=key)
        await self._notes.insert_notifications(tx.session, columns=note_columns([note]))
        await self._store.assign_digest(tx.session, tenant=tx.tenant, id=id, notification_id=job.id)

    async def _pin(self, tx: Transaction, digest: Digest, like: Intent) -> Pinned:
        """The template as it is now. One that does not exist may, by the time the window closes, as its version 1."""
        try:
            (pinned,) = await self._templates.pin(tx, [(digest.template, None)])
        except NotFound:
            return Pinned(key=digest.template, version=1, topic=like.topic, message_class=like.message_class)
        return pinned

    async def _still_wanted(self, job: Job, members: Sequence[Row], facts: Facts) -> list[Row]:
        """Much may have happened since they joined: each is asked about again, and settled if it is left out."""
        ways = ways_of(facts)
        wanted: list[Row] = []
        left_out: list[_LeftOut] = []
        for position, member in enumerate(members, start=1):
            check = refusal_of(member, facts, ways) or await self._ask_guard(job, member)
            if check is None:
                wanted.append(member)
            else:
                left_out.append(_LeftOut(member["id"], check))
            if position % _GUARDS_BETWEEN_BEATS == 0:
                await job.heartbeat()
        await self._leave_out(job, left_out, facts.now)
        return wanted

    async def _leave_out(self, job: Job, left_out: Sequence[_LeftOut], now: datetime) -> None:
        if left_out:
            async with self._bell.transaction(tenant=job.tenant) as tx:
                await self._store.skip_members(
                    tx.session, tenant=tx.tenant, columns=_skipped_columns(left_out, now)
                )

    async def _entries(self, job: Job, members: Sequence[Row], facts: Facts, *, is_written: bool) -> _Entries:
        """What each says, read now where it is to be, as much as one digest holds. One of which nothing can be read is
        left out, or says what was planned if the digest was written before; it spoils nothing for the others."""
        told: list[dict[str, Any]] = []
        left_out: list[_LeftOut] = []
        byte_count = 0
        for position, member in enumerate(members, start=1):
            name, read = member["context_from"], dict[str, Any]()
            if name is not None:
                try:
                    read = await read_context(name, job_of(member, job))
                except Unread as unread:
                    if isinstance(unread.outcome, Retry):
                        raise
                    if not is_written:
                        detail = {"context_from": name, "why": str(unread)}
                        left_out.append(_LeftOut(member["id"], refused("context", "template_failed", detail)))
                        continue
                byte_count += len(orjson.dumps(read))
                if byte_count > MEMBERS_BYTES_MAX and told:
                    break
            told.append(entry_of(member, read))
            if position % _GUARDS_BETWEEN_BEATS == 0:
                await job.heartbeat()
        await self._leave_out(job, left_out, facts.now)
        return _Entries(told, len(told) + len(left_out))

    async def _ask_guard(self, job: Job, member: Row) -> Check | None:
        """Asked as if its own job ran: a guard looks at the subject and the payload of what it is asked about."""
        if member["guard"] is None:
            return None
        answer = await ask_guard(job_of(member, job), member["guard"])
        if isinstance(answer, Retry):
            raise Untold(answer)
        return None if answer is None else refused_by(answer)


def _digest_of(window: Row) -> Digest:
    return Digest(
        key=window["key"],
        closes=window["closes"],
        template=window["template"],
        is_sent_empty=window["is_sent_empty"],
    )


def _skipped_columns(left_out: Sequence[_LeftOut], now: datetime) -> Columns:
    """The columns of `skip_members.sql`."""
    return {
        "ids": [one.id for one in left_out],
        "reasons": [one.check.reason for one in left_out],
        "decisions": [
            orjson.dumps({"at": now.isoformat(), "checks": [one.check]}).decode() for one in left_out
        ],
    }


def _is_same(member: Row, job: Job, digest: Digest) -> bool:
    """Whether a member, whatever else of it was changed, still belongs in the window that it joined."""
    return bool(
        member["due_at"] == job.due_at and (member["key"], member["closes"]) == (digest.key, digest.closes)
    )


def _mark(digest_id: UUID) -> dict[str, Any]:
    """The cursor of a job that waits in a digest. Whoever moves or changes the job takes it away."""
    return {"digest_id": str(digest_id)}


def _waiting(digest_id: UUID, closes_at: datetime, now: datetime) -> Waiting:
    """The later the digest is, the more seldom it is looked at."""
    return Waiting(
        digest_id=digest_id, closes_at=closes_at, look_at=max(closes_at + _LITTLE, now + (now - closes_at))
    )
