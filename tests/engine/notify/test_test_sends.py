"""Trying a template on somebody: any version, at any hour, as often as wanted, and on nobody of another tenant."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from tests.engine.notify.stage import EMAIL, REMINDER, TITLE, Owner, stage
from timebell.errors import InvalidInput, NotFound, NoTransaction
from timebell.notify import Cap, QuietHours, TemplateDraft, Text
from timebell.testing import ManualClock, RecordingProvider
from timebell.testing.database import TestDatabase

NIGHT = datetime(2026, 1, 14, 23, tzinfo=UTC)
OTHER_WORDS = TemplateDraft(
    key=REMINDER.key,
    texts=[Text(channel="email", language="en", subject="Soon", body="In other words.")],
)


async def test_it_comes_at_night_past_every_cap_and_each_time(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    terms = {"quiet_hours": QuietHours(start=time(22), end=time(7), time_bound="hold")}
    async with stage(database_url.url, [provider], terms=terms, clock=ManualClock(NIGHT)) as s:
        await s.decide(caps=[Cap(count=1, per=timedelta(days=1))])
        async with s.harness.bell.transaction() as tx:
            told = [
                await s.notify.send_test(tx, REMINDER.key, s.recipient, channels=["email"], context=TITLE)
                for _ in range(3)
            ]
        await s.harness.run_due()
        assert [one.created for one in told] == [True] * 3
        for one in told:
            found = await s.now(one.id)
            assert (found.state, found.topic, found.urgency) == ("sent", "test", "critical")
            assert (found.key, found.due_at) == (None, s.clock.now)
        assert (await s.told(channels=["email"])).reason == "held_quiet_hours", "nothing else does"
    assert provider.taken == {EMAIL: 3}


async def test_any_version_can_be_tried_and_the_current_one_is_if_none_is_named(
    database_url: TestDatabase,
) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        async with s.harness.bell.transaction() as tx:
            saved = await s.notify.templates.save(tx, OTHER_WORDS)
            for version in (None, saved.version, saved.version - 1):
                await s.notify.send_test(tx, REMINDER.key, s.recipient, version=version, context=TITLE)
            with pytest.raises(NotFound, match="has no version 9"):
                await s.notify.send_test(tx, REMINDER.key, s.recipient, version=9)
            with pytest.raises(NotFound, match="'nothing' does not exist"):
                await s.notify.send_test(tx, "nothing", s.recipient)
        await s.harness.run_due()
    assert sorted(parcel.content.text for parcel in provider.parcels) == [
        "Dear Ada, Board.",
        "In other words.",
        "In other words.",
    ]


async def test_a_channel_that_somebody_stopped_stays_stopped(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider], phone=None) as s:
        async with s.harness.bell.transaction() as tx:
            await s.notify.recipients.opt_outs.add(tx, s.recipient, topic="test")
            await s.notify.recipients.opt_outs.add(tx, s.recipient, channel="email")
            told = await s.notify.send_test(tx, REMINDER.key, s.recipient, channels=["email"], context=TITLE)
            shown = await s.notify.send_test(tx, REMINDER.key, s.recipient, channels=["inbox"], context=TITLE)
        await s.harness.run_due()
        found = await s.now(told.id)
        assert (found.state, found.reason) == ("skipped", "opted_out")
        assert (await s.now(shown.id)).state == "sent", "of a topic alone it is told all the same"
    assert provider.parcels == []


async def test_nobody_of_another_tenant_can_be_tried_on(database_url: TestDatabase, owner: Owner) -> None:
    """B has the template, and knows the id of A's recipient."""
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        async with s.harness.bell.transaction(tenant="b") as tx:
            await s.notify.templates.save(tx, REMINDER)
            with pytest.raises(NotFound, match="recipient: there is no"):
                await s.notify.send_test(tx, REMINDER.key, s.recipient, context=TITLE)
        await s.harness.run_due()
        assert await owner.value("SELECT count(*) FROM timebell_notify.notifications") == 0
        assert await owner.jobs() == []
    assert provider.parcels == []


async def test_what_is_refused(database_url: TestDatabase) -> None:
    async with stage(database_url.url) as s:
        with pytest.raises(NoTransaction):
            await s.notify.send_test(None, REMINDER.key, s.recipient)  # type: ignore[arg-type]
        async with s.harness.bell.transaction() as tx:
            with pytest.raises(InvalidInput, match="template_version"):
                await s.notify.send_test(tx, REMINDER.key, s.recipient, version=0)
            with pytest.raises(InvalidInput, match="channels"):
                await s.notify.send_test(tx, REMINDER.key, s.recipient, channels=["fax"])  # type: ignore[list-item]
            with pytest.raises(InvalidInput, match="context"):
                await s.notify.send_test(tx, REMINDER.key, s.recipient, context=[])  # type: ignore[arg-type]
