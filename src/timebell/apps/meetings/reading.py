"""Queries about meetings, asked by those who take part in them."""

from __future__ import annotations

from uuid import UUID

from timebell.apps.meetings.models import Meeting, MeetingFilter, MeetingSettings, ReminderJob, StatusEvent
from timebell.apps.meetings.refusals import no_meeting
from timebell.apps.meetings.store import MeetingStore, event_of, meeting_of, reminder_of
from timebell.kernel import Page, Timebell, Transaction, decode_cursor, page_of


class Reading:
    """The questions. To whoever takes no part in a meeting it is as if it were not."""

    def __init__(self, bell: Timebell) -> None:
        self._store = MeetingStore(bell.clock)

    async def get(self, tx: Transaction, person: UUID, id: UUID) -> Meeting:
        meeting = await self._store.read_meeting(tx, id=id)
        if meeting is None or person not in meeting.participants:
            raise no_meeting(id)
        return meeting

    async def list(
        self,
        tx: Transaction,
        person: UUID,
        wanted: MeetingFilter,
        *,
        newest_first: bool = False,
        limit: int,
        cursor: str | None,
    ) -> Page[Meeting]:
        name = "meetings back" if newest_first else "meetings"
        read = self._store.list_meetings_back if newest_first else self._store.list_meetings
        rows = await read(
            tx,
            person=person,
            status=wanted.status,
            other=wanted.person,
            since=wanted.since,
            before=wanted.before,
            after=decode_cursor(name, cursor).id,
            limit=limit,
        )
        return page_of(name, rows, limit, meeting_of)

    async def lineage(
        self, tx: Transaction, person: UUID, id: UUID, *, limit: int, cursor: str | None
    ) -> Page[Meeting]:
        """The meeting, those that were rescheduled into it, and those that it was rescheduled into; the first first."""
        meeting = await self.get(tx, person, id)
        rows = await self._store.list_lineage(
            tx,
            root_id=meeting.root_id,
            person=person,
            after=decode_cursor("lineage", cursor).id,
            limit=limit,
        )
        return page_of("lineage", rows, limit, meeting_of)

    async def events(
        self, tx: Transaction, person: UUID, id: UUID, *, limit: int, cursor: str | None
    ) -> Page[StatusEvent]:
        """What became of a meeting, in order. No meeting has more than two transitions."""
        await self.get(tx, person, id)
        after = decode_cursor("events", cursor).id
        rows = await self._store.list_status_events(tx, meeting_id=id, after=after, limit=limit)
        return page_of("events", rows, limit, event_of)

    async def reminders(
        self, tx: Transaction, person: UUID, id: UUID, *, limit: int, cursor: str | None
    ) -> Page[ReminderJob]:
        """The reminders of a meeting: those that are owed, and what became of the others."""
        await self.get(tx, person, id)
        after = decode_cursor("reminders", cursor).id
        rows = await self._store.list_reminders(tx, meeting_id=id, after=after, limit=limit)
        return page_of("reminders", rows, limit, reminder_of)

    async def settings(self, tx: Transaction) -> MeetingSettings:
        return await self._store.read_settings(tx)
