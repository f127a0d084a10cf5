"""What a sequence would tell about a booking or another subject, real or invented; nothing is written."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest

from tests.apps.sequences.support import DAY, END, HOUR, NOW, START, House, Json, done, step
from tests.web.support import problem
from timebell.notify import Channel, TemplateDraft, Text, Variable

CHANNELS: tuple[Channel, ...] = ("email", "sms", "whatsapp")
VARIABLES = ("contact.name", "facts.plan", "facts.end", "booking.location")
INVENTED: Json = {"name": "Zoe", "language": "de", "email": "zoe@example.org"}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def booking(**given: Any) -> Json:
    return {
        "contact": INVENTED,
        "subtype": "stay",
        "eventName": "A stay by the lake",
        "startAt": START.isoformat(),
        "endAt": END.isoformat(),
        "timezone": "Europe/Berlin",
        **given,
    }


async def preview(house: House, sequence: Json, **body: Any) -> Json:
    """What is answered; and nothing but that has come of it."""
    before = await written(house)
    answer = done(await house.ask("POST", f"/api/sequences/{sequence['id']}/preview", body))
    assert await written(house) == before
    return answer


async def written(house: House) -> list[int]:
    tables = ("sequences.subjects", "sequences.enrolments", "sequences.messages", "timebell.jobs")
    more = ("timebell.events", "timebell_notify.recipients")
    return [await house.value(f"SELECT count(*) FROM {table}") for table in (*tables, *more)]


def by_step(answer: Json) -> dict[str, Json]:
    return {each["stepKey"]: each for each in answer["messages"]}


async def save_text(house: House, key: str, **texts: str) -> None:
    """A template with a text for each channel that is named, in English."""
    drawn = [
        Text(
            channel=channel,
            language="en",
            body=texts[channel],
            subject="About it" if channel == "email" else None,
        )
        for channel in CHANNELS
        if channel in texts
    ]
    variables = [Variable(name=name) for name in VARIABLES if any(name in text for text in texts.values())]
    async with house.bench.bell.transaction() as tx:
        await house.notify.templates.save(tx, TemplateDraft(key=key, texts=drawn, variables=variables))


async def test_an_invented_booking_across_the_change_of_clocks(house: House) -> None:
    sequence = await house.save(
        step("week", "-P7D", at="09:00"),
        step("first-morning", "P1D", at="09:00"),
        step("hours", "PT24H"),
        step("after", "P1D", anchor="booking_end"),
    )
    answer = await preview(house, sequence, booking=booking(), eventAt=NOW.isoformat())
    assert (answer["enters"], answer["reason"], answer["version"]) == (True, None, 1)
    found = by_step(answer)
    assert {key: at(one["scheduledFor"]) for key, one in found.items()} == {
        "week": at("2027-03-20T09:00+01:00"),
        "first-morning": at("2027-03-28T09:00+02:00"),
        "hours": START + 24 * HOUR,
        "after": END + DAY,
    }
    assert found["week"]["localTime"] == "2027-03-20T09:00:00+01:00"
    assert found["first-morning"]["localTime"] == "2027-03-28T09:00:00+02:00"
    # A day of the wall clock is shorter there, and four and twenty hours are not.
    assert found["hours"]["localTime"] == "2027-03-28T16:00:00+02:00"
    assert {one["status"] for one in found.values()} == {"scheduled"}
    text = found["week"]["text"]
    assert text == {
        "language": "de",
        "subject": "About A stay by the lake",
        "body": "Guten Tag Zoe, A stay by the lake",
        "html": None,
    }
    assert (found["week"]["contactId"], found["week"]["contactName"]) == (None, "Zoe")
    assert found["week"]["channel"] == "email"


async def test_what_is_previewed_is_what_comes_of_it(house: House) -> None:
    steps = [
        step("now", anchor="event_time"),
        step("long-ago", "-P30D"),
        step("all", "-P1D", at="09:00", contacts="all"),
        step("english", "-P1D", conditions={"language": "en"}, contacts="all"),
        step("far", "-P1D", conditions={"minDaysOut": 20}),
        step("text", "-P2D", channel="sms", contacts="all"),
    ]
    sequence = await house.save(*steps)
    asked = booking(contactId=str(house.ada), contacts=[{"contactId": str(house.bob), "role": "friend"}])
    del asked["contact"]
    answer = await preview(house, sequence, booking=asked)
    row = await house.book(contacts=asked["contacts"])
    made = (await house.data(f"/api/bookings/{row['id']}/messages"))["data"]
    names = ("stepKey", "contactId", "channel", "scheduledFor", "status", "reason", "templateId")
    shown = [tuple(one[name] for name in names) for one in answer["messages"]]
    assert sorted(shown, key=str) == sorted((tuple(one[name] for name in names) for one in made), key=str)
    assert {one["role"] for one in answer["messages"]} == {"guest", "friend"}
    whys = {(one["stepKey"], one["contactName"]): one["why"] for one in answer["messages"] if one["why"]}
    assert whys == {
        ("long-ago", "Ada"): "its time had passed when it was planned",
        ("english", "Ada"): "the contact's language is none of those that the condition names",
        ("far", "Ada"): "the dates were nearer than the condition minDaysOut asks for",
    }
    await house.pass_until(END)
    sent = {(parcel.address, parcel.content.text) for parcel in house.arrived}
    told = {
        (one["contactName"], one["channel"], one["text"]["body"])
        for one in answer["messages"]
        if one["status"] == "scheduled"
    }
    addresses = {
        ("Ada", "email"): "ada@example.org",
        ("Ada", "sms"): "+4915112345678",
        ("Bob", "email"): "bob@example.org",
    }
    assert sent == {(addresses[name, channel], body) for name, channel, body in told}


async def test_as_if_it_happened_on_another_day(house: House) -> None:
    sequence = await house.save(
        step("soon", "PT2H", anchor="event_time"),
        step("month", "-P26D"),
        step("near", "-P1D", conditions={"maxDaysOut": 14}),
    )
    now = by_step(await preview(house, sequence, booking=booking()))
    assert {key: (one["status"], one["reason"]) for key, one in now.items()} == {
        "soon": ("scheduled", None),
        "month": ("skipped", "past"),
        "near": ("scheduled", None),
    }
    first = at("2027-03-01T08:00:00+00:00")
    then = await preview(house, sequence, booking=booking(), eventAt=first.isoformat())
    assert at(then["eventAt"]) == first
    found = by_step(then)
    assert at(found["soon"]["scheduledFor"]) == first + 2 * HOUR
    assert {key: (one["status"], one["reason"]) for key, one in found.items()} == {
        "soon": ("scheduled", None),
        "month": ("scheduled", None),
        "near": ("skipped", "max_days_out"),
    }


async def test_a_real_booking_and_what_another_version_would_mean_for_it(house: House) -> None:
    sequence = await house.save(step("now", "PT1H", anchor="event_time"), step("day", "-P1D"))
    row = await house.book()
    await house.pass_until(NOW + 2 * DAY)
    patch = {"steps": [step("now", "PT3H", anchor="event_time"), step("day", "-P2D")]}
    done(await house.ask("PATCH", f"/api/sequences/{sequence['id']}", patch))
    answer = await preview(house, sequence, bookingId=row["id"])
    assert (answer["enters"], answer["reason"], answer["version"]) == (False, "entered", 2)
    assert at(answer["eventAt"]) == NOW
    found = by_step(answer)
    assert at(found["now"]["scheduledFor"]) == NOW + 3 * HOUR
    assert (found["now"]["reason"], found["day"]["reason"]) == ("past", None)
    assert at(found["day"]["scheduledFor"]) == START - 2 * DAY
    assert found["day"]["contactId"] == str(house.ada)
    # And one that the booking has not entered.
    other = await house.save(
        step("now", anchor="event_time", conditions={"status": "confirmed"}), event="booking_confirmed"
    )
    answer = await preview(house, other, bookingId=row["id"])
    assert (answer["enters"], by_step(answer)["now"]["reason"]) == (True, None)
    assert at(answer["eventAt"]) == NOW + 2 * DAY
    assert (await house.data(f"/api/bookings/{row['id']}"))["status"] == "created"


async def test_why_the_event_would_not_start_it(house: House) -> None:
    tables = await house.save(step("day", "-P1D"), bookingSubtype="table")
    answer = await preview(house, tables, booking=booking())
    assert (answer["enters"], answer["reason"]) == (False, "subtype")
    assert [one["status"] for one in answer["messages"]] == ["scheduled"]
    drafted = await house.save(step("day", "-P1D"), active=False)
    answer = await preview(house, drafted, booking=booking())
    assert (answer["enters"], answer["why"]) == (False, "the sequence is not active")
    assert (await preview(house, drafted, booking=booking(), stepKey="other"))["messages"] == []


async def test_who_cannot_be_reached_and_what_cannot_be_said(house: House) -> None:
    await save_text(house, "mail-only", email="Hello")
    await save_text(house, "place", email="{{ booking.location }}", sms="{{ booking.location }}")
    sequence = await house.save(
        step("note", "-P1D"),
        step("mail", "-P1D", channel="email", templateId="mail-only"),
        step("place", "-P1D", templateId="place"),
    )
    nobody = by_step(await preview(house, sequence, booking=booking(contact={"name": "Zoe"})))
    assert {(one["reason"], one["channel"], one["text"]) for one in nobody.values()} == {
        ("no_channel", None, None)
    }
    assert nobody["note"]["why"] == "none of its channels can reach the contact"
    reached = {**INVENTED, "phone": "+4915112345678", "channelPreference": "sms"}
    found = by_step(await preview(house, sequence, booking=booking(contact=reached)))
    assert (found["note"]["channel"], found["note"]["text"]["subject"]) == ("sms", None)
    assert found["place"]["reason"] == "template_incomplete"
    assert "booking.location" in found["place"]["why"]
    placed = booking(contact=reached, location="Seestrasse 4")
    assert by_step(await preview(house, sequence, booking=placed))["place"]["reason"] is None
    whatsapp = await house.save(step("day", "-P1D", channel="whatsapp"))
    for opted_in, channel in ((True, "whatsapp"), (False, "sms")):
        contact = {**reached, "whatsappOptIn": opted_in}
        found = by_step(await preview(house, whatsapp, booking=booking(contact=contact)))
        assert found["day"]["channel"] == channel


async def test_another_channel_where_the_template_has_no_text_for_the_first(house: House) -> None:
    await save_text(house, "mail-only", email="Hello")
    sequence = await house.save(step("day", "-P1D", templateId="mail-only"))
    contact = {**INVENTED, "phone": "+4915112345678", "channelPreference": "sms"}
    found = by_step(await preview(house, sequence, booking=booking(contact=contact)))["day"]
    assert (found["channel"], found["text"]["body"], found["status"]) == ("email", "Hello", "scheduled")


async def test_a_template_that_is_gone(house: House) -> None:
    sequence = await house.save(step("day", "-P1D"))
    await house.rows("UPDATE timebell_notify.templates SET is_current = false WHERE tenant = 'default'")
    found = by_step(await preview(house, sequence, booking=booking()))["day"]
    assert (found["reason"], found["text"]) == ("template_missing", None)


async def test_any_other_subject(house: House) -> None:
    await save_text(house, "trial", email="{{ contact.name }}: {{ facts.plan }} ends {{ facts.end }}")
    sequence = await house.save(
        step("ends", "-P3D", anchor="booking_end", templateId="trial", contacts="all"),
        step("starts", "-P1D", templateId="trial"),
        event="trial_started",
    )
    facts = {
        "end": "2027-03-29T10:00:00Z",
        "timezone": "Europe/Berlin",
        "plan": "team",
        "contacts": [str(house.bob), INVENTED],
    }
    answer = await preview(house, sequence, subject=facts)
    shown = [
        (one["stepKey"], one["contactName"], one["localTime"], one["reason"]) for one in answer["messages"]
    ]
    # Three days by the wall clock, over the night in which an hour is left out.
    assert shown == [
        ("ends", "Bob", "2027-03-26T12:00:00+01:00", None),
        ("ends", "Zoe", "2027-03-26T12:00:00+01:00", None),
        ("starts", "Bob", None, "no_anchor"),
    ]
    assert answer["messages"][0]["text"]["body"] == "Bob: team ends 2027-03-29T10:00:00Z"


async def test_texts_that_are_too_much_in_all_are_left_out(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timebell.apps.sequences.previewing.TEXTS_CHARS_MAX", 40)
    sequence = await house.save(*(step(f"day-{number}", f"-P{number}D") for number in range(1, 4)))
    answer = await preview(house, sequence, booking=booking())
    assert [one["textLeftOut"] for one in answer["messages"]] == [False, False, True]
    assert [one["text"] is None for one in answer["messages"]] == [False, False, True]
    alone = await preview(house, sequence, booking=booking(), stepKey="day-3")
    assert [one["text"] is None for one in alone["messages"]] == [False]


async def test_what_is_wrong_with_a_preview_is_named(house: House) -> None:
    sequence = await house.save()
    path = f"/api/sequences/{sequence['id']}/preview"
    both = {**booking(), "contactId": str(house.ada)}
    for body, pointer in (
        ({}, ""),
        ({"booking": booking(), "subject": {}}, ""),
        ({"booking": both}, "/booking"),
        ({"booking": {**booking(), "timezone": "Europe/Berln"}}, "/booking/timezone"),
        ({"booking": booking(endAt=(START - HOUR).isoformat())}, "/booking"),
        ({"booking": booking(contacts=[str(uuid4())])}, "/booking/contacts/0"),
        ({"booking": booking(contact={**INVENTED, "language": "German"})}, "/booking/contact/language"),
        ({"booking": booking(contact={**INVENTED, "phone": "0151"})}, "/booking/contact/phone"),
        ({"booking": booking(contact={**INVENTED, "contactId": str(house.ada)})}, "/booking/contact"),
        ({"subject": {"contacts": [str(uuid4())]}}, "/subject/contacts/0"),
        ({"subject": {"contacts": [str(house.ada)], "much": "x" * 20_000}}, "/subject"),
    ):
        found = problem(await house.ask("POST", path, body), 422, "invalid_input")
        assert [each["pointer"] for each in found["errors"]] == [pointer], found
    missing = {"bookingId": str(uuid4())}
    problem(await house.ask("POST", path, missing), 404, "not_found")
    nowhere = f"/api/sequences/{uuid4()}/preview"
    problem(await house.ask("POST", nowhere, {"booking": booking()}), 404, "not_found")
    # A key that only reads will do.
    done(await house.ask("POST", path, {"booking": booking()}, key="read"))
