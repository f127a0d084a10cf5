"""One week of one booking is charged, once: what is looked at again, what the provider answers, and what that does."""

from __future__ import annotations

from datetime import date, timedelta
from uuid import UUID

import orjson
import pytest

from tests.apps.marketplace.support import AMOUNT, DAY, HOUR, MINUTE, Market, done, local, shift
from tests.apps.marketplace.weekly_support import (
    CUTOFF,
    PAID_AT,
    PERIOD,
    WARNED_AT,
    WEEK,
    Bank,
    dispute,
    events_of,
    funded_until,
    incident,
    payments_of,
    report,
    sent,
    set_status,
    status_of,
    with_bank,
)
from timebell.apps.marketplace.payments.charging import Charging
from timebell.apps.marketplace.payments.provider import Charged
from timebell.kernel import Timebell

FAILED = "Action Required: payment for booking"


async def ledger_of(market: Market, booking: str) -> list[tuple[str, int]]:
    rows = await market.rows(
        "SELECT type, sum(amount)::bigint AS amount FROM marketplace.ledger_entries WHERE booking_id = $1 "
        "GROUP BY type ORDER BY type",
        UUID(booking),
    )
    return [(row["type"], row["amount"]) for row in rows]


async def ask_to_charge(market: Market, booking: str, attempt: int = 1) -> None:
    about = {"booking_id": booking, "run_on": "2027-03-03", "attempt": attempt, "correlation_id": "walk-1"}
    async with market.bench.bell.transaction() as tx:
        await market.bench.bell.enqueue(tx, "marketplace.charge", about)
    await market.bench.run_due()


@pytest.mark.req("J-1.5", "J-1.11", "J-1.12", "D-6.9", "X-J62")
async def test_next_week_is_charged_and_held_in_escrow(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market) as bank:
        await market.pass_until(PAID_AT)
    (payment,) = await payments_of(market, booking["id"])
    assert payment["status"] == "Succeeded"
    assert (payment["period_start"], payment["period_end"]) == PERIOD
    assert (payment["amount"], payment["currency"], payment["attempt"]) == (WEEK, "EUR", 1)
    (asked,) = bank.asked
    assert (asked.amount, asked.currency, asked.customer, asked.method) == (WEEK, "EUR", "cus_1", "pm_1")
    assert asked.key == payment["idempotency_key"] == f"charge:{booking['id']}:2027-03-07:1"
    assert await ledger_of(market, booking["id"]) == [("charge", WEEK), ("hold", WEEK)]
    assert await funded_until(market, booking["id"]) == PERIOD[1]
    lines = await market.rows("SELECT amount FROM marketplace.payment_lines")
    assert [line["amount"] for line in lines] == [AMOUNT] * 5
    subject = f"payment:{payment['id']}"
    assert await market.events(subject) == ["payment.created", "payment.succeeded"]
    assert market.bench.bell.tallies.counted["marketplace_payments"]["succeeded",] == 1
    # The next Wednesday there is nothing left to pay for.
    await market.pass_until(PAID_AT + 7 * DAY)
    assert len(bank.asked) == 1
    assert len(await events_of(market, "payment.not_due")) == 1


@pytest.mark.req("J-1.12", "X-J32", "X-J50")
async def test_a_report_after_hours_is_applied_once(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="processing") as bank:
        await market.pass_until(PAID_AT)
        (payment,) = await payments_of(market, booking["id"])
        assert (payment["status"], payment["provider_intent_id"]) == ("Pending", "ch_1")
        assert await market.value("SELECT count(*) FROM timebell.jobs WHERE kind = 'marketplace.charge'") == 0
        assert await ledger_of(market, booking["id"]) == []
        await market.pass_until(PAID_AT + 3 * HOUR)
        succeeded = Charged(ref="ch_1", state="succeeded")
        assert await report(market, payment["id"], Charged(ref="ch_1", state="processing")) == "processing"
        assert await report(market, payment["id"], succeeded) == "succeeded"
        assert await report(market, payment["id"], succeeded) == "repeated"
        assert await report(market, payment["id"], Charged(ref="ch_1", state="declined")) == "repeated"
        assert await report(market, payment["id"], Charged(ref="ch_1", state="cancelled")) == "repeated"
    assert await ledger_of(market, booking["id"]) == [("charge", WEEK), ("hold", WEEK)]
    assert await funded_until(market, booking["id"]) == PERIOD[1]
    assert len(bank.asked) == 1


