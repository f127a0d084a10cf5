"""Everything that is kept about one recipient, as JSON, a page at a time."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from timebell.db.pool import Session
from timebell.errors import InvalidInput
from timebell.kernel import App, Timebell, Transaction
from timebell.kernel.models import check_name
from timebell.kernel.paging import Page, check_limit, decode_cursor, encode_cursor, page_of
from timebell.notify.people.erasure_store import ErasureStore
from timebell.notify.people.recipient_changes import no_recipient
from timebell.notify.rules.recipient_checks import check_recipient_id

_NOTIFICATIONS = "export_notifications"
_INBOX = "export_inbox"
_START = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """One page of an export; `document` can be written as JSON as it is.

    The first page says who the recipient is. Notifications, each with its deliveries, come before the inbox, and then
    what each app keeps, under its name; what a page does not reach comes with the next, which `next_cursor` asks for.
    """

    document: Mapping[str, Any]
    next_cursor: str | None = None


class Exporter:
    """Reads what is kept about recipients, and changes nothing."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._database = bell.database
        self._store = ErasureStore(bell.clock)
        self._apps = {_section(app): app for app in bell.registry.apps if app.on_export is not None}
        self._sections = (_NOTIFICATIONS, _INBOX, *self._apps)

    async def export(self, id: UUID, *, tenant: str, limit: int, cursor: str | None) -> Export:
        check_name("tenant", tenant, required=True)
        check_recipient_id(id)
        check_limit(limit)
        section, after = self._place(cursor)
        async with self._database.transaction() as session:
            await session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            profile = await self._store.export_profile(session, tenant=tenant, id=id)
            if profile is None:
                raise no_recipient(id)
            document: dict[str, Any] = {"recipient": orjson.loads(profile)} if cursor is None else {}
            page = await self._page(session, section, tenant, id, after, limit)
        document[section.removeprefix("export_")] = list(page.lines)
        following = page.next_cursor
        rest = self._sections[self._sections.index(section) + 1 :]
        if following is None and rest:
            following = encode_cursor(rest[0], _START)
        return Export(document=document, next_cursor=following)

    async def _page(
        self, session: Session, section: str, tenant: str, id: UUID, after: UUID | None, limit: int
    ) -> Page[Any]:
        app = self._apps.get(section)
        if app is not None and app.on_export is not None:
            kept = await app.on_export(self._bell, Transaction(session, tenant), id, after, limit)
            return page_of(section, kept, limit, dict)
        read = self._store.export_notifications if section == _NOTIFICATIONS else self._store.export_inbox
        rows = await read(session, tenant=tenant, recipient_id=id, after=after, limit=limit)
        return page_of(section, rows, limit, lambda row: orjson.loads(row["line"]))

    def _place(self, cursor: str | None) -> tuple[str, UUID | None]:
        """The section that a cursor is of. One that is of none is refused in the words of the last."""
        for section in self._sections[:-1]:
            with suppress(InvalidInput):
                return section, decode_cursor(section, cursor).id
        last = self._sections[-1]
        return last, decode_cursor(last, cursor).id


def _section(app: App) -> str:
    return f"export_{app.name}"
