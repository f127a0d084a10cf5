"""A notification is told once, on the first channel that works, and everything that was considered is kept."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.engine.notify.stage import EMAIL, stage
from timebell.notify import Rejected, Route, Unavailable
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

HOUR = timedelta(hours=1)


async def test_it_is_told_by_mail(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        told = await s.told(channels=["email"])
        assert (told.state, told.reason) == ("sent", "accepted")
        assert await s.states(told.id) == [("email", "sent", "accepted")]
        await s.harness.advance(24 * HOUR)
    (parcel,) = provider.parcels
    assert parcel.address == EMAIL
    assert parcel.content.subject == "Soon: Board"
    assert parcel.content.text == "Dear Ada, Board."


@pytest.mark.req("A-6.2")
async def test_a_number_that_is_refused_leads_to_mail(database_url: TestDatabase) -> None:
    texts = RecordingProvider("texts", channels=["sms"])
    mails = RecordingProvider("mails", channels=["email"])
    texts.answer(Rejected(reason="no such number", blame="address"))
    async with stage(database_url.url, [texts, mails]) as s:
        told = await s.told(channels=["sms"])
        assert (told.state, told.reason) == ("sent", "accepted")
        assert await s.states(told.id) == [("sms", "failed", "rejected"), ("email", "sent", "accepted")]
    assert texts.taken == {}
    assert mails.taken == {EMAIL: 1}


async def test_another_provider_takes_what_the_first_certainly_did_not(database_url: TestDatabase) -> None:
    first, second = RecordingProvider("first"), RecordingProvider("second")
    first.answer(Unavailable(reason="down", error_class="unavailable"))
    async with stage(database_url.url, [first, second]) as s:
        told = await s.told(channels=["email"])
        assert (told.state, told.reason) == ("sent", "accepted")
    assert first.taken == {}
    assert second.taken == {EMAIL: 1}


async def test_it_is_shown_in_the_inbox_and_told_by_mail_besides(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        told = await s.told(channels=Route(first=["email"], also=["inbox"]))
        assert told.state == "sent"
        assert sorted(await s.states(told.id)) == [
            ("email", "sent", "accepted"),
            ("inbox", "sent", "shown"),
        ]
        page = await s.notify.inbox.list(s.recipient)
        assert [(line.title, line.status) for line in page.lines] == [("Soon: Board", "unseen")]
    assert provider.taken == {EMAIL: 1}


async def test_nothing_is_sent_after_it_was_withdrawn(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        id = await s.tell(channels=["email"], subject="meeting:1", due_at=s.clock.now + HOUR)
        async with s.harness.bell.transaction() as tx:
            (answer,) = await s.notify.withdraw(tx, subject="meeting:1")
        assert (answer.id, answer.answer) == (id, "cancelled")
        await s.harness.advance(2 * HOUR)
    assert provider.parcels == []
