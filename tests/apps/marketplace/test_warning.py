"""Whoever has not paid for next week is warned on Wednesday afternoon, once."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest

from tests.apps.marketplace.support import HOUR, MINUTE, SECOND, Json, Market, done, open_market
from tests.apps.marketplace.weekly_support import (
    CUTOFF,
    PAID_AT,
    WARNED_AT,
    dispute,
    payments_of,
    report,
    sent,
    set_status,
    with_bank,
)
from timebell.apps.marketplace.payments.provider import Charged
from timebell.notify import Unavailable
from timebell.testing.database import TestDatabase

AWAY = Unavailable(reason="connection refused", error_class="transient")
BOTH = [("email", "bea@example.org"), ("sms", "+4915112345670")]


def line(booking: str) -> str:
    return (
        f"Payment required for booking {booking}. Final warning - payment must be completed by end of day Wednesday "
        "to avoid worker release."
    )


@pytest.mark.req("J-2.1", "J-2.3", "J-2.4")
async def test_who_has_not_paid_is_told_on_both_channels_and_it_is_logged(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="declined"):
        await market.pass_until(WARNED_AT - SECOND)
        assert sent(market, "Final warning") == []
        await market.pass_until(WARNED_AT)
    texts = [parcel.content.text for parcel in market.arrived if "Final warning" in parcel.content.text]
    assert texts == [line(booking["id"])] * 2
    assert sent(market, "Final warning") == BOTH
    rows = await market.rows(
        "SELECT d.channel FROM timebell_notify.deliveries d "
        "JOIN timebell_notify.notifications n ON n.id = d.notification_id "
        "WHERE n.subject = $1 AND n.template = $2 AND d.state = 'sent'",
        *(f"staffing:{booking['id']}", "marketplace.final_warning"),
    )
    assert sorted(row["channel"] for row in rows) == ["email", "sms"]
    assert market.bench.bell.tallies.counted["marketplace_payment_notices"]["final_warning",] == 1


@pytest.mark.req("J-2.2", "J-2.6", "X-J49")
@pytest.mark.parametrize("why", ["paid", "disputed", "paused", "nothing", "cutoff"])
async def test_whoever_need_not_pay_is_not_warned(market: Market, why: str) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="processing"):
        await market.pass_until(WARNED_AT - SECOND)
        async with market.bench.bell.transaction() as tx:
            # Enqueued before it changes.
            about = {
                "booking_id": booking["id"],
                "run_on": "2027-03-03",
                "period_start": "2027-03-07T23:00:00+00:00",
            }
            await market.bench.bell.enqueue(tx, "marketplace.warn", about, due_at=WARNED_AT)
        (payment,) = await payments_of(market, booking["id"])
        if why == "paid":
            await report(market, payment["id"], Charged(ref="ch_1", state="succeeded"))
        elif why == "disputed":
            await dispute(market, booking["id"])
        elif why == "paused":
            await set_status(market, booking["id"], "Payment_Paused_Dispute")
        elif why == "nothing":
            await market.rows("UPDATE marketplace.time_log SET status = 'Cancelled'")
        else:
            await market.rows("UPDATE marketplace.staffing_bookings SET status = 'Completed'")
        await market.pass_until(WARNED_AT + HOUR)
    assert sent(market, "Final warning") == []


@pytest.mark.req("J-2.6", "X-J2")
async def test_one_warning_for_each_booking_and_week(market: Market) -> None:
    booking = await market.book(end_date="2027-03-21")
    about = {"booking_id": booking["id"], "run_on": "2027-03-03", "period_start": "2027-03-07T23:00:00+00:00"}
    async with with_bank(market, outcome="declined"):
        await market.pass_until(WARNED_AT)
        async with market.bench.bell.transaction() as tx:
            payload = {"timezone": "Europe/Berlin", "original_local": "2027-03-03T14:00:00"}
            await market.bench.bell.enqueue(tx, "marketplace.enqueue_warnings", payload)
            await market.bench.bell.enqueue(tx, "marketplace.warn", about)
        await market.bench.run_due()
    assert sent(market, "Final warning") == BOTH


@pytest.mark.req("J-1.18", "X-J2")
async def test_a_warning_after_the_cutoff_is_left_out(market: Market) -> None:
    booking = await market.book()
    about = {"booking_id": booking["id"], "run_on": "2027-03-03", "period_start": "2027-03-07T23:00:00+00:00"}
    market.clock.move_to(CUTOFF)
    async with market.bench.bell.transaction() as tx:
        await market.bench.bell.enqueue(tx, "marketplace.warn", about)
    await market.bench.run_due()
    assert sent(market, "Final warning") == []


async def test_it_waits_for_whoever_changes_the_booking(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="declined"):
        await market.pass_until(PAID_AT)
    async with market.bench.bell.transaction() as tx:
        await tx.connection.execute(
            "SELECT FROM marketplace.staffing_bookings WHERE id = $1 FOR UPDATE", UUID(booking["id"])
        )
        await market.pass_until(WARNED_AT)
        assert sent(market, "Final warning") == []
    await market.pass_until(WARNED_AT + MINUTE)
    assert sent(market, "Final warning") == BOTH


@pytest.mark.req("J-2.5", "X-J60")
async def test_a_warning_that_nobody_takes_is_tried_with_growing_pauses_and_then_waits_for_somebody(
    market: Market,
) -> None:
    booking = await market.book()
    market.provider.answer(*[AWAY] * 99)
    async with with_bank(market, outcome="declined"):
        # Of the payment that failed they were to be told as well; what counts here begins with the warning.
        await market.pass_until(WARNED_AT - SECOND)
        failed_before = {row["id"] for row in await attention(market)}
        market.provider.parcels.clear()
        await market.pass_until(WARNED_AT + 2 * HOUR)
    for channel in ("email", "sms"):
        tried = [
            parcel.attempted_at
            for parcel in market.arrived
            if parcel.channel == channel
            and "Final warning" in parcel.content.text
            and parcel.attempted_at is not None
        ]
        pauses = [late - early for early, late in pairwise(tried)]
        assert len(pauses) >= 2, channel
        assert all(early < late for early, late in pairwise(pauses)), channel
    (waiting,) = [row for row in await attention(market) if row["id"] not in failed_before]
    assert (waiting["template"], waiting["state"], waiting["reason"]) == (
        "marketplace.final_warning",
        "failed",
        "exhausted",
    )
    assert (waiting["subject"], waiting["context"]) == (
        f"staffing:{booking['id']}",
        {"booking_id": booking["id"]},
    )
    await market.bench.engine.watch.look()
    (alert,) = await market.rows(
        "SELECT tenant, detail FROM timebell.alerts WHERE rule = 'somebody_not_told'"
    )
    assert alert["tenant"] == "default"
    assert alert["detail"].endswith(f"marketplace.final_warning about staffing:{booking['id']}")


async def attention(market: Market) -> list[Json]:
    """What waits for an operator, as they are shown it."""
    rows: list[Json] = done(await market.site.ask("GET", "/v1/notifications/attention", key="admin"))["data"]
    return rows


@pytest.mark.req("J-0.6")
async def test_jobs_are_done_while_nothing_can_be_told_and_the_rest_follows(
    market_database: TestDatabase,
) -> None:
    async with open_market(market_database) as market:
        booking = await market.book()
        async with market.bench.bell.transaction() as tx:
            await market.bench.bell.pause(tx, "notify")
        async with with_bank(market, outcome="declined"):
            await market.pass_until(WARNED_AT + HOUR)
        assert market.arrived == []
        left = await market.value("SELECT count(*) FROM timebell.jobs WHERE kind = 'marketplace.warn'")
        assert left == 0
        waiting = await market.value(
            "SELECT count(*) FROM timebell.jobs WHERE kind = 'notify.deliver' AND subject = $1",
            f"staffing:{booking['id']}",
        )
        assert waiting == 2
        async with market.bench.bell.transaction() as tx:
            await market.bench.bell.resume(tx, "notify")
        await market.pass_until(WARNED_AT + 2 * HOUR)
        assert sent(market, "Final warning") == BOTH
