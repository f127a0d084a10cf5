"""Disputes about shifts, reports of incidents, and what a booking's end does to its shifts."""

from __future__ import annotations

import logging
from datetime import date, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest

from tests.apps.marketplace.shift_support import (
    DAY_ONE,
    END,
    balance,
    dispute,
    disputed,
    fund,
    instant,
    owed,
    read,
    scheduled,
    submitted,
    told,
    working,
)
from tests.apps.marketplace.support import AMOUNT, DAY, HOUR, MINUTE, SECOND, Market, done, local, shift
from timebell.apps.marketplace.disputes.service import TIME_OUT, TIME_OUT_QUEUE
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.shifts.ending import Ended, Ending
from timebell.apps.marketplace.staffing.service import Bookings

RELEASED = "Weekly Payment Hard Cutoff - Worker Released"
# A week of which the first day is worked, and two that are to come.
WEEK = tuple(shift(date(2027, 3, day)) for day in (2, 3, 9))


async def timers(market: Market) -> list[Any]:
    """What is still to happen about bookings, without the sweep and the weekly runs."""
    rows = await market.rows(
        "SELECT kind, queue, due_at, payload, subject FROM timebell.jobs "
        "WHERE kind LIKE 'marketplace.%' AND kind NOT LIKE 'marketplace.enqueue\\_%' "
        "AND kind NOT IN ('marketplace.sweep_shifts', 'marketplace.simulate_report')"
    )
    return list(rows)


async def status(market: Market, booking: str) -> str:
    return str((await market.get(f"bookings/{booking}"))["status"])


@pytest.mark.req("J-8.1", "J-8.3", "J-0.5", "D-6.4", "X-J22")
async def test_a_dispute_is_filed_with_its_timer(market: Market) -> None:
    id = await submitted(market)
    await fund(market, id)
    await market.pass_until(END + HOUR + MINUTE)
    row = await disputed(market, id)
    filed = END + HOUR + MINUTE
    assert (row["status"], row["dispute_option"], row["time_log_id"]) == ("Open", "A", id)
    assert (instant(row["dispute_filed_at"]), instant(row["timeout_expiration_time"])) == (
        filed,
        filed + 3 * HOUR,
    )
    assert row["filed_by"] == f"recipient:{market.people['Sue']}"
    assert await owed(market, id) == {}
    (timer,) = await timers(market)
    assert (timer["kind"], timer["queue"], timer["due_at"]) == (TIME_OUT, TIME_OUT_QUEUE, filed + 3 * HOUR)
    assert orjson.loads(timer["payload"]) == {
        "dispute_id": row["id"],
        "booking_id": row["booking_id"],
        "dispute_filed_at": filed.isoformat(),
        "timeout_expiration_time": (filed + 3 * HOUR).isoformat(),
    }
    assert (await read(market, id))["status"] == "Disputed"
    assert await status(market, row["booking_id"]) == "Active"
    money = await balance(market, id)
    assert (money.held, money.frozen) == (0, AMOUNT)
    assert await market.events(f"dispute:{row['id']}") == ["dispute.filed"]


@pytest.mark.req("J-8.1")
async def test_it_is_there_as_a_whole_or_not_at_all(market: Market) -> None:
    """The timer cannot be written, so neither is anything else."""
    id = await submitted(market)
    before = await owed(market, id)
    await market.rows(f"ALTER TABLE timebell.jobs ADD CONSTRAINT broken CHECK (kind <> '{TIME_OUT}')")
    assert (await dispute(market, id)).status_code >= 500
    assert (await read(market, id))["status"] == "Pending_Verification"
    assert await market.value("SELECT count(*) FROM marketplace.disputes") == 0
    assert await owed(market, id) == before


@pytest.mark.req("J-8.2")
@pytest.mark.parametrize(
    ("after", "answer"),
    [(timedelta(0), 201), (3 * HOUR + 30 * MINUTE, 201), (4 * HOUR + SECOND, 409)],
)
async def test_a_dispute_has_time_until_the_approval(market: Market, after: timedelta, answer: int) -> None:
    id = await submitted(market)
    await market.pass_until(END + after)
    assert (await dispute(market, id)).status_code == answer


