"""Bookings and what they start, as a client sees it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.apps.sequences.support import DAY, END, HOUR, MINUTE, NOW, START, House, done, step
from tests.web.support import problem
from timebell.notify import Variable

BEFORE = [
    step("week", "-P7D", at="09:00"),
    step("day", "-P1D"),
    step("start", "PT0S"),
    step("after", "P1D", anchor="booking_end"),
]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.req("A-1.1", "A-2.3", "A-2.4", "A-2.5")
async def test_a_booking_starts_what_listens_to_it(house: House) -> None:
    matching = await house.save(*BEFORE, bookingSubtype="stay")
    await house.save(bookingSubtype="table")
    await house.save(active=False)
    row = await house.book()
    assert row["enrolled"] == 4
    assert row["status"] == "created"
    assert row["diff"] == {"kept": 0, "moved": 0, "added": 4, "withdrawn": 0}
    messages = await house.messages(row["id"])
    assert {key: at(one["scheduledFor"]) for key, one in messages.items()} == {
        "week": at("2027-03-20T09:00+01:00"),
        "day": START - DAY,
        "start": START,
        # A day later by the wall clock; the stay ended after the change of clocks.
        "after": END + DAY,
    }
    assert {one["sequenceId"] for one in messages.values()} == {matching["id"]}
    assert {one["status"] for one in messages.values()} == {"scheduled"}
    await house.pass_until(END + 2 * DAY)
    assert set((await house.statuses(row["id"])).values()) == {"sent"}
    assert [parcel.address for parcel in house.arrived] == ["ada@example.org"] * 4
    assert house.arrived[0].content.text == "Guten Tag Ada, A stay by the lake"
    assert (await house.book(subtype="concert"))["enrolled"] == 0


@pytest.mark.req("A-2.1", "A-2.2", "A-2.3")
async def test_each_status_tells_its_event_once(house: House) -> None:
    for event in ("created", "confirmed", "checked_in", "completed", "cancelled"):
        await house.save(event=f"booking_{event}", name=event)
    row = await house.book()
    assert row["enrolled"] == 1
    for transition, status in (
        ("confirm", "confirmed"),
        ("check-in", "checked_in"),
        ("complete", "completed"),
    ):
        moved = await house.move(row["id"], transition)
        assert (moved["status"], moved["enrolled"]) == (status, 1)
    refused = await house.ask("POST", f"/api/bookings/{row['id']}/cancel")
    assert problem(refused, 409, "booking_status")["booking_status"] == "completed"
    events = await house.rows("SELECT name FROM timebell.events WHERE subject LIKE 'booking:%' ORDER BY id")
    assert [each["name"] for each in events] == [
        "booking.created",
        "booking.confirmed",
        "booking.checked_in",
        "booking.completed",
    ]
    # What is confirmed from the start was created too.
    assert (await house.book(status="confirmed"))["enrolled"] == 2


@pytest.mark.req("A-2.2")
@pytest.mark.parametrize(
    ("status", "legal"),
    [
        ("created", {"confirm", "cancel"}),
        ("confirmed", {"check-in", "cancel"}),
        ("checked_in", {"complete", "cancel"}),
        ("completed", set()),
        ("cancelled", set()),
    ],
)
async def test_the_edges_that_there_are(house: House, status: str, legal: set[str]) -> None:
    for transition in ("confirm", "check-in", "complete", "cancel"):
        row = await house.book(status="created" if status == "cancelled" else status)
        if status == "cancelled":
            await house.move(row["id"], "cancel")
        response = await house.ask("POST", f"/api/bookings/{row['id']}/{transition}")
        assert response.status_code == (200 if transition in legal else 409), response.text


async def test_a_transition_needs_an_idempotency_key_and_happens_once_for_it(house: House) -> None:
    await house.save(event="booking_confirmed")
    row = await house.book()
    bare = await house.site.ask("POST", f"/api/bookings/{row['id']}/confirm")
    problem(bare, 400, "idempotency_key_required")
    first = await house.ask("POST", f"/api/bookings/{row['id']}/confirm", idempotency="once")
    again = await house.ask("POST", f"/api/bookings/{row['id']}/confirm", idempotency="once")
    assert first.json() == again.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert await house.value("SELECT count(*) FROM timebell.events WHERE name = 'booking.confirmed'") == 1


@pytest.mark.req("A-2.7")
async def test_what_is_past_is_skipped_and_says_so(house: House) -> None:
    await house.save(*BEFORE)
    row = await house.book(startAt=(NOW + 2 * DAY).isoformat(), endAt=(NOW + 3 * DAY).isoformat())
    assert row["enrolled"] == 3
    messages = await house.messages(row["id"])
    assert (messages["week"]["status"], messages["week"]["reason"]) == ("skipped", "past")
    assert messages["day"]["status"] == "scheduled"


@pytest.mark.req("A-2.7")
@pytest.mark.parametrize(("late", "status"), [(15 * MINUTE, "scheduled"), (15 * MINUTE + MINUTE, "skipped")])
async def test_a_quarter_of_an_hour_is_not_too_late(house: House, late: timedelta, status: str) -> None:
    await house.save(step("start"))
    row = await house.book(startAt=(NOW - late).isoformat())
    assert (await house.messages(row["id"]))["start"]["status"] == status


@pytest.mark.req("A-2.7")
async def test_what_was_to_be_said_before_something_is_not_scheduled_after_it(house: House) -> None:
    """Although its own time passed only a moment ago."""
    await house.save(step("before", "-PT10M"), step("start"))
    row = await house.book(startAt=(NOW - MINUTE).isoformat())
    assert row["enrolled"] == 1
    message = (await house.messages(row["id"]))["before"]
    assert (message["status"], message["reason"]) == ("skipped", "past")


@pytest.mark.req("A-2.5")
async def test_what_is_to_be_said_at_once_is(house: House) -> None:
    await house.save(step("now", anchor="event_time"), step("soon", "PT2H", anchor="event_time"))
    row = await house.book()
    await house.bench.run_due()
    assert await house.statuses(row["id"]) == {"now": "sent", "soon": "scheduled"}
    assert at((await house.messages(row["id"]))["soon"]["scheduledFor"]) == NOW + 2 * HOUR


@pytest.mark.req("A-2.4")
async def test_a_step_whose_condition_is_not_met_is_not_scheduled(house: House) -> None:
    await house.save(
        step("far", "-P1D", conditions={"minDaysOut": 3}),
        step("near", "-P1D", conditions={"maxDaysOut": 2}),
        step("german", "-P1D", conditions={"language": ["de", "fr"]}),
        step("english", "-P1D", conditions={"language": "en"}),
        step("phone", "-P1D", conditions={"hasPhone": True}),
        step("stays", "-P1D", conditions={"bookingSubtype": "stay", "status": "created"}),
        step("tables", "-P1D", conditions={"bookingSubtype": ["table"]}),
    )
    row = await house.book(startAt=(NOW + 2 * DAY).isoformat())
    reasons = {
        key: one["reason"]
        for key, one in (await house.messages(row["id"])).items()
        if one["status"] == "skipped"
    }
    assert reasons == {"far": "min_days_out", "english": "language", "tables": "subtype"}
    assert row["enrolled"] == 4


async def test_an_unknown_condition_is_refused_at_save(house: House) -> None:
    body = {"name": "x", "triggerEvent": "booking_created", "steps": [step("a", conditions={"moon": "full"})]}
    found = problem(await house.ask("POST", "/api/sequences", body), 422, "invalid_input")
    assert found["errors"][0]["pointer"] == "/steps/0/conditions/moon"


@pytest.mark.req("A-2.8")
async def test_other_dates_move_what_is_pending_and_leave_what_was_sent(house: House) -> None:
    await house.save(*BEFORE)
    row = await house.book()
    before = await house.messages(row["id"])
    await house.pass_until(START - 3 * DAY)
    assert (await house.statuses(row["id"]))["week"] == "sent"
    changed = await house.change(
        row["id"], startAt=(START + 2 * DAY).isoformat(), endAt=(END + 2 * DAY).isoformat()
    )
    assert changed["diff"] == {"kept": 0, "moved": 3, "added": 0, "withdrawn": 0}
    after = await house.messages(row["id"])
    assert {key: one["id"] for key, one in after.items()} == {key: one["id"] for key, one in before.items()}
    assert after["week"]["scheduledFor"] == before["week"]["scheduledFor"]
    # The wall clock there is what is kept: the stay now begins after the change of clocks.
    assert at(after["day"]["scheduledFor"]) == START + DAY
    assert at(after["start"]["scheduledFor"]) == START + 2 * DAY
    await house.pass_until(END + 5 * DAY)
    assert set((await house.statuses(row["id"])).values()) == {"sent"}
    assert len(house.arrived) == 4


@pytest.mark.req("A-2.8")
async def test_what_is_past_by_other_dates_is_skipped_and_conditions_are_checked_again(house: House) -> None:
    await house.save(
        step("day", "-P1D"),
        step("far", "-PT1H", conditions={"minDaysOut": 5}),
        step("near", "-PT1H", conditions={"maxDaysOut": 5}),
    )
    row = await house.book()
    assert await house.statuses(row["id"]) == {"day": "scheduled", "far": "scheduled", "near": "skipped"}
    soon = {"startAt": (NOW + 20 * HOUR).isoformat(), "endAt": END.isoformat()}
    await house.change(row["id"], **soon)
    messages = await house.messages(row["id"])
    assert {key: (one["status"], one["reason"]) for key, one in messages.items()} == {
        "day": ("skipped", "past"),
        "far": ("skipped", "min_days_out"),
        "near": ("scheduled", None),
    }
    # And back again.
    await house.change(row["id"], startAt=START.isoformat())
    assert await house.statuses(row["id"]) == {"day": "scheduled", "far": "scheduled", "near": "skipped"}
    assert await house.value("SELECT count(*) FROM timebell.jobs") == 2


@pytest.mark.req("A-2.8")
async def test_how_many_days_are_left_counts_from_when_the_dates_were_decided(house: House) -> None:
    """Twelve days were left as it was booked, and three as its dates were changed. Another name changes nothing."""
    await house.save(step("far", "-PT1H", conditions={"minDaysOut": 5}))
    row = await house.book()
    await house.pass_until(START - 4 * DAY)
    await house.change(row["id"], eventName="Another")
    assert await house.statuses(row["id"]) == {"far": "scheduled"}
    await house.change(row["id"], startAt=(START - DAY).isoformat())
    (far,) = (await house.messages(row["id"])).values()
    assert (far["status"], far["reason"]) == ("skipped", "min_days_out")


@pytest.mark.req("A-2.9", "A-6.5")
async def test_a_cancellation_cancels_and_then_tells_what_listens_to_it(house: House) -> None:
    await house.save(step("now", anchor="event_time"), *BEFORE)
    await house.save(step("sorry", anchor="event_time"), event="booking_cancelled", name="Cancelled")
    row = await house.book()
    await house.bench.run_due()
    cancelled = await house.move(row["id"], "cancel")
    assert cancelled["enrolled"] == 1
    assert cancelled["diff"]["withdrawn"] == 4
    messages = await house.messages(row["id"])
    assert {key: (one["status"], one["reason"]) for key, one in messages.items() if key != "sorry"} == {
        "now": ("sent", None),
        **{each["key"]: ("cancelled", "cancelled") for each in BEFORE},
    }
    await house.pass_until(END + 3 * DAY)
    assert (await house.statuses(row["id"]))["sorry"] == "sent"
    assert len(house.arrived) == 2


@pytest.mark.req("A-2.6")
async def test_the_same_event_twice_is_one_message(house: House) -> None:
    await house.template("plain", "Hello {{ contact.name }}", variables=[Variable(name="contact.name")])
    await house.save(step("now", anchor="event_time", templateId="plain"), event="trial_started")
    event = {"event": "trial_started", "subject": "trial:1", "facts": {"contacts": [str(house.ada)]}}
    assert done(await house.ask("POST", "/api/sequences/events", event))["enrolled"] == 1
    assert done(await house.ask("POST", "/api/sequences/events", event))["enrolled"] == 0
    again = {**event, "entry": 2}
    assert done(await house.ask("POST", "/api/sequences/events", again))["enrolled"] == 1
    assert await house.value("SELECT count(*) FROM timebell.jobs") == 2


async def test_a_subject_that_concerns_nobody_any_more_is_owed_nothing(house: House) -> None:
    await house.template("plain", "Hello {{ contact.name }}", variables=[Variable(name="contact.name")])
    await house.save(step("later", "P1D", anchor="event_time", templateId="plain"), event="trial_started")
    event = {"event": "trial_started", "subject": "trial:1", "facts": {"contacts": [str(house.ada)]}}
    assert done(await house.ask("POST", "/api/sequences/events", event))["enrolled"] == 1
    nobody = {**event, "event": "trial_left", "facts": {"contacts": []}}
    told = done(await house.ask("POST", "/api/sequences/events", nobody))
    assert told["diff"]["withdrawn"] == 1
    assert await house.value("SELECT count(*) FROM timebell.jobs") == 0


async def test_contacts_by_role_are_told_as_the_step_says(house: House) -> None:
    await house.save(step("primary", "-P1D"), step("all", "-P1D", contacts="all"))
    row = await house.book(contacts=[{"contactId": str(house.bob), "role": "companion"}])
    assert row["contacts"] == [
        {"contactId": str(house.ada), "role": "guest"},
        {"contactId": str(house.bob), "role": "companion"},
    ]
    assert set(await house.statuses(row["id"])) == {"primary", "all/Ada", "all/Bob"}
    changed = await house.change(row["id"], contactId=str(house.bob), contacts=[])
    assert changed["contactId"] == str(house.bob)
    messages = await house.messages(row["id"])
    assert {key: (one["status"], one["reason"]) for key, one in messages.items()} == {
        "primary/Ada": ("cancelled", "contact_removed"),
        "all/Ada": ("cancelled", "contact_removed"),
        "all/Bob": ("scheduled", None),
        "primary/Bob": ("scheduled", None),
    }


async def test_status_and_the_contact_are_asked_again_at_sending(house: House) -> None:
    await house.save(
        step("phone", "-P1D", conditions={"hasPhone": True}, channel="sms"),
        step("status", "-P1D", conditions={"status": ["created", "confirmed"]}),
    )
    row = await house.book()
    assert row["enrolled"] == 2
    async with house.bench.bell.transaction() as tx:
        await house.notify.recipients.change(tx, house.ada, phone=None, name="Ada Berg")
    await house.pass_until(START - HOUR)
    messages = await house.messages(row["id"])
    assert (messages["phone"]["status"], messages["phone"]["reason"]) == ("skipped", "guard_refused")
    assert messages["status"]["status"] == "sent"
    assert house.arrived[0].content.text == "Guten Tag Ada Berg, A stay by the lake"


async def test_bookings_check_in_and_complete_by_themselves_where_the_tenant_says_so(house: House) -> None:
    await house.save(event="booking_checked_in", name="During")
    await house.save(event="booking_completed", name="After")
    row = await house.book(status="confirmed")
    patch: dict[str, Any] = {"checkInAtStart": True, "completeAtEnd": True}
    settings = done(await house.ask("PATCH", "/api/booking-settings", patch, key="admin"))
    assert settings == patch
    await house.bench.run_due()
    await house.pass_until(START)
    assert (await house.data(f"/api/bookings/{row['id']}"))["status"] == "checked_in"
    await house.pass_until(END)
    assert (await house.data(f"/api/bookings/{row['id']}"))["status"] == "completed"
    assert len(house.arrived) == 2


async def test_what_is_wrong_with_a_booking_is_named(house: House) -> None:
    said = {
        "contactId": str(house.ada),
        "subtype": "stay",
        "eventName": "x",
        "startAt": START.isoformat(),
        "endAt": END.isoformat(),
        "timezone": "Europe/Berlin",
    }
    for changed, pointer in (
        ({"contactId": str(uuid4())}, "/contactId"),
        ({"contacts": [str(uuid4())]}, "/contacts/0"),
        ({"timezone": "Europe/Berln"}, "/timezone"),
        ({"endAt": (START - HOUR).isoformat()}, "/endAt"),
        ({"startAt": "2027-03-27T14:00:00"}, "/startAt"),
        ({"colour": "red"}, "/colour"),
        ({"eventName": " "}, "/eventName"),
    ):
        refused = await house.ask("POST", "/api/bookings", {**said, **changed})
        assert refused.status_code == 422, refused.text
        assert [each["pointer"] for each in refused.json()["errors"]] == [pointer], refused.text
    assert await house.value("SELECT count(*) FROM sequences.subjects") == 0
    problem(await house.ask("GET", f"/api/bookings/{uuid4()}"), 404, "not_found")
