"""Pages of a long list. A cursor says where the page before ended, so nothing shifts as one reads on."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar
from uuid import UUID

import orjson

from timebell.db.pool import Row
from timebell.errors import InvalidInput
from timebell.kernel.models import check_between

PAGE_MAX = 500
PAGE_BYTES_MAX = 2_097_152
_CURSOR_MAX = 400

Line = TypeVar("Line")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a list is asked for: whose and which rows, from which one on, and how much may be looked at."""

    limit: int
    tenant: str | None = None
    kind: str | None = None
    queue: str | None = None
    subject: str | None = None
    key: str | None = None
    state: str | None = None
    fingerprint: str | None = None
    correlation_id: str | None = None
    name: str | None = None
    oldest_first: bool = False
    before: UUID | None = None
    before_at: datetime | None = None
    after: UUID | None = None
    after_at: datetime | None = None
    look_max: int = 10_000
    slot_rows_max: int = 130
    count_max: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Line]):
    """Some lines of a list and, unless they are the last, the cursor with which the next page is asked for.

    A page may hold fewer lines than asked for, or none, and still have a next one: one call looks at no more
    than a bounded number of rows, and answers with no more than so many bytes of them.
    """

    lines: tuple[Line, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyset:
    """The row at which a page ended. Lists that are in the order of an instant have one."""

    id: UUID | None = None
    at: datetime | None = None


def check_limit(limit: int) -> None:
    check_between("limit", limit, 1, PAGE_MAX)


def encode_cursor(read: str, id: UUID, at: datetime | None = None) -> str:
    """The name of the read is part of the cursor, so that one list's cursor is not taken for another's."""
    keyset = [read, str(id), None if at is None else at.isoformat()]
    return base64.urlsafe_b64encode(orjson.dumps(keyset)).decode("ascii").rstrip("=")


def decode_cursor(read: str, cursor: str | None, *, dated: bool = False) -> Keyset:
    if cursor is None:
        return Keyset()
    try:
        if len(cursor) > _CURSOR_MAX:
            raise ValueError("too long")
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        name, id, at = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if name != read or (at is not None) != dated:
            raise ValueError("of another list")
        keyset = Keyset(id=UUID(id), at=None if at is None else datetime.fromisoformat(at))
        if keyset.at is not None and keyset.at.tzinfo is None:
            raise ValueError("without an offset")
    except (ValueError, TypeError, AttributeError, UnicodeError, binascii.Error):
        raise InvalidInput(
            "cannot be read; give the next_cursor of the page before, unchanged, or none for the first page",
            field="cursor",
        ) from None
    return keyset


def first_of(rows: Sequence[Row], limit: int) -> Sequence[Row]:
    """The rows that make one page: up to the limit, and up to so many bytes, but at least one."""
    left = PAGE_BYTES_MAX
    for count, row in enumerate(rows[:limit]):
        left -= sum(map(_bytes_of, row.values()))
        if left < 0 and count:
            return rows[:count]
    return rows[:limit]


def _bytes_of(value: object) -> int:
    """About; what is not a text is small beside those that are not."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, (list, tuple)):
        return sum(map(_bytes_of, value))
    if isinstance(value, Mapping):
        return sum(map(_bytes_of, value.values()))
    return 8


def page_of(
    read: str, rows: Sequence[Row], limit: int, line_of: Callable[[Row], Line], at: str | None = None
) -> Page[Line]:
    """The page that rows make, one more of them than the limit if there are more.

    A read that looks at a bounded number of rows says which of its rows match, and which is the one where
    looking stopped; the next page goes on after that one, or after the last that is shown.
    """
    matching = [row for row in rows if row.get("is_match", True)]
    shown = first_of(matching, limit)
    last: Row | None = None
    if len(matching) > len(shown):
        last = shown[-1]
    elif rows and rows[-1].get("is_end", False):
        last = rows[-1]
    lines = tuple(line_of(row) for row in shown)
    if last is None:
        return Page(lines=lines)
    return Page(lines=lines, next_cursor=encode_cursor(read, last["id"], last[at] if at else None))