@pytest.mark.req("J-1.12", "X-J62")
async def test_the_lender_is_paid_at_once_where_the_tenant_says_so(market: Market) -> None:
    booking = await market.book()
    await market.rows("INSERT INTO marketplace.marketplace_settings VALUES ('default', 'webhook', 1, now())")
    async with with_bank(market) as bank:
        await market.pass_until(PAID_AT + MINUTE)
    assert [movement.amount for movement in bank.moved.values()] == [WEEK]
    assert ("release", WEEK) in await ledger_of(market, booking["id"])


@pytest.mark.req("J-1.13", "J-1.15", "J-1.16", "X-J40")
async def test_a_declined_card_leaves_the_booking_and_tells_its_admin(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="declined") as bank:
        await market.pass_until(PAID_AT + MINUTE)
        (payment,) = await payments_of(market, booking["id"])
        assert (payment["status"], payment["failure"]) == ("Failed", "card_declined")
        assert len(bank.asked) == 1
    assert await status_of(market, booking["id"]) == "Active"
    assert {row["status"] for row in await market.shifts(booking["id"])} == {"Scheduled"}
    assert sent(market, FAILED) == [("email", "bea@example.org"), ("sms", "+4915112345670")]
    counted = market.bench.bell.tallies.counted
    assert counted["marketplace_payments"]["failed",] == 1
    assert counted["marketplace_payment_notices"]["action_required",] == 1
    assert len(await events_of(market, "payment.failed")) == 1


@pytest.mark.req("J-1.14", "J-1.17")
@pytest.mark.parametrize("fault", ["timeout_before", "timeout_after", "unavailable"])
async def test_what_passes_is_tried_again_with_one_key(market: Market, fault: str) -> None:
    booking = await market.book()
    async with with_bank(market, faults={"charge": [fault, fault]}) as bank:
        await market.pass_until(PAID_AT + HOUR)
    assert bank.taken == {f"charge:{booking['id']}:2027-03-07:1": WEEK}
    assert len({charge.key for charge in bank.asked}) == 1
    assert bank.calls[1][0] == "lookup"
    (payment,) = await payments_of(market, booking["id"])
    assert payment["status"] == "Succeeded"
    assert await ledger_of(market, booking["id"]) == [("charge", WEEK), ("hold", WEEK)]


async def test_who_has_no_card_has_failed_to_pay(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, faults={"charge": ["refuse"]}):
        await market.pass_until(PAID_AT + MINUTE)
    (payment,) = await payments_of(market, booking["id"])
    assert (payment["status"], payment["failure"]) == ("Failed", "there is no card")
    assert len(sent(market, FAILED)) == 2


async def test_an_uncertain_payment_that_is_given_up_waits_for_the_cutoff_and_for_somebody(
    market: Market,
) -> None:
    booking = await market.book()
    async with with_bank(
        market, faults={"charge": ["timeout_after"], "lookup": ["timeout_before"] * 5}
    ) as bank:
        await market.pass_until(CUTOFF - MINUTE)
        (payment,) = await payments_of(market, booking["id"])
        assert payment["status"] == "Pending"
        (review,) = await events_of(market, "payment.needs_review")
        assert review["subject"] == f"payment:{payment['id']}"
        assert await market.alerts() == [("marketplace_payment_needs_review", review["subject"])]
        await market.pass_until(CUTOFF + MINUTE)
    (payment,) = await payments_of(market, booking["id"])
    assert payment["status"] == "Succeeded"
    assert bank.called("charge") == 1
    assert await status_of(market, booking["id"]) == "Active"


