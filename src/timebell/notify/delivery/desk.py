"""A batcher between deliveries and the database: those under way together in one process share its statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
import orjson

from timebell.clock import Ids
from timebell.db.pool import Row, Session
from timebell.db.together import Together
from timebell.kernel import Timebell
from timebell.notify.delivery.answers import Cost
from timebell.notify.delivery.capping import counted, room_at
from timebell.notify.delivery.delivery_store import Columns, DeliveryStore
from timebell.notify.delivery.turns import Turns
from timebell.notify.inbox.entries import InboxEntry, entry_columns
from timebell.notify.inbox.inbox_store import InboxStore
from timebell.notify.inbox.outbox_store import OutboxStore
from timebell.notify.models import Cap
from timebell.notify.planning.notes import Note, content_json, note_columns
from timebell.notify.provider import Channel, Content
from timebell.notify.rules.standing import Standing

# How often entries are shown again that another run was just showing; it has done so by the second time.
_SHOWN_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A call of a provider that is about to be made, by a `run`: a job and its version while that goes on."""

    tenant: str
    notification_id: UUID
    job_version: int
    recipient_id: UUID
    channel: Channel
    provider: str
    address: str
    language: str
    content: Content
    expires_at: datetime | None = None

    @property
    def run(self) -> tuple[UUID, int]:
        return self.notification_id, self.job_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The delivery that the call is for, and the number of the attempt."""

    delivery_id: UUID
    number: int
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a call came to."""

    tenant: str
    delivery_id: UUID
    number: int
    answer: str
    state: str
    reason: str
    provider_id: str | None
    detail: dict[str, Any]
    cost: Cost = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """That an answer was written down. `overtaken`: where the delivery stood, if a report had taken it farther."""

    answered_at: datetime
    overtaken: Standing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A channel that was considered and not used."""

    channel: Channel
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a notification has come in one run, with everything that was learnt in it. `has_untaken`: a provider was
    called that would have been called again. `may_be_reported`: something may have been reported during the run."""

    tenant: str
    id: UUID
    recipient_id: UUID
    state: str
    reason: str | None
    decision: dict[str, Any]
    held_until: datetime | None = None
    digest_id: UUID | None = None
    closes_digest: UUID | None = None
    is_settled: bool = False
    has_untaken: bool = False
    may_be_reported: bool = False
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedSend:
    """A send that falls under caps."""

    tenant: str
    recipient_id: UUID
    caps: tuple[Cap, ...]


OfJob = TypeVar("OfJob", Start, InboxEntry)


