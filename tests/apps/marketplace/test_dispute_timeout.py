"""A dispute that nobody resolved within three hours: what is cancelled, what is kept, and who learns of it."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import date
from uuid import UUID

import orjson
import pytest

from tests.apps.marketplace.dispute_support import (
    DAYS,
    TIMED_OUT,
    UNRESOLVED,
    at,
    contested,
    resolved,
    statuses,
    whole,
)
from tests.apps.marketplace.money import Purse
from tests.apps.marketplace.shift_support import (
    END,
    PHONES,
    balance,
    became,
    dispute,
    disputed,
    fund,
    read,
    submitted,
)
from tests.apps.marketplace.support import AMOUNT, HOUR, MINUTE, SECOND, Market, done, local, shift
from tests.apps.marketplace.weekly_support import payments_of, sent, set_status, status_of
from timebell.apps.marketplace.disputes.service import TIME_OUT
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.applying import Applying

HALF = AMOUNT // 2


@pytest.mark.req("J-8.6", "J-8.7", "J-8.8", "J-8.9", "J-8.10", "J-8.11", "X-J8", "X-J46", "D-6.10")
async def test_what_is_to_come_is_cancelled_and_what_is_kept_is_frozen(market: Market) -> None:
    """One shift began a minute ago and one begins that very second, and both are worked; one begins in a minute."""
    shifts = (DAYS[0], at(18, 59), at(19, 0), at(19, 1), *DAYS[1:])
    row, ids = await contested(market, *shifts)
    booking = row["booking_id"]
    before = await whole(market, booking)
    await market.pass_until(TIMED_OUT - SECOND)
    assert await statuses(market, booking) == ["Disputed", *["Scheduled"] * 5]
    await market.pass_until(TIMED_OUT)
    assert await statuses(market, booking) == ["Disputed", *["Scheduled"] * 2, *["Cancelled"] * 3]
    found = await market.shifts(booking)
    assert {one["cancel_reason"] for one in found[3:]} == {"Dispute_Timeout"}
    assert await status_of(market, booking) == "Active"
    await market.pass_until(TIMED_OUT + MINUTE)
    # Half of what begins within a day is kept.
    kept = {ids[3]: HALF, ids[4]: HALF, ids[5]: 0}
    for id, amount in kept.items():
        money = await balance(market, id)
        assert (money.frozen, money.refunded, money.held) == (amount, AMOUNT - amount, 0)
    after = await whole(market, booking)
    assert (after.frozen, after.refunded, after.held) == (AMOUNT + 2 * HALF, 2 * HALF + AMOUNT, 2 * AMOUNT)
    assert before.charged == after.charged
    assert after.released == 0
    refunds = await market.rows("SELECT * FROM marketplace.payouts WHERE sort = 'refund'")
    assert [(one["amount"], one["state"]) for one in refunds] == [(2 * HALF + AMOUNT, "sent")]
    told = {name: f"{name.lower()}@example.org" for name in ("Bea", "Lea", "Wim")}
    assert sent(market, UNRESOLVED) == sorted(
        [*(("email", told[name]) for name in told), *(("sms", PHONES[name]) for name in told)]
    )
    seen = await market.get(f"disputes/{row['id']}")
    assert (seen["status"], seen["frozen"]) == ("Open", AMOUNT + 2 * HALF)
    assert seen["timed_out_at"] is not None
    (line,) = await market.rows(
        "SELECT reason, object_id, data::text FROM marketplace.audit_log WHERE action = 'dispute.timed_out'"
    )
    assert (line["reason"], line["object_id"]) == ("Dispute_Timeout", row["id"])
    assert orjson.loads(line["data"])["dispute_id"] == row["id"]
    assert orjson.loads(line["data"])["time_log_ids"] == ids[3:]
    # What was not cancelled is worked.
    assert (await market.clock_in(ids[1]))["status"] == "Working"


@pytest.mark.req("J-8.6", "X-J8")
async def test_what_is_to_come_is_so_where_the_project_is(market: Market) -> None:
    """At eight in the evening, UTC, it is the next day in Kolkata, and its morning shift is still to come."""
    place = {"company_id": str(market.borrower), "name": "Far", "timezone": "Asia/Kolkata"}
    project = done(await market.ask(None, "POST", "projects", place), 201)["id"]
    zone = "Asia/Kolkata"
    shifts = [shift(date(2027, 3, 2), start=12, end=22, zone=zone), shift(date(2027, 3, 3), zone=zone)]
    id = await submitted(market, *shifts, at=local(2027, 3, 2, 22, zone=zone), project_id=project)
    market.clock.move_to(local(2027, 3, 2, 22, 30, zone=zone))
    row = await disputed(market, id)
    await market.pass_until(local(2027, 3, 3, 1, 30, zone=zone))
    assert await statuses(market, row["booking_id"]) == ["Disputed", "Cancelled"]


@pytest.mark.req("X-J46", "J-8.7")
async def test_a_policy_of_the_tenant_replaces_the_default(market: Market) -> None:
    policy = {"short_term_days": 1, "long_notice_hours": 36, "long_percent": 25}
    said = done(await market.ask(None, "PATCH", "settings", {"penalty_policy": policy}))
    assert said["penalty_policy"] == {**policy, "short_notice_hours": 24, "short_percent": 50}
    done(await market.ask(None, "PATCH", "settings", {"penalty_policy": {"long_percent": 20}}))
    assert (await market.get("settings"))["penalty_policy"]["long_notice_hours"] == 36
    wrong = await market.ask(None, "PATCH", "settings", {"penalty_policy": {"long_percent": 101}})
    assert wrong.json()["errors"][0]["pointer"] == "/penalty_policy/long_percent"
    _, ids = await contested(market)
    await market.pass_until(TIMED_OUT + MINUTE)
    assert (await balance(market, ids[1])).frozen == AMOUNT // 5
    assert (await balance(market, ids[2])).refunded == AMOUNT


@pytest.mark.req("J-8.4", "J-8.13", "J-8.9")
async def test_with_option_b_nothing_is_left_to_do(market: Market) -> None:
    row, _ = await contested(market, option="B")
    await market.pass_until(TIMED_OUT - SECOND)
    seen = await market.get(f"disputes/{row['id']}"), await whole(market, row["booking_id"])
    await market.pass_until(TIMED_OUT + 2 * HOUR)
    assert (await market.get(f"disputes/{row['id']}"), await whole(market, row["booking_id"])) == seen
    assert await market.events(f"dispute:{row['id']}") == ["dispute.filed"]
    assert sent(market, UNRESOLVED) == []


@pytest.mark.req("J-8.4")
async def test_option_b_beats_option_a(market: Market) -> None:
    """Another shift of the booking is disputed with B, after one was with A."""
    first, second = shift(date(2027, 3, 2), start=8, end=12), shift(date(2027, 3, 2), start=12, end=16)
    id = await submitted(market, first, second, *DAYS[1:], at=local(2027, 3, 2, 12))
    booking = (await read(market, id))["booking_id"]
    ids = [row["id"] for row in await market.shifts(booking)]
    await fund(market, *ids)
    row = await disputed(market, id)
    await market.clock_in(ids[1])
    await market.pass_until(local(2027, 3, 2, 14))
    await market.submit(ids[1])
    await disputed(market, ids[1], option="B")
    await market.pass_until(local(2027, 3, 2, 19))
    assert await market.events(f"dispute:{row['id']}") == ["dispute.filed"]
    assert (await whole(market, booking)).frozen == 2 * AMOUNT
    assert sent(market, UNRESOLVED) == []


@pytest.mark.req("J-8.12")
async def test_of_two_disputes_the_first_cancels_and_both_tell(market: Market) -> None:
    first, second = shift(date(2027, 3, 2), start=8, end=12), shift(date(2027, 3, 2), start=12, end=16)
    id = await submitted(market, first, second, *DAYS[1:], at=local(2027, 3, 2, 12))
    booking = (await read(market, id))["booking_id"]
    ids = [row["id"] for row in await market.shifts(booking)]
    await fund(market, *ids)
    early = await disputed(market, id)
    await market.clock_in(ids[1])
    await market.pass_until(local(2027, 3, 2, 13))
    await market.submit(ids[1])
    late = await disputed(market, ids[1])
    await market.pass_until(local(2027, 3, 2, 15, 30))
    assert await statuses(market, booking) == ["Disputed", "Disputed", "Cancelled", "Cancelled"]
    money = await whole(market, booking)
    assert len(sent(market, UNRESOLVED)) == 6
    await market.pass_until(local(2027, 3, 2, 16, 30))
    assert await whole(market, booking) == money
    assert len(sent(market, UNRESOLVED)) == 12
    # What is kept is kept for the first.
    frozen = [(await market.get(f"disputes/{one['id']}"))["frozen"] for one in (early, late)]
    assert frozen == [3 * AMOUNT, AMOUNT]
    # The pause lasts until both are resolved.
    await set_status(market, booking, "Payment_Paused_Dispute")
    await resolved(market, early["id"], "Resolved")
    assert await status_of(market, booking) == "Payment_Paused_Dispute"
    await resolved(market, late["id"], "Resolved")
    assert await status_of(market, booking) == "Active"


@pytest.mark.req("J-4.11", "J-8.6")
async def test_a_booking_that_is_suspended_or_was_released_has_its_shifts_cancelled(market: Market) -> None:
    row, _ = await contested(market)
    await set_status(market, row["booking_id"], "Suspended_Insurance")
    await market.pass_until(TIMED_OUT + MINUTE)
    assert await statuses(market, row["booking_id"]) == ["Disputed", "Cancelled", "Cancelled"]
    assert await status_of(market, row["booking_id"]) == "Suspended_Insurance"


@pytest.mark.req("J-8.15", "U-22")
async def test_a_dispute_whose_timer_was_lost_times_out_within_the_hour(market: Market) -> None:
    """Once, whatever becomes of the timer afterwards."""
    row, _ = await contested(market)
    await market.rows("DELETE FROM timebell.jobs WHERE kind = $1", TIME_OUT)
    await market.pass_until(TIMED_OUT - SECOND)
    assert await market.events(f"dispute:{row['id']}") == ["dispute.filed"]
    await market.pass_until(TIMED_OUT + HOUR)
    assert await statuses(market, row["booking_id"]) == ["Disputed", "Cancelled", "Cancelled"]
    await market.pass_until(TIMED_OUT + 3 * HOUR)
    assert await market.events(f"dispute:{row['id']}") == ["dispute.filed", "dispute.timed_out"]
    assert len(sent(market, UNRESOLVED)) == 6


async def test_a_timer_that_somebody_hastened_waits(market: Market) -> None:
    row, _ = await contested(market)
    await market.rows(
        "UPDATE timebell.jobs SET run_at = $2, due_at = $2 WHERE kind = $1", TIME_OUT, market.clock.now
    )
    await market.pass_until(TIMED_OUT - MINUTE)
    assert await market.events(f"dispute:{row['id']}") == ["dispute.filed"]
    await market.pass_until(TIMED_OUT)
    assert await market.events(f"dispute:{row['id']}") == ["dispute.filed", "dispute.timed_out"]


@pytest.mark.req("J-8.14")
async def test_a_shift_that_cannot_be_cancelled_keeps_none_of_the_others(
    market: Market, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again with growing pauses; then it is a dead job, and somebody is told to look."""
    row, ids = await contested(market)
    await market.rows(
        f"ALTER TABLE marketplace.time_log ADD CONSTRAINT broken CHECK (status <> 'Cancelled' OR id <> '{ids[1]}')"
    )
    with caplog.at_level(logging.ERROR):
        await market.pass_until(TIMED_OUT + MINUTE)
    assert await statuses(market, row["booking_id"]) == ["Disputed", "Scheduled", "Cancelled"]
    assert len(sent(market, UNRESOLVED)) == 6
    await market.pass_until(TIMED_OUT + 3 * HOUR)
    names = await market.events(f"dispute:{row['id']}")
    assert names == ["dispute.filed", "dispute.timed_out", "dispute.needs_review"]
    assert await market.alerts() == [("marketplace_dispute_needs_review", f"dispute:{row['id']}")]
    (dead,) = await market.rows(
        "SELECT id FROM timebell.job_log WHERE kind = $1 AND state = 'dead'", TIME_OUT
    )
    await market.rows("ALTER TABLE marketplace.time_log DROP CONSTRAINT broken")
    assert await became(market, str(dead["id"])) == "dead"
    assert len(sent(market, UNRESOLVED)) == 6


