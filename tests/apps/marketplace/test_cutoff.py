"""At Thursday 00:00 of the project nothing is accepted any more, and who was not paid for is released."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta
from uuid import UUID

import orjson
import pytest

from tests.apps.marketplace.support import AMOUNT, BERLIN, DAY, HOUR, MINUTE, SECOND, Market, local, shift
from tests.apps.marketplace.weekly_support import (
    CUTOFF,
    PAID_AT,
    PERIOD,
    SUNDAY,
    WARNED_AT,
    WEEK,
    dispute,
    events_of,
    funded_until,
    payments_of,
    report,
    sent,
    set_status,
    status_of,
    with_bank,
)
from timebell.apps.marketplace.payments.provider import Charged

REASON = "Weekly Payment Hard Cutoff - Worker Released"
RELEASED = "ended due to non-payment"


async def cut_off(market: Market, booking: str, **given: object) -> None:
    about = {"booking_id": booking, "run_on": "2027-03-04", "correlation_id": "walk-1"}
    async with market.bench.bell.transaction() as tx:
        await market.bench.bell.enqueue(tx, "marketplace.cut_off", about)
    await market.bench.run_due()


async def statuses(market: Market, booking: str) -> dict[str, str]:
    return {row["shift_date"]: row["status"] for row in await market.shifts(booking)}


@pytest.mark.req("J-3.3", "J-3.5", "J-3.6", "J-3.8", "J-3.2", "X-J55")
async def test_a_worker_who_was_not_paid_for_is_released(market: Market) -> None:
    booking = await market.book()
    other = await market.book(worker_id=str(await market.add_worker()))
    await market.rows(
        "UPDATE marketplace.staffing_bookings SET funded_period_end = $2 WHERE id = $1",
        UUID(other["id"]),
        PERIOD[1],
    )
    async with with_bank(market, outcome="declined"):
        await market.pass_until(CUTOFF - SECOND)
        assert await status_of(market, booking["id"]) == "Active"
        await market.pass_until(CUTOFF)
    row = await market.get(f"bookings/{booking['id']}")
    assert (row["status"], row["end_date"], row["release_reason"]) == ("Completed", SUNDAY, REASON)
    shifts = await statuses(market, booking["id"])
    assert {day for day, status in shifts.items() if status == "Cancelled"} == {
        f"2027-03-{day:02}" for day in range(8, 13)
    }
    assert set((await statuses(market, other["id"])).values()) == {"Scheduled"}
    assert await status_of(market, other["id"]) == "Active"
    text = f"Booking {booking['id']} ended due to non-payment. Worker released effective {SUNDAY}."
    assert [one.content.text for one in market.arrived if RELEASED in one.content.text] == [text] * 6
    assert sent(market, RELEASED) == sorted(
        (channel, address)
        for number, name in ((0, "bea"), (3, "lea"), (5, "wim"))
        for channel, address in (("email", f"{name}@example.org"), ("sms", f"+491511234567{number}"))
    )
    audit = await market.rows(
        "SELECT object_type, action FROM marketplace.audit_log WHERE reason = $1", REASON
    )
    assert sorted((row["object_type"], row["action"]) for row in audit) == [
        ("staffing", "staffing_booking.released"),
        *[("time_log", "time_log.cancelled")] * 5,
    ]
    counted = market.bench.bell.tallies.counted
    assert counted["marketplace_releases"]["released",] == 1
    assert counted["marketplace_payment_notices"]["worker_released",] == 3


@pytest.mark.req("J-3.4", "X-J6")
async def test_shifts_that_begin_before_monday_are_kept(market: Market) -> None:
    ends = [
        (local(2027, 3, 6, 22), local(2027, 3, 7, 6)),
        (local(2027, 3, 7, 23, 30), local(2027, 3, 8, 7)),
        (local(2027, 3, 8, 8), local(2027, 3, 8, 16)),
        (local(2027, 3, 9), local(2027, 3, 9, 8)),
    ]
    booking = await market.book(
        *({"start": start.isoformat(), "end": end.isoformat(), "amount": AMOUNT} for start, end in ends)
    )
    # The checkout takes no two that overlap, and what counts is where each begins.
    await market.rows(
        "UPDATE marketplace.time_log SET scheduled_start = $1 WHERE scheduled_start = $2",
        local(2027, 3, 8),
        ends[2][0],
    )
    async with with_bank(market, outcome="declined"):
        await market.pass_until(CUTOFF)
    rows = await market.shifts(booking["id"])
    assert [row["status"] for row in rows] == ["Scheduled", "Scheduled", "Cancelled", "Cancelled"]


@pytest.mark.req("J-3.9", "X-J3")
@pytest.mark.parametrize("state", ["succeeded", "processing", "declined", "cancelled"])
async def test_a_payment_on_its_way_is_settled_first(market: Market, state: str) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="processing") as bank:
        await market.pass_until(CUTOFF - SECOND)
        (payment,) = await payments_of(market, booking["id"])
        bank.settle(payment["idempotency_key"], state)  # type: ignore[arg-type]
        await market.pass_until(CUTOFF + MINUTE)
    (payment,) = await payments_of(market, booking["id"])
    is_paid = state == "succeeded"
    expected = {
        "succeeded": "Succeeded",
        "processing": "Cancelled",
        "declined": "Failed",
        "cancelled": "Cancelled",
    }
    assert payment["status"] == expected[state]
    assert await status_of(market, booking["id"]) == ("Active" if is_paid else "Completed")
    assert bank.called("cancel") == (1 if state == "processing" else 0)
    assert len(sent(market, RELEASED)) == (0 if is_paid else 6)
    assert sent(market, "Action Required") == []
    assert await funded_until(market, booking["id"]) == (PERIOD[1] if is_paid else PERIOD[0])


@pytest.mark.req("J-3.9")
async def test_a_payment_that_cannot_be_cancelled_is_waited_for_and_then_looked_at(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="processing", is_cancellable=False) as bank:
        await market.pass_until(CUTOFF + 59 * MINUTE)
        assert len(await events_of(market, "payment.cutoff_waits")) == 1
        assert await events_of(market, "payment.needs_review") == []
        await market.pass_until(CUTOFF + 61 * MINUTE)
        (review,) = await events_of(market, "payment.needs_review")
        assert review["subject"] == f"staffing:{booking['id']}"
        assert await market.alerts() == [("marketplace_booking_needs_review", review["subject"])]
        assert 12 <= bank.called("cancel") <= 14
    assert await status_of(market, booking["id"]) == "Active"
    assert sent(market, RELEASED) == []


@pytest.mark.req("J-3.9")
async def test_a_payment_that_succeeds_while_it_is_waited_for_counts(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="processing", is_cancellable=False) as bank:
        await market.pass_until(CUTOFF + 10 * MINUTE)
        (payment,) = await payments_of(market, booking["id"])
        bank.settle(payment["idempotency_key"], "succeeded")
        await market.pass_until(CUTOFF + HOUR)
    assert await status_of(market, booking["id"]) == "Active"
    assert await funded_until(market, booking["id"]) == PERIOD[1]


@pytest.mark.req("J-3.9")
async def test_a_provider_that_is_away_is_waited_for(market: Market) -> None:
    booking = await market.book()
    faults = {"lookup": ["unavailable", "timeout_before", "refuse"], "cancel": ["timeout_after"]}
    async with with_bank(market, outcome="processing", faults=faults):
        await market.pass_until(CUTOFF + HOUR)
    (payment,) = await payments_of(market, booking["id"])
    assert payment["status"] == "Cancelled"
    assert await status_of(market, booking["id"]) == "Completed"
    assert len(sent(market, RELEASED)) == 6


@pytest.mark.req("J-3.9", "X-J50")
async def test_a_success_after_the_release_goes_back_and_pays_nobody(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="processing") as bank:
        await market.pass_until(CUTOFF + MINUTE)
        (payment,) = await payments_of(market, booking["id"])
        assert payment["status"] == "Cancelled"
        late = Charged(ref="ch_1", state="succeeded")
        assert await report(market, payment["id"], late) == "late"
        assert await report(market, payment["id"], late) == "repeated"
        await market.bench.run_due()
    assert [(name, key) for name, key in bank.calls if name in ("refund", "transfer")] == [
        ("refund", next(iter(bank.moved)))
    ]
    assert [one.amount for one in bank.moved.values()] == [WEEK]
    (payment,) = await payments_of(market, booking["id"])
    assert payment["status"] == "Refunded"
    assert len(await events_of(market, "payment.needs_review")) == 1
    assert await status_of(market, booking["id"]) == "Completed"


@pytest.mark.req("J-1.18")
async def test_nobody_is_released_whom_the_provider_was_never_asked_for(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, faults={"charge": ["unavailable"] * 99}) as bank:
        market.clock.move_to(CUTOFF - 20 * MINUTE)
        await market.pass_until(CUTOFF + HOUR)
    assert bank.charges == {}
    (payment,) = await payments_of(market, booking["id"])
    assert payment["status"] == "Cancelled"
    assert await status_of(market, booking["id"]) == "Active"
    assert sent(market, RELEASED) == []
    assert market.bench.bell.tallies.counted["marketplace_releases"]["needs_review",] == 1
    # Run again, as after a crash, it comes to the same.
    await cut_off(market, booking["id"])
    assert await status_of(market, booking["id"]) == "Active"


@pytest.mark.req("J-3.10", "X-J49")
async def test_what_is_disputed_after_the_payment_is_paused_and_not_released(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="declined"):
        await market.pass_until(WARNED_AT - HOUR)
        await dispute(market, booking["id"])
        await market.pass_until(CUTOFF + HOUR)
    assert await status_of(market, booking["id"]) == "Payment_Paused_Dispute"
    assert sent(market, "Final warning") == sent(market, RELEASED) == []


@pytest.mark.req("J-3.2")
@pytest.mark.parametrize("status", ["Payment_Paused_Dispute", "Suspended_Insurance", "Cancelled"])
async def test_bookings_that_are_not_active_are_left(market: Market, status: str) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="declined"):
        await market.pass_until(PAID_AT)
        await set_status(market, booking["id"], status)
        market.clock.move_to(CUTOFF)
        await cut_off(market, booking["id"])
    assert await status_of(market, booking["id"]) == status


@pytest.mark.req("J-3.11", "X-J2")
async def test_after_downtime_it_runs_once_for_the_thursday_that_was_meant(market: Market) -> None:
    booking = await market.book(end_date="2027-03-28")
    async with with_bank(market, outcome="declined"):
        await market.pass_until(CUTOFF - HOUR)
        # The node stands still for five days: the Sunday is that of the week in which it was to run.
        market.clock.move_to(CUTOFF + 5 * DAY)
        await market.bench.run_due()
        await cut_off(market, booking["id"])
    row = await market.get(f"bookings/{booking['id']}")
    assert (row["status"], row["end_date"]) == ("Completed", SUNDAY)
    assert len(await events_of(market, "staffing_booking.released")) == 1
    assert len(sent(market, RELEASED)) == 6


@pytest.mark.req("J-3.7", "X-J56")
async def test_a_shift_that_cannot_be_cancelled_does_not_keep_the_booking(market: Market) -> None:
    booking = await market.book()
    await market.rows(
        "CREATE FUNCTION marketplace.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.shift_date = '2027-03-10' AND NEW.status = 'Cancelled' THEN RAISE EXCEPTION 'not this one'; END IF; "
        "RETURN NEW; END $$"
    )
    await market.rows(
        "CREATE TRIGGER refuse BEFORE UPDATE ON marketplace.time_log FOR EACH ROW EXECUTE FUNCTION marketplace.refuse()"
    )
    async with with_bank(market, outcome="declined"):
        await market.pass_until(CUTOFF)
        assert await status_of(market, booking["id"]) == "Completed"
        assert (await statuses(market, booking["id"]))["2027-03-10"] == "Scheduled"
        assert (await statuses(market, booking["id"]))["2027-03-11"] == "Cancelled"
        await market.rows("DROP TRIGGER refuse ON marketplace.time_log")
        await market.pass_until(CUTOFF + DAY)
    assert (await statuses(market, booking["id"]))["2027-03-10"] == "Cancelled"
    assert len(sent(market, RELEASED)) == 6


@pytest.mark.req("J-3.7")
async def test_a_database_that_refuses_is_tried_again_and_given_up_at_last(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="declined"):
        await market.pass_until(CUTOFF - MINUTE)
        await market.rows(
            "CREATE FUNCTION marketplace.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "RAISE EXCEPTION 'not now'; END $$"
        )
        await market.rows(
            "CREATE TRIGGER refuse BEFORE UPDATE ON marketplace.staffing_bookings FOR EACH ROW "
            "EXECUTE FUNCTION marketplace.refuse()"
        )
        await market.pass_until(CUTOFF + 2 * HOUR)
    (dead,) = await market.rows("SELECT attempt FROM timebell.dead_jobs WHERE kind = 'marketplace.cut_off'")
    assert dead["attempt"] == 6
    assert await status_of(market, booking["id"]) == "Active"
    assert sent(market, RELEASED) == []


@pytest.mark.req("J-3.1")
@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Pacific/Chatham"])
async def test_it_is_midnight_there(market: Market, zone: str) -> None:
    project = await market.ask(
        "Bea", "POST", "projects", {"company_id": str(market.borrower), "name": "There", "timezone": zone}
    )
    booking = await market.book(
        shift(date(2027, 3, 9), zone=zone), project_id=project.json()["id"], start_date="2027-03-03"
    )
    midnight = local(2027, 3, 4, zone=zone)
    async with with_bank(market, outcome="declined"):
        await market.pass_until(midnight - SECOND)
        assert await status_of(market, booking["id"]) == "Active"
        await market.pass_until(midnight)
    assert await status_of(market, booking["id"]) == "Completed"


@pytest.mark.slow
@pytest.mark.req("J-3.9")
async def test_a_report_and_the_cutoff_race_and_one_truth_remains(market: Market) -> None:
    """200 rounds: either it was paid in time, or it goes back; never both, and never neither."""
    bell = market.bench.bell
    ids = []
    for number in range(200):
        booking = await market.book(worker_id=str(await market.add_worker(f"w{number}")))
        ids.append(booking["id"])
    async with with_bank(market, outcome="processing") as bank:
        await market.pass_until(CUTOFF - SECOND)
        payments = {booking: (await payments_of(market, booking))[0] for booking in ids}
        market.clock.move_to(CUTOFF)

        async def reported(booking: str, number: int) -> None:
            payment = payments[booking]
            for _ in range(number % 7):
                await market.value("SELECT 1")
            found = bank.charges[payment["idempotency_key"]]
            if found.state == "processing":
                bank.settle(payment["idempotency_key"], "succeeded")
            state = bank.charges[payment["idempotency_key"]].state
            if state == "succeeded":
                await report(market, payment["id"], Charged(ref=found.ref, state="succeeded"))

        gathered = asyncio.gather(*(reported(booking, number) for number, booking in enumerate(ids)))
        await asyncio.gather(market.bench.run_due(), gathered)
        await market.bench.advance(HOUR)
    paid = 0
    for booking in ids:
        (payment,) = await payments_of(market, booking)
        status = await status_of(market, booking)
        state = bank.charges[payment["idempotency_key"]].state
        told = [one for one in market.arrived if RELEASED in one.content.text and booking in one.content.text]
        if status == "Active":
            paid += 1
            assert (payment["status"], state, told) == ("Succeeded", "succeeded", [])
            assert await funded_until(market, booking) == PERIOD[1]
        else:
            assert status == "Completed"
            assert len(told) == 6
            assert payment["status"] in ("Cancelled", "Refunded")
            assert (payment["status"] == "Refunded") == (state == "succeeded")
    assert paid > 0
    sums = await market.rows(
        "SELECT booking_id, coalesce(sum(amount) FILTER (WHERE type = 'charge'), 0) AS charged, "
        "coalesce(sum(amount) FILTER (WHERE type IN ('hold')), 0) AS held, "
        "coalesce(sum(amount) FILTER (WHERE type = 'refund' AND from_place = 'clearing'), 0) AS refunded "
        "FROM marketplace.ledger_entries GROUP BY 1"
    )
    assert all(row["charged"] == row["held"] + row["refunded"] for row in sums)
    assert bell.tallies.counted["marketplace_releases"]["released",] == 200 - paid


def test_an_hour_has_twelve_looks() -> None:
    assert timedelta(minutes=60) // timedelta(minutes=5) == 12
    assert orjson.dumps(BERLIN) == b'"Europe/Berlin"'
