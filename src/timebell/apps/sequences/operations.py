"""The operations under the names of the source, each a door to what the app does anyway.

Nothing is sent here: a message has one job, and the engine that runs it sends. Where the source calls a processor every
few minutes, an engine runs all the time; whoever calls at times of their own hands over its bounded run as `pay`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from timebell.apps.sequences.bookings import Bookings, NewBooking
from timebell.apps.sequences.enrolling import MESSAGES, Enrolling
from timebell.apps.sequences.models import By, Happened, Message, SequenceStep, Subject
from timebell.apps.sequences.reading import Reading
from timebell.apps.sequences.routing import channel_now
from timebell.apps.sequences.rows import message_of
from timebell.apps.sequences.rules import EVENTS
from timebell.apps.sequences.store import SequenceStore
from timebell.errors import InvalidInput
from timebell.kernel import Timebell, Transaction
from timebell.notify import Channel, Content, Notify, Recipient, Rendered, Tell

BATCH: Final = 50
# Runs at most so many due jobs of a tenant in a queue, and returns once they are settled.
Pay = Callable[[str, str, int], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Processed:
    """What became of the messages that a run took. `retried` counts those that are tried again later."""

    sent: int = 0
    failed: int = 0
    retried: int = 0
    skipped: int = 0

    @property
    def count(self) -> int:
        return self.sent + self.failed + self.retried + self.skipped

    @property
    def failure_percent(self) -> float:
        """How many of a hundred that came to an end at a provider failed."""
        ended = self.sent + self.failed
        return 100 * self.failed / ended if ended else 0.0


class Operations:
    """What the source calls. Each verb but the processor takes part in the transaction that it is given."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._bell = bell
        self._notify = notify
        self._bookings = Bookings(bell, notify)
        self._enrolling = Enrolling(bell, notify)
        self._reading = Reading(bell, notify)
        self._store = SequenceStore(bell.clock)

    async def create_booking(self, tx: Transaction, new: NewBooking, *, by: By) -> Happened:
        """The booking, and how many messages it has begun with."""
        return await self._bookings.add(tx, new, by=by)

    async def enroll_booking_in_sequences(self, tx: Transaction, booking: Subject, *, by: By) -> int:
        """Let a booking that is held enter what its status starts; answers with how many messages that scheduled. What
        it has entered before it does not enter again."""
        event = EVENTS.get(booking.status)  # type: ignore[call-overload]
        if event is None:
            raise InvalidInput("is no booking; tell of its event instead", field="booking")
        return (await self._enrolling.happen(tx, booking, event, by=by)).enrolled

    async def schedule_message(
        self, tx: Transaction, booking: Subject, step: str, contact: UUID, *, by: By
    ) -> Message:
        """See that what is owed about a booking that is held is as its plan says, and answer with one message of it."""
        await self._enrolling.replan(tx, [booking], "scheduled", by=by)
        rows = await self._store.read_messages(tx, subjects=[booking.subject])
        for row in rows:
            if (row["step"], UUID(int=row["recipient_id"].int)) == (step, contact):
                return await self._reading.message(tx, UUID(int=row["id"].int))
        raise InvalidInput(f"no sequence of the booking has a step {step!r} for this contact", field="step")

    async def get_pending_messages(
        self, tx: Transaction, before: datetime, limit: int = BATCH
    ) -> list[Message]:
        """Messages that are due by then and wait, those first that wait longest."""
        if not 1 <= limit <= BATCH:
            raise InvalidInput(f"must be 1 to {BATCH}, is {limit}", field="limit")
        return [message_of(row) for row in await self._store.list_pending(tx, before=before, limit=limit)]

    async def process_scheduled_messages(self, pay: Pay, *, tenant: str, limit: int = BATCH) -> Processed:
        """One run: what is due, `limit` messages at most, is sent, and it is told what became of each. A message that
        another run has taken meanwhile is counted there."""
        async with self._bell.transaction(tenant=tenant) as tx:
            pending = await self.get_pending_messages(tx, await self._store.read_clock(tx), limit)
        if not pending:
            return Processed()
        await pay(tenant, MESSAGES, len(pending))
        ids = [message.id for message in pending]
        async with self._bell.transaction(tenant=tenant) as tx:
            stands = await self._store.read_standings(tx, ids=ids)
            waiting = await self._store.list_pending(tx, before=await self._store.read_clock(tx), limit=BATCH)
        untouched = {UUID(int=row["id"].int) for row in waiting}
        statuses = [stands.get(id) for id in ids if id not in untouched]
        return Processed(
            sent=statuses.count("sent"),
            failed=statuses.count("failed"),
            retried=statuses.count("scheduled"),
            skipped=statuses.count("skipped") + statuses.count("cancelled"),
        )

    async def deliver_message(self, tx: Transaction, id: UUID) -> bool:
        """Look at one message now that waits, as after a mended text; what still has to wait, since it just failed,
        goes on waiting. False where it waits for nothing: what is due is sent without being asked for, and what is
        not is not sent before."""
        message = await self._reading.message(tx, id)
        if message.job_id is None or message.status != "scheduled":
            return False
        return bool(await self._bell.hasten(tx, [message.job_id]))

    async def send_email(
        self, tx: Transaction, contact: UUID, template_id: str, context: Mapping[str, Any]
    ) -> UUID:
        """One message outside of every sequence, by e-mail; answers with the id of its notification."""
        return await self._send(tx, "email", contact, template_id, context)

    async def send_sms(
        self, tx: Transaction, contact: UUID, template_id: str, context: Mapping[str, Any]
    ) -> UUID:
        """The same by SMS, or by e-mail where there is no phone."""
        return await self._send(tx, "sms", contact, template_id, context)

    async def send_whatsapp(
        self, tx: Transaction, contact: UUID, template_id: str, context: Mapping[str, Any]
    ) -> UUID:
        """The same by WhatsApp, or as a step of that channel where the contact did not opt in."""
        return await self._send(tx, "whatsapp", contact, template_id, context)

    async def resolve_template(
        self,
        tx: Transaction,
        template_id: str,
        context: Mapping[str, Any],
        *,
        contact: Recipient,
        channel: Channel,
    ) -> Content:
        """What a contact would read, in their language where there is a text in it."""
        answer = await self._notify.templates.render(
            tx.tenant, template_id, None, channel=channel, recipient=contact, context=context
        )
        if isinstance(answer, Rendered):
            return answer.content
        raise InvalidInput(answer.detail, field="template_id")

    @staticmethod
    def select_channel(step: SequenceStep, contact: Recipient) -> Channel | None:
        """The channel of a step for a contact as they are now; None where nothing reaches them."""
        return channel_now(step.channel, contact)

    async def _send(
        self, tx: Transaction, channel: Channel, contact: UUID, template_id: str, context: Mapping[str, Any]
    ) -> UUID:
        tell = Tell(recipient=contact, template=template_id, channels=(channel,), context=context)
        return (await self._notify.tell_many(tx, [tell]))[0].id