@pytest.mark.req("J-1.17")
@pytest.mark.parametrize("step", ["after_begin", "after_charge", "after_apply"])
@pytest.mark.parametrize("outcome", ["succeeded", "declined", "processing"])
async def test_a_crash_at_each_step_leaves_one_charge(
    market: Market, monkeypatch: pytest.MonkeyPatch, step: str, outcome: str
) -> None:
    """The job runs again from its beginning, as after a crash of its node."""
    booking = await market.book()
    market.clock.move_to(PAID_AT)
    bank = Bank(outcome=outcome)  # type: ignore[arg-type]
    ask, run = Charging._ask, Charging.run
    is_broken = [True]

    async def broken_ask(self, job, provider, begun):  # type: ignore[no-untyped-def]
        if is_broken[0] and step == "after_begin":
            is_broken[0] = False
            raise RuntimeError("crash")
        charged = await ask(self, job, provider, begun)
        if is_broken[0] and step == "after_charge":
            is_broken[0] = False
            raise RuntimeError("crash")
        return charged

    async def broken_run(self, job):  # type: ignore[no-untyped-def]
        outcome = await run(self, job)
        if is_broken[0] and step == "after_apply":
            is_broken[0] = False
            raise RuntimeError("crash")
        return outcome

    monkeypatch.setattr(Charging, "_ask", broken_ask)
    monkeypatch.setattr(Charging, "run", broken_run)
    from timebell.apps.marketplace.payments.building import use_provider

    use_provider(market.bench.bell, bank)
    await market.pass_until(PAID_AT + HOUR)
    assert not is_broken[0]
    assert len(bank.charges) == 1
    (payment,) = await payments_of(market, booking["id"])
    assert (
        payment["status"]
        == {"succeeded": "Succeeded", "declined": "Failed", "processing": "Pending"}[outcome]
    )
    held = [("charge", WEEK), ("hold", WEEK)] if outcome == "succeeded" else []
    assert await ledger_of(market, booking["id"]) == held
    assert len(sent(market, FAILED)) == (2 if outcome == "declined" else 0)


@pytest.mark.req("J-1.6", "J-1.7", "X-J22", "X-J23", "X-J24")
@pytest.mark.parametrize("about", ["dispute", "incident"])
async def test_what_is_disputed_meanwhile_pauses_the_payments(market: Market, about: str) -> None:
    booking = await market.book()
    market.clock.move_to(PAID_AT)
    await (dispute if about == "dispute" else incident)(market, booking["id"])
    async with with_bank(market) as bank:
        await market.bench.run_due()
        assert bank.calls == []
        assert await status_of(market, booking["id"]) == "Payment_Paused_Dispute"
        paused = ["staffing_booking.created", "staffing_booking.paused"]
        assert await market.events(f"staffing:{booking['id']}") == paused
        await ask_to_charge(market, booking["id"])
    assert await market.events(f"staffing:{booking['id']}") == paused
    assert await payments_of(market, booking["id"]) == []
    assert market.bench.bell.tallies.counted["marketplace_payments"]["paused",] == 1
    (row,) = await market.rows(
        "SELECT before, after, reason FROM marketplace.audit_log WHERE action LIKE '%.paused'"
    )
    assert orjson.loads(row["after"]) == {"status": "Payment_Paused_Dispute"}


async def test_what_was_resolved_or_closed_does_not_stand_in_the_way(market: Market) -> None:
    booking = await market.book()
    await dispute(market, booking["id"], status="Resolved")
    await incident(market, booking["id"], status="Closed")
    async with with_bank(market):
        await market.pass_until(PAID_AT)
    assert [payment["status"] for payment in await payments_of(market, booking["id"])] == ["Succeeded"]


@pytest.mark.req("J-1.9", "J-1.20", "X-J50")
@pytest.mark.parametrize(
    "status", ["Cancelled", "Suspended_Insurance", "Payment_Paused_Dispute", "Completed"]
)
async def test_eligibility_is_read_again_when_the_job_runs(market: Market, status: str) -> None:
    booking = await market.book()
    await set_status(market, booking["id"], status)
    market.clock.move_to(PAID_AT)
    async with with_bank(market) as bank:
        await ask_to_charge(market, booking["id"])
    assert bank.calls == []
    assert await payments_of(market, booking["id"]) == []


