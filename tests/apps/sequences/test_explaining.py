"""Why a message is sent then, or is not, in words; and what did not go to a contact."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from tests.apps.sequences.support import DAY, END, HOUR, NOW, START, House, Json, done, step
from tests.web.support import problem
from timebell.apps.sequences.models import (
    Conditions,
    Message,
    MessageStatus,
    Offset,
    Person,
    SequenceStep,
    Subject,
)
from timebell.apps.sequences.sentences import instant, measured, say_condition, say_timing, summary


async def explained(house: House, message: Json) -> Json:
    return await house.data(f"/api/messages/{message['id']}/explain")


def texts(found: Json) -> list[str]:
    return [line["text"] for line in found["story"]]


async def test_why_it_is_sent_then(house: House) -> None:
    await house.save(
        step("week", "-P7D", at="09:00", conditions={"minDaysOut": 3, "language": ["de", "fr"]}),
        name="Before the stay",
        conditions={"bookingSubtype": "stay"},
    )
    row = await house.book()
    week = (await house.messages(row["id"]))["week"]
    found = await explained(house, week)
    expected = {
        "id": week["id"],
        "status": "scheduled",
        "reason": None,
        "summary": "It is to be sent at 2027-03-20 09:00 Europe/Berlin.",
        "scheduledFor": "2027-03-20T08:00:00Z",
        "localTime": "2027-03-20T09:00:00+01:00",
        "timezone": "Europe/Berlin",
        "version": 1,
        "stepKey": "week",
        "anchor": "booking_start",
        "anchorAt": "2027-03-27T14:00:00Z",
        "offset": "-P7D",
        "at": "09:00",
        "eventAt": "2027-03-15T08:00:00Z",
        "measuredAt": "2027-03-15T08:00:00Z",
    }
    assert {name: found[name] for name in expected} == expected
    assert found["conditions"] == [
        {"of": "sequence", "name": "bookingSubtype", "wanted": "stay", "found": "stay", "met": True},
        {"of": "step", "name": "minDaysOut", "wanted": 3, "found": 12, "met": True},
        {"of": "step", "name": "language", "wanted": ["de", "fr"], "found": "de", "met": True},
    ]
    assert texts(found) == [
        f"The sequence 'Before the stay' began for booking:{row['id']} at 2027-03-15 09:00 Europe/Berlin; "
        "version 1 applies to it.",
        "It is counted from the start, 2027-03-27 15:00 Europe/Berlin: 7 days before, at 09:00 there.",
        "The condition bookingSubtype (stay) of the sequence is met: the subtype is stay.",
        "The condition minDaysOut (3) of the step is met: the start was 12 days away when that was measured.",
        "The condition language (de or fr) of the step is met: the contact's language is de.",
        "It is to be sent at 2027-03-20 09:00 Europe/Berlin.",
        "It is planned and due at 2027-03-20 08:00 UTC; nothing was considered yet.",
    ]
    await house.pass_until(START)
    found = await explained(house, week)
    assert (found["status"], found["summary"]) == (
        "sent",
        "It was sent by email at 2027-03-20 09:00 Europe/Berlin.",
    )
    # What notify considered stands there too, each with its instant.
    assert "It is told by email." in texts(found)
    considered = next(line for line in found["story"] if line["text"] == "It is told by email.")
    assert considered["at"] == "2027-03-20T08:00:00Z"


async def test_why_it_is_not(house: House) -> None:
    await house.save(
        step("long-ago", "-P30D"),
        step("far", "-P1D", conditions={"minDaysOut": 30}),
        step("reached", "-P1D", conditions={"hasPhone": False}),
    )
    row = await house.book()
    messages = await house.messages(row["id"])
    shown = {key: (await explained(house, one))["summary"] for key, one in messages.items()}
    assert shown == {
        "long-ago": "It is not sent: its time had passed when it was planned.",
        "far": "It is not sent: the dates were nearer than the condition minDaysOut asks for.",
        "reached": "It is not sent: the condition hasPhone was not met.",
    }
    far = await explained(house, messages["far"])
    assert far["conditions"] == [
        {"of": "step", "name": "minDaysOut", "wanted": 30, "found": 12, "met": False}
    ]
    # Days are measured when the dates change, and not by the event.
    await house.pass_until(NOW + 2 * DAY)
    await house.change(row["id"], startAt=(START + 30 * DAY).isoformat(), endAt=(END + 30 * DAY).isoformat())
    far = await explained(house, messages["far"])
    assert (far["status"], far["conditions"][0]["found"]) == ("scheduled", 40)
    assert far["measuredAt"] == "2027-03-17T08:00:00Z"


async def test_what_was_sent_before_the_dates_moved_says_so(house: House) -> None:
    await house.save(step("week", "-P7D"))
    row = await house.book()
    week = (await house.messages(row["id"]))["week"]
    await house.pass_until(START - 3 * DAY)
    await house.change(row["id"], startAt=(START + DAY).isoformat(), endAt=(END + DAY).isoformat())
    found = await explained(house, week)
    assert (found["status"], found["scheduledFor"]) == ("sent", "2027-03-20T14:00:00Z")
    assert (
        "That was decided later; this message had been planned for 2027-03-20 15:00 Europe/Berlin."
        in texts(found)
    )


async def test_why_it_is_not_sent_any_more(house: House) -> None:
    sequence = await house.save(step("day", "-P1D", contacts="all"), step("gone", "-P1D"), name="First")
    other = await house.save(step("day-2", "-P2D"), name="Second")
    row = await house.book(contacts=[str(house.bob)])
    done(
        await house.ask(
            "PATCH",
            f"/api/sequences/{sequence['id']}",
            {"steps": [step("day", "-P1D", contacts="all")]},
            params={"apply": "true"},
        )
    )
    messages = await house.messages(row["id"])
    gone = await explained(house, messages["gone"])
    assert gone["summary"] == (
        "It is not sent any more: the version of its sequence that was applied does not have it."
    )
    assert (gone["anchor"], gone["offset"], gone["anchorAt"], gone["version"]) == (None, None, None, 2)
    assert "That version has no step 'gone'." in texts(gone)
    await house.change(row["id"], contacts=[])
    left = await explained(house, messages["day/Bob"])
    assert left["summary"] == "It is not sent any more: the contact is no longer one of the subject."
    assert (await house.ask("DELETE", f"/api/sequences/{other['id']}")).status_code == 204
    deleted = await explained(house, messages["day-2"])
    assert deleted["summary"] == "It is not sent any more: its sequence was deleted."
    assert texts(deleted)[0].startswith("Its sequence, which was deleted since, began for booking:")
    await house.move(row["id"], "cancel")
    cancelled = await explained(house, messages["day/Ada"])
    assert cancelled["summary"] == "It is not sent any more: what it is about was cancelled."


async def test_what_notify_decided_is_in_its_words(house: House) -> None:
    await house.save(
        step("day", "-P1D"),
        step("phone", "-P1D", channel="sms", conditions={"hasPhone": True}),
    )
    row = await house.book()
    async with house.bench.bell.transaction() as tx:
        await house.notify.recipients.change(tx, house.ada, phone=None, email=None)
    await house.pass_until(START)
    messages = await house.messages(row["id"])
    unreached = await explained(house, messages["day"])
    assert (unreached["status"], unreached["reason"]) == ("skipped", "no_channel")
    assert unreached["summary"] == "It was not told: none of its channels can reach the recipient."
    refused = await explained(house, messages["phone"])
    assert (refused["status"], refused["reason"]) == ("skipped", "guard_refused")
    assert refused["summary"].startswith("The guard 'sequences.is_wanted' said that it is no longer wanted")
    assert refused["conditions"] == [
        {"of": "step", "name": "hasPhone", "wanted": True, "found": False, "met": False}
    ]


async def test_what_is_held_says_until_when(house: House) -> None:
    await house.save(step("now", anchor="event_time"))
    async with house.bench.bell.transaction() as tx:
        await house.notify.recipients.change(
            tx, house.ada, quiet_hours={"start": "08:00", "end": "10:00", "time_bound": "hold"}
        )
    row = await house.book()
    await house.bench.run_due()
    found = await explained(house, (await house.messages(row["id"]))["now"])
    assert found["status"] == "scheduled"
    assert found["summary"].startswith("It is held until 2027-03-15 10:00 Europe/Berlin")
    # It was considered, and yet it is the booking that decided.
    await house.move(row["id"], "cancel")
    found = await explained(house, (await house.messages(row["id"]))["now"])
    assert found["summary"] == "It is not sent any more: what it is about was cancelled."
    assert any("Quiet hours last until 2027-03-15 10:00" in text for text in texts(found))


async def test_an_erased_contact_and_what_it_would_have_been_told(house: House) -> None:
    await house.save(step("day", "-P1D", conditions={"language": "de"}))
    row = await house.book()
    day = (await house.messages(row["id"]))["day"]
    async with house.bench.bell.transaction() as tx:
        await house.notify.recipients.erase(tx, house.ada)
    found = await explained(house, day)
    assert found["status"] == "cancelled"
    assert [(one["found"], one["met"]) for one in found["conditions"]] == [(None, None)]


async def test_a_message_that_is_not_there(house: House) -> None:
    problem(await house.ask("GET", f"/api/messages/{uuid4()}/explain"), 404, "not_found")
    problem(await house.ask("GET", f"/api/contacts/{uuid4()}/why-not"), 404, "not_found")


async def test_what_did_not_go_to_a_contact(house: House) -> None:
    await house.save(
        step("long-ago", "-P30D", contacts="all"),
        step("now", anchor="event_time", contacts="all"),
        step("english", "-P1D", contacts="all", conditions={"language": "en"}),
        step("day", "-P1D", contacts="all"),
        step("after", "P1D", anchor="booking_end", contacts="all"),
    )
    row = await house.book(contacts=[str(house.bob)])
    await house.bench.run_due()
    async with house.bench.bell.transaction() as tx:
        await house.notify.recipients.change(tx, house.ada, phone=None, email=None)
    await house.pass_until(START)
    await house.move(row["id"], "cancel")
    path = f"/api/contacts/{house.ada}/why-not"
    found = (await house.data(path))["data"]
    assert {one["stepKey"]: (one["status"], one["reason"], one["why"]) for one in found} == {
        "long-ago": ("skipped", "past", "It is not sent: its time had passed when it was planned."),
        "english": (
            "skipped",
            "language",
            "It is not sent: the contact's language is none of those that the condition names.",
        ),
        "day": ("skipped", "no_channel", "It was not told: none of its channels can reach the recipient."),
        "after": ("cancelled", "cancelled", "It is not sent any more: what it is about was cancelled."),
    }
    assert {one["contactId"] for one in found} == {str(house.ada)}
    whys = (await house.data(f"/api/contacts/{house.bob}/why-not"))["data"]
    assert {one["stepKey"] for one in whys} == {"long-ago", "after"}
    # By pages, each once and in the same order.
    read: list[Json] = []
    cursor: str | None = None
    for _ in range(10):
        page = await house.data(path, params={"limit": 1, **({"cursor": cursor} if cursor else {})})
        read += page["data"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert read == found
    problem(await house.ask("GET", path, params={"limit": 101}), 422, "invalid_input")


PERSON = Person(recipient_id=UUID(int=1), language="de", has_phone=True)
ABOUT = Subject(
    subject="sequence:x",
    id=UUID(int=1),
    timezone="Europe/Berlin",
    starts_at=START,
    subtype="stay",
    dates_at=NOW,
    created_at=NOW,
    updated_at=NOW,
)


def message(status: MessageStatus, reason: str | None = None) -> Message:
    return Message(
        id=UUID(int=1),
        subject="sequence:x",
        sequence_id=UUID(int=1),
        step="a",
        entry=1,
        recipient_id=UUID(int=1),
        channel="sms",
        due_at=START,
        status=status,
        reason=reason,
        template="note",
        sent_at=None,
        attempt_count=0,
    )


@pytest.mark.parametrize(
    ("offset", "at", "said"),
    [
        (Offset(days=-1), None, "1 day before"),
        (Offset(days=7), "09:00", "7 days after, at 09:00 there"),
        (Offset(), "18:30", "on that day, at 18:30 there"),
        (Offset(), None, "at that instant"),
        (Offset(elapsed=timedelta(hours=-2, minutes=-1)), None, "2 hours and 1 minute before"),
        (Offset(days=1, elapsed=timedelta(seconds=5)), None, "1 day and 5 seconds after"),
    ],
)
def test_how_far_from_what(offset: Offset, at: str | None, said: str) -> None:
    moment = None if at is None else datetime.strptime(at, "%H:%M").time()
    timed = SequenceStep(key="a", template="note", offset=offset, at=moment)
    assert say_timing(timed, START, "UTC") == f"It is counted from the start, 2027-03-27 14:00 UTC: {said}."
    assert say_timing(timed, None, "UTC") == "It is counted from the start, which has no instant."


def test_each_condition_in_words() -> None:
    conditions = Conditions(
        days_out_max=1,
        subtypes=("stay", "table"),
        statuses=("confirmed",),
        languages=("en",),
        has_phone=False,
    )
    said = [say_condition(one) for one in measured("step", conditions, ABOUT, PERSON, START - DAY)]
    assert said == [
        "The condition maxDaysOut (1) of the step is met: the start was 1 day away when that was measured.",
        "The condition bookingSubtype (stay or table) of the step is met: the subtype is stay.",
        "The condition language (en) of the step is not met: the contact's language is de.",
        "The condition hasPhone (no) of the step is not met: the contact has a phone.",
        "The condition status (confirmed) of the step is not met: there is no status.",
    ]
    gone = [say_condition(one) for one in measured("step", Conditions(has_phone=True), ABOUT, None, NOW)]
    assert gone == ["The condition hasPhone (yes) of the step is not asked any more: the contact is gone."]


def test_how_a_message_stands_where_nothing_more_is_known() -> None:
    assert summary(message("sent"), None) == "It was sent by SMS."
    assert summary(message("sending"), None) == "It is being sent right now."
    assert summary(message("scheduled"), None) == "It is to be sent at 2027-03-27 14:00 UTC."
    assert summary(message("failed", "given_up"), None) == "It was not sent: given_up."
    assert summary(message("skipped", "status"), None) == (
        "It is not sent: the status is none of those that the condition names."
    )


def test_an_instant_that_only_some_clocks_can_show() -> None:
    last = datetime(9999, 12, 31, 23, 59, 30, tzinfo=UTC)
    assert instant(last, "Pacific/Kiritimati") == "9999-12-31 23:59:30 UTC"
    assert instant(NOW + HOUR, "Asia/Kolkata") == "2027-03-15 14:30 Asia/Kolkata"
