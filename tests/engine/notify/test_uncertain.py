"""What becomes of a parcel that may or may not have been taken, by what its provider can do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.engine.notify.stage import EMAIL, PHONE, Stage, stage
from timebell.notify import Rejected, Unavailable, Uncertain
from timebell.notify.delivery.delivery_store import DeliveryStore
from timebell.notify.provider import Answer, Parcel
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
AWAY = Unavailable(reason="away")


def silent(provider: RecordingProvider, times: int = 1) -> RecordingProvider:
    """The next parcels arrive, and their answers do not."""

    async def hang_up(parcel: Parcel) -> Answer:
        provider.take(parcel)
        return Uncertain(reason="hung up")

    provider.answer(*[hang_up] * times)
    return provider


def lost(provider: RecordingProvider) -> RecordingProvider:
    """The next parcel does not arrive, and neither does its answer."""
    provider.answer(Uncertain(reason="hung up"))
    return provider


async def after(s: Stage, by: timedelta, **options: Any) -> tuple[str, str | None]:
    told = await s.told(channels=["email"], **options)
    await s.harness.advance(by)
    found = await s.now(told.id)
    return found.state, found.reason


async def test_a_key_that_is_known_settles_it(database_url: TestDatabase) -> None:
    provider = silent(RecordingProvider(key_lifetime=DAY))
    async with stage(database_url.url, [provider]) as s:
        told = await s.told(channels=["email"])
        assert (told.state, told.reason) == ("uncertain", "held_report")
        assert told.held_until == s.clock.now + MINUTE
        await s.harness.advance(MINUTE)
        assert (await s.now(told.id)).state == "sent"
    assert provider.taken == {EMAIL: 1}
    assert len({parcel.key for parcel in provider.parcels}) == 1
    assert len({parcel.first_tried_at for parcel in provider.parcels}) == 1


async def test_a_key_that_has_lapsed_is_not_used_again(database_url: TestDatabase) -> None:
    """The provider would not know it any more, and take the parcel for another."""
    provider = silent(RecordingProvider(key_lifetime=2 * MINUTE))
    async with stage(database_url.url, [provider]) as s:
        assert await after(s, DAY) == ("uncertain", "no_answer")
    assert len(provider.parcels) == 1


async def test_a_parcel_goes_out_again_only_while_its_key_lives(database_url: TestDatabase) -> None:
    provider = silent(RecordingProvider(key_lifetime=5 * MINUTE), times=9)
    async with stage(database_url.url, [provider]) as s:
        assert await after(s, DAY) == ("uncertain", "no_answer")
    assert len(provider.parcels) == 2, "after one minute; the next would have been after six"
    assert provider.taken == {EMAIL: 1}


@pytest.mark.parametrize("key_lifetime", [None, DAY])
async def test_who_is_away_afterwards_may_have_taken_it_before(
    database_url: TestDatabase, key_lifetime: timedelta | None
) -> None:
    """Neither another provider nor another channel is tried while it may have arrived."""
    traits: dict[str, Any] = {"key_lifetime": key_lifetime, "when_uncertain": "retry"}
    mails = silent(RecordingProvider("mails", channels=["email"], **traits))
    mails.answer(*[AWAY] * 9)
    others = RecordingProvider("others")
    async with stage(database_url.url, [mails, others]) as s:
        told = await s.told(channels=["email", "sms"])
        await s.harness.advance(MINUTE)
        assert (await s.now(told.id)).reason == "held_report"
        assert await s.states(told.id) == [("email", "uncertain", "no_answer")]
        await s.harness.advance(DAY)
        assert (await s.now(told.id)).state == "uncertain"
    assert others.parcels == []
    assert mails.taken == {EMAIL: 1}
    assert len(mails.parcels) == 4


async def test_an_account_that_is_turned_away_leaves_the_doubt(database_url: TestDatabase) -> None:
    mails = silent(RecordingProvider("mails", channels=["email"], key_lifetime=DAY))
    mails.answer(*[Rejected(reason="no such account", blame="account")] * 9)
    texts = RecordingProvider("texts", channels=["sms"])
    async with stage(database_url.url, [mails, texts]) as s:
        told = await s.told(channels=["email", "sms"])
        await s.harness.advance(DAY)
        assert (await s.now(told.id)).state == "uncertain"
    assert texts.parcels == []


async def test_an_address_that_is_refused_never_was_one(database_url: TestDatabase) -> None:
    """What is wrong with it was wrong at the first attempt too, so the next channel may be tried."""
    mails = lost(RecordingProvider("mails", channels=["email"], key_lifetime=DAY))
    mails.answer(Rejected(reason="no such mailbox", blame="address"))
    texts = RecordingProvider("texts", channels=["sms"])
    async with stage(database_url.url, [mails, texts]) as s:
        told = await s.told(channels=["email", "sms"])
        await s.harness.advance(DAY)
        assert await s.states(told.id) == [("email", "failed", "rejected"), ("sms", "sent", "accepted")]
    assert texts.taken == {PHONE: 1}


@pytest.mark.parametrize("arrives", [True, False])
async def test_who_can_be_asked_is_asked(database_url: TestDatabase, arrives: bool) -> None:
    provider = RecordingProvider(can_look_up=True)
    (silent if arrives else lost)(provider)
    async with stage(database_url.url, [provider]) as s:
        assert await after(s, MINUTE) == ("sent", "accepted")
    assert provider.taken == {EMAIL: 1}
    assert len(provider.parcels) == (1 if arrives else 2)


async def test_what_was_looked_up_in_vain_may_go_another_way(database_url: TestDatabase) -> None:
    """It certainly was not taken, so that this is a definite failure like others."""
    first = lost(RecordingProvider("first", can_look_up=True))
    first.answer(*[AWAY] * 9)
    second = RecordingProvider("second")
    async with stage(database_url.url, [first, second]) as s:
        assert await after(s, MINUTE) == ("sent", "accepted")
    assert first.taken == {}
    assert second.taken == {EMAIL: 1}


async def test_who_answers_nothing_when_asked_is_asked_once_more(database_url: TestDatabase) -> None:
    class Mute(RecordingProvider):
        asked = 0

        async def look_up(self, parcel: Parcel) -> Answer:
            self.asked += 1
            raise OSError("unreachable")

    provider = Mute(can_look_up=True)
    silent(provider)
    async with stage(database_url.url, [provider]) as s:
        assert await after(s, DAY) == ("uncertain", "no_answer")
    assert provider.asked == 2
    assert provider.taken == {EMAIL: 1}


async def test_a_report_is_waited_for_as_long_as_the_policy_says(database_url: TestDatabase) -> None:
    provider = silent(RecordingProvider(reports=True))
    async with stage(database_url.url, [provider]) as s:
        await s.decide(report_wait_seconds=600)
        told = await s.told(channels=["email"])
        assert (told.state, told.reason) == ("uncertain", "held_report")
        assert told.held_until == s.clock.now + 10 * MINUTE
        await s.harness.advance(10 * MINUTE)
        told = await s.now(told.id)
        assert (told.state, told.reason, told.settled_at) == ("uncertain", "no_answer", s.clock.now)
        [line] = (await s.notify.notifications.needs_attention()).lines
        assert line.id == told.id
    assert len(provider.parcels) == 1


@pytest.mark.parametrize(
    ("traits", "urgency", "copies"),
    [
        ({}, "normal", 1),
        ({}, "time_bound", 1),
        ({}, "critical", 2),
        ({"when_uncertain": "retry"}, "normal", 2),
        ({"when_uncertain": "nothing"}, "critical", 1),
        ({"when_uncertain": "nothing", "reports": True}, "normal", 1),
        ({"reports": True}, "critical", 2),
    ],
)
async def test_a_second_copy_is_risked_only_where_that_was_said(
    database_url: TestDatabase, traits: dict[str, Any], urgency: str, copies: int
) -> None:
    provider = silent(RecordingProvider(**traits))
    async with stage(database_url.url, [provider]) as s:
        state, _ = await after(s, DAY, urgency=urgency)
        assert state == ("sent" if copies == 2 else "uncertain")
    assert provider.taken == {EMAIL: copies}


@pytest.mark.parametrize("raises", [TimeoutError, OSError, ValueError])
async def test_a_provider_that_breaks_leaves_it_open(
    database_url: TestDatabase, raises: type[Exception]
) -> None:
    provider = RecordingProvider()

    async def broken(parcel: Parcel) -> Answer:
        raise raises("broken")

    provider.answer(broken)
    async with stage(database_url.url, [provider]) as s:
        assert await after(s, DAY) == ("uncertain", "no_answer")
    assert len(provider.parcels) == 1


async def test_no_other_channel_is_tried_though_the_recipient_now_prefers_it(
    database_url: TestDatabase,
) -> None:
    mails = silent(RecordingProvider("mails", channels=["email"], reports=True))
    texts = RecordingProvider("texts", channels=["sms"])
    async with stage(database_url.url, [mails, texts]) as s:
        told = await s.told(channels="preferred")
        assert told.reason == "held_report"
        await s.change(channel_preference="sms")
        await s.harness.advance(DAY)
        assert (await s.now(told.id)).state == "uncertain"
    assert texts.parcels == []


async def test_what_nobody_knows_to_have_arrived_is_called_sent_nowhere(database_url: TestDatabase) -> None:
    provider = silent(RecordingProvider())
    async with stage(database_url.url, [provider]) as s:
        told = await s.told(channels=["email"])
        (delivery,) = (await s.story(told.id)).deliveries
        assert (told.state, delivery.state, delivery.sent_at) == ("uncertain", "uncertain", None)
        explained = await s.notify.explain(told.id)
        assert explained.summary == (
            "It may or may not have been told by email: the provider was called and did not answer."
        )
        assert not [line.text for line in explained.story if "took it" in line.text]
        async with s.harness.bell.database.connection() as session:
            counts = await DeliveryStore(s.clock).count_deliveries(session)
        assert (counts["told_count"], counts["failed_count"]) == (0, 0)
        assert s.harness.bell.tallies.deliveries == {("email", "recorder", "uncertain"): 1}


async def test_what_may_have_been_told_is_not_called_withdrawn_before_it_was(
    database_url: TestDatabase,
) -> None:
    provider = silent(RecordingProvider(reports=True))
    async with stage(database_url.url, [provider]) as s:
        told = await s.told(channels=["email"])
        async with s.harness.bell.transaction() as tx:
            await s.harness.bell.cancel(tx, id=told.id, reason="enough")
        explained = await s.notify.explain(told.id)
        assert explained.summary == (
            "It may or may not have been told by email: what was still to be told was taken back."
        )
        assert "before it was told" not in " ".join(line.text for line in explained.story)


async def test_what_may_have_been_told_is_not_called_expired(database_url: TestDatabase) -> None:
    provider = silent(RecordingProvider(reports=True))
    async with stage(database_url.url, [provider]) as s:
        assert await after(s, DAY, expires_at=s.clock.now + MINUTE) == ("uncertain", "no_answer")