@pytest.mark.req("J-1.7", "J-1.9", "J-1.20")
@pytest.mark.parametrize("fault", ["unavailable", "timeout_before", "timeout_after"])
@pytest.mark.parametrize("meanwhile", ["Cancelled", "disputed"])
async def test_a_booking_that_changed_between_two_tries_is_not_charged(
    market: Market, fault: str, meanwhile: str
) -> None:
    """The first try wrote the payment down, and the second finds a booking that is not to be charged any more. What the
    provider had taken all the same goes back, or is kept for a booking that only waits."""
    booking = await market.book()
    async with with_bank(market, faults={"charge": [fault]}) as bank:
        await market.pass_until(PAID_AT)
        (payment,) = await payments_of(market, booking["id"])
        assert payment["status"] == "Pending"
        if meanwhile == "disputed":
            await dispute(market, booking["id"])
        else:
            done(await market.ask("Bea", "POST", f"bookings/{booking['id']}/cancel", {"reason": "rain"}))
        await market.pass_until(PAID_AT + HOUR)
        (payment,) = await payments_of(market, booking["id"])
        assert bank.called("charge") == 1
    status = "Payment_Paused_Dispute" if meanwhile == "disputed" else "Cancelled"
    assert await status_of(market, booking["id"]) == status
    if fault != "timeout_after":
        assert (payment["status"], bank.taken) == ("Cancelled", {})
    elif meanwhile == "disputed":
        assert payment["status"] == "Succeeded"
        assert await ledger_of(market, booking["id"]) == [("charge", WEEK), ("hold", WEEK)]
    else:
        assert payment["status"] == "Refunded"
        assert sum(movement.amount for movement in bank.moved.values()) == WEEK


@pytest.mark.req("J-1.10")
async def test_nothing_about_insurance_is_asked(market: Market) -> None:
    from importlib.resources import files

    folder = files("timebell.apps.marketplace.payments.sql")
    texts = [entry.read_text() for entry in folder.iterdir() if entry.name.endswith(".sql")]
    assert len(texts) > 10
    assert not any("insurance" in text or "polic" in text for text in texts)


@pytest.mark.req("J-1.18")
async def test_an_outage_in_the_morning_is_made_up_for(market: Market) -> None:
    booking = await market.book()
    await market.pass_until(PAID_AT - HOUR)
    market.clock.move_to(PAID_AT + 3 * HOUR)
    async with with_bank(market):
        await market.bench.run_due()
        (payment,) = await payments_of(market, booking["id"])
        assert (payment["status"], payment["created_at"]) == ("Succeeded", PAID_AT + 3 * HOUR)
        await market.pass_until(WARNED_AT + MINUTE)
    assert sent(market, "Final warning") == []


@pytest.mark.req("J-1.18")
async def test_an_outage_until_after_the_cutoff_charges_and_releases_nobody(market: Market) -> None:
    booking = await market.book()
    await market.pass_until(PAID_AT - HOUR)
    market.clock.move_to(CUTOFF + HOUR)
    async with with_bank(market) as bank:
        await market.bench.run_due()
    assert bank.calls == []
    assert await status_of(market, booking["id"]) == "Active"
    (review,) = await events_of(market, "payment.needs_review")
    assert review["subject"] == f"staffing:{booking['id']}"
    assert {row["status"] for row in await market.shifts(booking["id"])} == {"Scheduled"}
    assert market.arrived == []


@pytest.mark.req("J-1.18")
async def test_a_job_that_comes_after_the_cutoff_charges_nothing(market: Market) -> None:
    booking = await market.book()
    market.clock.move_to(CUTOFF)
    async with with_bank(market) as bank:
        await ask_to_charge(market, booking["id"])
    assert bank.calls == []
    assert len(await events_of(market, "payment.skipped")) == 1
    assert await payments_of(market, booking["id"]) == []


