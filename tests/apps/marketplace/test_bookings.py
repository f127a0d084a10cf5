"""The checkout, and who sees what came of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import date
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.apps.marketplace.support import (
    AMOUNT,
    FIRST,
    HOUR,
    LAST,
    NOW,
    Json,
    Market,
    done,
    local,
    open_market,
    shift,
    weekdays,
)
from tests.apps.marketplace.test_companies import every_id
from tests.web.support import problem
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.testing.database import TestDatabase


def shown(instant: Any) -> str:
    return str(instant.isoformat()).replace("+00:00", "Z")


@pytest.mark.req("D-6.2")
async def test_a_worker_is_booked_with_their_shifts(market: Market) -> None:
    booking = await market.book(scheduled_end_time="17:00")
    assert booking == {
        "id": booking["id"],
        "status": "Active",
        "project_id": str(market.project),
        "borrower_company_id": str(market.borrower),
        "lender_company_id": str(market.lender),
        "worker_id": str(market.worker),
        "supervisor_id": str(market.people["Sue"]),
        "payment_type": "Weekly_Progress",
        "currency": "EUR",
        "timezone": "Europe/Berlin",
        "start_date": "2027-03-02",
        "end_date": "2027-03-14",
        "funded_period_end": shown(local(2027, 3, 8)),
        "clock_in_hold": False,
        "scheduled_end_time": "17:00",
        "release_reason": None,
        "rate": 2_500,
        "created_at": shown(NOW),
        "updated_at": shown(NOW),
    }
    assert await market.get(f"bookings/{booking['id']}") == booking
    shifts = await market.shifts(booking["id"])
    days = (2, 3, 4, 5, 8, 9, 10, 11, 12)
    assert [one["shift_date"] for one in shifts] == [f"2027-03-{day:02}" for day in days]
    assert {one["status"] for one in shifts} == {"Scheduled"}
    assert {one["amount"] for one in shifts} == {AMOUNT}
    assert {one["shift_start_time"] for one in shifts} == {"08:00:00"}
    assert [one["id"] for one in shifts] == await every_id(market, f"bookings/{booking['id']}/shifts")
    assert await market.events(f"staffing:{booking['id']}") == ["staffing_booking.created"]
    [audited] = await market.rows("SELECT * FROM marketplace.audit_log")
    assert (audited["object_type"], audited["object_id"]) == ("staffing", booking["id"])
    assert audited["actor"] == f"recipient:{market.people['Bea']}"
    assert await market.value("SELECT count(*) FROM marketplace.pending_payments") == 0, "it charges nothing"


@pytest.mark.parametrize(
    ("zone", "first", "funded"),
    [
        ("Asia/Kolkata", "2027-03-01", local(2027, 3, 8, zone="Asia/Kolkata")),
        ("Australia/Lord_Howe", "2027-03-07", local(2027, 3, 8, zone="Australia/Lord_Howe")),
        ("America/New_York", "2027-03-08", local(2027, 3, 15, zone="America/New_York")),
        # Clocks change on the Sunday in between.
        ("Europe/Berlin", "2027-03-24", local(2027, 3, 29)),
    ],
)
async def test_the_first_local_week_counts_as_paid_for(
    market_database: TestDatabase, zone: str, first: str, funded: Any
) -> None:
    async with open_market(market_database, timezone=zone) as market:
        day = date.fromisoformat(first)
        booking = await market.book(shift(day, zone=zone), start_date=first, end_date="2027-04-30")
        assert booking["funded_period_end"] == shown(funded)
        assert (await market.shifts(booking["id"]))[0]["shift_date"] == first


async def test_the_same_order_twice_is_one_booking(market: Market) -> None:
    order = market.order()
    answers = [await market.ask("Bea", "POST", "bookings", order, idempotency="once") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()
    assert await market.value("SELECT count(*) FROM marketplace.staffing_bookings") == 1


@pytest.mark.req("J-10.2")
@pytest.mark.parametrize(
    ("first", "last", "is_free"),
    [
        ("2027-03-02", "2027-03-14", False),
        ("2027-03-14", "2027-03-20", False),
        ("2027-02-20", "2027-03-02", False),
        ("2027-03-05", "2027-03-05", False),
        ("2027-02-01", "2027-12-01", False),
        ("2027-03-15", "2027-03-20", True),
        ("2027-02-20", "2027-03-01", True),
    ],
)
async def test_nobody_is_booked_twice_for_one_day(
    market: Market, first: str, last: str, is_free: bool
) -> None:
    await market.book()
    days = {"start_date": first, "end_date": last, "shifts": []}
    answer = await market.ask("Ben", "POST", "bookings", market.order(**days))
    if is_free:
        done(answer, 201)
    else:
        problem(answer, 409, "worker_unavailable")
    assert await market.value("SELECT count(*) FROM marketplace.staffing_bookings") == 1 + is_free
    other = await market.add_worker()
    done(await market.ask("Ben", "POST", "bookings", market.order(**days, worker_id=str(other))), 201)


async def test_a_night_shift_takes_the_worker_until_it_ends(market: Market) -> None:
    start = local(2027, 3, 3, 22)
    night = {"start": start.isoformat(), "end": (start + 8 * HOUR).isoformat(), "amount": 1}
    await market.book(night, end_date="2027-03-03")
    next_day = {"start_date": "2027-03-04", "end_date": "2027-03-05", "shifts": []}
    problem(await market.ask("Bea", "POST", "bookings", market.order(**next_day)), 409, "worker_unavailable")
    await market.book(start_date="2027-03-05", end_date="2027-03-05")


@pytest.mark.req("J-10.2")
async def test_the_database_itself_takes_nobody_twice(market: Market) -> None:
    """Should anybody come past the lock."""
    booking = await market.book()
    taken = await market.rows("SELECT * FROM marketplace.taken")
    assert [row["booking_id"] for row in taken] == [UUID(booking["id"])]
    during = taken[0]["during"]
    assert (during.lower, during.upper) == (local(2027, 3, 2), local(2027, 3, 15))
    later = await market.book(start_date="2027-03-15", end_date="2027-03-16")
    with pytest.raises(Exception, match="worker_taken"):
        await market.rows(
            "UPDATE marketplace.taken SET during = tstzrange(lower(during) - interval '1 second', upper(during)) "
            "WHERE booking_id = $1",
            UUID(later["id"]),
        )


async def race(market: Market, rounds: int) -> Counter[str]:
    """Two check out the same worker at once for days that overlap; who won how often."""
    winners: Counter[str] = Counter()
    for round in range(rounds):
        worker = str(await market.add_worker(f"Wanda {round}"))
        orders = {
            "Bea": market.order(shift(FIRST), worker_id=worker),
            "Ben": market.order(
                shift(LAST), worker_id=worker, start_date=LAST.isoformat(), end_date="2027-03-20"
            ),
        }
        names = sorted(orders, reverse=bool(round % 2))
        answers = await asyncio.gather(
            *(market.ask(name, "POST", "bookings", orders[name]) for name in names)
        )
        statuses = [answer.status_code for answer in answers]
        assert sorted(statuses) == [201, 409], [answer.text for answer in answers]
        winner = answers[statuses.index(201)].json()
        winners[names[statuses.index(201)]] += 1
        kept = await market.rows(
            "SELECT b.id, (SELECT count(*) FROM marketplace.taken t WHERE t.booking_id = b.id) AS taken, "
            "(SELECT count(*) FROM marketplace.time_log l WHERE l.booking_id = b.id) AS shifts "
            "FROM marketplace.staffing_bookings b WHERE b.worker_id = $1",
            UUID(worker),
        )
        assert [tuple(row) for row in kept] == [(UUID(winner["id"]), 1, 1)]
    return winners


@pytest.mark.req("J-10.2")
async def test_of_two_who_check_out_at_once_one_succeeds(market: Market) -> None:
    assert len(await race(market, 20)) == 2, "it was no race"


@pytest.mark.slow
@pytest.mark.req("J-10.2")
async def test_of_two_who_check_out_at_once_one_succeeds_two_hundred_times(market: Market) -> None:
    assert sum((await race(market, 200)).values()) == 200


@pytest.mark.req("J-10.2")
async def test_of_five_who_check_out_at_once_one_succeeds(market: Market) -> None:
    # The first booking in a zone also makes its schedules, for which the others would wait.
    await market.book(worker_id=str(await market.add_worker()))
    order = market.order()
    answers = await asyncio.gather(*(market.ask("Bea", "POST", "bookings", order) for _ in range(5)))
    assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 4}
    assert {answer.json().get("code") for answer in answers} == {None, "worker_unavailable"}


async def test_who_may_check_out(market: Market) -> None:
    order = market.order()
    for who in ("Sue", "Zoe", "Lea", "Wim"):
        answer = await market.ask(who, "POST", "bookings", order)
        if who == "Sue":
            assert "borrower admin or borrower manager" in problem(answer, 403, "not_allowed")["detail"]
        else:
            refused = problem(answer, 422, "invalid_input")
            assert refused["errors"][0]["pointer"] == "/project_id", "it is as if there were none"
    assert (await market.book(who="Ben"))["status"] == "Active"
    await market.book(who=None, start_date="2027-04-01", end_date="2027-04-02")


def wrong_orders(market: Market) -> list[tuple[Json, str]]:
    outside = shift(date(2027, 3, 15))
    backwards = {**shift(FIRST), "end": shift(FIRST)["start"]}
    return [
        ({"project_id": str(uuid4())}, "/project_id"),
        ({"worker_id": str(uuid4())}, "/worker_id"),
        ({"supervisor_id": str(uuid4())}, "/supervisor_id"),
        ({"lender_company_id": str(market.borrower)}, "/lender_company_id"),
        ({"end_date": "2027-03-01", "shifts": []}, "/end_date"),
        ({"end_date": "2029-03-03", "shifts": []}, "/end_date"),
        ({"end_date": "9999-12-31", "shifts": []}, "/end_date"),
        ({"shifts": [outside]}, "/shifts/0"),
        ({"shifts": [shift(FIRST), shift(FIRST, start=15, end=17)]}, "/shifts/1"),
        ({"shifts": [backwards]}, "/shifts/0"),
        ({"shifts": [{**shift(FIRST), "amount": -1}]}, "/shifts/0/amount"),
        ({"shifts": [{**shift(FIRST), "amount": 1.5}]}, "/shifts/0/amount"),
        ({"shifts": [{**shift(FIRST), "start": "0001-01-01T00:00:00Z"}]}, "/shifts/0/start"),
        ({"shifts": [{**shift(FIRST), "start": "2027-03-02T08:00:00"}]}, "/shifts/0/start"),
        ({"shifts": [shift(FIRST)] * 1_001}, "/shifts"),
        ({"currency": "eur"}, "/currency"),
        ({"payment_type": ""}, "/payment_type"),
        ({"scheduled_end_time": "24:00"}, "/scheduled_end_time"),
        ({"scheduled_end_time": "17:00:00"}, "/scheduled_end_time"),
    ]


async def test_an_order_that_cannot_be_is_refused_by_the_name_of_its_field(market: Market) -> None:
    for wrong, pointer in wrong_orders(market):
        answer = await market.ask("Bea", "POST", "bookings", market.order(**wrong))
        refused = problem(answer, 422, "invalid_input")
        assert refused["errors"][0]["pointer"] == pointer, refused
    assert await market.value("SELECT count(*) FROM marketplace.staffing_bookings") == 0
    assert await market.value("SELECT count(*) FROM marketplace.taken") == 0
    longest = market.order(end_date="2029-03-01", shifts=[])
    done(await market.ask("Bea", "POST", "bookings", longest), 201)


async def test_who_sees_a_booking(market: Market) -> None:
    """Those of both companies but colleagues of the worker, and those who work in it or supervise it."""
    async with market.bench.bell.transaction() as tx:
        people = [(await market.notify.recipients.add(tx, name=name)).id for name in ("Colleague", "Outside")]
    colleague, outside = people
    members = f"companies/{market.lender}/members"
    await market.ask("Lea", "POST", members, {"recipient_id": str(colleague), "role": "worker"})
    booking = await market.book(supervisor_id=str(outside))
    for path in (f"bookings/{booking['id']}", f"bookings/{booking['id']}/shifts"):
        for who in ("Bea", "Ben", "Sue", "Lea", "Leo", "Wim", outside, None):
            assert (await market.ask(who, "GET", path)).status_code == 200, who
        for who in ("Zoe", colleague):
            problem(await market.ask(who, "GET", path), 404, "not_found")
    for who in ("Bea", "Ben", "Sue", "Lea", "Leo", "Wim", outside, None):
        assert [one["id"] for one in await market.data("bookings", who)] == [booking["id"]], who
    for who in ("Zoe", colleague):
        assert await market.data("bookings", who) == []


async def test_bookings_are_listed_page_by_page(market: Market) -> None:
    ids = []
    for month in range(4, 9):
        days = {"start_date": f"2027-{month:02}-01", "end_date": f"2027-{month:02}-20"}
        ids.append((await market.book(*weekdays(date(2027, month, 1), date(2027, month, 2)), **days))["id"])
    other = str(await market.add_worker())
    ids.append((await market.book(worker_id=other))["id"])
    await market.rows(
        "UPDATE marketplace.staffing_bookings SET status = 'Payment_Paused_Dispute' WHERE id = $1",
        UUID(ids[1]),
    )
    for who in (None, "Bea", "Lea", "Sue"):
        assert await every_id(market, "bookings", who) == ids
        assert await every_id(market, "bookings", who, status="Payment_Paused_Dispute") == [ids[1]]
        assert await every_id(market, "bookings", who, worker_id=other) == [ids[5]]
        assert await every_id(market, "bookings", who, project_id=str(uuid4())) == []
        assert await every_id(market, "bookings", who, project_id=str(market.project)) == ids
    assert await every_id(market, "bookings", "Wim") == ids[:5]


@pytest.mark.req("X-J10")
async def test_an_old_word_for_a_status_is_understood_and_never_said(market: Market) -> None:
    booking = await market.book()
    await market.rows("UPDATE marketplace.staffing_bookings SET status = 'Payment_Paused_Dispute'")
    [found] = await market.data("bookings", params={"status": "Disputed"})
    assert (found["id"], found["status"]) == (booking["id"], "Payment_Paused_Dispute")


async def test_people_of_a_booking_are_known_by_their_part(market: Market) -> None:
    booking = await market.book()
    bookings = Bookings(market.bench.bell)
    async with market.bench.bell.transaction() as tx:
        held = await bookings.hold(tx, UUID(booking["id"]))
        people = await bookings.people_of(tx, held)
    assert (people.worker, people.supervisor) == (market.people["Wim"], market.people["Sue"])
    assert list(people.borrower_admins) == [market.people["Bea"]]
    assert list(people.borrower_managers) == [market.people["Ben"]]
    assert list(people.lender_admins) == [market.people["Lea"]]
    assert list(people.lender_managers) == [market.people["Leo"]]


async def test_whoever_does_not_wait_gets_nothing_while_another_holds_a_booking(market: Market) -> None:
    id = UUID((await market.book())["id"])
    bookings = Bookings(market.bench.bell)
    async with market.bench.bell.transaction() as tx, market.bench.bell.transaction() as other:
        assert (await bookings.hold(tx, id)).id == id
        assert await bookings.hold_free(other, id) is None
    async with market.bench.bell.transaction() as tx:
        held = await bookings.hold_free(tx, id)
        assert held is not None
        assert (await bookings.fund(tx, held, local(2027, 3, 15))).funded_period_end == local(2027, 3, 15)
        assert (await bookings.fund(tx, held, local(2027, 3, 8))).funded_period_end == local(2027, 3, 15)