@pytest.mark.req("J-8.2")
async def test_a_dispute_has_time_until_the_extended_deadline(market: Market) -> None:
    id = await submitted(market)
    await market.pass_until(END + 3 * HOUR + 30 * MINUTE)
    done(await market.transit("Sue", id, "edit", {"reason": "x"}))
    await market.pass_until(END + 4 * HOUR + 30 * MINUTE)
    await disputed(market, id)


@pytest.mark.req("J-8.2")
async def test_what_is_late_is_refused_even_if_nobody_has_approved_yet(market: Market) -> None:
    id = await submitted(market)
    market.clock.move_to(END + 4 * HOUR + SECOND)
    refused = await dispute(market, id)
    assert (refused.status_code, refused.json()["code"]) == (409, "dispute_too_late")


@pytest.mark.req("J-8.2")
async def test_only_what_waits_to_be_verified_is_disputed(market: Market) -> None:
    row = await scheduled(market)
    assert (await dispute(market, row["id"])).status_code == 409
    await market.clock_in(row["id"])
    assert (await dispute(market, row["id"])).status_code == 409
    await market.submit(row["id"])
    await disputed(market, row["id"])
    assert (await dispute(market, row["id"])).status_code == 409
    assert (await dispute(market, str(uuid4()))).status_code == 404


async def test_who_may_dispute_and_report(market: Market) -> None:
    id = await submitted(market)
    said = {"time_log_id": id, "option": "A", "description": "A ladder broke"}
    assert (await dispute(market, id, who="Wim")).status_code == 403
    assert (await dispute(market, id, who="Zoe")).status_code == 404
    for name in ("Wim", "Lea", "Leo"):
        assert (await market.ask(name, "POST", "incidents", said)).status_code == 403
    assert (await market.ask("Zoe", "POST", "incidents", said)).status_code == 404
    incident = done(await market.ask("Ben", "POST", "incidents", said), 201)
    for name in ("Wim", "Lea", "Leo"):
        assert (await market.ask(name, "POST", f"incidents/{incident['id']}/close")).status_code == 403
    row = await disputed(market, id, who="Leo")
    for name in ("Bea", "Ben", "Sue", "Lea", "Leo", "Wim"):
        assert await market.get(f"disputes/{row['id']}", name) == row
        assert await market.data("disputes", name, params={"booking_id": row["booking_id"]}) == [row]
        assert await market.get(f"incidents/{incident['id']}", name) == incident
        assert await market.data("incidents", name, params={"booking_id": row["booking_id"]}) == [incident]
    for path in (f"disputes/{row['id']}", f"incidents/{incident['id']}"):
        assert (await market.ask("Zoe", "GET", path)).status_code == 404
    for path in ("disputes", "incidents"):
        asked = await market.ask("Zoe", "GET", path, params={"booking_id": row["booking_id"]})
        assert asked.status_code == 404
        assert (await market.ask("Zoe", "GET", f"{path}/{uuid4()}")).status_code == 404
        assert (await market.ask("Sue", "GET", path)).status_code == 422


@pytest.mark.req("J-15.2")
async def test_option_b_ends_the_booking(market: Market) -> None:
    id = await submitted(market, *WEEK)
    first = await read(market, id)
    ids = [row["id"] for row in await market.shifts(first["booking_id"])]
    await fund(market, *ids)
    await market.pass_until(END + MINUTE)
    await disputed(market, id, option="B")
    assert await status(market, first["booking_id"]) == "Cancelled"
    assert [row["status"] for row in await market.shifts(first["booking_id"])] == [
        "Disputed",
        "Cancelled",
        "Cancelled",
    ]
    assert {timer["kind"] for timer in await timers(market)} == {TIME_OUT, "marketplace.pay_out"}
    # Others can book the worker at once.
    assert await market.value("SELECT upper(during) FROM marketplace.taken") == END + MINUTE
    await market.pass_until(END + DAY)
    assert (await balance(market, id)).frozen == AMOUNT
    for cancelled in ids[1:]:
        assert (await balance(market, cancelled)).refunded == AMOUNT
    assert await timers(market) == []
    refused = await market.transit("Wim", ids[1], "clock-in")
    assert (refused.status_code, refused.json()["code"]) == (409, "clock_in_refused")


