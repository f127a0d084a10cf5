"""Calendars that people have elsewhere: what they say about when somebody is busy counts here as well.

One is uploaded, or lies at a URL and is read from there again and again, by one job for each. Of what it says only the
times are kept, with the rules by which they recur: they come to something else as time goes on, so the job looks at an
upload again too. What a calendar says later does not undo what was accepted before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Final
from uuid import UUID

from babel.core import get_global

from timebell.apps.meetings.calendars import IMPORTS_MAX, CalendarImport, import_subject
from timebell.apps.meetings.downloading import Unread, check_feed_url, download
from timebell.apps.meetings.store_calendars import CalendarStore, import_of
from timebell.errors import InvalidInput, NotFound
from timebell.kernel import Ids, Timebell, Transaction
from timebell.notify import Notify
from timebell.rules.calendar_busy import BusyTime, busy_time
from timebell.rules.ics_reading import BusyEntry, ReadCalendar, is_calendar, read_calendar
from timebell.web import Page, Problem, decode_cursor, page_of

READ_CALENDAR: Final = "meetings.read_calendar"
# Whom somebody may be met by is seldom planned farther ahead.
HORIZON: Final = timedelta(days=366)
_BEFORE: Final = timedelta(days=1)
_READ_EVERY: Final = timedelta(hours=6)
_READ_AT_LEAST: Final = timedelta(days=7)
_LOOK_EVERY: Final = timedelta(days=1)
_LIST: Final = "calendar imports"


class Imports:
    """The verbs. Each takes part in the transaction that it is given."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._bell = bell
        self._notify = notify
        self._store = CalendarStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def upload(
        self, tx: Transaction, person: UUID, *, name: str, ics: str, actor: str | None
    ) -> CalendarImport:
        """A file, which counts at once. A large one takes a while to read, so that is done beside the loop."""
        read = await asyncio.to_thread(read_calendar, ics, timezones=_timezones())
        made = await self._add(tx, person, name=name, url=None, actor=actor)
        now = made.created_at
        busy = await self._busy(tx, person, read.entries, now)
        await self._write(tx, made.id, read, busy, is_new=True)
        await self._owe(tx, made.id, due_at=now + _LOOK_EVERY)
        return await self.get(tx, person, made.id)

    async def follow(
        self, tx: Transaction, person: UUID, *, name: str | None, url: str, actor: str | None
    ) -> CalendarImport:
        """A calendar at a URL; it is read as soon as this is committed, and from then on every few hours."""
        url, host = check_feed_url(url)
        made = await self._add(tx, person, name=name or host, url=url, actor=actor)
        await self._owe(tx, made.id, due_at=None)
        return made

    async def get(self, tx: Transaction, person: UUID, id: UUID) -> CalendarImport:
        found = await self._store.read_import(tx, user_id=person, id=id)
        if found is None:
            raise _no_import(id)
        return found

    async def list(
        self, tx: Transaction, person: UUID, *, limit: int, cursor: str | None
    ) -> Page[CalendarImport]:
        rows = await self._store.list_imports(
            tx, user_id=person, after=decode_cursor(_LIST, cursor).id, limit=limit
        )
        return page_of(_LIST, rows, limit, import_of)

    async def remove(self, tx: Transaction, person: UUID, id: UUID, *, actor: str | None) -> None:
        """It counts no more, and is not read again."""
        if not await self._store.delete_import(tx, user_id=person, id=id):
            raise _no_import(id)
        await self._stop(tx, id, reason="removed")
        await self._bell.record(tx, "calendar.removed", {}, subject=import_subject(id), actor=actor)

    async def erase(self, tx: Transaction, person: UUID) -> None:
        for id in await self._store.erase_calendars(tx, user_id=person):
            await self._stop(tx, id, reason="erased")

    async def keep(self, tenant: str, id: UUID) -> datetime | None:
        """Read one again, in transactions of its own, and say when to do so the next time; None where it is gone.

        No transaction is open while a stranger's server is asked.
        """
        async with self._bell.transaction(tenant=tenant) as tx:
            source = await self._store.read_import_source(tx, id=id)
        if source is None:
            return None
        read, wait = source.read, _LOOK_EVERY
        if source.url is not None:
            try:
                read, wait = await _read(source.url), _READ_EVERY
            except Unread as error:
                async with self._bell.transaction(tenant=tenant) as tx:
                    await self._store.fail_import(tx, id=id, reason=error.reason)
                # As long again as it has failed for: it may be gone for good.
                return source.now + min(max(source.now - source.read_at, _READ_EVERY), _READ_AT_LEAST)
        async with self._bell.transaction(tenant=tenant) as tx:
            busy = await self._busy(tx, source.user_id, read.entries, source.now)
            await self._write(tx, id, read, busy, is_new=source.url is not None)
        return source.now + wait

    async def _add(
        self, tx: Transaction, person: UUID, *, name: str, url: str | None, actor: str | None
    ) -> CalendarImport:
        # Who was erased a moment ago may still be remembered as one who may call, and leaves nothing behind.
        if person not in await self._notify.recipients.names(tx, [person]):
            raise NotFound(f"there is no recipient {person}")
        id = self._ids.new()
        if not await self._store.insert_import(
            tx, id=id, user_id=person, name=name, url=url, most=IMPORTS_MAX
        ):
            raise Problem(
                409, "too_many_calendars", f"there are {IMPORTS_MAX} calendars already; take one away first"
            )
        kind = "upload" if url is None else "feed"
        await self._bell.record(
            tx, "calendar.imported", {"kind": kind}, subject=import_subject(id), actor=actor
        )
        return await self.get(tx, person, id)

    async def _busy(
        self, tx: Transaction, person: UUID, entries: Sequence[BusyEntry], now: datetime
    ) -> BusyTime:
        """When the entries say that the person is busy; what has no timezone of its own is in that of the person."""
        people = await self._notify.recipients.get_many(tx, [person])
        timezone = people[person].timezone if person in people else "UTC"
        return await asyncio.to_thread(
            busy_time, entries, timezone=timezone, after=now - _BEFORE, before=now + HORIZON
        )

    async def _write(
        self, tx: Transaction, id: UUID, read: ReadCalendar, busy: BusyTime, *, is_new: bool
    ) -> None:
        skipped = {name: count for name, count in read.skipped.items() if name != "too_much_work"}
        if busy.skipped_count:
            skipped["too_much_work"] = busy.skipped_count
        person = await self._store.write_import(
            tx,
            id=id,
            entries=read.entries,
            skipped=skipped,
            busy_count=len(busy.spans),
            busy_until=busy.until,
            is_new=is_new,
        )
        if person is not None:
            await self._store.replace_imported_busy(tx, import_id=id, recipient_id=person, busy=busy)

    async def _owe(self, tx: Transaction, id: UUID, *, due_at: datetime | None) -> None:
        await self._bell.enqueue(
            tx,
            READ_CALENDAR,
            {"import_id": str(id)},
            key=str(id),
            due_at=due_at,
            subject=import_subject(id),
        )

    async def _stop(self, tx: Transaction, id: UUID, *, reason: str) -> None:
        await self._bell.cancel(tx, kind=READ_CALENDAR, key=str(id), reason=reason)


async def _read(url: str) -> ReadCalendar:
    text = await download(url)
    if not is_calendar(text):
        raise Unread("not_a_calendar")
    try:
        return await asyncio.to_thread(read_calendar, text, timezones=_timezones())
    except InvalidInput:
        raise Unread("too_large") from None


@lru_cache(maxsize=1)
def _timezones() -> MappingProxyType[str, str]:
    """The names that Windows has for timezones, which calendars of its programs use."""
    return MappingProxyType(dict(get_global("windows_zone_mapping")))


def _no_import(id: UUID) -> NotFound:
    return NotFound(f"there is no imported calendar {id}")
