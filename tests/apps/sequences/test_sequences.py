"""Sequences as data: saved, changed in versions, applied, deleted; and the templates that they name."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest

from tests.apps.sequences.support import DAY, NOW, START, House, Json, done, draft, step
from tests.web.support import problem
from timebell.notify import TemplateDraft, Text, Variable

WEEK = step("week", "-P7D")
ONE_DAY = step("day", "-P1D")


async def patch(house: House, id: str, body: Json, **query: Any) -> Json:
    return done(await house.ask("PATCH", f"/api/sequences/{id}", body, params=query))


@pytest.mark.req("A-1.1", "A-1.2", "D-7.2")
async def test_a_sequence_is_kept_as_it_was_said(house: House) -> None:
    said = {
        "name": "Before the stay",
        "triggerEvent": "booking_confirmed",
        "bookingSubtype": "stay",
        "active": True,
        "conditions": {"minDaysOut": 1, "language": ["de", "en"]},
        "steps": [
            {
                "key": "week",
                "anchor": "booking_start",
                "offset": "-P7D",
                "at": "09:00",
                "channel": "sms",
                "templateId": "note",
                "contacts": "all",
                "conditions": {"hasPhone": True},
            }
        ],
    }
    made = await house.ask("POST", "/api/sequences", said)
    row = done(made, 201)
    assert made.headers["location"] == f"/api/sequences/{row['id']}"
    assert {name: row[name] for name in said} == said
    assert row["version"] == 1
    assert await house.data(f"/api/sequences/{row['id']}") == row
    other = await house.save()
    assert [one["id"] for one in (await house.data("/api/sequences"))["data"]] == [row["id"], other["id"]]
    found = await house.data("/api/sequences", params={"triggerEvent": "booking_confirmed"})
    assert [one["id"] for one in found["data"]] == [row["id"]]
    (stored,) = await house.rows("SELECT * FROM sequences.sequence_steps WHERE key = 'week'")
    assert (stored["ordinal"], stored["offset"], stored["at"], stored["template_key"]) == (
        1,
        "-P7D",
        "09:00",
        "note",
    )


@pytest.mark.parametrize(
    ("changed", "pointer"),
    [
        ({"offset": "P1M"}, "/steps/0/offset"),
        ({"at": "9 o'clock"}, "/steps/0/at"),
        ({"channel": "fax"}, "/steps/0/channel"),
        ({"anchor": "moon"}, "/steps/0/anchor"),
        ({"contacts": "some"}, "/steps/0/contacts"),
        ({"key": ""}, "/steps/0/key"),
        ({"conditions": {"minDaysOut": -1}}, "/steps/0/conditions/minDaysOut"),
        ({"conditions": {"hasPhone": "yes"}}, "/steps/0/conditions/hasPhone"),
        ({"offset": "PT1H", "at": "09:00"}, "/steps/0"),
        ({"conditions": {"minDaysOut": 5, "maxDaysOut": 2}}, "/steps/0/conditions"),
    ],
)
async def test_what_is_wrong_with_a_step_is_named(house: House, changed: Json, pointer: str) -> None:
    body = {"name": "x", "triggerEvent": "booking_created", "steps": [{**ONE_DAY, **changed}]}
    refused = await house.ask("POST", "/api/sequences", body)
    assert refused.status_code == 422, refused.text
    assert [each["pointer"] for each in refused.json()["errors"]] == [pointer], refused.text


async def test_steps_have_keys_of_their_own(house: House) -> None:
    body = {"name": "x", "triggerEvent": "booking_created", "steps": [ONE_DAY, ONE_DAY]}
    found = problem(await house.ask("POST", "/api/sequences", body), 422, "invalid_input")
    assert "'day' is there twice" in found["detail"]


@pytest.mark.req("A-4.3", "A-6.3")
async def test_a_template_that_does_not_fit_is_refused_when_the_sequence_is_saved(house: House) -> None:
    await house.template("asks", "{{ booking.colour }}", variables=[Variable(name="booking.colour")])
    await house.template("facts", "{{ facts.plan }}", variables=[Variable(name="facts.plan")])
    await house.template(
        "may",
        "{{ booking.colour }}",
        variables=[Variable(name="booking.colour", policy="default", default="red")],
    )
    async with house.bench.bell.transaction() as tx:
        only_mail = TemplateDraft(
            key="mail", texts=[Text(channel="email", language="en", subject="Hi", body="Hello")]
        )
        await house.notify.templates.save(tx, only_mail)
    steps = [
        step("a", templateId="nowhere"),
        step("b", templateId="asks"),
        step("c", templateId="mail", channel="sms"),
        step("d", templateId="facts"),
        step("e", templateId="may"),
        step("f", templateId="mail"),
    ]
    body = {"name": "x", "triggerEvent": "booking_created", "steps": steps}
    found = problem(await house.ask("POST", "/api/sequences", body), 422, "template_unfit")
    assert [(each["pointer"], each["message"].partition(";")[0]) for each in found["errors"]] == [
        ("/steps/0/templateId", "step 'a': there is no template 'nowhere'"),
        (
            "/steps/1/templateId",
            "step 'b': 'asks' needs booking.colour, which a booking and its contact do not have",
        ),
        ("/steps/2/templateId", "step 'c': 'mail' has no text for sms"),
        (
            "/steps/3/templateId",
            "step 'd': 'facts' needs facts.plan, which a booking and its contact do not have",
        ),
    ]
    assert (await house.data("/api/sequences"))["data"] == []
    await house.save(step("d", templateId="facts", anchor="event_time"), event="trial_started")


@pytest.mark.req("A-4.3")
async def test_a_text_that_asks_for_more_by_then_is_not_sent(house: House) -> None:
    await house.save(step("day", "-P1D"), step("start"))
    row = await house.book()
    async with house.bench.bell.transaction() as tx:
        asking = draft(
            "note", "{{ booking.colour }}", variables=[Variable(name="booking.colour", policy="block")]
        )
        await house.notify.templates.save(tx, asking)
        await house.notify.repin(tx, "note")
    await house.pass_until(START + DAY)
    messages = await house.messages(row["id"])
    assert {key: (one["status"], one["reason"]) for key, one in messages.items()} == {
        "day": ("skipped", "template_incomplete"),
        "start": ("skipped", "template_incomplete"),
    }
    assert house.arrived == []


async def test_who_is_enrolled_keeps_the_version_that_they_began_with(house: House) -> None:
    sequence = await house.save(WEEK, ONE_DAY)
    old = await house.book()
    changed = await patch(house, sequence["id"], {"steps": [ONE_DAY, step("hour", "-PT1H")]})
    assert (changed["version"], changed["diff"], changed["application"]) == (2, None, None)
    new = await house.book()
    assert set(await house.messages(old["id"])) == {"week", "day"}
    assert set(await house.messages(new["id"])) == {"day", "hour"}
    # The same again is the same version, and what is about nobody's messages makes none.
    assert (await patch(house, sequence["id"], {"name": "Other"}))["version"] == 2
    assert (await patch(house, sequence["id"], {"steps": [ONE_DAY, step("hour", "-PT1H")]}))["version"] == 2


async def test_a_version_is_applied_with_a_diff_first(house: House) -> None:
    sequence = await house.save(WEEK, ONE_DAY)
    row = await house.book()
    before = await house.messages(row["id"])
    body = {"steps": [{**ONE_DAY, "at": "08:00"}, step("hour", "-PT1H")]}
    dry = await patch(house, sequence["id"], body, dry_run="true")
    assert dry["diff"] == {"kept": 0, "moved": 1, "added": 1, "withdrawn": 1}
    assert (await house.data(f"/api/sequences/{sequence['id']}"))["version"] == 1
    assert await house.messages(row["id"]) == before
    applied = await patch(house, sequence["id"], body, apply="true")
    assert applied["diff"] == dry["diff"]
    assert applied["application"]["doneCount"] == applied["application"]["enrolledCount"] == 1
    assert applied["application"]["finishedAt"] is not None
    after = await house.messages(row["id"])
    assert after["day"]["id"] == before["day"]["id"]
    assert datetime.fromisoformat(after["day"]["scheduledFor"]) == datetime.fromisoformat(
        "2027-03-26T08:00+01:00"
    )
    assert {key: (one["status"], one["reason"]) for key, one in after.items()} == {
        "week": ("cancelled", "step_removed"),
        "day": ("scheduled", None),
        "hour": ("scheduled", None),
    }
    listed = (await house.data(f"/api/sequences/{sequence['id']}/applications"))["data"]
    assert listed == [applied["application"]]
    assert await house.data(f"/api/sequences/{sequence['id']}/applications/{listed[0]['id']}") == listed[0]


async def test_a_version_is_applied_to_many_in_the_background(house: House) -> None:
    sequence = await house.save(ONE_DAY)
    booked = [await house.book() for _ in range(120)]
    applied = await patch(house, sequence["id"], {"steps": [step("hour", "-PT1H")]}, apply="true")
    application = applied["application"]
    assert (application["enrolledCount"], application["doneCount"], application["finishedAt"]) == (
        120,
        50,
        None,
    )
    assert applied["diff"] == {"kept": 0, "moved": 0, "added": 50, "withdrawn": 50}
    await house.bench.run_due()
    path = f"/api/sequences/{sequence['id']}/applications/{application['id']}"
    application = await house.data(path)
    assert application["doneCount"] == 120
    assert application["finishedAt"] is not None
    assert application["diff"] == {"kept": 0, "moved": 0, "added": 120, "withdrawn": 120}
    for row in booked:
        assert await house.statuses(row["id"]) == {"day": "cancelled", "hour": "scheduled"}


async def test_a_sequence_that_is_deleted_sends_nothing_further(house: House) -> None:
    sequence = await house.save(step("now", anchor="event_time"), ONE_DAY)
    row = await house.book()
    await house.bench.run_due()
    assert (await house.ask("DELETE", f"/api/sequences/{sequence['id']}")).status_code == 204
    messages = await house.messages(row["id"])
    assert {key: (one["status"], one["reason"]) for key, one in messages.items()} == {
        "now": ("sent", None),
        "day": ("cancelled", "sequence_deleted"),
    }
    assert (await house.book())["enrolled"] == 0
    assert (await house.data("/api/sequences"))["data"] == []
    problem(await house.ask("GET", f"/api/sequences/{sequence['id']}"), 404, "not_found")
    problem(await house.ask("DELETE", f"/api/sequences/{sequence['id']}"), 404, "not_found")


async def test_one_that_is_not_active_goes_on_for_those_who_are_in_it(house: House) -> None:
    sequence = await house.save(ONE_DAY)
    row = await house.book()
    assert (await patch(house, sequence["id"], {"active": False}))["active"] is False
    assert (await house.book())["enrolled"] == 0
    assert await house.statuses(row["id"]) == {"day": "scheduled"}


async def test_the_funnel_counts_each_step(house: House) -> None:
    sequence = await house.save(step("now", anchor="event_time"), ONE_DAY, step("old", "-P300D"))
    first, _ = await house.book(), await house.book()
    await house.bench.run_due()
    await house.move(first["id"], "cancel")
    funnel = await house.data(f"/api/sequences/{sequence['id']}/funnel")
    none = {"scheduled": 0, "sent": 0, "skipped": 0, "failed": 0, "cancelled": 0}
    assert funnel["steps"] == [
        {"stepKey": "now", "enrolled": 2, **none, "sent": 2},
        {"stepKey": "day", "enrolled": 2, **none, "scheduled": 1, "cancelled": 1},
        {"stepKey": "old", "enrolled": 2, **none, "skipped": 2},
    ]


async def test_any_subject_is_enrolled_by_the_same_rules(house: House) -> None:
    await house.template(
        "trial",
        "{{ contact.name }}: {{ facts.plan }}",
        variables=[Variable(name="contact.name"), Variable(name="facts.plan")],
    )
    await house.save(
        step("welcome", anchor="event_time", templateId="trial"),
        step("ends", "-P3D", anchor="booking_end", at="10:00", templateId="trial"),
        event="trial_started",
        conditions={"status": "trialing"},
    )
    await house.save(step("bye", anchor="event_time", templateId="trial"), event="trial_cancelled")

    async def tell(event: str, facts: Json | None = None, **given: Any) -> Json:
        body = {"event": event, "subject": "trial:42", "facts": facts or {}, **given}
        return done(await house.ask("POST", "/api/sequences/events", body))

    facts = {
        "start": NOW.isoformat(),
        "end": (NOW + 14 * DAY).isoformat(),
        "timezone": "America/New_York",
        "status": "trialing",
        "contacts": [str(house.bob)],
        "plan": "team",
    }
    assert (await tell("trial_started", facts))["enrolled"] == 2
    await house.bench.run_due()
    assert house.arrived[0].content.text == "Bob: team"
    messages = (await house.data("/api/messages", params={"status": "scheduled"}))["data"]
    assert [(one["stepKey"], one["subject"], one["bookingId"]) for one in messages] == [
        ("ends", "trial:42", None)
    ]
    assert messages[0]["scheduledFor"] == "2027-03-26T14:00:00Z"
    # What is said later moves what is pending, and is what is told.
    moved = await tell("trial_extended", {"end": (NOW + 21 * DAY).isoformat(), "plan": "firm"})
    assert moved == {
        "subject": "trial:42",
        "enrolled": 0,
        "diff": {"kept": 0, "moved": 1, "added": 0, "withdrawn": 0},
    }
    await house.pass_until(NOW + 19 * DAY)
    assert [parcel.content.text for parcel in house.arrived] == ["Bob: team", "Bob: firm"]
    cancelled = await tell("trial_cancelled", cancels=True)
    assert cancelled["enrolled"] == 1
    await house.bench.run_due()
    assert len(house.arrived) == 3


@pytest.mark.parametrize(
    ("changed", "pointer"),
    [
        ({"event": "Trial started"}, "/event"),
        ({"subject": ""}, "/subject"),
        ({"facts": {"start": "tomorrow"}}, "/facts/start"),
        ({"facts": {"timezone": "Mars"}}, "/facts/timezone"),
        ({"facts": {"contacts": [str(uuid4())]}}, "/facts/contacts/0"),
        ({"facts": {"note": "x" * 20_000}}, "/facts"),
        ({"entry": 0}, "/entry"),
    ],
)
async def test_what_is_wrong_with_an_event_is_named(house: House, changed: Json, pointer: str) -> None:
    body = {"event": "trial_started", "subject": "trial:1", **changed}
    refused = await house.ask("POST", "/api/sequences/events", body)
    assert refused.status_code == 422, refused.text
    assert [each["pointer"] for each in refused.json()["errors"]] == [pointer], refused.text


async def test_no_stranger_s_subject_reaches_what_is_owed_about_others(house: House) -> None:
    """Whatever it is called: it has a place of its own in the agendas of the tenant."""
    await house.save(ONE_DAY)
    row = await house.book()
    body = {"event": "x", "subject": f"booking:{row['id']}", "cancels": True}
    done(await house.ask("POST", "/api/sequences/events", body))
    assert await house.statuses(row["id"]) == {"day": "scheduled"}
