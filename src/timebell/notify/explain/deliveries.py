"""Looking at deliveries: what was tried on one channel for one notification."""

from __future__ import annotations

from typing import Final, get_args
from uuid import UUID

import orjson

from timebell.db.pool import Row
from timebell.errors import InvalidInput, NotFound
from timebell.kernel import Timebell
from timebell.kernel.bell import DEFAULT_TENANT
from timebell.kernel.models import check_id, check_name
from timebell.kernel.paging import Page, check_limit, decode_cursor, page_of
from timebell.notify.explain.notification_store import NotificationStore
from timebell.notify.explain.notifications import LOOK_MAX, delivery_of
from timebell.notify.models import Delivery
from timebell.notify.provider import Channel
from timebell.notify.reasons import DeliveryState
from timebell.notify.rules.recipient_checks import checked_channel

_STATES: Final = get_args(DeliveryState)


class Deliveries:
    """The deliveries of a tenant, for those who look."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = NotificationStore(bell.clock)

    async def get(self, id: UUID, *, tenant: str = DEFAULT_TENANT) -> Delivery:
        """One delivery with its attempts and what it said."""
        check_name("tenant", tenant, required=True)
        check_id("id", id)
        async with self._bell.database.connection() as session:
            line = await self._store.read_delivery(session, tenant=tenant, id=id)
        if line is None:
            raise NotFound(f"this tenant has no delivery {id}")
        return delivery_of(orjson.loads(line))

    async def list(
        self,
        *,
        tenant: str = DEFAULT_TENANT,
        recipient: UUID | None = None,
        notification: UUID | None = None,
        state: DeliveryState | None = None,
        channel: Channel | None = None,
        newest_first: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Delivery]:
        """Deliveries without attempts and contents, the oldest first unless asked otherwise. A page may be short, or
        empty, and still have a next one."""
        check_name("tenant", tenant, required=True)
        check_id("recipient", recipient)
        check_id("notification", notification)
        if state is not None and state not in _STATES:
            raise InvalidInput(f"{state!r:.100} must be one of {', '.join(_STATES)}", field="state")
        check_limit(limit)
        read = "deliveries.back" if newest_first else "deliveries"
        place = decode_cursor(read, cursor).id
        filters: dict[str, object] = {
            "tenant": tenant,
            "recipient_id": recipient,
            "notification_id": notification,
            "state": state,
            "channel": None if channel is None else checked_channel(channel),
            "look_max": LOOK_MAX,
            "limit": limit,
        }
        async with self._bell.database.connection() as session:
            if newest_first:
                rows = await self._store.list_deliveries_back(session, before=place, **filters)
            else:
                rows = await self._store.list_deliveries(session, after=place, **filters)
        return page_of(read, rows, limit, _delivery_of)


def _delivery_of(row: Row) -> Delivery:
    return delivery_of(orjson.loads(row["line"]))
