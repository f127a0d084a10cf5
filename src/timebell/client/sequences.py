"""`/api/sequences`, `/api/bookings` and `/api/messages`: what people are told about what they booked, and why."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack
from uuid import UUID

from timebell.client.calling import Caller
from timebell.client.resources import every
from timebell.client.sequence_records import (
    Booking,
    BookingSettings,
    BookingStatus,
    BookingTerms,
    CalendarMessage,
    ChangedBooking,
    ChangedSequence,
    FunnelStep,
    Happened,
    Message,
    MessageExplanation,
    MessageNotSent,
    MessageSequence,
    MessageStatus,
    NewBooking,
    NewSequence,
    PreviewBookingTerms,
    SequenceApplication,
    SequencePreview,
    SequenceTerms,
    facts_on_the_wire,
    on_the_wire,
)


class Sequences:
    """What an event starts, as data, and the events themselves."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create(
        self, *, dry_run: bool = False, idempotency_key: str | None = None, **terms: Unpack[NewSequence]
    ) -> MessageSequence:
        made = await self._caller.call(
            "POST",
            "/api/sequences",
            body=on_the_wire(terms),
            query={"dry_run": dry_run or None},
            idempotency_key=idempotency_key,
        )
        return MessageSequence.model_validate(made)

    async def get(self, id: UUID) -> MessageSequence:
        return MessageSequence.model_validate(await self._caller.call("GET", f"/api/sequences/{id}"))

    def list(self, *, trigger_event: str | None = None) -> AsyncIterator[MessageSequence]:
        return every(self._caller, MessageSequence, "/api/sequences", {"triggerEvent": trigger_event})

    async def change(
        self,
        id: UUID,
        *,
        apply: bool = False,
        dry_run: bool = False,
        if_revision: int | None = None,
        **terms: Unpack[SequenceTerms],
    ) -> ChangedSequence:
        """Other steps or conditions are a new version. With `apply`, also for those who are enrolled; with `dry_run`,
        only what that would change is answered."""
        changed = await self._caller.call(
            "PATCH",
            f"/api/sequences/{id}",
            body=on_the_wire(terms),
            query={"apply": apply or None, "dry_run": dry_run or None},
            if_revision=if_revision,
        )
        return ChangedSequence.model_validate(changed)

    async def delete(self, id: UUID, *, if_revision: int | None = None) -> None:
        await self._caller.call("DELETE", f"/api/sequences/{id}", if_revision=if_revision)

    async def preview(
        self,
        id: UUID,
        *,
        booking_id: UUID | None = None,
        booking: PreviewBookingTerms | None = None,
        subject: Mapping[str, Any] | None = None,
        event_at: datetime | None = None,
        step_key: str | None = None,
    ) -> SequencePreview:
        """What it would tell about a booking, real or invented, or about the facts of any other subject."""
        body = {
            "bookingId": on_the_wire(booking_id),
            "booking": on_the_wire(booking),
            "subject": None if subject is None else facts_on_the_wire(subject),
            "eventAt": event_at,
            "stepKey": step_key,
        }
        said = {name: value for name, value in body.items() if value is not None}
        shown = await self._caller.call("POST", f"/api/sequences/{id}/preview", body=said)
        return SequencePreview.model_validate(shown)

    async def funnel(self, id: UUID) -> Sequence[FunnelStep]:
        answer = await self._caller.call("GET", f"/api/sequences/{id}/funnel")
        return [FunnelStep.model_validate(each) for each in answer["steps"]]

    def applications(self, id: UUID) -> AsyncIterator[SequenceApplication]:
        return every(self._caller, SequenceApplication, f"/api/sequences/{id}/applications")

    async def application(self, id: UUID, application_id: UUID) -> SequenceApplication:
        path = f"/api/sequences/{id}/applications/{application_id}"
        return SequenceApplication.model_validate(await self._caller.call("GET", path))

    async def tell(
        self,
        event: str,
        subject: str,
        *,
        facts: Mapping[str, Any] | None = None,
        entry: int = 1,
        cancels: bool = False,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Happened:
        """Something happened to a subject of yours. `facts` are `start`, `end`, `timezone`, `subtype`, `status`,
        `contacts`, and whatever else texts may speak of."""
        body = {
            "event": event,
            "subject": subject,
            "facts": facts_on_the_wire(facts or {}),
            "entry": entry,
            "cancels": cancels,
        }
        happened = await self._caller.call(
            "POST",
            "/api/sequences/events",
            body=body,
            query={"dry_run": dry_run or None},
            idempotency_key=idempotency_key,
        )
        return Happened.model_validate(happened)


class Bookings:
    """What somebody booked, and what happens to it."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create(
        self, *, dry_run: bool = False, idempotency_key: str | None = None, **terms: Unpack[NewBooking]
    ) -> ChangedBooking:
        made = await self._caller.call(
            "POST",
            "/api/bookings",
            body=on_the_wire(terms),
            query={"dry_run": dry_run or None},
            idempotency_key=idempotency_key,
        )
        return ChangedBooking.model_validate(made)

    async def get(self, id: UUID) -> Booking:
        return Booking.model_validate(await self._caller.call("GET", f"/api/bookings/{id}"))

    def list(
        self, *, status: BookingStatus | None = None, contact_id: UUID | None = None
    ) -> AsyncIterator[Booking]:
        return every(self._caller, Booking, "/api/bookings", {"status": status, "contactId": contact_id})

    async def change(
        self,
        id: UUID,
        *,
        dry_run: bool = False,
        if_revision: int | None = None,
        **terms: Unpack[BookingTerms],
    ) -> ChangedBooking:
        """Other dates move what is pending; what was sent stays."""
        changed = await self._caller.call(
            "PATCH",
            f"/api/bookings/{id}",
            body=on_the_wire(terms),
            query={"dry_run": dry_run or None},
            if_revision=if_revision,
        )
        return ChangedBooking.model_validate(changed)

    async def confirm(self, id: UUID, *, idempotency_key: str | None = None) -> ChangedBooking:
        return await self._move(id, "confirm", idempotency_key)

    async def check_in(self, id: UUID, *, idempotency_key: str | None = None) -> ChangedBooking:
        return await self._move(id, "check-in", idempotency_key)

    async def complete(self, id: UUID, *, idempotency_key: str | None = None) -> ChangedBooking:
        return await self._move(id, "complete", idempotency_key)

    async def cancel(self, id: UUID, *, idempotency_key: str | None = None) -> ChangedBooking:
        """Everything that is pending is cancelled, and then what listens to the cancellation begins."""
        return await self._move(id, "cancel", idempotency_key)

    def messages(self, id: UUID) -> AsyncIterator[Message]:
        return every(self._caller, Message, f"/api/bookings/{id}/messages")

    def calendar(self, id: UUID) -> AsyncIterator[CalendarMessage]:
        """The messages in the order of their instants."""
        return every(self._caller, CalendarMessage, f"/api/bookings/{id}/calendar")

    async def calendar_file(self, id: UUID) -> str:
        """The same as iCalendar."""
        return str(await self._caller.call("GET", f"/api/bookings/{id}/calendar.ics"))

    async def settings(self) -> BookingSettings:
        """What bookings do by themselves."""
        return BookingSettings.model_validate(await self._caller.call("GET", "/api/booking-settings"))

    async def change_settings(
        self, *, check_in_at_start: bool | None = None, complete_at_end: bool | None = None
    ) -> BookingSettings:
        body = {"checkInAtStart": check_in_at_start, "completeAtEnd": complete_at_end}
        changed = await self._caller.call("PATCH", "/api/booking-settings", body=body)
        return BookingSettings.model_validate(changed)

    async def _move(self, id: UUID, verb: str, idempotency_key: str | None) -> ChangedBooking:
        path = f"/api/bookings/{id}/{verb}"
        return ChangedBooking.model_validate(
            await self._caller.call("POST", path, idempotency_key=idempotency_key)
        )


class Messages:
    """What is to be sent and was, and why or why not."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def get(self, id: UUID) -> Message:
        return Message.model_validate(await self._caller.call("GET", f"/api/messages/{id}"))

    def list(
        self,
        *,
        status: MessageStatus | None = None,
        contact_id: UUID | None = None,
        sequence_id: UUID | None = None,
    ) -> AsyncIterator[Message]:
        query = {"status": status, "contactId": contact_id, "sequenceId": sequence_id}
        return every(self._caller, Message, "/api/messages", query)

    async def explain(self, id: UUID) -> MessageExplanation:
        return MessageExplanation.model_validate(
            await self._caller.call("GET", f"/api/messages/{id}/explain")
        )

    def why_not(self, contact_id: UUID) -> AsyncIterator[MessageNotSent]:
        """What did not go to a contact, each with the reason in a sentence."""
        return every(self._caller, MessageNotSent, f"/api/contacts/{contact_id}/why-not")
