"""Cursors: opaque, exact, and refused when they are not what was given out."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
import pytest

from timebell.errors import InvalidInput
from timebell.kernel.paging import (
    PAGE_BYTES_MAX,
    PAGE_MAX,
    Keyset,
    Page,
    check_limit,
    decode_cursor,
    encode_cursor,
    page_of,
)

ID = UUID("01a1dd42-999a-748d-b358-4f8cd8f16adf")
AT = datetime(2027, 3, 1, 9, 0, 0, 123456, tzinfo=UTC)


def made(content: object) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(content)).decode().rstrip("=")


def test_a_cursor_says_exactly_where_the_page_ended() -> None:
    assert decode_cursor("jobs", encode_cursor("jobs", ID)) == Keyset(id=ID)
    assert decode_cursor("dead", encode_cursor("dead", ID, AT), dated=True) == Keyset(id=ID, at=AT)
    assert decode_cursor("jobs", None) == Keyset()


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "!",
        "ä",
        "abc",
        "x" * 401,
        made(None),
        made("jobs"),
        made({"jobs": 1}),
        made(["jobs", str(ID)]),
        made(["jobs", "not an id", None]),
        made(["jobs", 7, None]),
        made(["jobs", str(ID), AT.isoformat()]),
        encode_cursor("dead", ID),
        encode_cursor("jobs", ID)[:-3],
    ],
)
def test_a_cursor_that_was_not_given_out_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidInput, match="next_cursor of the page before") as refused:
        decode_cursor("jobs", cursor)
    assert refused.value.field == "cursor"


@pytest.mark.parametrize("at", [None, 7, "yesterday", "2027-03-01T09:00:00"])
def test_a_dated_cursor_has_an_instant_with_an_offset(at: object) -> None:
    with pytest.raises(InvalidInput):
        decode_cursor("dead", made(["dead", str(ID), at]), dated=True)


@pytest.mark.parametrize("limit", [0, -1, PAGE_MAX + 1])
def test_a_page_has_between_one_and_five_hundred_lines(limit: int) -> None:
    check_limit(1)
    check_limit(PAGE_MAX)
    with pytest.raises(InvalidInput) as refused:
        check_limit(limit)
    assert refused.value.field == "limit"


def rows(*marks: str) -> list[dict[str, Any]]:
    """`m` matches, `x` does not, and a `!` after it says that looking stopped there."""
    return [
        {"id": UUID(int=number), "is_match": mark[0] == "m", "is_end": mark.endswith("!")}
        for number, mark in enumerate(marks, start=1)
    ]


@pytest.mark.parametrize(
    ("marks", "lines", "goes_on_after"),
    [
        ((), [], None),
        (("m", "m"), [1, 2], None),
        (("m", "m", "m"), [1, 2], 2),
        (("m", "x!"), [1], 2),
        (("x!",), [], 1),
        (("m", "m!"), [1, 2], 2),
        (("m", "m", "x!"), [1, 2], 3),
        (("m", "m", "m!"), [1, 2], 2),
    ],
)
def test_where_the_next_page_goes_on(
    marks: tuple[str, ...], lines: list[int], goes_on_after: int | None
) -> None:
    page: Page[int] = page_of("jobs", rows(*marks), 2, lambda row: int(row["id"]))
    assert list(page.lines) == lines
    after = None if page.next_cursor is None else decode_cursor("jobs", page.next_cursor).id
    assert after == (None if goes_on_after is None else UUID(int=goes_on_after))


def big(number: int, size: int) -> dict[str, Any]:
    return {"id": UUID(int=number), "context": "x" * size, "tags": ["y" * size]}


def test_a_page_ends_where_it_has_enough_bytes_and_the_next_goes_on_there() -> None:
    rows = [big(number, 100_000) for number in range(1, 31)]
    first = page_of("jobs", rows[:21], 20, lambda row: row["id"].int)
    assert first.lines == tuple(range(1, 11))
    assert first.next_cursor == encode_cursor("jobs", UUID(int=10))
    last = page_of("jobs", rows[10:12], 20, lambda row: row["id"].int)
    assert (last.lines, last.next_cursor) == ((11, 12), None)


def test_one_line_is_shown_however_large_it_is() -> None:
    rows = [big(number, PAGE_BYTES_MAX) for number in (1, 2)]
    page = page_of("jobs", rows, 1, lambda row: row["id"].int)
    assert page.lines == (1,)
    assert page.next_cursor == encode_cursor("jobs", UUID(int=1))


def test_a_read_that_stopped_looking_goes_on_after_the_last_that_is_shown() -> None:
    rows = [
        *(big(number, 1_000_000) for number in (1, 2, 3)),
        {"id": UUID(int=9), "is_match": False, "is_end": True},
    ]
    page = page_of("jobs", rows, 5, lambda row: row["id"].int)
    assert page.lines == (1,)
    assert page.next_cursor == encode_cursor("jobs", UUID(int=1))
