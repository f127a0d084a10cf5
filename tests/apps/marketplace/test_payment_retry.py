"""After the last dispute of a booking is resolved, what nobody was asked to pay is charged at once, by one job."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest

from tests.apps.marketplace.dispute_support import resolve, resolved, retries
from tests.apps.marketplace.shift_support import disputed, read, submitted
from tests.apps.marketplace.support import AMOUNT, DAY, HOUR, MINUTE, SECOND, Json, Market, done, local, shift
from tests.apps.marketplace.weekly_support import (
    CUTOFF,
    PERIOD,
    dispute,
    events_of,
    funded_until,
    payments_of,
    sent,
    set_status,
    status_of,
    with_bank,
)
from timebell.apps.marketplace import APP
from timebell.apps.marketplace.disputes.service import TIME_OUT
from timebell.apps.marketplace.disputes.standing import RETRY_PAYMENT, RETRY_QUEUE
from timebell.apps.marketplace.disputes.timing import TELL_UNRESOLVED
from timebell.apps.marketplace.payments.payouts import PAY_OUT
from timebell.kernel import Handler

FAILED = "Action Required: payment for booking"
# Of the week that begins with the market one day is worked; the next has two shifts.
WEEKS = tuple(shift(date(2027, 3, day)) for day in (2, 9, 10))
THURSDAY = local(2027, 3, 4, 9)
NEXT = 2 * AMOUNT


async def paused(market: Market, *shifts: Json) -> str:
    """A booking that was paused on Wednesday, since somebody had written down a dispute."""
    booking: str = (await market.book(*(shifts or WEEKS), end_date="2027-03-21"))["id"]
    await dispute(market, booking)
    await market.pass_until(THURSDAY)
    assert await status_of(market, booking) == "Payment_Paused_Dispute"
    return booking


async def disputes_of(market: Market, booking: str) -> list[str]:
    return [row["id"] for row in await market.data("disputes", params={"booking_id": booking})]


async def resolve_all(market: Market, booking: str, word: str = "Resolved") -> None:
    for id in await disputes_of(market, booking):
        await resolved(market, id, word)


@pytest.mark.req("J-9.1", "J-9.3", "J-9.6", "J-9.7", "J-9.8", "J-9.11", "X-J25", "X-J26", "J-0.5")
@pytest.mark.parametrize("word", ["Settled", "Resolved", "Legal_Hold"])
async def test_the_week_that_comes_is_paid_for_at_once(market: Market, word: str) -> None:
    """It does not wait for Wednesday, and the cutoff of this week has passed."""
    async with with_bank(market) as bank:
        booking = await paused(market)
        assert bank.asked == []
        await resolve_all(market, booking, word)
        assert await status_of(market, booking) == "Active"
        (job,) = await retries(market)
        assert job["queue"] == RETRY_QUEUE
        assert orjson.loads(job["payload"]) == {
            "booking_id": booking,
            "dispute_resolved_at": THURSDAY.isoformat(),
            "previous_status": "Payment_Paused_Dispute",
        }
        await market.bench.run_due()
        assert bank.taken == {f"charge:{booking}:2027-03-07:1": NEXT}
    (payment,) = await payments_of(market, booking)
    assert (payment["status"], payment["period_start"], payment["period_end"]) == ("Succeeded", *PERIOD)
    assert await funded_until(market, booking) == PERIOD[1]
    assert await status_of(market, booking) == "Active"
    tallies = market.bench.bell.tallies
    assert tallies.counted["marketplace_payment_retries"] == {("succeeded",): 1}
    assert tallies.spreads["marketplace_payment_retry_seconds"].count == 1


@pytest.mark.req("J-9.1", "J-9.9", "X-J28")
async def test_only_the_last_resolution_has_it_charged(market: Market) -> None:
    """And a dispute that comes later has it charged again."""
    async with with_bank(market) as bank:
        booking = await paused(market)
        second = (await market.shifts(booking))[1]["id"]
        await market.rows(
            "INSERT INTO marketplace.disputes (tenant, id, booking_id, time_log_id, dispute_option, reason, filed_by, "
            "dispute_filed_at, timeout_expiration_time, timed_out_at, created_at, updated_at) VALUES "
            "('default', $1, $2, $3, 'A', 'late', 'sue', $4, $4, $4, $4, $4)",
            *(uuid4(), UUID(booking), UUID(second), market.clock.now),
        )
        first, last = await disputes_of(market, booking)
        await resolved(market, first, "Resolved")
        assert await retries(market) == []
        await resolved(market, last, "Resolved")
        assert len(await retries(market)) == 1
        await resolved(market, last, "Resolved")
        assert len(await retries(market)) == 1
        await market.bench.run_due()
        await market.pass_until(THURSDAY + DAY)
        await dispute(market, booking)
        (another,) = set(await disputes_of(market, booking)) - {first, last}
        await resolved(market, another, "Resolved")
        await market.bench.run_due()
        assert len(await retries(market)) == 2
        assert len(bank.taken) == 1
    assert market.bench.bell.tallies.counted["marketplace_payment_retries"]["paid",] == 1


@pytest.mark.req("J-9.2")
async def test_whoever_resolves_does_not_wait_for_the_provider(market: Market) -> None:
    """It is asked by a job, and by nobody else."""
    async with with_bank(market) as bank:
        booking = await paused(market)
        await resolve_all(market, booking)
        assert bank.calls == []


@pytest.mark.req("J-9.5")
async def test_what_is_disputed_again_is_not_charged(market: Market) -> None:
    async with with_bank(market) as bank:
        booking = await paused(market)
        await resolve_all(market, booking)
        await dispute(market, booking)
        await market.bench.run_due()
        assert bank.calls == []
    assert await payments_of(market, booking) == []
    assert market.bench.bell.tallies.counted["marketplace_payment_retries"] == {("contested",): 1}


@pytest.mark.req("J-9.12")
@pytest.mark.parametrize("status", ["Suspended_Insurance", "Cancelled"])
async def test_a_booking_that_is_not_to_be_charged_is_not(market: Market, status: str) -> None:
    async with with_bank(market) as bank:
        booking = await paused(market)
        await set_status(market, booking, status)
        await resolve_all(market, booking)
        await market.bench.run_due()
        assert bank.calls == []
    assert await status_of(market, booking) == status


@pytest.mark.req("J-9.12")
@pytest.mark.parametrize("status", ["Suspended_Insurance", "Cancelled", "Completed"])
async def test_what_became_of_a_booking_since_it_was_resolved_is_seen(market: Market, status: str) -> None:
    async with with_bank(market) as bank:
        booking = await paused(market)
        await resolve_all(market, booking)
        assert len(await retries(market)) == 1
        await set_status(market, booking, status)
        await market.bench.run_due()
        assert bank.calls == []
    assert await status_of(market, booking) == status


@pytest.mark.req("J-9.12", "X-J26")
async def test_without_work_nothing_is_charged(market: Market) -> None:
    async with with_bank(market) as bank:
        booking = await paused(market)
        await market.rows(
            "UPDATE marketplace.time_log SET status = 'Cancelled' WHERE scheduled_start > $1", THURSDAY
        )
        await resolve_all(market, booking)
        await market.bench.run_due()
        assert bank.calls == []
    assert len(await events_of(market, "payment.not_due")) == 1


@pytest.mark.req("X-J26")
async def test_what_is_left_of_a_week_that_began_unpaid_is_charged_too(market: Market) -> None:
    """Resolved on Tuesday: the shift of Wednesday was never paid for, and that of Tuesday has begun."""
    shifts = (*WEEKS, shift(date(2027, 3, 17)))
    async with with_bank(market) as bank:
        booking = await paused(market, *shifts)
        await market.pass_until(local(2027, 3, 9, 9))
        await resolve_all(market, booking)
        await market.bench.run_due()
        assert bank.taken == {f"charge:{booking}:2027-03-14:1": 2 * AMOUNT}


@pytest.mark.req("J-9.7")
async def test_a_declined_card_leaves_the_booking_active(market: Market) -> None:
    """Its admin is told, and Wednesday takes over."""
    async with with_bank(market, outcome="declined") as bank:
        booking = await paused(market, *WEEKS, shift(date(2027, 3, 16)))
        await resolve_all(market, booking)
        await market.pass_until(THURSDAY + HOUR)
        assert len(bank.asked) == 1
        assert await status_of(market, booking) == "Active"
        assert len(sent(market, FAILED)) == 2
        bank.outcome = "succeeded"
        await market.pass_until(local(2027, 3, 10, 10) + SECOND)
        # The shifts of this week have begun by then; nobody has paid for them, and the next week is paid for.
        assert bank.taken == {f"charge:{booking}:2027-03-14:1": AMOUNT}
    assert await status_of(market, booking) == "Active"
    assert market.bench.bell.tallies.counted["marketplace_payment_retries"] == {("failed",): 1}


@pytest.mark.req("J-9.10", "J-9.11")
@pytest.mark.parametrize(("faults", "is_dead"), [(3, False), (4, True)])
async def test_it_is_tried_four_times_with_one_key(market: Market, faults: int, is_dead: bool) -> None:
    """Every pause is longer than the one before at most; then it is a dead job, and somebody has to look."""
    async with with_bank(market, faults={"charge": ["timeout_before"] * 9}) as bank:
        bank.faults["charge"] = ["timeout_before"] * faults
        booking = await paused(market)
        await resolve_all(market, booking)
        await market.pass_until(THURSDAY + 2 * HOUR)
        assert bank.called("charge") == 4
        assert len({charge.key for charge in bank.asked}) == 1
    dead = await market.value(
        "SELECT count(*) FROM timebell.job_log WHERE kind = $1 AND state = 'dead'", RETRY_PAYMENT
    )
    assert dead == is_dead
    assert len(await events_of(market, "payment.needs_review")) == is_dead
    (outcome,) = market.bench.bell.tallies.counted["marketplace_payment_retries"]
    assert outcome == (("needs_review",) if is_dead else ("succeeded",))


async def test_a_payment_on_its_way_is_gone_on_with(market: Market) -> None:
    """It was asked for before the dispute, and is not asked for again."""
    booking = (await market.book(*WEEKS))["id"]
    async with with_bank(market, outcome="processing") as bank:
        await market.pass_until(local(2027, 3, 3, 11))
        await dispute(market, booking)
        await resolve_all(market, booking)
        bank.settle(bank.asked[0].key, "succeeded")
        await market.bench.run_due()
        assert bank.called("charge") == 1
        assert bank.called("lookup") == 1
    (payment,) = await payments_of(market, booking)
    assert payment["status"] == "Succeeded"
    assert market.clock.now < CUTOFF


async def test_a_report_that_paused_a_booking_has_it_charged_when_it_is_closed(market: Market) -> None:
    async with with_bank(market) as bank:
        booking = (await market.book(*WEEKS))["id"]
        first = (await market.shifts(booking))[0]["id"]
        said = {"time_log_id": first, "option": "A", "description": "A ladder broke"}
        ids = [done(await market.ask("Sue", "POST", "incidents", said), 201)["id"] for _ in range(2)]
        done(await market.ask("Sue", "POST", f"incidents/{ids[0]}/close"))
        await market.pass_until(THURSDAY)
        done(await market.ask("Sue", "POST", f"incidents/{ids[1]}/close"))
        assert len(await retries(market)) == 1
        await market.bench.run_due()
        assert list(bank.taken.values()) == [NEXT]
        # Of one that paused nothing, nothing follows.
        third = done(await market.ask("Sue", "POST", "incidents", said), 201)["id"]
        done(await market.ask("Sue", "POST", f"incidents/{third}/close"))
        assert len(await retries(market)) == 1


@pytest.mark.req("J-9.4")
def test_ten_payments_begin_each_second() -> None:
    (queue,) = [queue for queue in APP.queues if queue.name == RETRY_QUEUE]
    assert (queue.rate, queue.burst) == (10, 1)


@pytest.mark.req("X-J45", "J-9.10")
def test_how_often_something_is_tried() -> None:
    """The pauses are any part of what the curve says, so that those who failed together do not come together."""
    for kind, tries in ((RETRY_PAYMENT, 4), (TIME_OUT, 6), (TELL_UNRESOLVED, 6), (PAY_OUT, 6)):
        handler = APP.handlers[kind]
        assert isinstance(handler, Handler)
        policy = handler.retry
        assert policy is not None
        assert policy.max_attempts == tries
        assert (policy.base, policy.factor, policy.ceiling) == (30 * SECOND, 2.0, 15 * MINUTE)
        assert policy.jitter == "full"


async def at_once(market: Market, booking: str) -> None:
    """Both disputes of a booking are resolved at once, by two who do not know of each other."""
    answers: list[Any] = await asyncio.gather(
        *(resolve(market, id, "Resolved") for id in await disputes_of(market, booking))
    )
    assert {answer.status_code for answer in answers} == {200}


@pytest.mark.req("J-9.9", "X-J28")
@pytest.mark.parametrize("rounds", [3, pytest.param(200, marks=pytest.mark.slow)])
async def test_two_resolutions_at_once_make_one_job(market: Market, rounds: int) -> None:
    """Never none, and never two."""
    start = date(2027, 3, 2)
    for number in range(rounds):
        worker = await market.add_worker(f"Worker {number}")
        booking = (await market.book(*WEEKS, worker_id=str(worker), start_date=start.isoformat()))["id"]
        first, second, _ = (row["id"] for row in await market.shifts(booking))
        for id in (first, second):
            await market.rows(
                "INSERT INTO marketplace.disputes (tenant, id, booking_id, time_log_id, dispute_option, reason, "
                "filed_by, dispute_filed_at, timeout_expiration_time, created_at, updated_at) VALUES "
                "('default', gen_random_uuid(), $1, $2, 'A', 'late', 'sue', $3, $4, $3, $3)",
                *(UUID(booking), UUID(id), market.clock.now, market.clock.now + timedelta(days=300)),
            )
        await at_once(market, booking)
        assert len(await retries(market)) == number + 1


async def test_a_settled_timesheet_is_paid_out_and_the_next_week_charged(market: Market) -> None:
    """The dispute is filed and settled over HTTP, with the real wiring from one end to the other."""
    async with with_bank(market) as bank:
        id = await submitted(market, *WEEKS)
        row = await disputed(market, id)
        await resolved(market, row["id"], "Resolved")
        await market.pass_until(market.clock.now + SECOND)
        assert list(bank.taken.values()) == [NEXT]
    assert (await read(market, id))["status"] == "Verified"
