"""The suppression list: addresses that nothing may be sent to, whoever they belong to."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import orjson

from timebell.db.pool import Row
from timebell.errors import InvalidInput
from timebell.kernel.bell import DEFAULT_TENANT, Timebell
from timebell.kernel.models import REASON_MAX, check_name
from timebell.kernel.paging import Page, check_limit
from timebell.kernel.transaction import Transaction, check_transaction
from timebell.notify.people.addresses import checked_value
from timebell.notify.people.suppression_store import SuppressionStore
from timebell.notify.provider import Channel
from timebell.notify.rules.recipient_checks import checked_channel

SuppressedClass = Literal["", "transactional", "marketing"]

_CURSOR_MAX = 16_000
_HIDDEN = "sha256:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """An address of a channel that gets nothing, or nothing of one class of message.

    `message_class` is '' where it gets nothing at all. `address` is a hash where it belonged to a recipient that was
    erased: it still gets nothing, and can no longer be read.
    """

    channel: Channel
    address: str
    message_class: SuppressedClass
    reason: str
    source: str
    created_at: datetime

    @property
    def is_hidden(self) -> bool:
        return self.address.startswith(_HIDDEN)


class Suppressions:
    """The suppression list of a tenant. Not even what is critical passes it."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = SuppressionStore(bell.clock)

    async def add(
        self,
        tx: Transaction,
        *,
        channel: Channel,
        address: str,
        message_class: SuppressedClass = "",
        reason: str = "manual",
        source: str = "operator",
    ) -> bool:
        """Whether it is new; one that stood there already keeps its reason."""
        check_transaction(tx)
        check_name("reason", reason, longest=REASON_MAX, required=True)
        check_name("source", source, required=True)
        return await self._store.insert_suppression(
            tx.session,
            tenant=tx.tenant,
            channel=checked_channel(channel),
            address=checked_value(channel, address),
            reason=reason,
            source=source,
            **{"class": _checked_class(message_class)},
        )

    async def remove(
        self,
        tx: Transaction,
        *,
        channel: Channel,
        address: str,
        message_class: SuppressedClass = "",
        actor: str | None = None,
    ) -> bool:
        """Whether there was one. That somebody took it off the list is recorded, since the row is gone."""
        check_transaction(tx)
        check_name("actor", actor)
        stored_class = _checked_class(message_class)
        is_gone = await self._store.delete_suppression(
            tx.session,
            tenant=tx.tenant,
            channel=checked_channel(channel),
            address=checked_value(channel, address),
            **{"class": stored_class},
        )
        if is_gone:
            about = {"channel": channel, "class": stored_class}
            await self._bell.record(tx, "suppression.removed", about, actor=actor)
        return is_gone

    async def find(
        self, *, channel: Channel, address: str, tenant: str = DEFAULT_TENANT
    ) -> tuple[Suppression, ...]:
        """What is suppressed of one address, also where an erasure has hidden that."""
        check_name("tenant", tenant, required=True)
        value = checked_value(checked_channel(channel), address)
        async with self._bell.database.connection() as session:
            rows = await self._store.find_suppressions(session, tenant=tenant, channel=channel, address=value)
        return tuple(map(_suppression_of, rows))

    async def list(
        self, *, tenant: str = DEFAULT_TENANT, limit: int = 50, cursor: str | None = None
    ) -> Page[Suppression]:
        """What is on the list, by channel and address."""
        check_name("tenant", tenant, required=True)
        check_limit(limit)
        channel, address, message_class = _decode_cursor(cursor)
        async with self._bell.database.connection() as session:
            rows = await self._store.list_suppressions(
                session,
                tenant=tenant,
                after_channel=channel,
                after_address=address,
                after_class=message_class,
                limit=limit,
            )
        lines = tuple(map(_suppression_of, rows[:limit]))
        return Page(lines=lines, next_cursor=_encode_cursor(lines[-1]) if len(rows) > limit else None)


def _suppression_of(row: Row) -> Suppression:
    return Suppression(
        channel=row["channel"],
        address=row["address"],
        message_class=row["class"],
        reason=row["reason"],
        source=row["source"],
        created_at=row["created_at"].astimezone(UTC),
    )


def _checked_class(value: SuppressedClass) -> SuppressedClass:
    if value not in ("", "transactional", "marketing"):
        raise InvalidInput(
            "must be 'transactional', 'marketing', or '' for every class of message", field="message_class"
        )
    return value


def _encode_cursor(last: Suppression) -> str:
    """The list is in the order of its key, which is no id."""
    keyset = orjson.dumps(["suppressions", last.channel, last.address, last.message_class])
    return base64.urlsafe_b64encode(keyset).decode("ascii").rstrip("=")


def _decode_cursor(cursor: str | None) -> tuple[str, str, str]:
    if cursor is None:
        return "", "", ""
    try:
        if len(cursor) > _CURSOR_MAX:
            raise ValueError("too long")
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        name, channel, address, message_class = orjson.loads(base64.b64decode(padded, b"-_", validate=True))
        for part in (channel, address, message_class):
            if part != "":
                check_name("cursor", part, longest=_CURSOR_MAX, required=True)
        if name != "suppressions":
            raise ValueError("of another list")
    except (ValueError, TypeError, AttributeError, UnicodeError, binascii.Error, InvalidInput):
        raise InvalidInput(
            "cannot be read; give the next_cursor of the page before, unchanged, or none for the first page",
            field="cursor",
        ) from None
    return channel, address, message_class
