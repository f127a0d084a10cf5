"""`Busy`: who is taken when, so that nobody is in two places at once.

An accepted meeting takes its time of every participant, a hold does so for some minutes, and an imported calendar says
what else there is. Whoever takes or frees time first locks the people that it is about, in the order of their ids: two
who want the same person wait for one another and never in a circle. What is taken is then read and compared, so that a
refusal can say when all are free. Should anybody come past the lock, the database takes no two rows of one person that
overlap, and a row that it did not take is refused like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import MAXYEAR, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from timebell.apps.meetings.free_time import free_slots
from timebell.apps.meetings.models import Meeting, Slot
from timebell.apps.meetings.refusals import SlotConflict
from timebell.apps.meetings.store_availability import AvailabilityStore, Hold, Taking
from timebell.kernel import Timebell, Transaction

RELEASE_HOLD: Final = "meetings.release_hold"
NEXT_FREE: Final = 5
_LOOK_AHEAD: Final = timedelta(days=28)


class Busy:
    """The verbs. Each takes part in the transaction that it is given, in which the meeting's row is locked."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = AvailabilityStore(bell.clock)

    async def occupy(self, tx: Transaction, meeting: Meeting, slot: Slot, *, by: UUID | None) -> None:
        """Take a slot for every participant as `by` accepts it; the holds on the meeting end with that.

        Raises `SlotConflict` where a participant has another accepted meeting, imported busy time, or a hold that is
        not for `by`: one on another meeting, or another invitee's on this one. What the requester holds is for
        whoever accepts. Of ends that touch none overlaps the other.
        """
        await self._lock(tx, meeting.participants)
        holders = [meeting.requester_id] if by is None else [meeting.requester_id, by]
        await self._check_free(tx, meeting, slot, meeting.participants, holders)
        await self._end_holds(tx, await self._store.free_meeting(tx, meeting.id))
        await self._take(tx, meeting, meeting.participants, _for_meeting(meeting, slot))

    async def hold(self, tx: Transaction, meeting: Meeting, hold: Hold) -> None:
        """Keep a slot free for some minutes. It takes the place of the hold that the same person had on the meeting.

        Refused like `occupy`, and also where another has a hold on this meeting at that time: one holder wins.
        """
        await self._lock(tx, meeting.participants)
        await self._check_free(tx, meeting, hold.slot, meeting.participants, [hold.held_by])
        await self._end_holds(tx, await self._store.free_meeting(tx, meeting.id, held_by=hold.held_by))
        taking = Taking(
            kind="hold",
            meeting_id=meeting.id,
            slot=hold.slot,
            hold_id=hold.id,
            held_by=hold.held_by,
            expires_at=hold.expires_at,
        )
        await self._take(tx, meeting, meeting.participants, taking)

    async def release(self, tx: Transaction, meeting: Meeting, person: UUID) -> bool:
        """End the hold that a person has on a meeting; False where there is none."""
        await self._lock(tx, meeting.participants)
        ended = await self._store.free_meeting(tx, meeting.id, held_by=person)
        await self._end_holds(tx, ended)
        return bool(ended)

    async def vacate(self, tx: Transaction, meeting_id: UUID) -> None:
        """Free what a meeting took, and end the holds on it: it was denied, rescheduled, cancelled or completed."""
        await self.lock_people_of(tx, [meeting_id])
        await self._end_holds(tx, await self._store.free_meeting(tx, meeting_id))

    async def lock_people_of(self, tx: Transaction, meeting_ids: Sequence[UUID]) -> None:
        """Lock all of whom some meetings have taken time: at once, for whoever goes on to free one after the other."""
        await self._store.lock_people(tx, await self._store.read_people_taken(tx, meeting_ids))

    async def replace_people(self, tx: Transaction, meeting: Meeting) -> None:
        """Bring what is taken in line with the participants that a meeting has by now.

        Of an accepted one the slot is freed for those who left and taken for those who came, which is refused with
        `SlotConflict` where one of them is not free. Holds are freed for those who left, and end with their holder.
        """
        had = await self._store.read_people_taken(tx, [meeting.id])
        if not had:
            return
        await self._lock(tx, {*had, *meeting.participants})
        have = await self._store.free_others(tx, meeting.id, people=meeting.participants)
        slot = meeting.accepted_slot
        came = [person for person in meeting.participants if person not in have]
        if meeting.status != "accepted" or slot is None or not came:
            return
        await self._check_free(tx, meeting, slot, came, [])
        await self._take(tx, meeting, came, _for_meeting(meeting, slot))

    async def free_slots(
        self,
        tx: Transaction,
        people: Sequence[UUID],
        window: Slot,
        *,
        duration: timedelta,
        interval: timedelta | None = None,
        limit: int,
        meeting_id: UUID | None = None,
        holders: Sequence[UUID] = (),
    ) -> list[Slot]:
        """The first slots at which all of them are available and none is taken, one in each `interval`.

        For a meeting that is given, what it has itself is free, and so are its holds of some people. That is how
        `occupy` looks at it, so that what is suggested is not refused.
        """
        work = partial(
            free_slots,
            await self._store.read_hours(tx, people=people),
            await self._store.read_taken(
                tx, people=people, window=window, meeting_id=meeting_id, holders=holders
            ),
            window,
            duration=duration,
            interval=interval or duration,
            limit=limit,
        )
        # For fifty people with a hundred hours each it takes half a second.
        return await self._bell.aside.short.run(tx.tenant, "free_slots", work)

    async def erase(self, tx: Transaction, person: UUID) -> None:
        """Forget the blocks of a person who is erased, what was taken of them, and their number.

        Their holds end as they leave the meetings that those are on.
        """
        await self._store.lock_people(tx, [person])
        await self._store.free_person(tx, person)
        await self._store.erase_blocks(tx, user_id=person)
        await self._store.erase_person(tx, person)

    async def _lock(self, tx: Transaction, people: Iterable[UUID]) -> None:
        ordered = sorted(people)
        await self._store.number_people(tx, ordered)
        await self._store.lock_people(tx, ordered)
        await self._store.free_expired(tx, ordered)

    async def _check_free(
        self,
        tx: Transaction,
        meeting: Meeting,
        slot: Slot,
        people: Sequence[UUID],
        holders: Sequence[UUID],
    ) -> None:
        taken = await self._store.read_taken(
            tx, people=people, window=slot, meeting_id=meeting.id, holders=holders
        )
        if taken:
            raise SlotConflict(await self._next_free(tx, meeting, slot, holders))

    async def _take(self, tx: Transaction, meeting: Meeting, people: Sequence[UUID], taking: Taking) -> None:
        if await self._store.take(tx, people, taking) < len(people):
            holders = [] if taking.held_by is None else [taking.held_by]
            raise SlotConflict(await self._next_free(tx, meeting, taking.slot, holders))

    async def _next_free(
        self, tx: Transaction, meeting: Meeting, slot: Slot, holders: Sequence[UUID]
    ) -> list[Slot]:
        if slot.start.year == MAXYEAR:
            return []
        return await self.free_slots(
            tx,
            meeting.participants,
            Slot(slot.start, slot.start + _LOOK_AHEAD),
            duration=slot.end - slot.start,
            limit=NEXT_FREE,
            meeting_id=meeting.id,
            holders=holders,
        )

    async def _end_holds(self, tx: Transaction, ids: set[UUID]) -> None:
        """Nobody has to look after them any more."""
        for id in sorted(ids):
            await self._bell.cancel(tx, kind=RELEASE_HOLD, key=str(id), reason="released")


def _for_meeting(meeting: Meeting, slot: Slot) -> Taking:
    return Taking(kind="meeting", meeting_id=meeting.id, slot=slot)
