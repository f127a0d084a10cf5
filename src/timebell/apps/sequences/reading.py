"""Queries about sequences, bookings and messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from timebell.apps.sequences.enrolling import Enrolling
from timebell.apps.sequences.models import (
    Application,
    Message,
    MessageSequence,
    MessageStatus,
    Subject,
    booking_subject,
)
from timebell.apps.sequences.refusals import no_booking, no_message, no_sequence
from timebell.apps.sequences.routing import channel_now
from timebell.apps.sequences.rows import message_of, sequence_of, subject_of
from timebell.apps.sequences.service import application_of
from timebell.apps.sequences.store import Row, SequenceStore
from timebell.kernel import Page, Timebell, Transaction, decode_cursor, page_of
from timebell.notify import Notify

_LOOK_MAX: Final = 2_000
FUNNEL: Final = ("scheduled", "sent", "skipped", "failed", "cancelled")


class Reading:
    """The questions."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._notify = notify
        self._enrolling = Enrolling(bell, notify)
        self._store = SequenceStore(bell.clock)

    async def sequences(
        self, tx: Transaction, *, trigger_event: str | None, limit: int, cursor: str | None
    ) -> Page[MessageSequence]:
        after = decode_cursor("sequences", cursor).id
        rows = await self._store.list_sequences(tx, trigger_event=trigger_event, after=after, limit=limit)
        return page_of("sequences", rows, limit, sequence_of)

    async def applications(
        self, tx: Transaction, sequence_id: UUID, *, limit: int, cursor: str | None
    ) -> Page[Application]:
        after = decode_cursor("applications", cursor).id
        rows = await self._store.list_applications(tx, sequence_id=sequence_id, after=after, limit=limit)
        return page_of("applications", rows, limit, application_of)

    async def bookings(
        self, tx: Transaction, *, status: str | None, person: UUID | None, limit: int, cursor: str | None
    ) -> Page[Subject]:
        after = decode_cursor("bookings", cursor).id
        page: dict[str, Any] = {"after": after, "limit": limit}
        if person is not None:
            rows = await self._store.list_bookings_of_person(tx, person=person, status=status, **page)
        elif status is not None:
            rows = await self._store.list_bookings_of_status(tx, status=status, **page)
        else:
            rows = await self._store.list_bookings(tx, **page)
        return page_of("bookings", rows, limit, subject_of)

    async def messages(
        self,
        tx: Transaction,
        *,
        statuses: Sequence[MessageStatus] | None,
        person: UUID | None = None,
        sequence_id: UUID | None = None,
        limit: int,
        cursor: str | None,
    ) -> Page[Message]:
        is_filtered = statuses is not None or sequence_id is not None
        asked: dict[str, Any] = {
            "statuses": None if statuses is None else list(statuses),
            "sequence_id": sequence_id,
            "after": decode_cursor("messages", cursor).id,
            "limit": limit,
            "look_max": max(_LOOK_MAX, limit + 1) if is_filtered else limit + 1,
        }
        if person is None:
            rows = await self._store.list_messages(tx, **asked)
        else:
            rows = await self._store.list_messages_of_person(tx, person=person, **asked)
        return page_of("messages", await self._with_channels(tx, rows), limit, message_of)

    async def messages_of_booking(
        self, tx: Transaction, id: UUID, *, limit: int, cursor: str | None
    ) -> Page[Message]:
        subject = booking_subject(id)
        if subject not in await self._enrolling.read(tx, [subject]):
            raise no_booking(id)
        after = decode_cursor("messages", cursor).id
        rows = await self._store.list_messages_of_subject(tx, subject=subject, after=after, limit=limit)
        return page_of("messages", await self._with_channels(tx, rows), limit, message_of)

    async def calendar(
        self, tx: Transaction, booking: Subject, *, limit: int, cursor: str | None
    ) -> Page[Message]:
        """The messages of a booking in the order of their instants."""
        after = decode_cursor("calendar", cursor, dated=True)
        rows = await self._store.list_calendar(
            tx, subject=booking.subject, after_at=after.at, after=after.id, limit=limit
        )
        return page_of("calendar", await self._with_channels(tx, rows), limit, message_of, "due_at")

    async def message(self, tx: Transaction, id: UUID) -> Message:
        row = await self._store.read_message(tx, id=id)
        if row is None:
            raise no_message(id)
        (shown,) = await self._with_channels(tx, [row])
        return message_of(shown)

    async def funnel(self, tx: Transaction, sequence_id: UUID) -> list[dict[str, int | str]]:
        """For each step of the current version, and each that messages had before: how many stand how."""
        row = await self._store.read_sequence(tx, id=sequence_id)
        if row is None:
            raise no_sequence(sequence_id)
        counts: dict[str, dict[str, int]] = {
            step.key: dict.fromkeys(FUNNEL, 0) for step in sequence_of(row).terms.steps
        }
        for each in await self._store.count_messages(tx, sequence_id=sequence_id):
            stands = counts.setdefault(each["step"], dict.fromkeys(FUNNEL, 0))
            # One that is being sent right now was not sent yet.
            stands["scheduled" if each["status"] == "sending" else each["status"]] += each["count"]
        return [
            {"stepKey": key, "enrolled": sum(stands.values()), **stands} for key, stands in counts.items()
        ]

    async def _with_channels(self, tx: Transaction, rows: Sequence[Row]) -> list[Row]:
        """The channel that was used or, before that, the one that would be chosen now."""
        open_ones = [row for row in rows if not row["is_channel_used"] and row["sent_at"] is None]
        ids = sorted({UUID(int=row["recipient_id"].int) for row in open_ones})
        people = await self._notify.recipients.get_many(tx, ids) if ids else {}
        shown: list[Row] = []
        for row in rows:
            recipient = people.get(row["recipient_id"])
            if row["is_channel_used"] or row["sent_at"] is not None or recipient is None:
                shown.append(row)
            else:
                chosen = channel_now(row["channel"], recipient)
                shown.append({**row, "channel": chosen or row["channel"]})
        return shown