@pytest.mark.req("J-8.14")
async def test_what_cannot_be_told_does_not_keep_what_is_cancelled(market: Market) -> None:
    row, _ = await contested(market)
    await market.rows(
        "ALTER TABLE timebell_notify.notifications ADD CONSTRAINT broken CHECK (subject NOT LIKE 'dispute:%')"
    )
    await market.pass_until(TIMED_OUT + SECOND)
    assert await statuses(market, row["booking_id"]) == ["Disputed", "Cancelled", "Cancelled"]
    assert sent(market, UNRESOLVED) == []
    await market.rows("ALTER TABLE timebell_notify.notifications DROP CONSTRAINT broken")
    await market.pass_until(TIMED_OUT + HOUR)
    assert len(sent(market, UNRESOLVED)) == 6


@pytest.mark.req("J-8.16", "J-1.7", "X-J24")
async def test_on_wednesday_nothing_is_charged_while_it_is_open(market: Market) -> None:
    row, _ = await contested(market, *DAYS, shift(date(2027, 3, 9)), end_date="2027-03-14")
    await market.pass_until(local(2027, 3, 3, 12))
    assert len(await payments_of(market, row["booking_id"])) == 1, "the one from before"
    assert await status_of(market, row["booking_id"]) == "Payment_Paused_Dispute"
    assert (await statuses(market, row["booking_id"]))[1:] == ["Cancelled"] * 3


