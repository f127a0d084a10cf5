"""What the simulator tells afterwards, when, and how often; and what becomes of payments by it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.apps.marketplace.money import Purse, purse_of
from tests.apps.marketplace.support import AMOUNT, HOUR, NOW, SECOND, Market
from timebell.apps.marketplace.payments.building import provider_of
from timebell.apps.marketplace.payments.models import Balance, Payment
from timebell.apps.marketplace.payments.provider import Charge
from timebell.apps.marketplace.payments.simulator_models import Fault, Orders


async def status(purse: Purse, payment: Payment) -> str:
    found: str = await purse.market.value(
        "SELECT status FROM marketplace.pending_payments WHERE id = $1", payment.id
    )
    return found


async def reports(purse: Purse) -> list[tuple[str, str]]:
    rows = await purse.market.rows(
        "SELECT * FROM marketplace.payment_events ORDER BY received_at, applied_at"
    )
    return [(row["provider_event_id"].rpartition("_")[2], row["answer"]) for row in rows]


def asked(payment: Payment) -> Charge:
    return Charge(
        key=payment.idempotency_key,
        amount=payment.amount,
        currency=payment.currency,
        tenant=payment.tenant,
        booking_id=payment.booking_id,
        payment_id=payment.id,
    )


HELD = Balance(charged=AMOUNT, held=AMOUNT)


@pytest.mark.req("J-1.12")
async def test_a_report_comes_hours_later(market: Market) -> None:
    purse = await purse_of(market)
    await purse.order(Orders(webhook_after=3 * HOUR))
    payment = await purse.payment(0, status="Pending")
    await market.pass_until(NOW + 3 * HOUR - SECOND)
    assert (await status(purse, payment), await purse.balance()) == ("Pending", Balance())
    await market.pass_until(NOW + 3 * HOUR)
    assert (await status(purse, payment), await purse.balance()) == ("Succeeded", HELD)
    assert await reports(purse) == [("succeeded", "succeeded")]


@pytest.mark.req("J-1.12")
@pytest.mark.req("X-J50")
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("repeat", [("succeeded", "succeeded")]),
        ("reorder", [("succeeded", "succeeded"), ("processing", "repeated")]),
    ],
)
async def test_what_is_told_twice_or_out_of_order_is_applied_once(
    market: Market, fault: Any, told: list[tuple[str, str]]
) -> None:
    purse = await purse_of(market)
    await purse.order(Orders(faults=[Fault(call="report", fault=fault, times=1)]))
    payment = await purse.payment(0, status="Pending")
    await market.pass_until(NOW + HOUR)
    assert (await status(purse, payment), await purse.balance()) == ("Succeeded", HELD)
    # The job that comes second may be applied first; a payment that is processing stays so.
    either = [
        [(state, "processing") if answer == "repeated" else (state, answer) for state, answer in told],
        told,
    ]
    assert sorted(await reports(purse)) in [sorted(one) for one in either]
    assert await market.value("SELECT count(*) FROM marketplace.ledger_entries") == 2


async def test_a_report_that_is_lost_is_looked_up(market: Market) -> None:
    purse = await purse_of(market)
    await purse.order(Orders(faults=[Fault(call="report", fault="lose")]))
    payment = await purse.payment(0, status="Pending")
    await market.pass_until(NOW + HOUR)
    assert (await status(purse, payment), await reports(purse)) == ("Pending", [])
    found = await provider_of(purse.bell).look_up(asked(payment))
    assert found is not None
    assert found.state == "succeeded"


async def test_what_is_processing_for_hours_succeeds_then(market: Market) -> None:
    purse = await purse_of(market)
    await purse.order(Orders(outcome="processing", webhook_after=5 * HOUR))
    payment = await purse.payment(0, status="Pending")
    await market.pass_until(NOW + 4 * HOUR)
    found = await provider_of(purse.bell).look_up(asked(payment))
    assert found is not None
    assert found.state == "processing"
    await market.pass_until(NOW + 5 * HOUR)
    assert (await status(purse, payment), await purse.balance()) == ("Succeeded", HELD)


async def test_what_is_processing_without_end_stays_so(market: Market) -> None:
    purse = await purse_of(market)
    await purse.order(Orders(outcome="processing"))
    payment = await purse.payment(0, status="Pending")
    await market.pass_until(NOW + timedelta(days=3))
    assert (await status(purse, payment), await reports(purse)) == ("Pending", [])


async def test_what_was_cancelled_is_not_told_of(market: Market) -> None:
    purse = await purse_of(market)
    await purse.order(Orders(outcome="processing", webhook_after=HOUR))
    payment = await purse.payment(0, status="Pending")
    assert payment.provider_intent_id is not None
    await provider_of(purse.bell).cancel(asked(payment), ref=payment.provider_intent_id)
    await market.pass_until(NOW + 2 * HOUR)
    assert (await reports(purse), await purse.balance()) == ([], Balance())


async def test_a_decline_is_told_too(market: Market) -> None:
    purse = await purse_of(market)
    await purse.order(Orders(outcome="decline", webhook_after=HOUR))
    payment = await purse.payment(0, status="Pending")
    await market.pass_until(NOW + HOUR)
    assert (await status(purse, payment), await reports(purse)) == ("Failed", [("declined", "failed")])


@pytest.mark.req("X-J50")
async def test_money_that_came_too_late_goes_back(market: Market) -> None:
    purse = await purse_of(market)
    await purse.order(Orders(webhook_after=HOUR))
    payment = await purse.payment(0, status="Cancelled")
    await market.pass_until(NOW + 2 * HOUR)
    assert await status(purse, payment) == "Refunded"
    assert await purse.balance() == Balance(charged=AMOUNT, refunded=AMOUNT)
    assert (len(await purse.calls("refund")), await reports(purse)) == (1, [("succeeded", "late")])


async def test_a_report_of_nobody_is_closed(market: Market) -> None:
    purse = await purse_of(market)
    payment = await purse.payment(0, status="Pending")
    await market.rows("DELETE FROM marketplace.payment_lines")
    await market.rows("DELETE FROM marketplace.pending_payments WHERE id = $1", payment.id)
    await market.bench.run_due()
    assert await reports(purse) == [("succeeded", "unknown")]


async def test_a_fault_is_used_up(market: Market) -> None:
    purse = await purse_of(market)
    await purse.order(Orders(faults=[Fault(call="lookup", fault="unavailable", times=2)]))
    payment = await purse.payment(0, status="Pending")
    provider = provider_of(purse.bell)
    outcomes = []
    for _ in range(3):
        try:
            await provider.look_up(asked(payment))
        except Exception as error:
            outcomes.append(type(error).__name__)
    assert outcomes == ["Unavailable", "Unavailable"]
    assert [row["outcome"] for row in await purse.calls("lookup")] == [
        "unavailable",
        "unavailable",
        "succeeded",
    ]
