"""What a provider reports settles what nobody knew, and leads on where it says that nobody was reached."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.engine.notify.stage import EMAIL, PHONE, REMINDER, TITLE, Owner, Stage, stage
from tests.engine.support import Cluster
from timebell.kernel import App, Job
from timebell.notify import Notify, Rejected, Report, Route, Unavailable, Uncertain, notify_app
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


async def test_a_report_that_comes_just_before_the_next_attempt_makes_it_needless(
    database_url: TestDatabase,
) -> None:
    """It was decided to risk a second copy, and the guard took its time."""
    mails = silent(RecordingProvider("mails", channels=["email"], when_uncertain="retry"))
    asked: list[UUID] = []

    async def is_wanted(job: Job) -> bool:
        asked.append(job.id)
        if len(asked) == 2:
            report = Report(report_id="1", kind="delivered", delivery_id=mails.parcels[0].delivery_id)
            await Notify(job.bell).reports.receive("mails", [report])
        return True

    app = App(name="meetings", guards={"meetings.wanted": is_wanted})
    async with stage(database_url.url, [mails], apps=[app]) as s:
        told = await s.told(channels=["email"], guard="meetings.wanted")
        await s.harness.advance(DAY)
        assert (await s.now(told.id)).state == "delivered"
        assert await s.states(told.id) == [("email", "delivered", None)]
    assert mails.taken == {EMAIL: 1}


async def test_a_report_that_comes_when_a_crash_is_found_out_settles_it(cluster: Cluster) -> None:
    mails = RecordingProvider("mails", channels=["email"])
    app = notify_app([mails])
    doomed = await cluster.node([app])
    async with doomed.bell.transaction() as tx:
        ada = await Notify(doomed.bell).recipients.add(tx, name="Ada", email=EMAIL)
        await Notify(doomed.bell).templates.save(tx, REMINDER)
        told = await Notify(doomed.bell).tell(tx, ada.id, REMINDER.key, context=TITLE, channels=["email"])
    await doomed.run_until(doomed.stage.hold("before", "record_answers"))
    await cluster.kill(doomed)
    node = await cluster.node([app])
    found_out = node.stage.hold("before", "record_answers")
    await node.run_until(found_out)
    notify = Notify(node.bell)
    report = Report(report_id="1", kind="delivered", delivery_id=mails.parcels[0].delivery_id)
    await notify.reports.receive("mails", [report])
    await node.go_on(found_out)
    story = await notify.notifications.get(told.id)
    assert (story.notification.state, story.deliveries[0].state) == ("delivered", "delivered")
    assert [one.answer for one in story.deliveries[0].attempts] == ["sent"]
    assert mails.taken == {EMAIL: 1}


@pytest.mark.parametrize(
    ("kind", "state"), [("delivered", ("delivered", None)), ("bounced", ("failed", "bounced"))]
)
async def test_what_is_reported_of_one_channel_while_another_is_tried_counts(
    database_url: TestDatabase, kind: ReportKind, state: tuple[str, str | None]
) -> None:
    mails = RecordingProvider("mails", channels=["email"], reports=True)
    texts = RecordingProvider("texts", channels=["sms"])
    async with stage(database_url.url, [mails, texts]) as s:

        async def reported_meanwhile(parcel: Parcel) -> Answer:
            report = Report(report_id="1", kind=kind, delivery_id=mails.parcels[0].delivery_id)
            await s.notify.reports.receive("mails", [report])
            return Rejected(reason="no such number", blame="address")

        texts.answer(reported_meanwhile)
        told = await s.told(channels=Route(first=["email"], also=["sms"]))
        assert told.settled_at is not None
        assert (told.state, told.reason) == state


async def test_another_node_that_is_in_doubt_has_the_last_word(
    database_url: TestDatabase, owner: Owner
) -> None:
    """This one stood still while the other tried it too; its own no says nothing of what the other left open."""
    mails = RecordingProvider("mails", channels=["email"])
    texts = RecordingProvider("texts", channels=["sms"])

    async def tried_meanwhile(parcel: Parcel) -> Answer:
        await owner.rows("UPDATE timebell_notify.deliveries SET attempt_count = 2, state = 'uncertain'")
        return Unavailable(reason="busy")

    mails.answer(tried_meanwhile)
    async with stage(database_url.url, [mails, texts]) as s:
        told = await s.told(channels=["email", "sms"])
        assert told.state == "uncertain"
    assert texts.parcels == []