@pytest.mark.req("J-1.19", "X-J4")
async def test_nothing_to_pay_for_is_recorded_and_neither_warned_of_nor_cut_off(market: Market) -> None:
    booking = await market.book(end_date="2027-03-07")
    async with with_bank(market) as bank:
        await market.pass_until(CUTOFF + HOUR)
    assert bank.calls == []
    (event,) = await events_of(market, "payment.not_due")
    assert event["subject"] == f"staffing:{booking['id']}"
    assert market.arrived == []
    assert await status_of(market, booking["id"]) == "Active"


@pytest.mark.req("J-1.11", "X-J26")
async def test_only_what_nobody_has_paid_for_or_begun_is_charged(market: Market) -> None:
    days = [date(2027, 3, 4), date(2027, 3, 8), date(2027, 3, 9), date(2027, 3, 14), date(2027, 3, 15)]
    booking = await market.book(*(shift(day) for day in days), end_date="2027-03-21")
    rows = await market.shifts(booking["id"])
    await market.rows(
        "UPDATE marketplace.time_log SET status = 'Cancelled' WHERE id = $1", UUID(rows[1]["id"])
    )
    async with with_bank(market) as bank:
        await market.pass_until(PAID_AT)
        assert [charge.amount for charge in bank.asked] == [2 * AMOUNT]
        await market.pass_until(CUTOFF + HOUR)
        # A week that was left out is charged with the next, from now on.
        await market.rows("UPDATE marketplace.pending_payments SET status = 'Refunded'")
        await market.rows("UPDATE marketplace.staffing_bookings SET funded_period_end = $1", PERIOD[0])
        await market.pass_until(PAID_AT + 7 * DAY)
    assert [charge.amount for charge in bank.asked[1:]] == [2 * AMOUNT]


@pytest.mark.req("X-J50")
async def test_money_for_a_shift_that_was_cancelled_meanwhile_goes_back(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="processing") as bank:
        await market.pass_until(PAID_AT)
        (payment,) = await payments_of(market, booking["id"])
        last = (await market.shifts(booking["id"]))[-1]
        await market.rows(
            "UPDATE marketplace.time_log SET status = 'Cancelled' WHERE id = $1", UUID(last["id"])
        )
        assert await report(market, payment["id"], Charged(ref="ch_1", state="succeeded")) == "succeeded"
        await market.bench.run_due()
    assert [(one.amount, one.of_ref) for one in bank.moved.values()] == [(AMOUNT, "ch_1")]
    assert ("refund", AMOUNT) in await ledger_of(market, booking["id"])
    assert (await payments_of(market, booking["id"]))[0]["status"] == "Succeeded"


@pytest.mark.req("X-J50", "J-3.9")
@pytest.mark.parametrize("status", ["Cancelled", "Completed"])
async def test_money_for_a_booking_that_has_ended_goes_back_and_is_told_of(
    market: Market, status: str
) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="processing") as bank:
        await market.pass_until(PAID_AT)
        (payment,) = await payments_of(market, booking["id"])
        await set_status(market, booking["id"], status)
        assert await report(market, payment["id"], Charged(ref="ch_1", state="succeeded")) == "late"
        await market.bench.run_due()
    assert [one.amount for one in bank.moved.values()] == [WEEK]
    assert (await payments_of(market, booking["id"]))[0]["status"] == "Refunded"
    assert len(await events_of(market, "payment.needs_review")) == 1
    assert await market.alerts() == [("marketplace_payment_needs_review", f"payment:{payment['id']}")]
    assert dict(await ledger_of(market, booking["id"]))["refund"] == WEEK


@pytest.mark.req("X-J50")
@pytest.mark.parametrize("status", ["Payment_Paused_Dispute", "Suspended_Insurance"])
async def test_money_for_a_booking_that_waits_is_kept(market: Market, status: str) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="processing"):
        await market.pass_until(PAID_AT)
        (payment,) = await payments_of(market, booking["id"])
        await set_status(market, booking["id"], status)
        assert await report(market, payment["id"], Charged(ref="ch_1", state="succeeded")) == "succeeded"
    assert await status_of(market, booking["id"]) == status
    assert await funded_until(market, booking["id"]) == PERIOD[1]


