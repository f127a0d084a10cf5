"""One booking ten days ahead, across the change of clocks: everything that may happen to it, told as it should be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest_asyncio

from tests.apps.sequences.support import DAY, HOUR, House, Json, done, open_house, step
from timebell.notify import TemplateDraft, Text, Variable
from timebell.testing.database import TestDatabase

# A Thursday; clocks in Berlin are put forward on the 28th.
NOW = datetime(2027, 3, 18, 9, 0, tzinfo=UTC)
GUESTS: dict[str, Json] = {
    "Ada": {
        "email": "ada@example.org",
        "phone": "+4915112345678",
        "language": "de",
        "channel_preference": "whatsapp",
        "whatsapp_opt_in": True,
    },
    "Bob": {"email": "bob@example.org", "phone": "+447400123456", "language": "en"},
}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest_asyncio.fixture
async def house(sequences_database: TestDatabase) -> AsyncIterator[House]:
    async with open_house(sequences_database, now=NOW, people=GUESTS) as opened:
        yield opened


def told(house: House, after: int) -> list[tuple[str, str, str]]:
    """What arrived after the first few; those of one instant arrive in any order."""
    return sorted((each.channel, each.address, each.content.text) for each in house.arrived[after:])


async def ship(house: House, key: str, english: str, german: str) -> None:
    about = "{{ contact.name }}, {{ booking.eventName }}, {{ booking.startAt | date: timezone: booking.timezone }}"
    async with house.bench.bell.transaction() as tx:
        await house.notify.templates.save(
            tx,
            TemplateDraft(
                key=key,
                variables=[
                    Variable(name=name)
                    for name in ("contact.name", "booking.eventName", "booking.startAt", "booking.timezone")
                ],
                texts=[
                    Text(
                        channel=channel,
                        language=language,
                        subject=word if channel == "email" else None,
                        body=f"{word}: {about}",
                    )
                    for language, word in (("en", english), ("de", german))
                    for channel in ("email", "sms", "whatsapp")
                ],
            ),
        )


async def prepare(house: House) -> None:
    """What is told once it is confirmed, before it, after it, and where it is cancelled."""
    await ship(house, "welcome", "Confirmed", "Bestätigt")
    await ship(house, "soon", "Soon", "Bald")
    await ship(house, "sorry", "Cancelled", "Storniert")
    await house.save(
        step("confirmed", anchor="event_time", templateId="welcome", contacts="all"),
        step("three-days", "-P3D", at="09:00", templateId="soon", contacts="all"),
        step("day", "-P1D", templateId="soon", channel="sms", contacts="all"),
        step("thanks", "P1D", anchor="booking_end", templateId="welcome", channel="email"),
        event="booking_confirmed",
    )
    await house.save(
        step("sorry", anchor="event_time", templateId="sorry", channel="email", contacts="all"),
        event="booking_cancelled",
    )


async def test_every_message_is_right_and_explained(house: House) -> None:
    await prepare(house)
    row = await house.book(
        contacts=[{"contactId": str(house.bob), "role": "companion"}],
        startAt="2027-03-28T13:00:00Z",
        endAt="2027-03-31T08:00:00Z",
    )
    assert row["enrolled"] == 0
    confirmed = await house.move(row["id"], "confirm")
    assert confirmed["enrolled"] == 7
    await house.bench.run_due()
    assert told(house, 0) == [
        ("email", "bob@example.org", "Confirmed: Bob, A stay by the lake, Mar 28, 2027"),
        ("whatsapp", "+4915112345678", "Bestätigt: Ada, A stay by the lake, 28.03.2027"),
    ]
    due = {key: at(one["scheduledFor"]) for key, one in (await house.messages(row["id"])).items()}
    assert due["three-days/Ada"] == at("2027-03-25T09:00+01:00")
    assert due["day/Ada"] == at("2027-03-27T15:00+01:00")
    assert due["thanks"] == at("2027-04-01T10:00+02:00")

    # The dates are moved twice: over the change of clocks and back by a day.
    await house.change(row["id"], startAt="2027-03-30T13:00:00Z", endAt="2027-04-02T08:00:00Z")
    moved = await house.change(row["id"], startAt="2027-03-29T13:00:00Z", endAt="2027-04-01T08:00:00Z")
    assert moved["diff"] == {"kept": 0, "moved": 5, "added": 0, "withdrawn": 0}
    due = {key: at(one["scheduledFor"]) for key, one in (await house.messages(row["id"])).items()}
    assert due["three-days/Ada"] == at("2027-03-26T09:00+01:00")
    assert due["day/Ada"] == at("2027-03-28T15:00+02:00")

    # Ada has another name by then, and no phone.
    async with house.bench.bell.transaction() as tx:
        await house.notify.recipients.change(tx, house.ada, name="Ada Berg", phone=None)
    await house.pass_until(at("2027-03-28T20:00+02:00"))
    assert told(house, 2) == [
        ("email", "ada@example.org", "Bald: Ada Berg, A stay by the lake, 29.03.2027"),
        ("email", "ada@example.org", "Bald: Ada Berg, A stay by the lake, 29.03.2027"),
        ("email", "bob@example.org", "Soon: Bob, A stay by the lake, Mar 29, 2027"),
        ("sms", "+447400123456", "Soon: Bob, A stay by the lake, Mar 29, 2027"),
    ]
    messages = await house.messages(row["id"])
    assert messages["day/Ada"]["channel"] == "email"
    assert at(messages["day/Ada"]["sentAt"]) == at("2027-03-28T15:00+02:00")

    cancelled = await house.move(row["id"], "cancel")
    assert (cancelled["enrolled"], cancelled["diff"]["withdrawn"]) == (2, 1)
    await house.pass_until(at("2027-04-10T00:00+02:00"))
    assert [(address, text.partition(":")[0]) for _, address, text in told(house, 6)] == [
        ("ada@example.org", "Storniert"),
        ("bob@example.org", "Cancelled"),
    ]
    assert await house.statuses(row["id"]) == {
        "confirmed/Ada": "sent",
        "confirmed/Bob": "sent",
        "three-days/Ada": "sent",
        "three-days/Bob": "sent",
        "day/Ada": "sent",
        "day/Bob": "sent",
        "thanks": "cancelled",
        "sorry/Ada": "sent",
        "sorry/Bob": "sent",
    }


async def test_what_became_of_a_message_is_known_when_notify_has_forgotten_it(house: House) -> None:
    await house.save(step("now", anchor="event_time"), step("day", "-P1D"))
    row = await house.book(startAt="2027-03-28T13:00:00Z", endAt="2027-03-31T08:00:00Z")
    await house.bench.run_due()
    before = await house.messages(row["id"])
    (prune,) = [app.on_prune for app in house.bench.bell.registry.apps if app.name == "sequences"]
    assert prune is not None
    await prune(house.bench.bell, 100)
    (stored,) = await house.rows("SELECT * FROM sequences.messages WHERE step = 'now'")
    assert (stored["status"], stored["attempt_count"], stored["channel"]) == ("sent", 1, "whatsapp")
    assert stored["settled_at"] is not None
    await house.rows("DELETE FROM timebell_notify.attempts")
    await house.rows("DELETE FROM timebell_notify.deliveries")
    await house.rows("DELETE FROM timebell_notify.notifications")
    assert await house.messages(row["id"]) == before
    # Other dates leave it as it is.
    await house.change(row["id"], startAt="2027-03-29T13:00:00Z")
    assert (await house.messages(row["id"]))["now"] == before["now"]


async def test_what_is_long_over_is_not_kept(house: House) -> None:
    await house.save(step("now", anchor="event_time"))
    await house.book(startAt="2027-03-28T13:00:00Z", endAt="2027-03-31T08:00:00Z")
    await house.bench.run_due()
    (prune,) = [app.on_prune for app in house.bench.bell.registry.apps if app.name == "sequences"]
    assert prune is not None
    days = house.bench.bell.settings.delivery_days
    for _ in range(3):
        await prune(house.bench.bell, 100)
    assert await house.value("SELECT count(*) FROM sequences.subjects") == 1
    await house.pass_until(datetime(2027, 3, 31, 8, tzinfo=UTC) + (days + 1) * DAY)
    for _ in range(3):
        await prune(house.bench.bell, 100)
    for table in ("subjects", "subject_people", "enrolments", "messages"):
        assert await house.value(f"SELECT count(*) FROM sequences.{table}") == 0, table


async def exported(house: House) -> list[Json]:
    """What is kept here about Ada, page after page."""
    kept: list[Json] = []
    params: Json = {"limit": 2}
    for _ in range(20):
        page = done(await house.site.ask("GET", f"/v1/recipients/{house.ada}/export", params=params))
        kept += page["document"].get("sequences", [])
        if page["next_cursor"] is None:
            break
        params = {"limit": 2, "cursor": page["next_cursor"]}
    return kept


async def test_whoever_is_erased_is_told_nothing_more_and_the_next_is_the_primary(house: House) -> None:
    await house.save(step("day", "-P1D"), step("all", "-PT2H", contacts="all"))
    row = await house.book(
        contacts=[str(house.bob)], startAt="2027-03-28T13:00:00Z", endAt="2027-03-31T08:00:00Z"
    )
    assert sorted(line["is"] for line in await exported(house)) == ["message", "message", "subject"]
    erased = await house.site.ask("DELETE", f"/v1/recipients/{house.ada}", key="admin")
    assert erased.status_code in (200, 204), erased.text
    messages = await house.messages(row["id"])
    assert {key: (one["status"], one["reason"]) for key, one in messages.items()} == {
        "day/Ada": ("cancelled", "contact_removed"),
        "all/Ada": ("cancelled", "contact_removed"),
        "all/Bob": ("scheduled", None),
        "day/Bob": ("scheduled", None),
    }
    assert (await house.data(f"/api/bookings/{row['id']}"))["contactId"] == str(house.bob)
    await house.pass_until(datetime(2027, 3, 29, tzinfo=UTC) + HOUR)
    assert {each.address for each in house.arrived} == {"bob@example.org"}
