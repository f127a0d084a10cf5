"""Calendars that people have elsewhere: what they say about when somebody is busy counts here as well.

One is uploaded, or lies at a URL and is read from there again and again, by one job for each. Of what it says only the
times are kept, with the rules by which they recur: they come to something else as time goes on, so the job looks at an
upload again too. What a calendar says later does not undo what was accepted before.

Reading one takes a while, so that is done beside the loop and outside of any transaction, for some at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final
from uuid import UUID

from babel.core import get_global

from timebell.apps.meetings.calendars import (
    IMPORTS_MAX,
    CalendarImport,
    import_subject,
    read_entries,
    stored_entries,
)
from timebell.apps.meetings.downloading import Unread, check_feed_url, download
from timebell.apps.meetings.refusals import too_many_calendars
from timebell.apps.meetings.store import MeetingStore
from timebell.apps.meetings.store_calendars import CalendarStore, import_of
from timebell.errors import InvalidInput, NotFound
from timebell.kernel import Ids, Page, ProcessorLimit, Timebell, Transaction, decode_cursor, page_of
from timebell.notify import Notify
from timebell.rules.calendar_busy import BusyTime, busy_time
from timebell.rules.ics_reading import ReadCalendar, is_calendar, read_calendar

READ_CALENDAR: Final = "meetings.read_calendar"
# Whom somebody may be met by is seldom planned farther ahead.
HORIZON: Final = timedelta(days=366)
_BEFORE: Final = timedelta(days=1)
_READ_EVERY: Final = timedelta(hours=6)
_READ_AT_LEAST: Final = timedelta(days=7)
_LOOK_EVERY: Final = timedelta(days=1)
_LIST: Final = "calendar imports"
# Of one tenant; the next has to wait for one to end. Each may take some seconds of a thread that all of them share.
_UPLOADS_AT_ONCE_MAX: Final = 4
_READ_SECONDS_MAX: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a calendar says: its entries as they are stored, and the times that they come to."""

    entries: str
    skipped: Mapping[str, int]
    busy: BusyTime


class Imports:
    """The verbs. Each takes part in the transaction that it is given."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._bell = bell
        self._notify = notify
        self._store = CalendarStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def read(self, tenant: str, person: UUID, ics: str) -> Found:
        """What a file says, in no transaction of the caller's."""
        async with self._bell.transaction(tenant=tenant) as tx:
            timezone = await self._timezone(tx, person)
            now = await MeetingStore(self._bell.clock).read_clock(tx)
        work = partial(_found_in, ics, timezone, now)
        return await self._bell.aside.long.run(tenant, "calendars", work, most=_UPLOADS_AT_ONCE_MAX)

    async def upload(
        self, tx: Transaction, person: UUID, *, name: str, found: Found, actor: str | None
    ) -> CalendarImport:
        """A file that was read, which counts at once."""
        made = await self._add(tx, person, name=name, url=None, actor=actor)
        await self._write(tx, made.id, found, is_new=True)
        await self._owe(tx, made.id, due_at=made.created_at + _LOOK_EVERY)
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

        No transaction is open while a stranger's server is asked, and none while what it says is read.
        """
        async with self._bell.transaction(tenant=tenant) as tx:
            source = await self._store.read_import_source(tx, id=id)
            if source is None:
                return None
            timezone = await self._timezone(tx, source.user_id)
        threads, wait = self._bell.aside.long, _LOOK_EVERY
        if source.url is None:
            work = partial(_found_again, source.entries, source.skipped, timezone, source.now)
            found = await threads.run(tenant, "calendars", work)
        else:
            try:
                text, wait = await download(self._bell, tenant, source.url), _READ_EVERY
                found = await threads.run(
                    tenant, "calendars", partial(_found_there, text, timezone, source.now)
                )
            except Unread as error:
                async with self._bell.transaction(tenant=tenant) as tx:
                    await self._store.fail_import(tx, id=id, reason=error.reason)
                # As long again as it has failed for: it may be gone for good.
                return source.now + min(max(source.now - source.read_at, _READ_EVERY), _READ_AT_LEAST)
        async with self._bell.transaction(tenant=tenant) as tx:
            await self._write(tx, id, found, is_new=source.url is not None)
        return source.now + wait

    async def _add(
        self, tx: Transaction, person: UUID, *, name: str, url: str | None, actor: str | None
    ) -> CalendarImport:
        # Who was erased a moment ago may still be remembered as one who may call, and leaves nothing behind.
        if not await self._notify.recipients.hold(tx, [person]):
            raise NotFound(f"there is no recipient {person}")
        id = self._ids.new()
        if not await self._store.insert_import(
            tx, id=id, user_id=person, name=name, url=url, most=IMPORTS_MAX
        ):
            raise too_many_calendars(IMPORTS_MAX)
        kind = "upload" if url is None else "feed"
        await self._bell.record(
            tx, "calendar.imported", {"kind": kind}, subject=import_subject(id), actor=actor
        )
        return await self.get(tx, person, id)

    async def _timezone(self, tx: Transaction, person: UUID) -> str:
        """That of the person, which counts where an entry has none of its own."""
        people = await self._notify.recipients.get_many(tx, [person])
        return people[person].timezone if person in people else "UTC"

    async def _write(self, tx: Transaction, id: UUID, found: Found, *, is_new: bool) -> None:
        person = await self._store.write_import(
            tx,
            id=id,
            entries=found.entries,
            skipped=found.skipped,
            busy_count=len(found.busy.spans),
            busy_until=found.busy.until,
            is_new=is_new,
        )
        if person is not None:
            await self._store.replace_imported_busy(tx, import_id=id, recipient_id=person, busy=found.busy)

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


def _found_in(text: str, timezone: str, now: datetime) -> Found:
    limit = ProcessorLimit(_READ_SECONDS_MAX, field="ics")
    return _found(read_calendar(text, timezones=_timezones(), look=limit), timezone, now)


def _found_there(text: str, timezone: str, now: datetime) -> Found:
    if not is_calendar(text):
        raise Unread("not_a_calendar")
    try:
        return _found_in(text, timezone, now)
    except InvalidInput:
        raise Unread("too_large") from None


def _found_again(entries: str, skipped: str, timezone: str, now: datetime) -> Found:
    return _found(read_entries(entries, skipped), timezone, now)


def _found(read: ReadCalendar, timezone: str, now: datetime) -> Found:
    busy = busy_time(read.entries, timezone=timezone, after=now - _BEFORE, before=now + HORIZON)
    skipped = {name: count for name, count in read.skipped.items() if name != "too_much_work"}
    if busy.skipped_count:
        skipped["too_much_work"] = busy.skipped_count
    return Found(entries=stored_entries(read.entries), skipped=skipped, busy=busy)


@lru_cache(maxsize=1)
def _timezones() -> MappingProxyType[str, str]:
    """The names that Windows has for timezones, which calendars of its programs use."""
    return MappingProxyType(dict(get_global("windows_zone_mapping")))


def _no_import(id: UUID) -> NotFound:
    return NotFound(f"there is no imported calendar {id}")
