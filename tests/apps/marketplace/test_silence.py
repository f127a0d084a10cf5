"""Nobody is told any more of what has ended before the message could leave."""

from __future__ import annotations

from datetime import date

import pytest

from tests.apps.marketplace.dispute_support import TIMED_OUT, UNRESOLVED, contested, resolved
from tests.apps.marketplace.insurance_support import LINE, insure, invalidate
from tests.apps.marketplace.support import HOUR, Market, done, shift
from tests.apps.marketplace.weekly_support import PAID_AT, WARNED_AT, sent, with_bank
from timebell.notify.provider import Unavailable

FAILED = "Action Required: payment for booking"
WARNED = "Final warning - payment must be completed"
WEEKS = tuple(shift(date(2027, 3, day)) for day in (2, 9, 10))
DOWN = [Unavailable(reason="nobody is there")] * 500


async def cancel(market: Market, booking: str) -> None:
    done(await market.ask("Bea", "POST", f"bookings/{booking}/cancel", {}))


@pytest.mark.req("J-1.13", "J-2.6")
@pytest.mark.parametrize("is_over", [True, False])
async def test_who_is_to_pay_for_what_has_ended_is_told_no_more(market: Market, is_over: bool) -> None:
    """And where it goes on, the messages are tried again, which shows that they would have come."""
    async with with_bank(market, outcome="declined"):
        booking = (await market.book(*WEEKS, end_date="2027-03-21"))["id"]
        market.provider.answer(*DOWN)
        await market.pass_until(WARNED_AT)
        before = [len(sent(market, text)) for text in (FAILED, WARNED)]
        assert min(before) > 0
        if is_over:
            await cancel(market, booking)
        await market.pass_until(WARNED_AT + HOUR)
        after = [len(sent(market, text)) for text in (FAILED, WARNED)]
        assert (after == before) == is_over
    assert PAID_AT < WARNED_AT


@pytest.mark.req("J-8.5", "J-8.9")
@pytest.mark.parametrize("how", ["resolved", "cancelled", "open"])
async def test_who_was_not_told_in_time_that_a_dispute_timed_out_is_not_told_when_it_has_ended(
    market: Market, how: str
) -> None:
    row, _ = await contested(market)
    market.provider.answer(*DOWN)
    await market.pass_until(TIMED_OUT)
    before = len(sent(market, UNRESOLVED))
    assert before > 0
    if how == "resolved":
        await resolved(market, row["id"], "Resolved")
    elif how == "cancelled":
        await cancel(market, row["booking_id"])
    await market.pass_until(TIMED_OUT + HOUR)
    assert (len(sent(market, UNRESOLVED)) == before) == (how != "open")


@pytest.mark.req("J-4.8")
async def test_who_is_told_to_stop_does_not_hear_of_what_was_cancelled_since(market: Market) -> None:
    kept = (await market.book(*WEEKS))["id"]
    worker = str(await market.add_worker("Wanda"))
    ended = (await market.book(*WEEKS, worker_id=worker))["id"]
    policy = (await insure(market, date(2028, 3, 1)))["id"]
    await invalidate(market, policy)
    await cancel(market, ended)
    await market.bench.run_due()
    mails = [parcel.content.text for parcel in market.arrived if LINE in parcel.content.text]
    assert len([text for text in mails if kept in text]) == 6
    assert [text for text in mails if ended in text] == []
