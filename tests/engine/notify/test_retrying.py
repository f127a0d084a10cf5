"""What certainly was not taken is tried again, through another provider, or on another channel."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.engine.notify.stage import EMAIL, PHONE, REMINDER, TITLE, stage, webhook
from timebell.notify import Rejected, Route, Unavailable, Uncertain
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
BUSY = Unavailable(reason="busy")
AWAY = Unavailable(reason="connection refused", error_class="unavailable")


def limited(retry_after: timedelta | None) -> Unavailable:
    return Unavailable(reason="429", error_class="rate_limited", retry_after=retry_after)


def waits(provider: RecordingProvider) -> list[timedelta]:
    """How long after the first attempt each of them was made."""
    made = [parcel.attempted_at for parcel in provider.parcels if parcel.attempted_at is not None]
    return [at - made[0] for at in made]


@pytest.mark.req("A-6.4")
@pytest.mark.parametrize(
    ("asked", "waited"),
    [
        (90 * SECOND, 90 * SECOND),
        (2 * HOUR, 2 * HOUR),
        (timedelta(0), SECOND),
        (400 * DAY, DAY),
        (None, MINUTE),
    ],
)
async def test_the_provider_says_when_to_come_back(
    database_url: TestDatabase, asked: timedelta | None, waited: timedelta
) -> None:
    provider = RecordingProvider()
    provider.answer(limited(asked))
    async with stage(database_url.url, [provider]) as s:
        told = await s.told(channels=["email"])
        assert (told.state, told.reason, told.held_until) == ("held", "held_retry", s.clock.now + waited)
        await s.harness.advance(2 * DAY)
        assert (await s.now(told.id)).state == "sent"
    assert waits(provider) == [timedelta(0), waited]


async def test_one_leg_does_not_hurry_another(database_url: TestDatabase) -> None:
    """The mail is tried again after a minute, and that run leaves the text alone until its own time."""
    texts = RecordingProvider("texts", channels=["sms"])
    mails = RecordingProvider("mails", channels=["email"])
    texts.answer(limited(HOUR))
    mails.answer(BUSY, BUSY)
    async with stage(database_url.url, [texts, mails]) as s:
        told = await s.told(channels=Route(first=["sms", "push"], also=["email"]))
        assert told.held_until == s.clock.now + MINUTE
        await s.harness.advance(DAY)
        assert (await s.now(told.id)).state == "sent"
    assert waits(texts) == [timedelta(0), HOUR]
    assert waits(mails) == [timedelta(0), MINUTE, 6 * MINUTE]


async def test_one_leg_does_not_hurry_the_doubt_of_another(database_url: TestDatabase) -> None:
    """The mail is tried again after ten seconds, and what may have been texted only after its own minute."""
    texts = RecordingProvider("texts", channels=["sms"], key_lifetime=DAY)
    mails = RecordingProvider("mails", channels=["email"])
    texts.answer(Uncertain(reason="hung up"))
    mails.answer(limited(10 * SECOND))
    async with stage(database_url.url, [texts, mails]) as s:
        told = await s.told(channels=Route(first=["sms", "push"], also=["email"]))
        await s.harness.advance(10 * SECOND)
        held = await s.now(told.id)
        assert (held.state, held.reason) == ("uncertain", "held_report")
        await s.harness.advance(DAY)
        assert (await s.now(told.id)).state == "sent"
    assert waits(texts) == [timedelta(0), MINUTE]
    assert waits(mails) == [timedelta(0), 10 * SECOND]


async def test_whoever_is_out_of_attempts_leads_to_the_next_channel(database_url: TestDatabase) -> None:
    texts = RecordingProvider("texts", channels=["sms"])
    mails = RecordingProvider("mails", channels=["email"])
    texts.answer(*[BUSY] * 9)
    async with stage(database_url.url, [texts, mails]) as s:
        told = await s.told(channels=["sms", "email"])
        await s.harness.advance(DAY)
        assert await s.states(told.id) == [("sms", "failed", "exhausted"), ("email", "sent", "accepted")]
    assert waits(texts) == [timedelta(0), MINUTE, 6 * MINUTE, 21 * MINUTE]
    assert (mails.taken, texts.taken) == ({EMAIL: 1}, {})


async def test_every_channel_may_fail(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    provider.answer(*[Rejected(reason="no", blame="address")] * 9)
    async with stage(database_url.url, [provider]) as s:
        told = await s.told(channels=["sms", "email"])
        assert (told.state, told.reason) == ("failed", "rejected")
        [line] = (await s.notify.notifications.needs_attention()).lines
        assert line.id == told.id
    assert [parcel.channel for parcel in provider.parcels] == ["sms", "email"]


async def test_it_fails_over_in_the_order_of_the_policy_and_the_rest_is_left(
    database_url: TestDatabase,
) -> None:
    first, second, third = (RecordingProvider(name) for name in ("first", "second", "third"))
    third.answer(BUSY)
    async with stage(database_url.url, [first, second, third]) as s:
        await s.decide(providers={"email": ["third", "second"]})
        told = await s.told(channels=["email"])
        assert (told.state, told.reason) == ("sent", "accepted")
        assert await s.states(told.id) == [("email", "failed", "exhausted"), ("email", "sent", "accepted")]
    assert [len(one.parcels) for one in (first, second, third)] == [0, 1, 1]
    assert second.parcels[0].key != third.parcels[0].key, "two deliveries, since each has a key of its own"


async def test_an_account_that_is_turned_away_leads_to_another_provider(database_url: TestDatabase) -> None:
    first, second = RecordingProvider("first"), RecordingProvider("second")
    first.answer(Rejected(reason="unpaid", blame="account"))
    async with stage(database_url.url, [first, second]) as s:
        told = await s.told(channels=["email"])
        assert told.state == "sent"
    assert second.taken == {EMAIL: 1}


@pytest.mark.parametrize("blame", ["address", "content"])
async def test_what_is_refused_for_good_is_not_offered_to_another_provider(
    database_url: TestDatabase, blame: Any
) -> None:
    first = RecordingProvider("first", channels=["sms"])
    second = RecordingProvider("second")
    first.answer(Rejected(reason="no", blame=blame))
    async with stage(database_url.url, [first, second]) as s:
        told = await s.told(channels=["sms"])
        assert told.state == "sent"
    assert second.taken == {EMAIL: 1}


async def test_there_may_be_no_provider(database_url: TestDatabase) -> None:
    mails = RecordingProvider("mails", channels=["email"])
    async with stage(database_url.url, [mails]) as s:
        told = await s.told(channels=["sms"])
        assert told.state == "sent"
        none = await s.told(channels=["push"])
        assert (none.state, none.reason) == ("skipped", "no_channel")
        await s.decide(providers={"email": ["elsewhere"]})
        none = await s.told(channels=["email"])
        assert (none.state, none.reason) == ("skipped", "provider_missing")
    assert mails.taken == {EMAIL: 1}


@pytest.mark.req("U-17")
async def test_an_open_breaker_leads_to_another_provider(database_url: TestDatabase) -> None:
    first, second = RecordingProvider("first"), RecordingProvider("second")
    first.answer(*[AWAY] * 99)
    async with stage(database_url.url, [first, second]) as s:
        for _ in range(12):
            assert (await s.told(channels=["email"])).state == "sent"
        called = len(first.parcels)
        assert (await s.told(channels=["email"])).state == "sent"
        assert len(first.parcels) == called < 12, "the breaker is open"
    assert second.taken == {EMAIL: 13}


@pytest.mark.req("U-17")
async def test_an_open_breaker_holds_what_has_no_other_way(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    provider.answer(*[AWAY] * 8)
    async with stage(database_url.url, [provider]) as s:
        told = [await s.told(channels=["email"]) for _ in range(12)]
        held = await s.now(told[-1].id)
        assert (held.state, held.reason) == ("held", "held_breaker")
        assert held.held_until is not None
        assert held.held_until > s.clock.now
        await s.harness.advance(DAY)
        assert {(await s.now(one.id)).state for one in told} == {"sent"}
    assert provider.taken == {EMAIL: 12}


async def test_what_is_said_of_one_recipient_holds_up_no_other(database_url: TestDatabase) -> None:
    """Twenty mailboxes are greylisted by a server that is well, and the next mail leaves at once."""
    provider = RecordingProvider()
    provider.answer(*[Unavailable(reason="greylisted", about="parcel")] * 20)
    async with stage(database_url.url, [provider]) as s:
        deferred = [await s.told(channels=["email"]) for _ in range(20)]
        assert {one.reason for one in deferred} == {"held_retry"}
        assert (await s.told(channels=["email"])).state == "sent"
        await s.harness.advance(MINUTE)
        assert {(await s.now(one.id)).state for one in deferred} == {"sent"}


async def test_a_recipient_that_is_refused_ends_a_row_of_failures(database_url: TestDatabase) -> None:
    """The server answered, so it is not away: neither four failures before it nor four behind it open the breaker."""
    provider = RecordingProvider()
    provider.answer(*[AWAY] * 4, Unavailable(reason="greylisted", about="parcel"), *[AWAY] * 4)
    async with stage(database_url.url, [provider]) as s:
        for _ in range(9):
            await s.told(channels=["email"])
        assert (await s.told(channels=["email"])).state == "sent"


async def test_what_never_came_so_far_tells_a_breaker_nothing(database_url: TestDatabase) -> None:
    """Neither that the provider is away, however often, nor that it is well: four failures and a fifth are a row."""
    busy = Unavailable(reason="no_connection_free", error_class="unavailable", about="nobody")
    provider = RecordingProvider()
    provider.answer(*[AWAY] * 4, *[busy] * 9, AWAY)
    async with stage(database_url.url, [provider]) as s:
        for _ in range(13):
            assert (await s.told(channels=["email"])).reason == "held_retry"
        assert (await s.told(channels=["email"])).reason == "held_retry"
        assert (await s.told(channels=["email"])).reason == "held_breaker"
        assert len(provider.parcels) == 14


async def test_a_tenant_cannot_close_a_host_to_another(database_url: TestDatabase) -> None:
    """Tenant A names a page of B's host that always fails; B's own goes on being called."""
    provider = RecordingProvider("hooks", channels=["webhook"], is_per_host=True)
    provider.answer(*[AWAY] * 5)
    async with stage(database_url.url, [provider]) as s:
        bell = s.harness.bell
        async with bell.transaction(tenant="a") as tx:
            await s.notify.templates.save(tx, REMINDER)
            eve = await s.notify.recipients.add(tx, name="Eve", addresses=[webhook("shop.example")])
        for _ in range(12):
            async with bell.transaction(tenant="a") as tx:
                await s.notify.tell(tx, eve.id, REMINDER.key, context=TITLE, channels=["webhook"])
            await s.harness.run_due()
        assert len(provider.parcels) == 5, "the breaker of A is open"
        async with bell.transaction() as tx:
            bob = await s.notify.recipients.add(tx, name="Bob", addresses=[webhook("shop.example")])
        assert (await s.told(recipient=bob.id, channels=["webhook"])).state == "sent"


async def test_hosts_of_one_provider_fail_on_their_own(database_url: TestDatabase) -> None:
    provider = RecordingProvider("hooks", channels=["webhook"], is_per_host=True)
    provider.answer(*[AWAY] * 99)
    async with stage(database_url.url, [provider]) as s:
        for _ in range(12):
            async with s.harness.bell.transaction() as tx:
                bad = await s.notify.recipients.add(tx, name="Bad", addresses=[webhook("bad.example")])
            await s.told(recipient=bad.id, channels=["webhook"])
        called = len(provider.parcels)
        assert called < 12
        async with s.harness.bell.transaction() as tx:
            good = await s.notify.recipients.add(tx, name="Good", addresses=[webhook("good.example")])
        told = await s.told(recipient=good.id, channels=["webhook"])
        assert told.reason == "held_retry", "it was called"
    assert len(provider.parcels) == called + 1


async def test_what_cannot_be_sent_for_a_month_is_given_up(database_url: TestDatabase) -> None:
    """What costs no attempt, because the provider was never asked, has an end all the same."""
    provider = RecordingProvider()
    provider.answer(*[Unavailable(reason="no_connection_free", about="nobody")] * 100)
    async with stage(database_url.url, [provider]) as s:
        await s.decide(retry_delays_seconds=[DAY.total_seconds()])
        told = await s.told(channels=["email"])
        await s.harness.advance(40 * DAY)
        told = await s.now(told.id)
        assert (told.state, told.reason) == ("failed", "exhausted")
        assert told.settled_at is not None
        assert 29 * DAY < told.settled_at - told.due_at < 32 * DAY


async def test_what_would_be_too_late_goes_another_way_at_once(database_url: TestDatabase) -> None:
    texts = RecordingProvider("texts", channels=["sms"])
    mails = RecordingProvider("mails", channels=["email"])
    texts.answer(limited(HOUR))
    async with stage(database_url.url, [texts, mails]) as s:
        expires_at: datetime = s.clock.now + HOUR
        told = await s.told(channels=["sms", "email"], expires_at=expires_at)
        assert await s.states(told.id) == [("sms", "failed", "exhausted"), ("email", "sent", "accepted")]
    assert (texts.taken, mails.taken) == ({}, {EMAIL: 1})
    assert PHONE not in mails.taken