@pytest.mark.req("J-15.2")
async def test_who_works_is_not_reminded_of_a_booking_that_ended(market: Market) -> None:
    id = await submitted(
        market, shift(DAY_ONE, start=8, end=12), shift(DAY_ONE, start=13, end=16), at=local(2027, 3, 2, 12)
    )
    later = (await market.shifts((await read(market, id))["booking_id"]))[1]["id"]
    await market.pass_until(local(2027, 3, 2, 13))
    await market.clock_in(later)
    await disputed(market, id, option="B")
    assert await owed(market, later) == {}
    sent = told(market)
    await market.pass_until(END + HOUR)
    assert told(market) == sent
    # What was worked is still submitted and paid.
    await market.submit(later)
    assert (await market.verify(later))["status"] == "Verified"


@pytest.mark.req("J-15.2")
async def test_option_b_after_a_release_cancels_the_days_that_are_left(market: Market) -> None:
    id = await submitted(market, *WEEK)
    booking = (await read(market, id))["booking_id"]
    await market.rows("UPDATE marketplace.staffing_bookings SET status = 'Completed'")
    await disputed(market, id, option="B")
    assert await status(market, booking) == "Completed"
    assert [row["status"] for row in await market.shifts(booking)] == ["Disputed", "Cancelled", "Cancelled"]


@pytest.mark.req("D-6.5", "X-J23")
async def test_a_report_pauses_until_it_is_closed(market: Market) -> None:
    """And the last that is closed has a paused booking go on."""
    id = await working(market)
    booking = (await read(market, id))["booking_id"]
    said = {"time_log_id": id, "option": "A", "description": "A ladder broke"}
    first, second = [done(await market.ask("Sue", "POST", "incidents", said), 201) for _ in range(2)]
    assert (first["status"], first["closed_at"]) == ("Pending", None)
    assert [
        row["id"] for row in await market.data("incidents", params={"booking_id": booking, "limit": 1})
    ] == [first["id"]]
    await market.rows("UPDATE marketplace.staffing_bookings SET status = 'Payment_Paused_Dispute'")
    closed = done(await market.ask("Sue", "POST", f"incidents/{first['id']}/close"))
    assert closed["status"] == "Closed"
    assert await status(market, booking) == "Payment_Paused_Dispute"
    done(await market.ask(None, "POST", f"incidents/{second['id']}/close"))
    assert await status(market, booking) == "Active"
    again = await market.ask("Sue", "POST", f"incidents/{first['id']}/close")
    assert (again.status_code, again.json()["code"]) == (409, "incident_closed")
    pending = await market.data("incidents", params={"booking_id": booking, "status": "Pending"})
    assert pending == []
    assert await market.events(f"incident:{first['id']}") == ["incident.reported", "incident.closed"]


async def test_an_open_dispute_keeps_a_booking_paused(market: Market) -> None:
    id = await submitted(market)
    said = {"time_log_id": id, "option": "A", "description": "A ladder broke"}
    incident = done(await market.ask("Sue", "POST", "incidents", said), 201)
    row = await disputed(market, id)
    await market.rows("UPDATE marketplace.staffing_bookings SET status = 'Payment_Paused_Dispute'")
    done(await market.ask("Sue", "POST", f"incidents/{incident['id']}/close"))
    assert await status(market, row["booking_id"]) == "Payment_Paused_Dispute"


