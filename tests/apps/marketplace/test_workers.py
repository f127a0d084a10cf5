"""Workers, and the search for them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.apps.marketplace.support import FIRST, Market, done, weekdays
from tests.apps.marketplace.test_companies import every_id
from tests.web.support import problem

PROFILE: dict[str, Any] = {"trade": "carpenter", "zip": "10115", "skills": ["roofs"], "hourly_rate": 2_500}


async def test_somebody_becomes_a_worker_whom_nobody_finds_yet(market: Market) -> None:
    body = {"recipient_id": str(market.people["Zoe"]), "company_id": str(market.lender), **PROFILE}
    worker = done(await market.ask("Lea", "POST", "workers", body), 201)
    assert worker["state"] == "Unlisted"
    assert worker.items() >= PROFILE.items()
    path = f"workers/{worker['id']}"
    assert await every_id(market, "workers", "Bea") == [str(market.worker)]
    problem(await market.ask("Bea", "GET", path), 404, "not_found")
    for who in ("Zoe", "Leo", None):
        assert await market.get(path, who) == worker
    listed = done(await market.ask("Leo", "PUT", f"{path}/state", {"state": "Listed"}))
    assert listed["state"] == "Listed"
    assert await market.get(path, "Bea") == listed
    assert worker["id"] in await every_id(market, "workers", "Bea")
    assert await market.events(f"worker:{worker['id']}") == ["worker.added", "worker.state_changed"]
    [member] = [
        one
        for one in await market.data(f"companies/{market.lender}/members")
        if one["recipient_id"] == str(market.people["Zoe"])
    ]
    assert member["roles"] == ["worker"]


async def test_who_may_make_and_change_workers(market: Market) -> None:
    body = {"recipient_id": str(market.people["Zoe"]), "company_id": str(market.lender), **PROFILE}
    problem(await market.ask("Leo", "POST", "workers", body), 403, "not_allowed")
    problem(await market.ask("Bea", "POST", "workers", body), 404, "not_found")
    path = f"workers/{market.worker}"
    for who in ("Bea", "Wim", "Zoe"):
        problem(await market.ask(who, "PUT", f"{path}/state", {"state": "Unlisted"}), 403, "not_allowed")
        problem(await market.ask(who, "PATCH", path, {"hourly_rate": 1}), 403, "not_allowed")
    changed = done(await market.ask("Lea", "PATCH", path, {"hourly_rate": 3_000, "skills": ["stairs"]}))
    assert (changed["hourly_rate"], changed["skills"], changed["trade"]) == (3_000, ["stairs"], "carpenter")
    same = done(await market.ask("Lea", "PATCH", path, {}))
    assert same["hourly_rate"] == 3_000
    assert await market.events(f"worker:{market.worker}") == ["worker.changed"]


async def test_a_person_is_one_worker_of_a_company_that_lends(market: Market) -> None:
    body = {"recipient_id": str(market.people["Wim"]), "company_id": str(market.lender), **PROFILE}
    problem(await market.ask("Lea", "POST", "workers", body), 409, "worker_exists")
    borrows = {**body, "company_id": str(market.borrower)}
    refused = problem(await market.ask("Bea", "POST", "workers", borrows), 422, "invalid_input")
    assert refused["errors"][0]["pointer"] == "/company_id"
    for wrong in ({"zip": "a,b"}, {"hourly_rate": -1}, {"trade": " "}, {"skills": ["a,b"]}):
        problem(await market.ask("Lea", "POST", "workers", {**body, **wrong}), 422, "invalid_input")


async def crew(market: Market) -> dict[str, str]:
    """Six workers who differ in one thing each, by name."""
    profiles: dict[str, dict[str, Any]] = {
        "near": {"zip": "10117"},
        "far": {"zip": "80331"},
        "painter": {"trade": "painter"},
        "skilled": {"skills": ["roofs", "stairs"]},
        "dear": {"hourly_rate": 9_000},
        "away": {"state": "Unlisted"},
    }
    ids = {name: str(await market.add_worker(name, **profile)) for name, profile in profiles.items()}
    return {"wim": str(market.worker), **ids}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, {"wim", "near", "far", "painter", "skilled", "dear"}),
        ({"trade": "carpenter"}, {"wim", "near", "far", "skilled", "dear"}),
        ({"trade": "roofer"}, set()),
        ({"trade": "carpenter", "zip": "10115"}, {"wim", "skilled", "dear"}),
        ({"trade": "carpenter", "zip": "1011"}, set()),
        ({"trade": "carpenter", "zip_prefix": "101"}, {"wim", "near", "skilled", "dear"}),
        ({"trade": "carpenter", "zip_prefix": "10117"}, {"near"}),
        ({"zip": "80331"}, {"far"}),
        ({"zip_prefix": "8"}, {"far"}),
        ({"skills": "roofs"}, {"skilled"}),
        ({"skills": "stairs, roofs", "trade": "carpenter"}, {"skilled"}),
        ({"skills": "roofs,welding"}, set()),
        ({"rate_max": 2_500}, {"wim", "near", "far", "painter", "skilled"}),
        ({"rate_max": 2_499, "trade": "carpenter"}, set()),
    ],
)
async def test_the_search_finds_who_has_everything_that_is_asked(
    market: Market, asked: dict[str, Any], found: set[str]
) -> None:
    ids = await crew(market)
    names = {id: name for name, id in ids.items()}
    assert {names[id] for id in await every_id(market, "workers", "Bea", **asked)} == found
    lent = {"company_id": str(market.lender), **asked}
    assert {names[id] for id in await every_id(market, "workers", "Bea", **lent)} == found


async def test_who_is_not_listed_is_shown_to_their_company(market: Market) -> None:
    ids = await crew(market)
    asked = {"state": "Unlisted", "company_id": str(market.lender)}
    assert await every_id(market, "workers", "Leo", **asked) == [ids["away"]]
    assert await every_id(market, "workers", None, state="Unlisted") == [ids["away"]]
    assert await every_id(market, "workers", None, state="Unlisted", trade="painter") == []
    for who in ("Bea", "Wim"):
        problem(await market.ask(who, "GET", "workers", params=asked), 404, "not_found")
    refused = problem(
        await market.ask("Leo", "GET", "workers", params={"state": "Booked"}), 422, "invalid_input"
    )
    assert refused["errors"][0]["pointer"] == "/company_id"


def days(first: str, last: str, timezone: str = "Europe/Berlin") -> dict[str, str]:
    return {"available_from": first, "available_to": last, "timezone": timezone}


@pytest.mark.req("J-10.1")
async def test_a_worker_is_found_until_somebody_has_booked_them_and_then_for_other_days(
    market: Market,
) -> None:
    """From the second to the fourteenth. No cart: whoever only looks takes nobody away."""
    wim = str(market.worker)
    asked = days("2027-03-01", "2027-03-31")
    for who in ("Bea", "Ben", "Zoe"):
        assert await every_id(market, "workers", who, **asked) == [wim]
    dry = await market.ask("Bea", "POST", "bookings", market.order(), params={"dry_run": "true"})
    assert dry.is_success, dry.text
    assert await every_id(market, "workers", "Bea", **asked) == [wim]
    await market.book()
    for trade in ({}, {"trade": "carpenter"}, {"company_id": str(market.lender)}):
        assert await every_id(market, "workers", "Bea", **asked, **trade) == []
        assert await every_id(market, "workers", "Bea", **days("2027-03-01", "2027-03-01"), **trade) == [wim]
        assert await every_id(market, "workers", "Bea", **days("2027-03-01", "2027-03-02"), **trade) == []
        assert await every_id(market, "workers", "Bea", **days("2027-03-14", "2027-03-14"), **trade) == []
        assert await every_id(market, "workers", "Bea", **days("2027-03-15", "2027-03-31"), **trade) == [wim]
    # The fifteenth begins earlier in Tokyo, where it is still the fourteenth in Berlin.
    assert await every_id(market, "workers", "Bea", **days("2027-03-15", "2027-03-15", "Asia/Tokyo")) == []
    assert await every_id(market, "workers", "Bea") == [wim], "without days nobody asks who is taken"


@pytest.mark.parametrize(
    "asked",
    [
        {"available_from": "2027-03-01"},
        {"available_to": "2027-03-01"},
        days("2027-03-02", "2027-03-01"),
        {"skills": ""},
        {"zip": "1", "zip_prefix": "1"},
        {"zip": "%"},
        {"rate_max": "-1"},
        {"skill": "roofs"},
        {"state": "Gone"},
        {"cursor": "nonsense"},
    ],
)
async def test_a_search_that_cannot_be_is_refused(market: Market, asked: dict[str, str]) -> None:
    problem(await market.ask("Bea", "GET", "workers", params=asked), 422, "invalid_input")


@pytest.mark.req("J-10.1", "J-10.3", "X-J30")
async def test_there_are_no_carts(market: Market) -> None:
    """No table, no column, no queue and no job that would belong to one."""
    names = await market.rows(
        "SELECT table_name || '.' || column_name AS name FROM information_schema.columns "
        "WHERE table_schema = 'marketplace'"
    )
    registry = market.bench.bell.registry
    words = [row["name"] for row in names] + [*registry.queues, *registry.handlers]
    assert len(words) > 50
    assert [word for word in words if "cart" in word or "locked_at" in word] == []
    before = await market.value("SELECT count(*) FROM timebell.jobs")
    await every_id(market, "workers", "Bea")
    assert await market.value("SELECT count(*) FROM timebell.jobs") == before


async def test_bookings_keep_the_rate_that_they_were_made_with(market: Market) -> None:
    booking = await market.book(*weekdays(FIRST, FIRST))
    done(await market.ask("Lea", "PATCH", f"workers/{market.worker}", {"hourly_rate": 9_999}))
    assert booking["rate"] == (await market.get(f"bookings/{booking['id']}"))["rate"] == 2_500
    assert isinstance(UUID(booking["worker_id"]), UUID)


async def test_days_are_those_of_a_timezone_that_is_known(market: Market) -> None:
    asked = days("2027-03-01", "2027-03-02", "Nowhere/Land")
    problem(await market.ask("Bea", "GET", "workers", params=asked), 422, "unknown_timezone")