async def test_a_borrower_pays_again_after_a_decline(market: Market) -> None:
    booking = await market.book()
    path = f"bookings/{booking['id']}/pay"
    async with with_bank(market, outcome="declined") as bank:
        await market.pass_until(PAID_AT + HOUR)
        bank.outcome = "succeeded"
        for who, status in (("Ben", 403), ("Lea", 403), ("Wim", 403), ("Zoe", 404)):
            assert (await market.ask(who, "POST", path)).status_code == status
        answer = done(await market.ask("Bea", "POST", path, idempotency="pay-1"), 202)
        assert (answer["amount"], answer["currency"], answer["attempt"]) == (WEEK, "EUR", 2)
        again = await market.ask("Bea", "POST", path, idempotency="pay-1")
        assert again.headers["idempotent-replayed"] == "true"
        await market.bench.run_due()
        refused = await market.ask("Bea", "POST", path)
        assert (refused.status_code, refused.json()["code"]) == (409, "nothing_due")
        await market.pass_until(CUTOFF + HOUR)
    assert [payment["status"] for payment in await payments_of(market, booking["id"])] == [
        "Failed",
        "Succeeded",
    ]
    assert await status_of(market, booking["id"]) == "Active"
    assert sent(market, "Final warning") == []
    assert len(bank.taken) == 1


async def test_paying_is_refused_in_words_that_say_why(market: Market) -> None:
    booking = await market.book()
    path = f"bookings/{booking['id']}/pay"

    async def code() -> str:
        response = await market.ask("Bea", "POST", path)
        assert response.status_code == 409, response.text
        return str(response.json()["code"])

    async with with_bank(market, outcome="processing"):
        await market.pass_until(PAID_AT)
        assert await code() == "payment_pending"
        await market.rows("UPDATE marketplace.pending_payments SET status = 'Failed', settled_at = now()")
        await dispute(market, booking["id"])
        assert await code() == "payment_contested"
        await set_status(market, booking["id"], "Payment_Paused_Dispute")
        assert await code() == "booking_status"
        await market.rows("UPDATE marketplace.disputes SET status = 'Settled', resolved_at = now()")
        await set_status(market, booking["id"], "Active")
        market.clock.move_to(CUTOFF)
        assert await code() == "cutoff_passed"
    upfront = await market.book(payment_type="Upfront", start_date="2027-05-03", end_date="2027-05-10")
    path = f"bookings/{upfront['id']}/pay"
    assert await code() == "nothing_due"


async def test_what_came_after_a_failure_goes_back_while_another_attempt_counts(market: Market) -> None:
    booking = await market.book()
    async with with_bank(market, outcome="declined") as bank:
        await market.pass_until(PAID_AT)
        bank.outcome = "succeeded"
        done(await market.ask("Bea", "POST", f"bookings/{booking['id']}/pay"), 202)
        await market.pass_until(PAID_AT + MINUTE)
        first, _ = await payments_of(market, booking["id"])
        assert await report(market, first["id"], Charged(ref="ch_1", state="succeeded")) == "late"
        assert await report(market, first["id"], Charged(ref="ch_1", state="succeeded")) == "repeated"
        await market.bench.run_due()
    assert [payment["status"] for payment in await payments_of(market, booking["id"])] == [
        "Refunded",
        "Succeeded",
    ]
    assert dict(await ledger_of(market, booking["id"])) == {"charge": 2 * WEEK, "hold": WEEK, "refund": WEEK}


@pytest.mark.req("J-1.16")
async def test_what_is_counted_is_among_the_metrics(market: Market) -> None:
    names = {measure.name for app in market.bench.bell.registry.apps for measure in app.measures}
    assert {"marketplace_payments", "marketplace_payment_notices", "marketplace_releases"} <= names
    assert isinstance(market.bench.bell, Timebell)


def test_the_instants_are_those_of_a_wednesday() -> None:
    assert local(2027, 3, 3, 10) == PAID_AT
    assert timedelta(hours=14) == CUTOFF - PAID_AT
