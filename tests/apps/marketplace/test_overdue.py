"""A payment that nobody settled is asked about every day, whatever it was that kept its answer away."""

from __future__ import annotations

import orjson
import pytest

from tests.apps.marketplace.support import DAY, HOUR, MINUTE, Market
from tests.apps.marketplace.weekly_support import (
    CUTOFF,
    PAID_AT,
    PERIOD,
    WEEK,
    events_of,
    funded_until,
    payments_of,
    set_status,
    status_of,
    with_bank,
)
from timebell.apps.marketplace.payments.provider import Charged


@pytest.mark.req("X-J32")
async def test_after_a_day_without_a_report_somebody_is_told_and_the_provider_asked(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="processing", is_cancellable=False) as bank:
        await market.pass_until(CUTOFF + 2 * HOUR)
        (payment,) = await payments_of(market, booking["id"])
        assert payment["status"] == "Pending"
        bank.settle(payment["idempotency_key"], "succeeded")
        await market.pass_until(PAID_AT + DAY)
    assert len(await events_of(market, "payment.webhook_overdue")) == 1
    assert (await payments_of(market, booking["id"]))[0]["status"] == "Succeeded"
    assert market.bench.bell.tallies.counted["marketplace_payments"]["webhook_overdue",] == 1


@pytest.mark.req("X-J32")
async def test_a_provider_that_takes_five_days_is_asked_on_each_of_them(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="processing", is_cancellable=False) as bank:
        await market.pass_until(CUTOFF + 2 * HOUR)
        asked = bank.called("lookup")
        await market.pass_until(PAID_AT + 5 * DAY - HOUR)
        assert bank.called("lookup") == asked + 4
        (payment,) = await payments_of(market, booking["id"])
        bank.settle(payment["idempotency_key"], "succeeded")
        await market.pass_until(PAID_AT + 5 * DAY + HOUR)
    assert (await payments_of(market, booking["id"]))[0]["status"] == "Succeeded"
    assert await funded_until(market, booking["id"]) == PERIOD[1]
    assert len(await events_of(market, "payment.webhook_overdue")) == 1


@pytest.mark.req("X-J32", "J-3.9")
async def test_an_answer_that_nobody_heard_is_found_after_the_cutoff_gave_up(market: Market) -> None:
    booking = await market.book()
    faults = {"charge": ["timeout_after"], "lookup": ["unavailable"] * 9999}
    async with with_bank(market, faults=faults) as bank:
        await market.pass_until(CUTOFF + 2 * HOUR)
        (payment,) = await payments_of(market, booking["id"])
        assert (payment["status"], list(bank.taken.values())) == ("Pending", [WEEK])
        bank.faults.clear()
        await market.pass_until(PAID_AT + 3 * DAY)
    assert (await payments_of(market, booking["id"]))[0]["status"] == "Succeeded"
    assert await status_of(market, booking["id"]) == "Active"
    assert await funded_until(market, booking["id"]) == PERIOD[1]


@pytest.mark.req("X-J32")
async def test_what_the_provider_never_heard_of_is_cancelled_when_its_week_begins(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, faults={"charge": ["unavailable"] * 9999}) as bank:
        await market.pass_until(PAID_AT + MINUTE)
        await set_status(market, booking["id"], "Completed")
        bank.faults["lookup"] = ["unavailable"] * 9999
        await market.pass_until(CUTOFF + HOUR)
        bank.faults.clear()
        await market.pass_until(PERIOD[0] - HOUR)
        assert (await payments_of(market, booking["id"]))[0]["status"] == "Pending"
        await market.pass_until(PERIOD[0] + DAY)
    assert bank.charges == {}
    (payment,) = await payments_of(market, booking["id"])
    assert (payment["status"], payment["failure"]) == ("Cancelled", "the provider was never asked for it")


@pytest.mark.req("X-J32")
async def test_after_thirty_days_somebody_has_to_look(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="processing", is_cancellable=False) as bank:
        await market.pass_until(PAID_AT + MINUTE)
        await set_status(market, booking["id"], "Completed")
        await market.pass_until(PAID_AT + 32 * DAY)
        (review,) = await events_of(market, "payment.needs_review")
        assert orjson.loads(review["data"])["reason"] == "nobody could say what became of it"
        asked = bank.called("lookup")
        await market.pass_until(PAID_AT + 40 * DAY)
        assert bank.called("lookup") == asked == 30


@pytest.mark.req("X-J32", "X-J50")
async def test_a_call_that_comes_after_its_payment_was_given_up_is_found_and_paid_back(
    market: Market,
) -> None:
    """The node that was to ask stood still over the cutoff, asked when it went on, and the report was lost."""
    booking = await market.book()
    async with with_bank(market, faults={"charge": ["timeout_before"] * 9999}) as bank:
        await market.pass_until(CUTOFF + HOUR)
        (payment,) = await payments_of(market, booking["id"])
        assert (payment["status"], bank.charges) == ("Cancelled", {})
        bank.faults.clear()
        bank.outcome = "processing"
        key = payment["idempotency_key"]
        bank.charges[key] = Charged(ref="ch_late", state="processing")
        bank.amounts[key] = WEEK
        await market.pass_until(PAID_AT + DAY + HOUR)
        bank.settle(key, "succeeded")
        await market.pass_until(PAID_AT + 2 * DAY + HOUR)
    (movement,) = bank.moved.values()
    assert (movement.of_ref, movement.amount) == ("ch_late", WEEK)
    assert (await payments_of(market, booking["id"]))[0]["status"] == "Refunded"


@pytest.mark.req("X-J32")
async def test_what_was_given_up_is_asked_about_until_its_week_begins(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, faults={"charge": ["timeout_before"] * 9999}) as bank:
        await market.pass_until(CUTOFF + HOUR)
        asked = bank.called("lookup")
        await market.pass_until(PERIOD[0] + DAY + HOUR)
        # On Thursday, Friday, Saturday, Sunday and Monday at ten.
        assert bank.called("lookup") == asked + 5
    assert [each["status"] for each in await payments_of(market, booking["id"])][:1] == ["Cancelled"]
    assert await events_of(market, "payment.webhook_overdue") == []