@pytest.mark.parametrize(
    ("path", "change", "pointer"),
    [
        ("disputes", {"option": "C"}, "/option"),
        ("disputes", {"reason": ""}, "/reason"),
        ("disputes", {"reason": "x" * 1_001}, "/reason"),
        ("incidents", {"description": "x" * 10_001}, "/description"),
        ("incidents", {"time_log_id": "none"}, "/time_log_id"),
    ],
)
async def test_what_cannot_be_is_refused(market: Market, path: str, change: Any, pointer: str) -> None:
    text = "reason" if path == "disputes" else "description"
    said = {"time_log_id": str(uuid4()), "option": "A", text: "x", **change}
    answer = await market.ask("Sue", "POST", path, said)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


async def release(market: Market, booking: str) -> Ended:
    async with market.bench.bell.transaction() as tx:
        return await Ending(market.bench.bell).end_booking(
            tx,
            await Bookings(market.bench.bell).hold(tx, UUID(booking)),
            status="Completed",
            cancel_from=local(2027, 3, 8),
            end_date=date(2027, 3, 7),
            reason=RELEASED,
            by=By(correlation_id="night"),
        )


@pytest.mark.req("J-3.3", "J-3.4", "J-3.6")
async def test_a_release_leaves_the_week_that_is_paid_for(market: Market) -> None:
    booking = (await market.book(*WEEK))["id"]
    ids = [row["id"] for row in await market.shifts(booking)]
    await fund(market, *ids)
    ended = await release(market, booking)
    assert [str(one.id) for one in ended.cancelled] == ids[2:]
    row = await market.get(f"bookings/{booking}")
    assert (row["status"], row["end_date"], row["release_reason"]) == ("Completed", "2027-03-07", RELEASED)
    shifts = await market.shifts(booking)
    assert [one["status"] for one in shifts] == ["Scheduled", "Scheduled", "Cancelled"]
    assert shifts[2]["cancel_reason"] == RELEASED
    assert await market.value("SELECT upper(during) FROM marketplace.taken") == local(2027, 3, 8)
    assert (await market.events(f"staffing:{booking}"))[-1] == "staffing_booking.released"
    assert await market.events(f"time_log:{ids[2]}") == ["time_log.cancelled"]
    await market.pass_until(market.clock.now + MINUTE)
    assert (await balance(market, ids[2])).refunded == AMOUNT
    assert (await balance(market, ids[1])).held == AMOUNT
    # Until the last day that is paid for there is work.
    await market.pass_until(local(2027, 3, 3, 8))
    assert (await market.clock_in(ids[1]))["status"] == "Working"


@pytest.mark.req("J-3.7", "X-J56")
async def test_a_shift_that_cannot_be_cancelled_does_not_keep_the_booking(
    market: Market, caplog: pytest.LogCaptureFixture
) -> None:
    """A job goes on with it, until it is as it should be."""
    days = [shift(date(2027, 3, day)) for day in (9, 10, 11)]
    booking = (await market.book(*days))["id"]
    ids = [row["id"] for row in await market.shifts(booking)]
    await fund(market, *ids)
    await market.rows(
        f"ALTER TABLE marketplace.time_log ADD CONSTRAINT broken CHECK (status <> 'Cancelled' OR id <> '{ids[1]}')"
    )
    with caplog.at_level(logging.ERROR):
        ended = await release(market, booking)
    assert [str(id) for id in ended.failed] == [ids[1]]
    assert "a shift could not be cancelled" in caplog.text
    assert await status(market, booking) == "Completed"
    assert [one["status"] for one in await market.shifts(booking)] == ["Cancelled", "Scheduled", "Cancelled"]
    await market.pass_until(market.clock.now + MINUTE)
    await market.rows("ALTER TABLE marketplace.time_log DROP CONSTRAINT broken")
    await market.pass_until(market.clock.now + HOUR)
    assert {one["status"] for one in await market.shifts(booking)} == {"Cancelled"}
    for id in ids:
        assert (await balance(market, id)).refunded == AMOUNT


@pytest.mark.req("J-15.1")
async def test_what_has_ended_does_not_end_again(market: Market) -> None:
    booking = (await market.book(*WEEK))["id"]
    await release(market, booking)
    with pytest.raises(Exception, match="you cannot release the worker of a booking that is Completed"):
        await release(market, booking)
