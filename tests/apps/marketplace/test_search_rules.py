"""Under which keys searches lie, who is told and who waits, and what becomes of what failed."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timebell.apps.marketplace.searches.models import Cause, Digested, Match, SearchSettings
from timebell.apps.marketplace.searches.rules import (
    BATCH,
    cause_of,
    digest_batches,
    first_digest,
    is_told,
    keys_of,
    probes_of,
    shared,
    title_of,
    try_again_after,
)
from timebell.apps.marketplace.staffing.bodies import Criteria
from timebell.errors import NotFound

MINUTE = timedelta(minutes=1)
WINDOWS = SearchSettings().windows

ZIPS = st.text("01A -", min_size=1, max_size=4).filter(lambda zip: zip[0] in "01A")
TRADES = st.sampled_from(["carpenter", "painter", ""]).map(lambda trade: trade or None)
SKILLS = st.lists(st.sampled_from(["roofs", "stairs", "Welding"]), max_size=3, unique=True)


@st.composite
def criteria(draw: st.DrawFn) -> Criteria:
    zip = draw(ZIPS | st.none())
    name = draw(st.sampled_from(["zip", "zip_prefix"]))
    return Criteria.model_validate(
        {"trade": draw(TRADES), "skills": draw(SKILLS), **({} if zip is None else {name: zip})}
    )


@given(criteria(), st.sampled_from(["carpenter", "painter"]), ZIPS, SKILLS)
def test_whatever_finds_a_worker_lies_under_one_of_their_keys(
    asked: Criteria, trade: str, zip: str, skills: list[str]
) -> None:
    wanted = asked.wanted()
    fits = (
        asked.trade in (None, trade)
        and (asked.zip is None or asked.zip == zip)
        and (asked.zip_prefix is None or zip.startswith(asked.zip_prefix))
        and set(asked.skills) <= set(skills)
    )
    lies_there = keys_of(wanted, is_exact=asked.zip is not None) in probes_of(trade, zip, skills)
    assert lies_there or not fits
    if len(asked.skills) <= 1:
        assert lies_there == fits


def test_under_which_keys_a_search_lies() -> None:
    def keys(**asked: object) -> tuple[str, str, str]:
        wanted = Criteria.model_validate(asked)
        return keys_of(wanted.wanted(), is_exact=wanted.zip is not None)

    assert keys() == ("", "", "")
    assert keys(zip="101", trade="carpenter") == ("carpenter", "=101", "")
    assert keys(zip_prefix="101", skills=["stairs", "roofs"]) == ("", "101", "roofs")


def test_whoever_is_listed_has_few_keys() -> None:
    probes = probes_of("carpenter", "10115", ["roofs", "stairs", "roofs"])
    assert len(probes) == len(set(probes)) == 2 * 7 * 3
    assert {("", "", ""), ("carpenter", "=10115", "roofs"), ("", "101", "stairs")} <= set(probes)
    assert ("carpenter", "=101", "") not in probes
    assert len(probes_of("t", "z" * 20, [str(number) for number in range(50)])) == 2 * 22 * 51


def match(number: int, user: int = 1) -> Match:
    return Match(id=UUID(int=number), user_id=UUID(int=user), channels=("email",), timezone="UTC")


def test_who_is_told_and_who_waits() -> None:
    matches = [match(1), match(2), match(3, 2), match(4), match(5, 2)]
    parts = shared(matches, recent={UUID(int=2)}, counts={UUID(int=1): 9, UUID(int=2): 10}, most=10)
    assert [one.id.int for one in parts.told] == [1]
    assert [one.id.int for one in parts.overflow] == [3, 4, 5]
    everybody = shared(matches, recent=(), counts={}, most=10)
    assert (len(everybody.told), len(everybody.overflow)) == (5, 0)
    nobody = shared(matches, recent=(), counts={}, most=0)
    assert (len(nobody.told), len(nobody.overflow)) == (0, 5)


@pytest.mark.req("X-J34")
@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OSError("gone"), "database"),
        (TimeoutError(), "database"),
        (asyncpg.ConnectionDoesNotExistError("gone"), "database"),
        (asyncpg.CannotConnectNowError("starting"), "database"),
        (asyncpg.AdminShutdownError("bye"), "database"),
        (asyncpg.TooManyConnectionsError("full"), "database"),
        (asyncpg.ReadOnlySQLTransactionError("no primary"), "database"),
        (asyncpg.UndefinedFunctionError("no such function"), "extension"),
        (asyncpg.UndefinedObjectError("no such type"), "extension"),
        (asyncpg.UndefinedFileError("no such library"), "extension"),
        (asyncpg.QueryCanceledError("too slow"), "query"),
        (asyncpg.DivisionByZeroError("no"), "query"),
        (asyncpg.DeadlockDetectedError("in a circle"), "query"),
        (NotFound("nobody"), "query"),
    ],
)
def test_why_something_could_not_be_asked(error: BaseException, cause: Cause) -> None:
    assert cause_of(error) == cause


def again(cause: Cause, sort: str, *, tries: int = 1, elapsed: timedelta = MINUTE) -> timedelta | None:
    return try_again_after(
        cause,
        "digest" if sort == "digest" else "instant",
        tries=tries,
        elapsed=elapsed,
        windows=WINDOWS,
        fraction=0.5,
    )


@pytest.mark.req("J-5.6", "J-5.7", "J-5.8", "X-J34")
def test_how_long_it_is_waited() -> None:
    for sort in ("instant", "digest"):
        seconds = [again("query", sort, tries=tries) for tries in (1, 2, 3, 4)]
        assert seconds == [timedelta(seconds=30), timedelta(seconds=60), timedelta(seconds=120), None]
        assert again("database", sort, elapsed=timedelta(0)) == timedelta(seconds=30)
        assert again("database", sort, elapsed=10 * MINUTE) == 10 * MINUTE
        assert again("database", sort, elapsed=29 * MINUTE) == MINUTE
        assert again("database", sort, elapsed=30 * MINUTE) is None
    assert again("extension", "instant", elapsed=timedelta(0)) is None
    assert again("extension", "digest", elapsed=50 * MINUTE) == 10 * MINUTE
    assert again("extension", "digest", elapsed=60 * MINUTE) is None


@given(st.integers(0, 3_599), st.floats(0, 1, exclude_max=True))
def test_the_last_try_is_at_the_end_of_the_window_and_not_behind_it(seconds: int, fraction: float) -> None:
    elapsed = timedelta(seconds=seconds)
    delay = try_again_after(
        "extension", "digest", tries=1, elapsed=elapsed, windows=WINDOWS, fraction=fraction
    )
    assert delay is not None
    assert timedelta(0) < delay
    assert elapsed + delay <= timedelta(hours=1)


def users(*counts: int) -> list[tuple[UUID, UUID]]:
    return [
        (UUID(int=user), UUID(int=number)) for user, count in enumerate(counts, 1) for number in range(count)
    ]


@pytest.mark.req("J-14.8")
def test_batches_have_fifty_searches_and_nobody_is_divided() -> None:
    def sizes(*counts: int, is_last: bool = True) -> list[int]:
        return [len(batch) for batch in digest_batches(users(*counts), is_last=is_last)]

    assert sizes(*[1] * 120) == [50, 50, 20]
    assert sizes(30, 30, 20) == [1, 2]
    assert sizes(BATCH, 1) == [1, 1]
    assert sizes(1, 2, 3, is_last=False) == [2]
    assert sizes() == []


@pytest.mark.parametrize(
    ("now", "first"),
    [("2027-03-01T04:59:59", 1), ("2027-03-01T05:00:00", 2), ("2027-03-01T23:00:00", 2)],
)
def test_the_first_digest_is_the_next_morning(now: str, first: int) -> None:
    assert first_digest(datetime.fromisoformat(now)) == datetime.fromisoformat(f"2027-03-0{first}T05:00:00")


@pytest.mark.req("X-J36")
def test_what_stands_in_a_digest() -> None:
    def one(number: int, *, found: bool, digest: bool = True, empty: bool = True) -> Digested:
        return Digested(
            id=UUID(int=number),
            user_id=UUID(int=1),
            title="anybody",
            digest_enabled=digest,
            send_empty_digest=empty,
            workers=[{}] if found else [],
        )

    searches = [
        one(1, found=True),
        one(2, found=False),
        one(3, found=False, empty=False),
        one(4, found=True, empty=False),
        one(5, found=False, digest=False),
        one(6, found=True, digest=False),
    ]
    assert [each.id.int for each in is_told(searches)] == [1, 2, 4, 6]


def test_what_a_search_is_called() -> None:
    said = {"trade": "carpenter", "zip_prefix": "101", "skills": ["roofs", "stairs"], "rate_max": 3_005}
    assert title_of(said) == "carpenter, 101…, roofs, stairs, up to 30.05"
    days = {"zip": "10115", "available_from": "2027-03-01", "available_to": "2027-03-02"}
    assert title_of(days) == "10115, 2027-03-01 to 2027-03-02"
    assert title_of({}) == "anybody"
