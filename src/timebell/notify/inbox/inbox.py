"""`notify.inbox`: what a recipient sees in the application, in the order in which it came.

An entry's `seq` is one more than that of the entry before it, and nothing with a lower one can appear afterwards. So
whoever was away asks for what came after the last `seq` it saw, and has then seen everything.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC
from typing import get_args
from uuid import UUID

import orjson

from timebell.db.pool import Row
from timebell.errors import InvalidInput, NotFound
from timebell.kernel.bell import DEFAULT_TENANT, Timebell
from timebell.kernel.models import check_name, check_whole
from timebell.kernel.paging import PAGE_MAX, Page, check_limit, first_of
from timebell.kernel.transaction import Transaction, check_transaction
from timebell.notify.inbox.inbox_store import InboxStore
from timebell.notify.models import InboxLine, InboxStatus
from timebell.notify.rules.recipient_checks import check_recipient_id

_SEQ_MAX = 2**63 - 1


class Inbox:
    """The inboxes of a tenant's recipients. An entry has the id of the notification that it tells."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = InboxStore(bell.clock)

    async def list(
        self,
        recipient: UUID,
        *,
        tenant: str = DEFAULT_TENANT,
        status: InboxStatus | None = None,
        newest_first: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[InboxLine]:
        """A page of a recipient's inbox, the oldest first unless asked otherwise.

        The cursor is the `seq` at which the page ended, so a client may also give one that it remembers.
        """
        self._check(recipient, tenant, limit)
        if status is not None:
            _check_status(status)
        seq = None if cursor is None else _seq_of(cursor)
        async with self._bell.database.connection() as session:
            if newest_first:
                before = _SEQ_MAX if seq is None else seq
                rows = await self._store.list_inbox_back(
                    session, tenant=tenant, recipient_id=recipient, status=status, before=before, limit=limit
                )
            else:
                rows = await self._store.list_inbox(
                    session, tenant=tenant, recipient_id=recipient, status=status, after=seq or 0, limit=limit
                )
        lines = tuple(map(_line_of, first_of(rows, limit)))
        return Page(lines=lines, next_cursor=str(lines[-1].seq) if len(rows) > len(lines) else None)

    async def read_after(
        self, recipient: UUID, seq: int, *, tenant: str = DEFAULT_TENANT, limit: int = PAGE_MAX
    ) -> tuple[InboxLine, ...]:
        """What came after an entry, the oldest first: what a live stream sends, and what it missed."""
        self._check(recipient, tenant, limit)
        check_whole("seq", seq, 0, _SEQ_MAX)
        async with self._bell.database.connection() as session:
            rows = await self._store.list_inbox(
                session, tenant=tenant, recipient_id=recipient, status=None, after=seq, limit=limit
            )
        return tuple(map(_line_of, rows[:limit]))

    async def read_ends(
        self, recipients: Collection[UUID], *, tenant: str = DEFAULT_TENANT
    ) -> dict[UUID, int]:
        """The last `seq` of each inbox, 0 for an empty one; nothing for who was erased or is not there."""
        check_name("tenant", tenant, required=True)
        async with self._bell.database.connection() as session:
            rows = await self._store.read_inbox_ends(session, tenant=tenant, recipient_ids=list(recipients))
        return {row["recipient_id"]: row["last_seq"] for row in rows}

    async def count_unseen(self, recipient: UUID, *, tenant: str = DEFAULT_TENANT) -> int:
        """How many entries were not seen yet; counted anew each time, so that it cannot drift."""
        self._check(recipient, tenant)
        async with self._bell.database.connection() as session:
            return await self._store.count_unseen(session, tenant=tenant, recipient_id=recipient)

    async def mark(
        self, tx: Transaction, recipient: UUID, ids: Sequence[UUID], status: InboxStatus
    ) -> tuple[InboxLine, ...]:
        """Give entries a status: all of them or, where one is not in this inbox, none. Answers with them, the oldest
        first."""
        check_transaction(tx)
        check_recipient_id(recipient, "recipient")
        _check_status(status)
        _check_ids(ids)
        async with tx.all_or_nothing():
            rows = await self._store.mark_inbox(
                tx.session, tenant=tx.tenant, recipient_id=recipient, ids=list(ids), status=status
            )
            unknown = set(ids) - {row["id"] for row in rows}
            if unknown:
                raise NotFound(f"ids: {min(unknown)} is not in the inbox of the recipient {recipient}")
        return tuple(map(_line_of, sorted(rows, key=lambda row: row["seq"])))

    async def mark_all_seen(self, tx: Transaction, recipient: UUID, *, up_to: int | None = None) -> int:
        """Everything unseen is seen; answers with how much that was.

        With `up_to`, the last `seq` that was shown to the recipient, what came after it stays unseen.
        """
        check_transaction(tx)
        check_recipient_id(recipient, "recipient")
        check_whole("up_to", up_to, 0, _SEQ_MAX)
        return await self._store.mark_inbox_seen(
            tx.session,
            tenant=tx.tenant,
            recipient_id=recipient,
            up_to=_SEQ_MAX if up_to is None else up_to,
        )

    def _check(self, recipient: UUID, tenant: str, limit: int = 1) -> None:
        check_recipient_id(recipient, "recipient")
        check_name("tenant", tenant, required=True)
        check_limit(limit)


def _check_status(status: object) -> None:
    known = get_args(InboxStatus)
    if status not in known:
        raise InvalidInput(f"{status!r:.100} is no status; give one of {', '.join(known)}", field="status")


def _check_ids(ids: object) -> None:
    if not isinstance(ids, Sequence) or not all(isinstance(id, UUID) for id in ids):
        raise InvalidInput("must be a list of the ids of entries, which are UUIDs", field="ids")
    if len(ids) > PAGE_MAX:
        raise InvalidInput(f"{len(ids)} at once, the limit is {PAGE_MAX}; send several", field="ids")


def _seq_of(cursor: object) -> int:
    if isinstance(cursor, str) and cursor.isascii() and cursor.isdecimal() and len(cursor) <= 19:
        return min(int(cursor), _SEQ_MAX)
    raise InvalidInput(
        "cannot be read; give the next_cursor of the page before, a seq, or none for the first page",
        field="cursor",
    )


def _line_of(row: Row) -> InboxLine:
    return InboxLine(
        id=row["id"],
        seq=row["seq"],
        recipient_id=row["recipient_id"],
        type=row["type"],
        title=row["title"],
        description=row["description"],
        status=row["status"],
        priority=row["priority"],
        payload=orjson.loads(row["payload"]),
        subject=row["subject"],
        due_at=row["due_at"].astimezone(UTC),
        created_at=row["created_at"].astimezone(UTC),
        updated_at=row["updated_at"].astimezone(UTC),
    )