async def pay(market: Market, booking: str, ids: list[str]) -> None:
    """The provider reports that shifts are paid for, as they are by now."""
    purse = Purse(market, UUID(booking), [UUID(id) for id in ids])
    payment = replace(await purse.payment(*range(len(ids)), status="Pending"), status="Pending")
    assert payment.provider_intent_id is not None
    async with market.bench.bell.transaction() as tx:
        held = await purse.booking(tx)
        await Applying(market.bench.bell).succeed(tx, held, payment, payment.provider_intent_id, by=By())


@pytest.mark.req("X-J62")
async def test_what_the_lender_has_already_is_asked_back(market: Market) -> None:
    """The tenant pays for a whole week at once, so that nothing is left to freeze."""
    done(await market.ask(None, "PATCH", "settings", {"payout_trigger": "webhook"}))
    id = await submitted(market, *DAYS, end_date="2027-03-07")
    booking = (await read(market, id))["booking_id"]
    ids = [one["id"] for one in await market.shifts(booking)]
    await pay(market, booking, ids)
    await market.pass_until(END + MINUTE)
    row = await disputed(market, id)
    assert row["frozen"] == 0
    await market.pass_until(TIMED_OUT + 2 * MINUTE)
    assert await statuses(market, booking) == ["Disputed", "Cancelled", "Cancelled"]
    money = await whole(market, booking)
    assert (money.released, money.frozen, money.refunded) == (3 * AMOUNT, 0, 0)
    for cancelled in ids[1:]:
        assert "payout.reversal_requested" in await market.events(f"time_log:{cancelled}")
    assert await market.alerts() == sorted(
        ("marketplace_payout_to_reverse", f"time_log:{cancelled}") for cancelled in ids[1:]
    )
    assert (await resolved(market, row["id"], "Settled"))["settlement"] == {"lender": 0, "borrower": 0}
    await market.pass_until(TIMED_OUT + 3 * MINUTE)
    assert await whole(market, booking) == money


@pytest.mark.req("J-8.8")
async def test_what_is_paid_for_later_is_kept_as_far_as_it_was_due(market: Market) -> None:
    """The money of a shift was on its way when the shift was cancelled."""
    id = await submitted(market, *DAYS, end_date="2027-03-07")
    row = await disputed(market, id)
    ids = [one["id"] for one in await market.shifts(row["booking_id"])]
    await market.pass_until(TIMED_OUT + MINUTE)
    assert (await whole(market, row["booking_id"])).charged == 0
    await pay(market, row["booking_id"], ids)
    await market.pass_until(TIMED_OUT + 2 * MINUTE)
    money = [await balance(market, one) for one in ids]
    assert [one.frozen for one in money] == [AMOUNT, HALF, 0]
    assert [one.refunded for one in money] == [0, HALF, AMOUNT]
    assert (await market.get(f"disputes/{row['id']}"))["frozen"] == AMOUNT + HALF


async def test_a_timesheet_is_disputed_once(market: Market) -> None:
    row, ids = await contested(market)
    assert (await dispute(market, ids[0])).status_code == 409
    await resolved(market, row["id"], "Resolved")
    assert (await dispute(market, ids[0])).status_code == 409