class Desk:
    """The statements behind `notify.deliver`, for one process and one bell."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._database = bell.database
        self._store = DeliveryStore(bell.clock)
        self._inbox = InboxStore(bell.clock)
        self._outbox = OutboxStore(bell.clock)
        self._ids = Ids(bell.chance)
        self.facts = Together(self._read_facts)
        self.start = Together(self._start)
        self.record = Together(self._record)
        self.note = Together(self._note)
        self.take_sends = Together(self._take_sends)
        self.show = Together(self._show)
        self.mark_gone = Together(self._mark_gone)
        self.turns = Turns(bell)

    async def _read_facts(self, notes: Sequence[Note]) -> Sequence[Row]:
        """What decides about each of them; one that an agenda planned is noted here, when it is first told."""
        unnoted = [note for note in notes if not note.is_noted]
        columns: Columns = {
            "tenants": [note.tenant for note in notes],
            "ids": [note.id for note in notes],
            "recipient_ids": [note.intent.recipient for note in notes],
        }
        if not unnoted:
            async with self._database.connection() as session:
                return await self._store.read_facts(session, columns=columns)
        async with self._database.transaction() as session:
            await self._store.insert_notifications(session, columns=note_columns(unnoted))
            return await self._store.read_facts(session, columns=columns)

    async def _start(self, starts: Sequence[Start]) -> Sequence[Started | None]:
        """None where the recipient is being erased, or was, where another node has the job by now, where a report said
        what became of it, and where it has expired."""
        async with self._database.transaction() as session:
            ours = await self._confirmed(session, starts)
            rows = await self._store.start_attempts(session, columns=self._start_columns(ours))
        started = {
            ours[row["position"] - 1].run: Started(
                delivery_id=row["id"], number=row["number"], started_at=row["started_at"]
            )
            for row in rows
        }
        return [started.get(start.run) for start in starts]

    async def _confirmed(self, session: Session, asked: Sequence[OfJob]) -> list[OfJob]:
        """What its own run asks for. A node that stood still may go on with what another has told since, or what was
        withdrawn: the mark of the start that would forbid that is gone. What was withdrawn meanwhile is not begun."""
        confirmed = await self._bell.confirm(session, [one.run for one in asked])
        return [one for one in asked if one.run in confirmed]

    def _start_columns(self, starts: Sequence[Start]) -> Columns:
        return {
            "tenants": [start.tenant for start in starts],
            "ids": list(self._ids.many(len(starts))),
            "notification_ids": [start.notification_id for start in starts],
            "recipient_ids": [start.recipient_id for start in starts],
            "channels": [start.channel for start in starts],
            "providers": [start.provider for start in starts],
            "addresses": [start.address for start in starts],
            "languages": [start.language for start in starts],
            "contents": [content_json(start.content) for start in starts],
            "expires_ats": [start.expires_at for start in starts],
        }

    async def _record(self, answers: Sequence[Answered]) -> Sequence[Recorded]:
        """When each was written down, and which of them a report had overtaken."""
        columns: Columns = {
            "tenants": [one.tenant for one in answers],
            "delivery_ids": [one.delivery_id for one in answers],
            "numbers": [one.number for one in answers],
            "answers": [one.answer for one in answers],
            "states": [one.state for one in answers],
            "reasons": [one.reason for one in answers],
            "provider_ids": [one.provider_id for one in answers],
            "details": [orjson.dumps(one.detail).decode() for one in answers],
            "costs": [one.cost for one in answers],
        }
        captured = [one for one in answers if one.state == "suppressed"]
        untaken = [one for one in answers if one.state == "pending"]
        if not captured and not untaken:
            async with self._database.connection() as session:
                rows = await self._store.record_answers(session, columns=columns)
        else:
            async with self._database.transaction() as session:
                rows = await self._store.record_answers(session, columns=columns)
                if captured:
                    await self._outbox.capture_sends(session, columns=self._captured_columns(captured))
                if untaken:
                    await self._store.settle_withdrawn(session, columns=_untaken_columns(untaken))
        return [
            Recorded(
                answered_at=row["answered_at"],
                overtaken=None if row["state"] is None else Standing(row["state"], row["reason"]),
            )
            for row in rows
        ]

    def _captured_columns(self, captured: Sequence[Answered]) -> Columns:
        return {
            "tenants": [one.tenant for one in captured],
            "ids": list(self._ids.many(len(captured))),
            "delivery_ids": [one.delivery_id for one in captured],
            "reasons": [one.reason for one in captured],
        }

    async def _show(self, entries: Sequence[InboxEntry]) -> Sequence[bool]:
        """Each is shown once, however many runs of its job show it, at whatever time; False where nobody is there,
        where another node has the job by now, and where it has expired."""
        ids = self._ids.many(len(entries))
        for round in range(1, _SHOWN_MAX + 1):
            try:
                async with self._database.transaction() as session:
                    ours = await self._confirmed(session, entries)
                    refused = await self._inbox.show_entries(
                        session, columns=entry_columns(ours, ids[: len(ours)])
                    )
                break
            except asyncpg.UniqueViolationError:
                if round == _SHOWN_MAX:
                    raise
        shown = {one.run for position, one in enumerate(ours, 1) if position not in refused}
        return [entry.run in shown for entry in entries]

    async def _mark_gone(self, gone: Sequence[tuple[str, UUID]]) -> Sequence[None]:
        columns: Columns = {"tenants": [tenant for tenant, _ in gone], "ids": [id for _, id in gone]}
        async with self._database.connection() as session:
            await self._store.mark_addresses_gone(session, columns=columns)
        return [None] * len(gone)

    async def _note(self, progress: Sequence[Progress]) -> Sequence[None]:
        skipped = [(one, skip) for one in progress for skip in one.skipped]
        told = [one for one in progress if one.is_settled and one.closes_digest is not None]
        abandoning = [one for one in progress if one.is_settled and one.has_untaken]
        columns: Columns = {
            "tenants": [one.tenant for one in progress],
            "ids": [one.id for one in progress],
            "states": [one.state for one in progress],
            "reasons": [one.reason for one in progress],
            "held_untils": [one.held_until for one in progress],
            "digest_ids": [one.digest_id for one in progress],
            "settled": [one.is_settled for one in progress],
            "decisions": [orjson.dumps(one.decision).decode() for one in progress],
        }
        async with self._database.transaction() as session:
            if skipped:
                await self._store.skip_deliveries(session, columns=self._skip_columns(skipped))
            if abandoning:
                # Deliveries before notifications, as reports take them.
                await self._store.abandon_deliveries(session, columns=_abandoned_columns(abandoning))
            await self._store.note_progress(session, columns=columns)
            reported = await self._sum_up_reported(session, progress)
            if told:
                columns = _told_columns([reported.get(one.id, one) for one in told])
                await self._store.settle_digest_members(session, columns=columns)
        return [None] * len(progress)

    async def _sum_up_reported(self, session: Session, progress: Sequence[Progress]) -> dict[UUID, Progress]:
        """What was reported during the run counts as if it had been afterwards; what comes from now on waits for us."""
        settled = {one.id: one for one in progress if one.is_settled and one.may_be_reported}
        if not settled:
            return {}
        columns: Columns = {
            "tenants": [one.tenant for one in settled.values()],
            "ids": list(settled),
        }
        rows = await self._store.sum_up_reported(session, columns=columns)
        return {
            row["id"]: replace(settled[row["id"]], state=row["state"], reason=row["reason"]) for row in rows
        }

    def _skip_columns(self, skipped: Sequence[tuple[Progress, Skipped]]) -> Columns:
        return {
            "tenants": [one.tenant for one, _ in skipped],
            "ids": list(self._ids.many(len(skipped))),
            "notification_ids": [one.id for one, _ in skipped],
            "recipient_ids": [one.recipient_id for one, _ in skipped],
            "channels": [skip.channel for _, skip in skipped],
            "reasons": [skip.reason for _, skip in skipped],
        }

    async def _take_sends(self, sends: Sequence[CappedSend]) -> Sequence[datetime | None]:
        """None where the send was counted; else when there will be room for it."""
        keys = sorted({key for send in sends for key in _cap_keys(send)})
        columns: Columns = {
            "tenants": [tenant for tenant, _, _ in keys],
            "recipient_ids": [recipient for _, recipient, _ in keys],
            "channels": [channel for _, _, channel in keys],
        }
        async with self._database.transaction() as session:
            rows = await self._store.lock_recent_sends(session, columns=columns)
            sent = {
                (row["tenant"], row["recipient_id"], row["channel"]): list(row["sent_ats"]) for row in rows
            }
            now = rows[0]["now"]
            answers = [_count(send, sent, now) for send in sends]
            columns["sent_ats"] = ["{" + ",".join(at.isoformat() for at in sent[key]) + "}" for key in keys]
            await self._store.write_recent_sends(session, columns=columns)
        return answers


def _untaken_columns(untaken: Sequence[Answered]) -> Columns:
    return {
        "tenants": [one.tenant for one in untaken],
        "delivery_ids": [one.delivery_id for one in untaken],
    }


def _told_columns(told: Sequence[Progress]) -> Columns:
    """Of digests that came to their end, whatever it is."""
    return {
        "tenants": [one.tenant for one in told],
        "digest_ids": [one.closes_digest for one in told],
        "notification_ids": [one.id for one in told],
        "states": [one.state for one in told],
        "reasons": [one.reason for one in told],
    }


def _abandoned_columns(abandoning: Sequence[Progress]) -> Columns:
    return {
        "tenants": [one.tenant for one in abandoning],
        "notification_ids": [one.id for one in abandoning],
        "states": ["failed"] * len(abandoning),
        "reasons": ["exhausted"] * len(abandoning),
    }


def _cap_keys(send: CappedSend) -> list[tuple[str, UUID, str]]:
    return [(send.tenant, send.recipient_id, cap.channel or "") for cap in send.caps]


def _count(
    send: CappedSend, sent: dict[tuple[str, UUID, str], list[datetime]], now: datetime
) -> datetime | None:
    """Count the send under each of its caps, or under none of them where one has no room."""
    keyed = list(zip(_cap_keys(send), send.caps, strict=True))
    waits = [at for key, cap in keyed if (at := room_at(sent[key], cap, now)) is not None]
    if waits:
        return max(waits)
    # The longest of the caps on the same sends says which of those still count.
    for key in dict.fromkeys(key for key, _ in keyed):
        longest = max((cap for other, cap in keyed if other == key), key=lambda cap: cap.per)
        sent[key] = [*counted(sent[key], longest, now), now]
    return None
