"""What a provider reports settles what nobody knew, and leads on where it says that nobody was reached."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from tests.engine.notify.stage import EMAIL, PHONE, Owner, Stage, stage
from timebell.notify import Report, Uncertain
from timebell.notify.provider import Answer, Parcel, ReportKind
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

DAY = timedelta(days=1)


def silent(provider: RecordingProvider) -> RecordingProvider:
    """The next parcel arrives, and its answer does not."""

    async def hang_up(parcel: Parcel) -> Answer:
        provider.take(parcel)
        return Uncertain(reason="hung up")

    provider.answer(hang_up)
    return provider


async def reported(s: Stage, provider: str, id: UUID, kind: ReportKind, **values: Any) -> str:
    """The provider reports about the delivery by our id, as ours all do."""
    report = Report(report_id=uuid4().hex, kind=kind, delivery_id=id, **values)
    (received,) = await s.notify.reports.receive(provider, [report])
    await s.harness.run_due()
    return received.outcome


async def test_a_report_settles_a_doubt_at_once(database_url: TestDatabase) -> None:
    mails = silent(RecordingProvider("mails", channels=["email"], reports=True))
    async with stage(database_url.url, [mails]) as s:
        told = await s.told(channels=["email"])
        assert (told.state, told.reason) == ("uncertain", "held_report")
        assert await reported(s, "mails", mails.parcels[0].delivery_id, "delivered") == "applied"
        settled = await s.now(told.id)
        assert (settled.state, settled.settled_at) == ("delivered", s.clock.now)
        await s.harness.advance(DAY)
        assert (await s.now(told.id)).state == "delivered"
    assert mails.taken == {EMAIL: 1}


async def test_without_a_report_the_doubt_stays(database_url: TestDatabase) -> None:
    mails = silent(RecordingProvider("mails", channels=["email"], reports=True))
    async with stage(database_url.url, [mails]) as s:
        told = await s.told(channels=["email"])
        await s.harness.advance(DAY)
        left = await s.now(told.id)
        assert (left.state, left.reason) == ("uncertain", "no_answer")
        assert left.settled_at is not None
        [line] = (await s.notify.notifications.needs_attention()).lines
        assert line.id == told.id
        assert await reported(s, "mails", mails.parcels[0].delivery_id, "delivered") == "applied"
        assert (await s.now(told.id)).state == "delivered"
        assert (await s.notify.notifications.needs_attention()).lines == ()
    assert mails.taken == {EMAIL: 1}


async def test_a_bounce_that_was_waited_for_leads_to_the_next_channel(database_url: TestDatabase) -> None:
    mails = silent(RecordingProvider("mails", channels=["email"], reports=True))
    texts = RecordingProvider("texts", channels=["sms"])
    async with stage(database_url.url, [mails, texts]) as s:
        told = await s.told(channels=["email", "sms"])
        await reported(s, "mails", mails.parcels[0].delivery_id, "bounced")
        assert (await s.now(told.id)).state == "sent"
        assert await s.states(told.id) == [("email", "failed", "bounced"), ("sms", "sent", "accepted")]
        explained = await s.notify.explain(told.id)
        assert "mails reported that the address refused it." in [line.text for line in explained.story]
        again = await s.told(channels=["email", "sms"])
        assert ("suppression", "refused", "suppressed") in await s.checks(again.id)
    assert mails.taken == {EMAIL: 1}
    assert texts.taken == {PHONE: 2}


async def test_a_crash_before_the_answer_is_settled_by_the_report(
    database_url: TestDatabase, owner: Owner
) -> None:
    """The report comes before anybody has found out about the crash."""
    mails = silent(RecordingProvider("mails", channels=["email"], reports=True))
    async with stage(database_url.url, [mails]) as s:
        told = await s.told(channels=["email"])
        await owner.rows("UPDATE timebell_notify.attempts SET answer = NULL, answered_at = NULL")
        await owner.rows("UPDATE timebell_notify.deliveries SET state = 'pending', reason = NULL")
        await reported(s, "mails", mails.parcels[0].delivery_id, "delivered")
        assert (await s.now(told.id)).state == "delivered"
        assert await s.states(told.id) == [("email", "delivered", None)]
    assert mails.taken == {EMAIL: 1}


async def test_a_report_that_overtakes_the_answer_is_not_undone_by_it(database_url: TestDatabase) -> None:
    mails = RecordingProvider("mails", channels=["email"], reports=True)
    async with stage(database_url.url, [mails]) as s:

        async def report_first(parcel: Parcel) -> Answer:
            report = Report(report_id="first", kind="delivered", delivery_id=parcel.delivery_id)
            await s.notify.reports.receive("mails", [report])
            return mails.take(parcel)

        mails.answer(report_first)
        told = await s.told(channels=["email"])
        assert await s.states(told.id) == [("email", "delivered", None)]
        assert told.state == "delivered"
