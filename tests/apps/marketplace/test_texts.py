"""What people are told, byte for byte, on both channels; and that nobody may change it."""

from __future__ import annotations

import pytest

from tests.apps.marketplace.support import Market
from timebell.apps.marketplace import texts
from timebell.errors import InvalidTemplate
from timebell.notify import TemplateDraft, Text

ID = "0199c0de-0000-7000-8000-000000000001"
CONTEXT = {"booking_id": ID, "sunday": "2026-03-08", "worker": "Wim", "link": "https://example.org/t/1"}
CONTEXT |= {"type": "liability", "company": "The lender", "expiration_date": "2026-03-31", "bookings": ID}
LINES = {
    texts.ACTION_REQUIRED: f"Action Required: payment for booking {ID} failed. "
    "Complete the payment by end of day Wednesday to avoid worker release.",
    texts.FINAL_WARNING: f"Payment required for booking {ID}. Final warning - payment must be completed by end of "
    "day Wednesday to avoid worker release.",
    texts.WORKER_RELEASED: f"Booking {ID} ended due to non-payment. Worker released effective 2026-03-08.",
    texts.STILL_WORKING: "Are you still working? Please clock out if your shift has ended.",
    texts.CLOCK_OUT_NOW: "URGENT: Clock Out. Your scheduled shift ended 30 minutes ago.",
    texts.TIMESHEET_SUBMITTED: "Timesheet for Wim submitted. Verify: https://example.org/t/1",
    texts.TIMESHEET_PENDING: "Timesheet pending verification for Wim. Please verify within 4 hours.",
    texts.TIMESHEET_URGENT: "URGENT: Timesheet for Wim will auto-approve in 1 hour if not verified.",
    texts.AUTO_APPROVED: "Timesheet auto-approved after 4 hours. Supervisor did not verify within required timeframe.",
    texts.DISPUTE_UNRESOLVED: "Dispute unresolved after 3 hours. "
    "All future shifts cancelled until dispute is resolved.",
    texts.INSURANCE_EXPIRING: "Insurance liability of The lender expires: 2026-03-31 is its last valid day. "
    "Renew it to avoid that work is stopped.",
    texts.INSURANCE_ENDED: "CRITICAL: insurance liability of The lender is not valid any more. "
    "Renew it before anybody works.",
    texts.INSURANCE_INVALID: "Insurance Invalid. Work must stop immediately. Please clock out worker.",
}
# What a mail says besides.
MORE = {texts.INSURANCE_INVALID: f"\n\nBookings: {ID}"}


@pytest.mark.req(
    "J-1.13",
    "J-2.3",
    "J-3.5",
    "J-4.8",
    "J-6.4",
    "J-6.5",
    "J-7.6",
    "J-7.7",
    "J-7.8",
    "J-7.11",
    "J-8.9",
    "X-J40",
    "X-J42",
)
async def test_each_text_arrives_byte_for_byte_on_both_channels(market: Market) -> None:
    assert set(LINES) == {draft.key for draft in texts.DRAFTS}
    async with market.bench.bell.transaction() as tx:
        for key in LINES:
            told = texts.tells(key, [market.people["Bea"]], subject="staffing:1", context=CONTEXT)
            await market.notify.tell_many(tx, told)
    await market.bench.run_due()
    arrived = sorted((parcel.channel, parcel.content.text) for parcel in market.arrived)
    assert arrived == sorted(
        said for key, line in LINES.items() for said in (("sms", line), ("email", line + MORE.get(key, "")))
    )


@pytest.mark.req("X-J20", "X-J42")
async def test_short_words_are_the_titles_of_mails(market: Market) -> None:
    titles = {
        draft.key: next(t.subject for t in draft.texts if t.channel == "email") for draft in texts.DRAFTS
    }
    assert titles[texts.STILL_WORKING] == "Are you still working?"
    assert titles[texts.CLOCK_OUT_NOW] == "Urgent: Clock Out."
    assert titles[texts.ACTION_REQUIRED] == "Action Required"
    assert titles[texts.FINAL_WARNING] == "Final Warning"
    assert titles[texts.WORKER_RELEASED] == "Worker Released"


async def test_no_tenant_may_put_its_own_in_their_place(market: Market) -> None:
    own = TemplateDraft(
        key=texts.FINAL_WARNING, topic="x", texts=(Text(channel="sms", language="en", body="Pay up"),)
    )
    with pytest.raises(InvalidTemplate, match="locked"):
        async with market.bench.bell.transaction() as tx:
            await market.notify.templates.save(tx, own)


async def test_who_has_several_parts_is_told_once(market: Market) -> None:
    bea, wim = market.people["Bea"], market.people["Wim"]
    told = texts.tells(texts.FINAL_WARNING, [bea, wim, bea], subject="staffing:1", key="once")
    assert [(tell.recipient, tell.key) for tell in told] == [(bea, f"once:{bea}"), (wim, f"once:{wim}")]


@pytest.mark.req("X-J21")
async def test_it_passes_quiet_hours_and_never_comes_early(market: Market) -> None:
    (tell,) = texts.tells(texts.FINAL_WARNING, [market.people["Bea"]], subject="staffing:1")
    assert tell.urgency == "time_bound"
    assert tell.on_quiet == "drop"
    assert tell.expires_at is None


async def test_where_there_is_no_phone_it_comes_by_mail(market: Market) -> None:
    async with market.bench.bell.transaction() as tx:
        nobody = (await market.notify.recipients.add(tx, name="Una", email="una@example.org")).id
        told = texts.tells(texts.STILL_WORKING, [nobody], subject="time_log:1", channels=texts.SMS)
        await market.notify.tell_many(tx, told)
    await market.bench.run_due()
    assert [parcel.channel for parcel in market.arrived] == ["email"]
