"""`timebell.client` for sequences, bookings, messages and events, as they are served."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, get_type_hints

import icalendar
import pytest
from pydantic.alias_generators import to_camel

from tests.apps.sequences.support import DAY, END, HOUR, NOW, START, House
from tests.apps.sequences.test_previewing import save_text
from tests.web.test_client import client_of, required_of, schema_of
from timebell.client import Refused
from timebell.client import sequence_records as known
from timebell.client.records import Record
from timebell.client.sequence_records import NewBooking, SequenceStepTerms

WEEK: SequenceStepTerms = {
    "key": "week",
    "template_id": "note",
    "offset": "-P7D",
    "at": "09:00",
    "conditions": {"min_days_out": 3},
}
DAY_BEFORE: SequenceStepTerms = {"key": "day", "template_id": "note", "offset": "-P1D", "contacts": "all"}


async def every(lines: AsyncIterator[Any]) -> list[Any]:
    return [line async for line in lines]


def stay(house: House) -> NewBooking:
    return {
        "contact_id": house.ada,
        "contacts": [{"contact_id": house.bob, "role": "companion"}],
        "subtype": "stay",
        "event_name": "A stay by the lake",
        "start_at": START,
        "end_at": END,
        "timezone": "Europe/Berlin",
    }


async def test_a_booking_from_the_sequence_to_the_last_message(house: House) -> None:
    async with client_of(house.site, is_forgetful=True) as client:
        made = await client.sequences.create(
            name="Before the stay", trigger_event="booking_created", steps=[WEEK, DAY_BEFORE]
        )
        assert (made.steps[0].template_id, made.steps[0].conditions) == ("note", {"minDaysOut": 3})
        shown = await client.sequences.preview(
            made.id,
            booking={
                "contact": {"name": "Zoe", "email": "zoe@example.org", "whatsapp_opt_in": True},
                "contacts": [house.bob],
                "subtype": "stay",
                "event_name": "A stay",
                "start_at": START,
                "end_at": END,
                "timezone": "Europe/Berlin",
            },
            event_at=NOW,
            step_key="day",
        )
        assert [(one.contact_name, one.scheduled_for) for one in shown.messages] == [
            ("Zoe", START - DAY),
            ("Bob", START - DAY),
        ]
        assert shown.messages[0].text is not None
        assert shown.messages[0].text.body == "Hello Zoe, A stay"
        tried = await client.bookings.create(dry_run=True, **stay(house))
        assert tried.enrolled == 3
        booked = await client.bookings.create(**stay(house))
        assert (booked.enrolled, booked.contacts[1].role) == (3, "companion")
        assert [one.id async for one in client.bookings.list(contact_id=house.bob)] == [booked.id]
        again = await client.sequences.preview(made.id, booking_id=booked.id)
        assert (again.enters, again.reason) == (False, "entered")
        changed = await client.bookings.change(
            booked.id, if_revision=1, start_at=START + HOUR, location="Lake 4"
        )
        assert (changed.diff.kept, changed.diff.moved, changed.location) == (1, 2, "Lake 4")
        with pytest.raises(Refused, match="412"):
            await client.bookings.change(booked.id, if_revision=1, location=None)
        days = [one.scheduled_for for one in await every(client.bookings.calendar(booked.id))]
        assert days == sorted(days)
        calendar = icalendar.Calendar.from_ical(await client.bookings.calendar_file(booked.id))
        assert len(calendar.walk("VEVENT")) == 3
        for move, status in (
            (client.bookings.confirm, "confirmed"),
            (client.bookings.check_in, "checked_in"),
            (client.bookings.complete, "completed"),
        ):
            assert (await move(booked.id)).status == status
        with pytest.raises(Refused, match="409 booking_status"):
            await client.bookings.cancel(booked.id)
        await house.pass_until(START)
        assert {one.status for one in await every(client.bookings.messages(booked.id))} == {"sent"}
        assert [(one.step_key, one.sent) for one in await client.sequences.funnel(made.id)] == [
            ("week", 1),
            ("day", 2),
        ]
        assert (await client.bookings.get(booked.id)).status == "completed"


async def test_a_version_for_all_and_why_messages_are_not_sent(house: House) -> None:
    async with client_of(house.site) as client:
        made = await client.sequences.create(
            name="Before", trigger_event="booking_created", steps=[WEEK, DAY_BEFORE]
        )
        booked = await client.bookings.create(**stay(house))
        planned = await client.sequences.change(made.id, dry_run=True, apply=True, steps=[WEEK])
        assert planned.diff is not None
        assert (planned.version, planned.diff.withdrawn) == (2, 2)
        assert (await client.sequences.get(made.id)).version == 1
        applied = await client.sequences.change(made.id, apply=True, steps=[WEEK])
        assert applied.application is not None
        [application] = await every(client.sequences.applications(made.id))
        assert application == await client.sequences.application(made.id, applied.application.id)
        assert (application.done_count, application.diff.withdrawn) == (1, 2)
        [left] = await every(client.messages.why_not(house.bob))
        assert left.why == (
            "It is not sent any more: the version of its sequence that was applied does not have it."
        )
        found = await client.messages.explain(left.id)
        assert (found.summary, found.version, found.anchor) == (left.why, 2, None)
        assert (await client.messages.get(left.id)).status == "cancelled"
        [open_one] = await every(client.messages.list(status="scheduled", contact_id=house.ada))
        assert (open_one.step_key, open_one.booking_id) == ("week", booked.id)
        week = await client.messages.explain(open_one.id)
        assert [(one.name, one.found, one.met) for one in week.conditions] == [("minDaysOut", 12, True)]
        assert week.anchor_at == START
        assert len(await every(client.messages.list(sequence_id=made.id))) == 3
        await client.sequences.delete(made.id)
        assert await every(client.sequences.list(trigger_event="booking_created")) == []
        with pytest.raises(Refused, match="404 not_found"):
            await client.sequences.get(made.id)


async def test_events_of_any_subject_and_the_settings(house: House) -> None:
    await save_text(house, "trial", email="{{ contact.name }}: {{ facts.plan }}")
    async with client_of(house.site) as client:
        trial: SequenceStepTerms = {
            "key": "ends",
            "template_id": "trial",
            "anchor": "booking_end",
            "offset": "-P1D",
        }
        made = await client.sequences.create(name="Trial", trigger_event="trial_started", steps=[trial])
        facts: Mapping[str, Any] = {
            "end": NOW + 3 * DAY,
            "contacts": [{"contact_id": house.bob, "role": "owner"}],
            "plan": "team",
            "seats_left": 3,
        }
        shown = await client.sequences.preview(made.id, subject=facts)
        assert shown.messages[0].scheduled_for == NOW + 2 * DAY
        told = await client.sequences.tell("trial_started", "trial:42", facts=facts)
        assert (told.subject, told.enrolled) == ("trial:42", 1)
        assert (await client.sequences.tell("trial_started", "trial:42")).enrolled == 0
        ended = await client.sequences.tell("trial_ended", "trial:42", cancels=True)
        assert ended.diff.withdrawn == 1
        # What is the subject's own keeps its name.
        assert await house.value("SELECT facts->>'seats_left' FROM sequences.subjects") == "3"
    async with client_of(house.site, "admin") as client:
        assert (await client.bookings.change_settings(check_in_at_start=True)).check_in_at_start
        assert not (await client.bookings.settings()).complete_at_end


RECORDS: list[tuple[str, str, type[Record]]] = [
    ("post", "/api/sequences", known.MessageSequence),
    ("patch", "/api/sequences/{id}", known.ChangedSequence),
    ("get", "/api/sequences/{id}/applications/{application_id}", known.SequenceApplication),
    ("post", "/api/sequences/{id}/preview", known.SequencePreview),
    ("post", "/api/sequences/events", known.Happened),
    ("post", "/api/bookings", known.ChangedBooking),
    ("get", "/api/bookings/{id}", known.Booking),
    ("get", "/api/booking-settings", known.BookingSettings),
    ("get", "/api/messages/{id}", known.Message),
    ("get", "/api/messages/{id}/explain", known.MessageExplanation),
]
ROWS: list[tuple[str, type[Record]]] = [
    ("StepRow", known.SequenceStep),
    ("DiffRow", known.MessageDiff),
    ("FunnelRow", known.FunnelStep),
    ("ContactRow", known.BookingContact),
    ("ConditionRow", known.MessageCondition),
    ("LineRow", known.MessageLine),
    ("WhyNotRow", known.MessageNotSent),
    ("CalendarRow", known.CalendarMessage),
    ("PreviewMessageRow", known.PreviewMessage),
    ("PreviewTextRow", known.PreviewText),
]
TERMS: list[tuple[str, Any]] = [
    ("SequenceInput", known.NewSequence),
    ("SequencePatch", known.SequenceTerms),
    ("StepInput", known.SequenceStepTerms),
    ("ConditionsInput", known.ConditionTerms),
    ("BookingInput", known.NewBooking),
    ("BookingPatch", known.BookingTerms),
    ("ContactInput", known.ContactTerms),
    ("PreviewBookingInput", known.PreviewBookingTerms),
    ("PreviewContactInput", known.PreviewContactTerms),
]


async def test_the_records_are_what_is_served(house: House) -> None:
    document = (await house.site.get("/openapi.json", key=None)).json()
    schemas = document["components"]["schemas"]
    for method, path, record in RECORDS:
        responses = document["paths"][path][method]["responses"]
        answer = schema_of(document, responses.get("200") or responses["201"])
        assert served_names(record) == set(answer["properties"]), (path, record.__name__)
    for name, record in ROWS:
        assert served_names(record) == set(schemas[name]["properties"]), name
    for name, terms in TERMS:
        # Other parts of the document may have something of the same name.
        [body] = [
            schemas[each] for each in schemas if each in (name, f"timebell__apps__sequences__bodies__{name}")
        ]
        assert {to_camel(each) for each in get_type_hints(terms)} == set(body["properties"]), name
        assert {to_camel(each) for each in required_of(terms)} == set(body.get("required", [])), name


def served_names(record: type[Record]) -> set[str]:
    return {field.alias or name for name, field in record.model_fields.items()}
