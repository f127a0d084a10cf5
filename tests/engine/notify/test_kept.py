"""What was asked for, how far it has come and what came of it are kept, from the asking to the end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from asyncpg.pgproto import pgproto

from tests.engine.notify.stage import EMAIL, REMINDER, TITLE, device, stage
from timebell.notify import Notification, Rejected, Route, TemplateDraft, Text, Unavailable
from timebell.notify.provider import Answer, Parcel
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
BUSY = Unavailable(reason="busy")
GONE = Rejected(reason="gone", blame="address", is_gone=True)


@pytest.mark.req("D-2.4")
async def test_what_was_asked_for_is_kept_as_it_was_asked_for(database_url: TestDatabase) -> None:
    async with stage(database_url.url, [RecordingProvider()]) as s:
        began = s.clock.now
        id = await s.tell(
            channels=Route(first=["sms", "email"], also=["inbox"]),
            urgency="time_bound",
            subject="meeting:7",
            key="meeting:7/1h",
            correlation_id="request-1",
            due_at=began + HOUR,
            expires_at=began + 2 * HOUR,
        )
        asked = await s.now(id)
        assert asked == Notification(
            id=id,
            tenant="default",
            recipient_id=s.recipient,
            template=REMINDER.key,
            template_version=1,
            topic="meetings",
            message_class="transactional",
            urgency="time_bound",
            route=Route(first=("sms", "email"), also=("inbox",)),
            context=TITLE,
            due_at=began + HOUR,
            state="pending",
            subject="meeting:7",
            key="meeting:7/1h",
            expires_at=began + 2 * HOUR,
            correlation_id="request-1",
            created_at=began,
        )
        await s.harness.advance(HOUR)
        told = await s.now(id)
        assert (told.state, told.settled_at) == ("sent", began + HOUR)
        assert told == replace(asked, state="sent", reason=told.reason, settled_at=told.settled_at)


async def test_an_id_may_be_in_the_context_as_the_driver_gives_it(database_url: TestDatabase) -> None:
    id = pgproto.UUID("018f4c1e-0000-7000-8000-000000000001")
    async with stage(database_url.url) as s:
        told = await s.told(channels=["inbox"], context={**TITLE, "meeting": id, "all": [id]})
    assert (told.state, told.context) == ("sent", {**TITLE, "meeting": str(id), "all": [str(id)]})


@pytest.mark.req("D-2.5")
async def test_a_delivery_says_where_it_went_what_it_said_and_how_it_fared(
    database_url: TestDatabase,
) -> None:
    provider = RecordingProvider()
    provider.answer(BUSY)
    async with stage(database_url.url, [provider]) as s:
        began = s.clock.now
        told = await s.told(channels=["email"])
        await s.harness.advance(MINUTE)
        (delivery,) = (await s.story(told.id)).deliveries
    assert (delivery.channel, delivery.address, delivery.provider) == ("email", EMAIL, "recorder")
    assert delivery.content is not None
    assert (delivery.content["subject"], delivery.content["text"]) == ("Soon: Board", "Dear Ada, Board.")
    assert (delivery.state, delivery.reason, delivery.language) == ("sent", "accepted", "en")
    assert (delivery.provider_id, delivery.attempt_count) == (f"recorder-{delivery.id}", 2)
    assert (delivery.created_at, delivery.sent_at) == (began, began + MINUTE)
    assert [(one.number, one.answer, one.started_at) for one in delivery.attempts] == [
        (1, "unavailable", began),
        (2, "sent", began + MINUTE),
    ]
    assert delivery.attempts[0].detail["said"] == "busy"


async def test_how_far_it_has_come_can_be_seen_at_every_moment(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        id = await s.tell(channels=["email"], due_at=s.clock.now + HOUR)
        seen: list[tuple[str, str, list[str | None]]] = []

        async def look() -> None:
            story = await s.story(id)
            (delivery,) = story.deliveries
            answers = [one.answer for one in delivery.attempts]
            seen.append((story.notification.state, delivery.state, list(answers)))

        async def fail(parcel: Parcel) -> Answer:
            await look()
            return BUSY

        async def take(parcel: Parcel) -> Answer:
            await look()
            return provider.take(parcel)

        provider.answer(fail, take)
        asked = await s.story(id)
        assert (asked.notification.state, asked.deliveries) == ("pending", ())
        await s.harness.advance(HOUR)
        await look()
        await s.harness.advance(HOUR)
        await look()
    assert seen == [
        ("pending", "pending", [None]),
        ("held", "pending", ["unavailable"]),
        ("held", "pending", ["unavailable", None]),
        ("sent", "sent", ["unavailable", "sent"]),
    ]


@pytest.mark.req("R-5.3")
@pytest.mark.parametrize("answer", [BUSY, GONE], ids=["away", "gone"])
async def test_what_is_in_the_inbox_is_told_though_no_device_takes_it(
    database_url: TestDatabase, answer: Answer
) -> None:
    pushes = RecordingProvider("pushes", channels=["push"])
    pushes.answer(*[answer] * 9)
    async with stage(database_url.url, [pushes], terms={"addresses": [device("phone")]}) as s:
        told = await s.told(channels=Route(first=["inbox"], also=["push"]))
        assert [line.id for line in (await s.notify.inbox.list(s.recipient)).lines] == [told.id]
        await s.harness.advance(DAY)
        told = await s.now(told.id)
        assert (told.state, told.reason) == ("sent", "shown")
        assert len((await s.notify.inbox.list(s.recipient)).lines) == 1
    assert pushes.taken == {}


@pytest.mark.req("D-2.6")
@pytest.mark.parametrize(
    ("more", "type", "payload"),
    [
        ({}, "meetings", {}),
        ({"type": "reminder", "data": {"meeting": 7}}, "reminder", {"meeting": 7}),
        ({"data": "no mapping"}, "meetings", {}),
    ],
)
async def test_an_entry_has_what_an_application_shows_and_links_to(
    database_url: TestDatabase, more: dict[str, Any], type: str, payload: dict[str, Any]
) -> None:
    async with stage(database_url.url) as s:
        told = await s.told(
            channels=["inbox"], context={**TITLE, **more}, subject="meeting:7", urgency="critical"
        )
        (line,) = (await s.notify.inbox.list(s.recipient)).lines
    assert (line.id, line.subject, line.title, line.description) == (
        told.id,
        "meeting:7",
        "Soon: Board",
        "Your meeting.",
    )
    assert (line.type, line.payload, line.priority, line.status) == (type, payload, "critical", "unseen")


async def test_what_goes_along_for_programs_reaches_every_channel_that_takes_it(
    database_url: TestDatabase,
) -> None:
    """At the second attempt too, which sends what the first one rendered."""
    provider = RecordingProvider()
    provider.answer(BUSY)
    async with stage(database_url.url, [provider], terms={"addresses": [device("phone")]}) as s:
        await s.told(channels=["push"], context={**TITLE, "data": {"meeting": 7}})
        await s.harness.advance(MINUTE)
    assert [parcel.content.data for parcel in provider.parcels] == [{"meeting": 7}] * 2


@pytest.mark.req("A-6.3")
async def test_a_channel_without_a_text_is_left_out_and_nothing_else_is(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    mail_alone = TemplateDraft(
        key="mail.alone", texts=[Text(channel="email", language="en", subject="Hi", body="By mail.")]
    )
    async with stage(database_url.url, [provider]) as s:
        async with s.harness.bell.transaction() as tx:
            await s.notify.templates.save(tx, mail_alone)
        both = await s.tell(template=mail_alone.key, channels=["sms", "email"], context={})
        none = await s.tell(template=mail_alone.key, channels=["push", "inbox"], context={})
        other = await s.tell(channels=["sms"])
        await s.harness.run_due()
        assert (await s.now(both)).state == "sent"
        assert ("template", "refused", "template_missing") in await s.checks(both)
        told = await s.now(none)
        assert (told.state, told.reason) == ("skipped", "template_missing")
        assert (await s.now(other)).state == "sent"
    assert sorted(parcel.channel for parcel in provider.parcels) == ["email", "sms"]


async def test_words_that_cannot_be_stored_are_kept_without_what_cannot(database_url: TestDatabase) -> None:
    """A server that answers with a NUL must not keep us from writing down that it answered."""
    provider = RecordingProvider()
    provider.answer(Rejected(reason="no \x00\ud800", detail={"note": "\x00", "status": 550}))
    async with stage(database_url.url, [provider]) as s:
        told = await s.told(channels=["email"])
        assert (told.state, told.reason) == ("failed", "rejected")
        (delivery,) = (await s.story(told.id)).deliveries
    assert delivery.attempts[0].detail == {"said": "no ??", "note": "?", "status": 550}
    assert len(provider.parcels) == 1
