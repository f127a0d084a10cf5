"""A booking that somebody cancels, and people who are erased."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.apps.marketplace.support import AMOUNT, FIRST, HOUR, MINUTE, Market, done, local, weekdays
from tests.web.support import problem


async def cancel(market: Market, who: UUID | str | None, id: str, **given: Any) -> Any:
    return await market.ask(who, "POST", f"bookings/{id}/cancel", given)


@pytest.mark.req("J-15.1")
@pytest.mark.parametrize("who", ["Bea", "Ben", "Sue", "Lea", "Leo", None])
async def test_a_booking_is_cancelled_with_what_is_to_come(market: Market, who: str | None) -> None:
    """On the second day at nine: the shift at work goes on, and the worker can be booked by others."""
    booking = await market.book()
    first, second, third, *_ = [one["id"] for one in await market.shifts(booking["id"])]
    await market.pass_until(local(2027, 3, 3, 9))
    await market.clock_in(second)
    cancelled = done(await cancel(market, who, booking["id"], reason="The site is closed"))
    assert (cancelled["status"], cancelled["release_reason"]) == ("Cancelled", "The site is closed")
    assert await market.get(f"bookings/{booking['id']}") == cancelled
    statuses = {one["id"]: one["status"] for one in await market.shifts(booking["id"])}
    assert (statuses[first], statuses[second]) == ("Scheduled", "Working")
    assert {status for id, status in statuses.items() if id not in (first, second)} == {"Cancelled"}
    assert await market.events(f"staffing:{booking['id']}") == [
        *("staffing_booking.created", "staffing_booking.cancelled"),
    ]
    assert await market.events(f"time_log:{third}") == ["time_log.cancelled"]
    owed = await market.value("SELECT count(*) FROM timebell.jobs WHERE subject LIKE 'time_log:%'")
    assert owed == 0, "nobody is reminded of what was cancelled"
    again = market.order(*weekdays(FIRST + timedelta(days=2), FIRST + timedelta(days=2)))
    again |= {"start_date": "2027-03-04", "end_date": "2027-03-05"}
    done(await market.ask("Bea", "POST", "bookings", again), 201)


async def test_who_may_not_cancel(market: Market) -> None:
    booking = await market.book()
    refused = problem(await cancel(market, "Wim", booking["id"]), 403, "not_allowed")
    assert "supervisor" in refused["detail"]
    problem(await cancel(market, "Zoe", booking["id"]), 404, "not_found")
    assert (await market.get(f"bookings/{booking['id']}"))["status"] == "Active"
    keyless = await market.site.ask(
        "POST", f"/api/marketplace/bookings/{booking['id']}/cancel", key="admin", json={}
    )
    assert keyless.status_code == 400, "a transition needs an idempotency key"
    stale = await market.ask(
        "Bea", "POST", f"bookings/{booking['id']}/cancel", {}, headers={"if-match": '"rev-7"'}
    )
    problem(stale, 412, "revision_conflict")


@pytest.mark.req("J-15.1")
@pytest.mark.parametrize(
    ("status", "is_open"),
    [
        ("Payment_Paused_Dispute", True),
        ("Suspended_Insurance", True),
        ("Cancelled", False),
        ("Completed", False),
    ],
)
async def test_what_has_ended_is_not_cancelled_again(market: Market, status: str, is_open: bool) -> None:
    booking = await market.book()
    await market.rows("UPDATE marketplace.staffing_bookings SET status = $1", status)
    answer = await cancel(market, "Bea", booking["id"])
    if is_open:
        assert done(answer)["status"] == "Cancelled"
    else:
        assert problem(answer, 409, "booking_status")["booking_status"] == status
        assert {one["status"] for one in await market.shifts(booking["id"])} == {"Scheduled"}


async def test_the_same_cancelling_twice_is_one(market: Market) -> None:
    booking = await market.book()
    path = f"bookings/{booking['id']}/cancel"
    answers = [await market.ask("Bea", "POST", path, {}, idempotency="once") for _ in range(2)]
    assert [done(answer)["status"] for answer in answers] == ["Cancelled", "Cancelled"]
    assert len(await market.events(f"staffing:{booking['id']}")) == 2


async def erase(market: Market, name: str) -> None:
    response = await market.site.ask("DELETE", f"/v1/recipients/{market.people[name]}", key="admin")
    assert response.status_code in (200, 204), response.text


async def test_bookings_of_a_worker_who_is_erased_are_cancelled_and_kept(market: Market) -> None:
    ids = [
        (await market.book())["id"],
        (await market.book(*weekdays(), start_date="2027-03-02", worker_id=str(await market.add_worker())))[
            "id"
        ],
    ]
    later = {"start_date": "2027-04-01", "end_date": "2027-04-02"}
    ids.append((await market.book(**later))["id"])
    await erase(market, "Wim")
    [worker] = await market.rows("SELECT * FROM marketplace.workers WHERE id = $1", market.worker)
    assert (worker["state"], worker["trade"], worker["zip"], worker["skills"]) == ("Unlisted", "", "", [])
    await market.bench.run_due()
    statuses = [(await market.get(f"bookings/{id}"))["status"] for id in ids]
    assert statuses == ["Cancelled", "Active", "Cancelled"]
    assert (await market.get(f"bookings/{ids[0]}"))["release_reason"] == "the worker was erased"
    assert {one["amount"] for one in await market.shifts(ids[0])} == {AMOUNT}, "an account of money is kept"
    order = market.order(start_date="2027-05-03", end_date="2027-05-04")
    refused = problem(await market.ask("Bea", "POST", "bookings", order), 422, "invalid_input")
    assert refused["errors"][0]["pointer"] == "/worker_id"


async def test_whoever_is_erased_has_no_role_any_more(market: Market) -> None:
    booking = await market.book()
    for name in ("Bea", "Sue"):
        await erase(market, name)
    roles = await market.rows(
        "SELECT role FROM marketplace.company_members WHERE company_id = $1", market.borrower
    )
    assert [row["role"] for row in roles] == ["borrower_manager"]
    assert (await market.get(f"bookings/{booking['id']}", "Ben"))["status"] == "Active"
    await market.pass_until(local(2027, 3, 2, 8))
    shift = (await market.shifts(booking["id"]))[0]["id"]
    await market.clock_in(shift)
    await market.pass_until(local(2027, 3, 2, 15))
    await market.submit(shift)
    await market.pass_until(local(2027, 3, 2, 15) + 4 * HOUR + MINUTE)
    assert (await market.shifts(booking["id"]))[0]["status"] == "Verified", "and the rest goes on"


async def test_everything_that_is_kept_about_a_person_is_exported(market: Market) -> None:
    booking = await market.book()
    other = str(await market.add_worker())
    await market.book(worker_id=other)
    kept = {}
    for name in ("Wim", "Sue", "Bea", "Zoe"):
        lines: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(50):
            params = {"limit": 2, **({} if cursor is None else {"cursor": cursor})}
            path = f"/v1/recipients/{market.people[name]}/export"
            page = done(await market.site.get(path, key="admin", params=params))
            lines += page["document"].get("marketplace", [])
            cursor = page["next_cursor"]
            if cursor is None:
                break
        kept[name] = sorted(line["is"] for line in lines)
        assert [line["id"] for line in lines] == sorted(line["id"] for line in lines)
        if name == "Wim":
            assert booking["id"] in {line["id"] for line in lines}
            assert other not in {line.get("worker_id") for line in lines}
    assert kept == {
        "Wim": ["company_member", "staffing_booking", *["time_log"] * 9, "worker"],
        "Sue": ["company_member", "supervised_booking", "supervised_booking"],
        "Bea": ["company_member"],
        "Zoe": [],
    }
