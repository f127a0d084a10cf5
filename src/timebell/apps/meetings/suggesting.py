"""`Suggesting`: when several people can meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final
from uuid import UUID

from timebell.apps.meetings.busy import Busy
from timebell.apps.meetings.models import Slot
from timebell.apps.meetings.refusals import unknown_people
from timebell.apps.meetings.store import MeetingStore
from timebell.errors import InvalidInput
from timebell.kernel import Timebell, Transaction
from timebell.notify import Notify

_AHEAD_MAX: Final = timedelta(days=732)


class Suggesting:
    """Asks what `accept` asks, so that what is suggested is not refused a moment later for another reason."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._busy = Busy(bell)
        self._notify = notify
        self._store = MeetingStore(bell.clock)

    async def suggest(
        self,
        tx: Transaction,
        people: Sequence[UUID],
        window: Slot,
        *,
        duration: timedelta,
        interval: timedelta | None,
        limit: int,
    ) -> list[Slot]:
        """The first slots to come that suit all of them. Nothing is promised: a moment later one may be taken."""
        now = await self._store.read_clock(tx)
        if window.end > now + _AHEAD_MAX:
            raise InvalidInput(
                f"ends in more than {_AHEAD_MAX.days} days; ask for an earlier one", field="window"
            )
        asked = sorted(set(people))
        known = await self._notify.recipients.get_many(tx, asked)
        unknown = [person for person in asked if person not in known]
        if unknown:
            raise unknown_people("participants", unknown)
        to_come = replace(window, start=max(window.start, now))
        if to_come.start >= to_come.end:
            return []
        return await self._busy.free_slots(
            tx, asked, to_come, duration=duration, interval=interval, limit=limit
        )
