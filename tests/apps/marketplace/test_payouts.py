"""What leaves the escrow: once for each shift, by a job that looks again, and in the ledger when it is confirmed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from tests.apps.marketplace.money import BY, Purse, purse_of
from tests.apps.marketplace.support import AMOUNT, NOW, Market
from timebell.apps.marketplace.payments.building import opened, provider_name
from timebell.apps.marketplace.payments.models import Balance, PaymentLine, PayoutSort
from timebell.apps.marketplace.payments.payouts import PAYOUTS, UNFUNDED
from timebell.apps.marketplace.payments.simulator_models import Fault, Orders
from timebell.config import Settings


async def states(market: Market) -> list[str]:
    return [row["state"] for row in await market.rows("SELECT state FROM marketplace.payouts ORDER BY id")]


async def status(market: Market, payment: Any) -> str:
    found: str = await market.value(
        "SELECT status FROM marketplace.pending_payments WHERE id = $1", payment.id
    )
    return found


async def dead(market: Market) -> int:
    found: int = await market.value(
        "SELECT count(*) FROM timebell.dead_jobs WHERE kind = 'marketplace.pay_out'"
    )
    return found


@pytest.mark.req("J-7.11")
@pytest.mark.req("D-6.11")
async def test_a_verified_shift_is_paid_out_once(market: Market) -> None:
    purse = await purse_of(market)
    payment = await purse.paid(0, 1)
    await purse.verified(0)
    owed = await purse.owe(0)
    assert (owed.sort, owed.amount, owed.state) == ("transfer", AMOUNT, "pending")
    assert await purse.balance() == Balance(charged=2 * AMOUNT, held=2 * AMOUNT), "nothing is confirmed yet"
    assert await purse.owe(0) is None
    assert await market.events(f"time_log:{purse.shift_ids[0]}") == [], "it is on its way, and not unfunded"
    await market.bench.run_due()
    assert await purse.balance() == Balance(charged=2 * AMOUNT, held=AMOUNT, released=AMOUNT)
    assert await purse.owe(0) is None
    await market.bench.run_due()
    assert await purse.moved("transfer") == AMOUNT
    (call,) = await purse.calls("transfer")
    assert (call["amount"], call["currency"], call["booking_id"]) == (AMOUNT, "EUR", purse.id)
    assert await market.events(payment.subject) == ["payout.owed", "payout.sent"]
    (entry,) = await market.rows("SELECT * FROM marketplace.ledger_entries WHERE type = 'release'")
    (payout,) = await market.rows("SELECT * FROM marketplace.payouts")
    assert entry["provider_ref"] == payout["provider_ref"] is not None
    assert (payout["state"], payout["correlation_id"]) == ("sent", "walk-1")


@pytest.mark.req("J-1.12")
@pytest.mark.req("X-J62")
async def test_a_week_that_was_paid_out_at_once_is_not_paid_out_again(market: Market) -> None:
    purse = await purse_of(market)
    payment = await purse.paid(0, 1, 2)
    async with purse.bell.transaction() as tx:
        owed = await purse.payouts.owe_payment(tx, await purse.booking(tx), payment, BY)
    assert owed is not None
    assert owed.amount == 3 * AMOUNT
    async with purse.bell.transaction() as tx:
        assert await purse.payouts.owe_payment(tx, await purse.booking(tx), payment, BY) is None
    await market.bench.run_due()
    assert len(await purse.calls("transfer")) == 1
    assert await purse.balance() == Balance(charged=3 * AMOUNT, released=3 * AMOUNT)
    await purse.verified(1)
    assert await purse.owe(1) is None
    await market.bench.run_due()
    assert await purse.moved("transfer") == 3 * AMOUNT
    assert "time_log.unfunded" not in await market.events(f"time_log:{purse.shift_ids[1]}")


async def test_a_shift_that_nobody_paid_for_moves_nothing(market: Market) -> None:
    purse = await purse_of(market)
    await purse.verified(0)
    assert await purse.owe(0) is None
    assert await market.events(f"time_log:{purse.shift_ids[0]}") == ["time_log.unfunded"]
    assert await states(market) == []
    assert purse.bell.tallies.counted[UNFUNDED][()] == 1


async def test_what_costs_nothing_is_not_unfunded(market: Market) -> None:
    purse = await purse_of(market, amount=0)
    await purse.verified(0)
    assert await purse.owe(0) is None
    assert await market.events(f"time_log:{purse.shift_ids[0]}") == []


async def test_shifts_go_back_in_one_refund_for_each_payment(market: Market) -> None:
    purse = await purse_of(market, 4)
    first, second = await purse.paid(0, 1), await purse.paid(2, 3)
    refunds = await purse.refund(1, 2, 3, reason="the booking was cancelled")
    assert {each.payment_id: each.amount for each in refunds} == {first.id: AMOUNT, second.id: 2 * AMOUNT}
    assert await purse.refund(1, 2, 3) == [], "it is on its way"
    await market.bench.run_due()
    assert await purse.balance() == Balance(charged=4 * AMOUNT, held=AMOUNT, refunded=3 * AMOUNT)
    assert len(await purse.calls("refund")) == 2
    assert (await status(market, first), await status(market, second)) == ("Succeeded", "Refunded")
    assert (await market.events(second.subject))[-1] == "payment.refunded"
    assert await purse.refund(1, 2, 3) == []
    # What went back is nobody's to be paid out.
    await purse.verified(1)
    assert await purse.owe(1) is None


async def test_a_payment_goes_back_as_far_as_it_is_here(market: Market) -> None:
    purse = await purse_of(market)
    payment = await purse.paid(0, 1)
    await purse.verified(0)
    await purse.owe(0)
    await market.bench.run_due()
    async with purse.bell.transaction() as tx:
        owed = await purse.payouts.refund_payment(tx, await purse.booking(tx), payment, "released", BY)
    assert owed is not None
    assert owed.amount == AMOUNT
    await market.bench.run_due()
    assert await purse.balance() == Balance(charged=2 * AMOUNT, released=AMOUNT, refunded=AMOUNT)
    async with purse.bell.transaction() as tx:
        assert await purse.payouts.refund_payment(tx, await purse.booking(tx), payment, "x", BY) is None


@pytest.mark.req("X-J50")
@pytest.mark.parametrize("before", ["Cancelled", "Failed", "Succeeded"])
async def test_a_success_that_came_too_late_is_charged_and_refunded_in_one(
    market: Market, before: str
) -> None:
    purse = await purse_of(market)
    payment = await purse.payment(0, 1, status=before)
    async with purse.bell.transaction() as tx:
        owed = await purse.payouts.refund_payment(tx, await purse.booking(tx), payment, "too late", BY)
    assert owed is not None
    assert (owed.amount, owed.lines) == (2 * AMOUNT, [])
    async with purse.bell.transaction() as tx:
        assert await purse.payouts.refund_payment(tx, await purse.booking(tx), payment, "again", BY) is None
    assert await purse.balance() == Balance()
    await market.bench.run_due()
    assert await purse.balance() == Balance(charged=2 * AMOUNT, refunded=2 * AMOUNT)
    assert await status(market, payment) == "Refunded"
    async with purse.bell.transaction() as tx:
        assert await purse.payouts.refund_payment(tx, await purse.booking(tx), payment, "again", BY) is None


@pytest.mark.req("X-J17")
async def test_what_has_not_begun_can_be_kept_back(market: Market) -> None:
    purse = await purse_of(market)
    payment = await purse.paid(0, 1)
    await purse.verified(0)
    await purse.owe(0)
    async with purse.bell.transaction() as tx:
        booking, shift = await purse.booking(tx), await purse.shift(tx, 0)
        assert await purse.payouts.cancel_transfer(tx, booking, shift)
        assert await purse.payouts.cancel_transfer(tx, booking, shift), "there is nothing to keep back"
        assert await purse.ledger.freeze(tx, booking, shift, uuid4()) == AMOUNT
    await market.bench.run_due()
    assert await purse.calls("transfer") == []
    assert await purse.balance() == Balance(charged=2 * AMOUNT, held=AMOUNT, frozen=AMOUNT)
    assert await states(market) == ["cancelled"]
    assert await market.events(payment.subject) == ["payout.owed", "payout.kept_back"]


async def test_one_shift_of_a_week_can_be_kept_back(market: Market) -> None:
    purse = await purse_of(market)
    payment = await purse.paid(0, 1, 2)
    async with purse.bell.transaction() as tx:
        booking = await purse.booking(tx)
        await purse.payouts.owe_payment(tx, booking, payment, BY)
        assert await purse.payouts.cancel_transfer(tx, booking, await purse.shift(tx, 1))
    await market.bench.run_due()
    assert await purse.moved("transfer") == 2 * AMOUNT
    assert await purse.balance() == Balance(charged=3 * AMOUNT, held=AMOUNT, released=2 * AMOUNT)


async def begun(purse: Purse) -> None:
    """The provider was asked, and nobody knows what it did."""
    await purse.order(Orders(faults=[Fault(call="transfer", fault="timeout_after", times=1)]))
    await purse.market.bench.run_due()


async def test_what_has_begun_cannot_be_kept_back(market: Market) -> None:
    purse = await purse_of(market)
    await purse.paid(0)
    await purse.verified(0)
    await purse.owe(0)
    await begun(purse)
    assert await states(market) == ["sending"]
    async with purse.bell.transaction() as tx:
        booking, shift = await purse.booking(tx), await purse.shift(tx, 0)
        assert not await purse.payouts.cancel_transfer(tx, booking, shift)
        assert await purse.ledger.freeze(tx, booking, shift, uuid4()) == 0, "it is as good as gone"
    assert await purse.refund(0) == []
    assert "payout.reversal_requested" in await market.events(f"time_log:{purse.shift_ids[0]}")
    await market.bench.advance(timedelta(hours=1))
    assert await purse.balance() == Balance(charged=AMOUNT, released=AMOUNT)
    assert await purse.moved("transfer") == AMOUNT


@pytest.mark.parametrize("fault", ["timeout_before", "timeout_after", "unavailable"])
@pytest.mark.parametrize("sort", ["transfer", "refund"])
async def test_whatever_happens_to_the_call_it_moves_once(market: Market, fault: Any, sort: Any) -> None:
    purse = await purse_of(market)
    await purse.paid(0)
    await purse.order(Orders(faults=[Fault(call=sort, fault=fault, times=3)]))
    if sort == "transfer":
        await purse.verified(0)
        await purse.owe(0)
    else:
        await purse.refund(0)
    await market.bench.advance(timedelta(hours=6))
    assert await states(market) == ["sent"]
    assert await purse.moved(sort) == AMOUNT
    calls = await purse.calls(sort)
    assert len(calls) == 4
    assert {each["key"] for each in calls} == {calls[0]["key"]}


@pytest.mark.req("J-7.13")
async def test_what_fails_for_good_waits_for_somebody(market: Market) -> None:
    purse = await purse_of(market)
    payment = await purse.paid(0)
    await purse.verified(0)
    await purse.order(Orders(faults=[Fault(call="transfer", fault="timeout_before")]))
    await purse.owe(0)
    await market.bench.advance(timedelta(hours=6))
    assert len(await purse.calls("transfer")) == 6, "once, and five more"
    assert await dead(market) == 1
    assert (await market.events(payment.subject))[-1] == "payout.needs_review"
    assert purse.bell.tallies.counted[PAYOUTS][("transfer", "needs_review")] == 1
    assert await purse.balance() == Balance(charged=AMOUNT, held=AMOUNT)
    await purse.order(Orders())
    async with purse.bell.transaction() as tx:
        assert len(await purse.bell.revive(tx, kind="marketplace.pay_out")) == 1
    await market.bench.run_due()
    assert await purse.balance() == Balance(charged=AMOUNT, released=AMOUNT)


async def test_what_is_refused_can_still_be_kept_back_and_is_asked_anew(market: Market) -> None:
    purse = await purse_of(market)
    await purse.paid(0)
    await purse.verified(0)
    await purse.order(Orders(faults=[Fault(call="transfer", fault="refuse", times=1)]))
    await purse.owe(0)
    await market.bench.run_due()
    assert (await states(market), await dead(market)) == (["pending"], 1)
    async with purse.bell.transaction() as tx:
        await purse.bell.revive(tx, kind="marketplace.pay_out")
    await market.bench.run_due()
    assert await states(market) == ["sent"]
    first, second = await purse.calls("transfer")
    assert first["key"] != second["key"], "the provider would answer the same key with the same refusal"


@pytest.mark.req("J-7.11", "X-J62")
async def test_a_refusal_after_an_answer_that_nobody_heard_does_not_pay_twice(market: Market) -> None:
    """As where the lender has no account any more: the first call may have moved the money all the same."""
    purse = await purse_of(market)
    await purse.paid(0, 1)
    await purse.verified(0)
    await purse.order(
        Orders(
            faults=[
                Fault(call="transfer", fault="timeout_after", times=1),
                Fault(call="transfer", fault="refuse", times=1),
            ]
        )
    )
    await purse.owe(0)
    await market.bench.advance(timedelta(hours=1))
    assert (await states(market), await dead(market)) == (["sending"], 1)
    async with purse.bell.transaction() as tx:
        await purse.bell.revive(tx, kind="marketplace.pay_out")
    await market.bench.run_due()
    assert await states(market) == ["sent"]
    assert await purse.moved("transfer") == AMOUNT
    assert await purse.balance() == Balance(charged=2 * AMOUNT, held=AMOUNT, released=AMOUNT)


@pytest.mark.req("J-7.11")
async def test_a_shift_that_changed_meanwhile_is_not_paid_out(market: Market) -> None:
    """The job looks again, also where nobody kept the money back."""
    purse = await purse_of(market)
    await purse.paid(0)
    await purse.verified(0, by="auto")
    await purse.owe(0)
    await market.rows(
        "UPDATE marketplace.time_log SET status = 'Disputed', verified_at = NULL, verified_by = NULL WHERE id = $1",
        purse.shift_ids[0],
    )
    await market.bench.run_due()
    assert await purse.calls("transfer") == []
    assert await states(market) == ["cancelled"]
    assert await purse.balance() == Balance(charged=AMOUNT, held=AMOUNT)


async def test_the_database_refuses_to_owe_more_than_is_held(market: Market) -> None:
    purse = await purse_of(market)
    payment = await purse.paid(0)
    line = PaymentLine(time_log_id=purse.shift_ids[0], amount=AMOUNT)
    await purse.verified(0)
    await purse.owe(0)

    async def owe_again(sort: PayoutSort) -> None:
        async with purse.bell.transaction() as tx:
            await purse.payouts._owe(tx, await purse.booking(tx), sort, payment.id, [line], "twice", BY)

    with pytest.raises(asyncpg.CheckViolationError) as caught:
        await owe_again("refund")
    assert caught.value.constraint_name == "payout_escrow"
    with pytest.raises(asyncpg.UniqueViolationError):
        await owe_again("transfer")


async def test_without_a_provider_it_waits(market: Market) -> None:
    """Where nobody said who moves the money, none of it moves, and nothing is lost."""
    purse = await purse_of(market)
    await purse.paid(0)
    await purse.verified(0)
    await purse.owe(0)
    settings = purse.bell.settings
    purse.bell.settings = Settings(demo=False)
    async with opened(purse.bell):
        assert provider_name(purse.bell) is None
    await market.bench.run_due()
    assert await states(market) == ["pending"]
    purse.bell.settings = settings
    await market.bench.advance(timedelta(hours=2))
    assert await states(market) == ["sent"]
    assert await market.value("SELECT max(at) FROM marketplace.ledger_entries") > NOW
