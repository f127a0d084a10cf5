"""A calendar of a booking's messages, as JSON and for calendar programs."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import icalendar

from tests.apps.sequences.support import DAY, END, HOUR, NOW, START, House, Json, step
from tests.web.support import problem

STEPS = [
    step("after", "P1D", anchor="booking_end"),
    step("week", "-P7D", at="09:00"),
    step("long-ago", "-P30D"),
    step("now", anchor="event_time"),
    step("morning", "P1D", at="09:00", contacts="all", channel="sms"),
]


async def entries(house: House, id: str) -> dict[str, icalendar.Component]:
    response = await house.ask("GET", f"/api/bookings/{id}/calendar.ics")
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/calendar")
    calendar = icalendar.Calendar.from_ical(response.text)
    assert str(calendar["X-WR-CALNAME"]) == "A stay by the lake"
    return {str(event["UID"]): event for event in calendar.walk("VEVENT")}


async def test_the_messages_of_a_booking_by_their_instants(house: House) -> None:
    await house.save(*STEPS)
    row = await house.book(contacts=[str(house.bob)])
    await house.bench.run_due()
    page = await house.data(f"/api/bookings/{row['id']}/calendar")
    shown = [(one["stepKey"], one["contactName"], one["localTime"], one["status"]) for one in page["data"]]
    assert shown == [
        ("long-ago", "Ada", "2027-02-25T15:00:00+01:00", "skipped"),
        ("now", "Ada", "2027-03-15T09:00:00+01:00", "sent"),
        ("week", "Ada", "2027-03-20T09:00:00+01:00", "scheduled"),
        ("morning", "Ada", "2027-03-28T09:00:00+02:00", "scheduled"),
        ("morning", "Bob", "2027-03-28T09:00:00+02:00", "scheduled"),
        ("after", "Ada", "2027-03-31T11:00:00+02:00", "scheduled"),
    ]
    assert [one["channel"] for one in page["data"]][3:5] == ["sms", "email"]
    by_id = {one["id"]: one for one in (await house.messages(row["id"])).values()}
    for one in page["data"]:
        assert {name: one[name] for name in by_id[one["id"]]} == by_id[one["id"]]
    # By pages too, also between two that come at one instant.
    read: list[Json] = []
    cursor: str | None = None
    for _ in range(10):
        query = {"limit": 1, **({"cursor": cursor} if cursor else {})}
        some = await house.data(f"/api/bookings/{row['id']}/calendar", params=query)
        read += some["data"]
        cursor = some["next_cursor"]
        if cursor is None:
            break
    assert read == page["data"]


async def test_any_calendar_program_can_read_it(house: House) -> None:
    await house.save(*STEPS)
    row = await house.book(contacts=[str(house.bob)])
    await house.bench.run_due()
    messages = await house.messages(row["id"])
    found = await entries(house, row["id"])
    assert set(found) == {f"{one['id']}@timebell" for one in messages.values()}
    for one in messages.values():
        event = found[f"{one['id']}@timebell"]
        assert event.decoded("DTSTART") == datetime.fromisoformat(one["scheduledFor"])
        assert event.decoded("DTSTART").tzinfo is not None
        assert str(event["STATUS"]) == ("CANCELLED" if one["status"] == "skipped" else "CONFIRMED")
    week = found[f"{messages['week']['id']}@timebell"]
    assert str(week["SUMMARY"]) == "week: Ada (email)"
    assert str(week["DESCRIPTION"]) == "It is to be sent at 2027-03-20 09:00 Europe/Berlin."
    assert str(week["TRANSP"]) == "TRANSPARENT"
    late = found[f"{messages['long-ago']['id']}@timebell"]
    assert str(late["DESCRIPTION"]) == "It is not sent: its time had passed when it was planned."


async def test_an_entry_moves_and_is_cancelled_under_the_same_name(house: House) -> None:
    await house.save(step("day", "-P1D"))
    row = await house.book()
    (before,) = (await entries(house, row["id"])).values()
    again = await house.ask("GET", f"/api/bookings/{row['id']}/calendar.ics")
    assert again.text == (await house.ask("GET", f"/api/bookings/{row['id']}/calendar.ics")).text
    await house.change(row["id"], startAt=(START + DAY).isoformat(), endAt=(END + DAY).isoformat())
    (moved,) = (await entries(house, row["id"])).values()
    # A day before by the wall clock, over the night in which an hour is left out.
    assert (str(moved["UID"]), moved.decoded("DTSTART")) == (str(before["UID"]), START + HOUR)
    assert moved.decoded("SEQUENCE") > before.decoded("SEQUENCE")
    await house.move(row["id"], "cancel")
    (cancelled,) = (await entries(house, row["id"])).values()
    assert (str(cancelled["UID"]), str(cancelled["STATUS"])) == (str(before["UID"]), "CANCELLED")
    assert str(cancelled["DESCRIPTION"]) == "It is not sent any more: what it is about was cancelled."
    assert cancelled.decoded("SEQUENCE") > moved.decoded("SEQUENCE")
    assert cancelled.decoded("DTSTAMP") == NOW.astimezone(UTC)


async def test_a_contact_who_was_erased_is_named_no_more(house: House) -> None:
    await house.save(step("now", anchor="event_time"))
    row = await house.book()
    await house.bench.run_due()
    async with house.bench.bell.transaction() as tx:
        await house.notify.recipients.erase(tx, house.ada)
    (one,) = (await house.data(f"/api/bookings/{row['id']}/calendar"))["data"]
    assert one["contactName"] is None
    (event,) = (await entries(house, row["id"])).values()
    assert "Ada" not in str(event["SUMMARY"])


async def test_a_booking_that_is_not_there_or_has_no_messages(house: House) -> None:
    row = await house.book()
    assert (await house.data(f"/api/bookings/{row['id']}/calendar"))["data"] == []
    assert await entries(house, row["id"]) == {}
    for name in ("calendar", "calendar.ics"):
        problem(await house.ask("GET", f"/api/bookings/{uuid4()}/{name}"), 404, "not_found")
    odd = await house.ask("GET", f"/api/bookings/{row['id']}/calendar", params={"cursor": "x"})
    problem(odd, 422, "invalid_input")
