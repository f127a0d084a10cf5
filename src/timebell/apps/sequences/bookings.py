"""`Bookings`: what somebody booked, and what happens to it. Each verb takes part in the transaction that it is given.

A transition, its event, what is owed because of it and who is told are written together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from timebell.apps.sequences.enrolling import Enrolling
from timebell.apps.sequences.models import (
    BookingSettings,
    BookingStatus,
    By,
    Happened,
    Subject,
    Transition,
    booking_subject,
)
from timebell.apps.sequences.refusals import no_booking, not_possible, unknown_contact
from timebell.apps.sequences.rules import EVENTS, TO, is_legal
from timebell.apps.sequences.store import SequenceStore
from timebell.errors import InvalidInput
from timebell.kernel import Ids, Timebell, Transaction
from timebell.notify import Notify, Recipient
from timebell.rules.localtime import zone

REPLAN: Final = "sequences.replan"
BATCH: Final = 50
ADDED_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBooking:
    """A booking as it is asked for. Of `people` the first is the primary contact."""

    people: Sequence[tuple[UUID, str]]
    subtype: str
    event_name: str
    starts_at: datetime
    ends_at: datetime
    timezone: str
    location: str | None = None
    status: BookingStatus = "created"


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingChange:
    """What is to become different about a booking: None leaves it, unless it is among `named`."""

    event_name: str | None = None
    location: str | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    timezone: str | None = None
    subtype: str | None = None
    people: Sequence[tuple[UUID, str]] | None = None
    named: frozenset[str] = field(default_factory=frozenset)


class Bookings:
    """Bookings and their transitions."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._bell = bell
        self._notify = notify
        self._enrolling = Enrolling(bell, notify)
        self._store = SequenceStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def add(self, tx: Transaction, new: NewBooking, *, by: By) -> Happened:
        return (await self.add_many(tx, [new], by=by))[0]

    async def add_many(self, tx: Transaction, news: Sequence[NewBooking], *, by: By) -> list[Happened]:
        """Bookings that come together, in as many statements as one; answered in the same order."""
        if len(news) > ADDED_MAX:
            raise InvalidInput(
                f"{len(news)} at once, the limit is {ADDED_MAX}; send several", field="bookings"
            )
        now = await self._store.read_clock(tx)
        subjects = [self._subject(new, now) for new in news]
        people = await self._check_people(tx, subjects)
        happened: dict[str, Happened] = {}
        for status in dict.fromkeys(each.status for each in news):
            some = [subject for subject in subjects if subject.status == status]
            events = list(dict.fromkeys((EVENTS["created"], EVENTS[status])))
            for each in await self._enrolling.add(tx, some, events, people=people, by=by):
                happened[each.subject.subject] = each
        for subject in subjects:
            each = happened[subject.subject]
            data = {"status": subject.status, "enrolled": each.enrolled}
            await self._record(tx, each, by, data, name="booking.created")
        return [happened[subject.subject] for subject in subjects]

    async def hold(self, tx: Transaction, id: UUID, transition: Transition | None = None) -> Subject:
        """The booking as it is, which nobody else changes until the transaction ends. A transition that is to follow is
        named."""
        event = None if transition is None else EVENTS[TO[transition]]
        held = (await self._enrolling.hold(tx, [booking_subject(id)], event=event)).get(booking_subject(id))
        if held is None:
            raise no_booking(id)
        return held

    async def get(self, tx: Transaction, id: UUID) -> Subject:
        found = (await self._enrolling.read(tx, [booking_subject(id)])).get(booking_subject(id))
        if found is None:
            raise no_booking(id)
        return found

    async def change(self, tx: Transaction, booking: Subject, change: BookingChange, *, by: By) -> Happened:
        """What is named becomes different. Other dates move what is pending; other people are told, or no longer."""
        facts = dict(booking.facts)
        if change.event_name is not None:
            facts["eventName"] = change.event_name
        if "location" in change.named:
            facts["location"] = change.location
        changed = replace(
            booking,
            facts={name: value for name, value in facts.items() if value is not None},
            starts_at=change.starts_at or booking.starts_at,
            ends_at=change.ends_at or booking.ends_at,
            timezone=change.timezone or booking.timezone,
            subtype=change.subtype or booking.subtype,
            people=booking.people if change.people is None else change.people,
        )
        check_dates(changed)
        await self._check_people(tx, [changed])
        written = await self._enrolling.write(tx, changed)
        (happened,) = await self._enrolling.replan(tx, [written], "booking changed", by=by)
        await self._record(tx, happened, by, {"diff": happened.diff}, name="booking.changed")
        return happened

    async def move(self, tx: Transaction, booking: Subject, transition: Transition, *, by: By) -> Happened:
        """A transition: the state, its event, and what that starts. A booking that is cancelled first cancels whatever
        is pending, and then starts what listens to the cancellation."""
        if not is_legal(transition, booking.status):
            raise not_possible(transition, booking.status)
        status = TO[transition]
        written = await self._enrolling.write(tx, replace(booking, status=status))
        happened = await self._enrolling.happen(
            tx, written, EVENTS[status], by=by, cancels=transition == "cancel"
        )
        data = {"from": booking.status, "enrolled": happened.enrolled, "diff": happened.diff}
        await self._record(tx, happened, by, data)
        return happened

    async def move_by_itself(self, tx: Transaction, subject: str, transition: Transition, *, by: By) -> bool:
        """The time for it has come. False where somebody is changing the booking, who is not waited for: they wait for
        the very job that asks."""
        await self._store.read_listening(tx, event=EVENTS[TO[transition]])
        if not await self._store.lock_free_subject(tx, subject=subject):
            return not await self._enrolling.read(tx, [subject])
        booking = (await self._enrolling.read(tx, [subject]))[subject]
        if is_legal(transition, booking.status):
            await self.move(tx, booking, transition, by=by)
        return True

    async def settings(self, tx: Transaction) -> BookingSettings:
        return await self._store.hold_settings(tx)

    async def change_settings(
        self, tx: Transaction, *, checks_in: bool | None, completes: bool | None, by: By
    ) -> BookingSettings:
        """Decide what bookings do by themselves, also those that are there; a job goes through them."""
        before = await self._store.hold_settings(tx)
        settings = BookingSettings(
            checks_in_at_start=before.checks_in_at_start if checks_in is None else checks_in,
            completes_at_end=before.completes_at_end if completes is None else completes,
        )
        await self._store.write_settings(tx, settings)
        await self._bell.enqueue(tx, REPLAN, {}, subject="bookings:settings")
        data = {
            "checks_in_at_start": settings.checks_in_at_start,
            "completes_at_end": settings.completes_at_end,
        }
        await self._bell.record(
            tx, "bookings.settings_changed", data, actor=by.name, correlation_id=by.correlation_id
        )
        return settings

    async def replan(self, tx: Transaction, *, after: str, person: UUID | None = None, by: By) -> str | None:
        """State anew what is owed about some subjects: those of a person, or the bookings that something may happen to
        by itself. Answers with the last of them, or None once that was all."""
        if person is None:
            names = await self._store.list_open_bookings(tx, after=after, limit=BATCH)
        else:
            names = await self._store.list_subjects_of_person(tx, person=person, after=after, limit=BATCH)
        held = await self._enrolling.hold(tx, names)
        if held:
            await self._enrolling.replan(tx, list(held.values()), "planned anew", by=by)
        return names[-1] if len(names) == BATCH else None

    def _subject(self, new: NewBooking, now: datetime) -> Subject:
        id = self._ids.new()
        facts: dict[str, Any] = {"eventName": new.event_name}
        if new.location is not None:
            facts["location"] = new.location
        subject = Subject(
            subject=booking_subject(id),
            id=id,
            timezone=new.timezone,
            starts_at=new.starts_at,
            ends_at=new.ends_at,
            subtype=new.subtype,
            status=new.status,
            facts=facts,
            people=new.people,
            dates_at=now,
            created_at=now,
            updated_at=now,
        )
        check_dates(subject)
        return subject

    async def _check_people(self, tx: Transaction, subjects: Sequence[Subject]) -> dict[UUID, Recipient]:
        """They are there, and stay for as long as the transaction does."""
        await self._enrolling.hold_people(tx, (id for each in subjects for id, _ in each.people))
        there = await self._enrolling.people(tx, subjects)
        for subject in subjects:
            for place, (id, _) in enumerate(subject.people):
                if id not in there:
                    raise unknown_contact("contactId" if place == 0 else f"contacts/{place - 1}", id)
        return there

    async def _record(
        self,
        tx: Transaction,
        happened: Happened,
        by: By,
        data: Mapping[str, Any],
        *,
        name: str | None = None,
    ) -> None:
        await self._bell.record(
            tx,
            name or f"booking.{happened.subject.status}",
            data,
            subject=happened.subject.subject,
            actor=by.name,
            correlation_id=by.correlation_id,
        )


def check_dates(subject: Subject) -> None:
    zone(subject.timezone)
    if subject.starts_at is not None and subject.ends_at is not None and subject.ends_at < subject.starts_at:
        raise InvalidInput("must not be before the start", field="ends_at")
