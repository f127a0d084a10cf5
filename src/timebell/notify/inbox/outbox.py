"""`notify.outbox`: what demo mode kept from leaving, as it would have left.

It is written together with the answer of the provider that captured it, so it shows a delivery if and only if that is
`suppressed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from timebell.db.pool import Row
from timebell.kernel.bell import DEFAULT_TENANT, Timebell
from timebell.kernel.models import check_name
from timebell.kernel.paging import Page, check_limit, decode_cursor, page_of
from timebell.notify.inbox.outbox_store import OutboxStore
from timebell.notify.provider import Channel
from timebell.notify.rules.recipient_checks import check_recipient_id, checked_channel


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxLine:
    """What would have left, to whom, and why it did not. `content` is the whole of what was rendered."""

    id: UUID
    channel: Channel
    to: str
    subject: str | None
    body: str
    content: Mapping[str, Any]
    at: datetime
    template: str
    recipient_id: UUID
    notification_id: UUID
    delivery_id: UUID
    reason: str


class Outbox:
    """What was captured for the recipients of a tenant. The inbox is not part of it, since it stays real."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = OutboxStore(bell.clock)

    async def list(
        self,
        *,
        tenant: str = DEFAULT_TENANT,
        recipient: UUID | None = None,
        channel: Channel | None = None,
        newest_first: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[OutboxLine]:
        """What was captured, the oldest first unless asked otherwise."""
        check_name("tenant", tenant, required=True)
        if recipient is not None:
            check_recipient_id(recipient, "recipient")
        check_limit(limit)
        read = "outbox.back" if newest_first else "outbox"
        place = decode_cursor(read, cursor).id
        filters: dict[str, object] = {
            "tenant": tenant,
            "recipient_id": recipient,
            "channel": None if channel is None else checked_channel(channel),
            "limit": limit,
        }
        async with self._bell.database.connection() as session:
            if newest_first:
                rows = await self._store.list_outbox_back(session, before=place, **filters)
            else:
                rows = await self._store.list_outbox(session, after=place, **filters)
        return page_of(read, rows, limit, _line_of)


def _line_of(row: Row) -> OutboxLine:
    return OutboxLine(
        id=row["id"],
        channel=row["channel"],
        to=row["address"],
        subject=row["subject"],
        body=row["body"],
        content=orjson.loads(row["content"]),
        at=row["captured_at"].astimezone(UTC),
        template=row["template"],
        recipient_id=row["recipient_id"],
        notification_id=row["notification_id"],
        delivery_id=row["delivery_id"],
        reason=row["reason"],
    )
