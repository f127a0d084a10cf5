"""`Holds`: slots that somebody keeps free for some minutes, while making up their mind.

A hold takes the time of every participant, as the meeting itself would. An invitee's is for that invitee: nobody else
accepts anything then. The requester's is for the meeting, since whoever proposed it cannot accept it. It ends by
itself: from that instant on it does not count any more, and a job removes it.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from timebell.apps.meetings.busy import RELEASE_HOLD, Busy
from timebell.apps.meetings.models import By, Meeting, Slot
from timebell.apps.meetings.refusals import not_possible, wrong_slot
from timebell.apps.meetings.rules import refused_slot
from timebell.apps.meetings.store import MeetingStore
from timebell.apps.meetings.store_availability import AvailabilityStore, Hold, hold_of
from timebell.kernel import Ids, Job, Page, Timebell, Transaction, decode_cursor, page_of


class Holds:
    """The verbs. Each takes part in the transaction that it is given, in which the meeting is held by whoever asks."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._busy = Busy(bell)
        self._store = AvailabilityStore(bell.clock)
        self._meetings = MeetingStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def add(
        self, tx: Transaction, meeting: Meeting, slot: Slot, *, lasts: timedelta, person: UUID, by: By
    ) -> Hold:
        """Hold a slot that could be accepted. Of several who want the same, one gets it; a person has one at a time."""
        if meeting.status != "pending":
            raise not_possible("hold a slot of", meeting.status)
        now = await self._meetings.read_clock(tx)
        refused = refused_slot(meeting, slot, now)
        if refused is not None:
            raise wrong_slot(refused)
        hold = Hold(
            id=self._ids.new(), meeting_id=meeting.id, held_by=person, slot=slot, expires_at=now + lasts
        )
        await self._busy.hold(tx, meeting, hold)
        await self._bell.enqueue(
            tx,
            RELEASE_HOLD,
            {"meeting_id": str(meeting.id), "hold_id": str(hold.id)},
            key=str(hold.id),
            due_at=hold.expires_at,
            subject=f"hold:{hold.id}",
            correlation_id=by.correlation_id,
        )
        data = {"hold_id": str(hold.id), "expires_at": hold.expires_at.isoformat()}
        await self._record(tx, "meeting.held", meeting, by, data)
        return hold

    async def list(self, tx: Transaction, meeting_id: UUID, *, limit: int, cursor: str | None) -> Page[Hold]:
        """Those that have not ended, the oldest first."""
        after = decode_cursor("holds", cursor).id
        rows = await self._store.read_holds(tx, meeting_id=meeting_id, after=after, limit=limit)
        return page_of("holds", rows, limit, hold_of)

    async def remove(self, tx: Transaction, meeting: Meeting, *, person: UUID, by: By) -> None:
        """End the hold of a person before its time. Where there is none, there is none."""
        if await self._busy.release(tx, meeting, person):
            await self._record(tx, "meeting.hold_released", meeting, by, {})

    async def _record(
        self, tx: Transaction, name: str, meeting: Meeting, by: By, data: dict[str, str]
    ) -> None:
        await self._bell.record(
            tx, name, data, subject=meeting.subject, actor=by.name, correlation_id=by.correlation_id
        )


async def release_hold(job: Job) -> None:
    """Remove a hold that has ended. It counts for nobody by now, so that nobody is waited for either."""
    await AvailabilityStore(job.bell.clock).free_ended_hold(
        job.tx, meeting_id=UUID(job.payload["meeting_id"]), hold_id=UUID(job.payload["hold_id"])
    )
