"""What needs a person in the marketplace: each alert opens at its bound and not before, once, and closes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.apps.marketplace.money import purse_of
from tests.apps.marketplace.shift_support import END, submitted
from tests.apps.marketplace.support import AMOUNT, Market
from timebell.apps.marketplace.payments.simulator_models import Fault, Orders

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)


async def look(market: Market) -> list[str]:
    """The rules of the marketplace whose alerts are open after a look."""
    await market.bench.engine.watch.look()
    return [row["rule"] for row in await alerts(market) if row["closed_at"] is None]


async def alerts(market: Market) -> Any:
    return await market.rows(
        "SELECT * FROM timebell.alerts WHERE app = 'marketplace' ORDER BY opened_at, rule, id"
    )


async def paid_for(market: Market, booking: str, count: int, status: str, *, tenant: str = "default") -> None:
    """So many weeks of a booking came to this."""
    now = market.clock.now
    await market.rows(
        "INSERT INTO marketplace.pending_payments (tenant, id, booking_id, period_start, period_end, amount, currency, "
        "status, provider, idempotency_key, attempt, settled_at, created_at, updated_at) "
        "SELECT $1, i.id, $2, $4::timestamptz + n * interval '7 days', $4 + (n + 1) * interval '7 days', 1, 'EUR', $3, "
        "'simulator', i.id::text, 1, CASE WHEN $3 <> 'Pending' THEN $4::timestamptz END, $4, $4 "
        "FROM generate_series((SELECT count(*) FROM marketplace.pending_payments) + 1, "
        "(SELECT count(*) FROM marketplace.pending_payments) + $5) AS n "
        "CROSS JOIN LATERAL (SELECT gen_random_uuid() AS id WHERE n IS NOT NULL) AS i",
        *(tenant, booking, status, now, count),
    )


@pytest.mark.req("J-12.2", "J-1.16", "X-J44")
async def test_one_in_twenty_payments_may_fail(market: Market) -> None:
    booking = (await market.book())["id"]
    # The first came to nothing, and are no failures.
    for count, status in ((30, "Cancelled"), (5, "Failed"), (95, "Succeeded")):
        await paid_for(market, booking, count, status)
    assert await look(market) == []
    await market.rows(
        "DELETE FROM marketplace.pending_payments WHERE period_start = "
        "(SELECT max(period_start) FROM marketplace.pending_payments WHERE status = 'Succeeded')"
    )
    await paid_for(market, booking, 1, "Failed")
    assert await look(market) == await look(market) == ["marketplace_payments_fail"]
    (row,) = await alerts(market)
    assert (row["tenant"], row["subject"], row["severity"]) == ("default", "zone:Europe/Berlin", "critical")
    assert row["detail"] == "6 of 100 weekly payments failed within a day"
    assert not row["is_of_engine"]
    market.clock.move(DAY)
    assert await look(market) == []


@pytest.mark.req("J-12.2", "X-J44")
async def test_of_few_payments_nothing_is_said(market: Market) -> None:
    booking = (await market.book())["id"]
    await paid_for(market, booking, 19, "Failed")
    assert await look(market) == []
    await paid_for(market, booking, 1, "Failed")
    assert await look(market) == ["marketplace_payments_fail"]


@pytest.mark.req("X-J32")
async def test_a_payment_that_nobody_settles_for_a_day(market: Market) -> None:
    booking = (await market.book())["id"]
    await paid_for(market, booking, 2, "Pending")
    market.clock.move(DAY - SECOND)
    assert await look(market) == []
    market.clock.move(SECOND)
    assert await look(market) == ["marketplace_payment_overdue"] * 2
    rows = await market.rows("SELECT id FROM marketplace.pending_payments ORDER BY id")
    assert [row["subject"] for row in await alerts(market)] == [f"payment:{row['id']}" for row in rows]
    await market.rows("UPDATE marketplace.pending_payments SET status = 'Failed', settled_at = created_at")
    assert await look(market) == []


@pytest.mark.req("J-12.2", "J-7.13")
async def test_a_timesheet_that_is_not_approved_by_itself(market: Market) -> None:
    id = await submitted(market)
    await market.rows("DELETE FROM timebell.jobs WHERE step = 'auto_approve'")
    market.clock.move_to(END + 4 * HOUR + 5 * MINUTE)
    assert await look(market) == []
    market.clock.move(SECOND)
    assert await look(market) == await look(market) == ["marketplace_auto_approval_fails"]
    (row,) = await alerts(market)
    assert (row["subject"], row["severity"]) == (f"time_log:{id}", "critical")
    await market.verify(id)
    assert "marketplace_auto_approval_fails" not in await look(market)


@pytest.mark.req("J-1.16")
async def test_a_shift_that_was_verified_without_money(market: Market) -> None:
    purse = await purse_of(market)
    await purse.verified(0)
    assert await purse.owe(0) is None
    assert await look(market) == ["marketplace_shift_unfunded"]
    (row,) = await alerts(market)
    assert (row["subject"], row["is_by_hand"]) == (f"time_log:{purse.shift_ids[0]}", True)
    assert row["detail"] == f"{AMOUNT} EUR of the booking {purse.id} are owed and not held"
    assert await purse.owe(0) is None
    assert len(await alerts(market)) == 1
    await purse.paid(0)
    assert await purse.owe(0) is not None
    assert await look(market) == []


@pytest.mark.req("J-7.13")
async def test_money_that_could_not_be_sent(market: Market) -> None:
    purse = await purse_of(market)
    await purse.paid(0)
    await purse.verified(0)
    await purse.order(Orders(faults=[Fault(call="transfer", fault="timeout_before")]))
    await purse.owe(0)
    await market.bench.advance(6 * HOUR)
    assert await look(market) == ["marketplace_payout_needs_review"]
    await purse.order(Orders())
    async with purse.bell.transaction() as tx:
        await purse.bell.revive(tx, kind="marketplace.pay_out")
    await market.bench.run_due()
    assert await look(market) == []


async def test_every_question_can_be_asked_and_goes_on_behind_a_place(market: Market) -> None:
    watch = market.bench.engine.watch
    watch._after = dict.fromkeys(watch.rules, ("default", f"payment:{uuid4()}"))
    for name in ("breaker_open", "schedule_parked", "schedule_missed"):
        watch._after[name] = None
    await watch.look()
    assert watch._failed == {}
