"""Several who change one subject at once, and a message on its way while what it is about is changed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import httpx2
import orjson
import pytest

from tests.apps.sequences.support import DAY, HOUR, MINUTE, House, Json, done, open_house, step
from timebell.notify import Parcel, Variable
from timebell.notify.provider import Answer
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

# More statements than the node needs to send one message.
STATEMENTS_MAX = 40
_OLD = """
SELECT e.subject, s.trigger_event, e.version, s.version AS current
FROM sequences.enrolments e JOIN sequences.sequences s ON (s.tenant, s.id) = (e.tenant, e.sequence_id)
WHERE e.ended_reason IS NULL AND (e.version < s.version OR s.deleted_at IS NOT NULL)
"""
_OWED = """
SELECT m.step, m.recipient_id, count(*) AS count, count(j.id) AS job_count, min(j.due_at) AS due_at
FROM sequences.messages m
LEFT JOIN timebell.jobs j ON j.tenant = m.tenant AND j.subject = m.subject AND j.step = m.id::text
WHERE m.subject = $1 GROUP BY 1, 2
"""


class Pause:
    """Stops the node in front of the statement of that number, until it is let go on."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.reached = asyncio.Event()
        self.goes_on = asyncio.Event()

    def arm(self, number: int) -> None:
        self.left = number
        self.reached, self.goes_on = asyncio.Event(), asyncio.Event()

    async def before(self, name: str) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            self.left = None
            self.reached.set()
            await self.goes_on.wait()

    async def after(self, name: str) -> None: ...


class Watched(RecordingProvider):
    """Notes what is begun after a change was answered."""

    def __init__(self) -> None:
        super().__init__("watched")
        self.is_changed = False
        self.late: list[Parcel] = []

    async def send(self, parcel: Parcel) -> Answer:
        if self.is_changed:
            self.late.append(parcel)
        return await super().send(parcel)


async def while_sending(
    house: House, pause: Pause, mail: Watched, number: int, due: datetime, change: Callable[[], Any]
) -> Json:
    """The node stands before its n-th statement while something is changed; then it goes on."""
    mail.parcels.clear()
    mail.late.clear()
    mail.is_changed = False
    house.clock.move_to(due)
    pause.arm(number)
    running = asyncio.create_task(house.bench.run_due())
    waiting = asyncio.create_task(pause.reached.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=20)
    waiting.cancel()
    changing = asyncio.create_task(change())
    # Where the node stands in a transaction, the change may have to wait for that.
    await asyncio.wait({changing}, timeout=0.2)
    mail.is_changed = changing.done()
    pause.left = None
    pause.goes_on.set()
    await asyncio.wait_for(running, 30)
    return done(await asyncio.wait_for(changing, 30))


async def race_with_sending(database: TestDatabase, change: str, rounds: range) -> Counter[str]:
    """Which of the two came first, how often."""
    outcomes: Counter[str] = Counter()
    pause, mail = Pause(), Watched()
    async with open_house(database, [mail], worker_gate=pause) as house:
        await house.save(step("day", "-P1D"))
        for number in rounds:
            start = house.clock.now + DAY + 2 * HOUR
            row = await house.book(
                startAt=start.isoformat(), endAt=(start + HOUR).isoformat(), timezone="UTC"
            )
            path, later = f"/api/bookings/{row['id']}", start + 6 * HOUR
            dates = {"startAt": later.isoformat(), "endAt": (later + HOUR).isoformat()}
            asked = (
                partial(house.ask, "POST", f"{path}/cancel")
                if change == "cancel"
                else partial(house.ask, "PATCH", path, dates)
            )
            answer = await while_sending(house, pause, mail, number % STATEMENTS_MAX, start - DAY, asked)
            await house.bench.advance(MINUTE)
            (message,) = (await house.messages(row["id"])).values()
            stands = (message["status"], len(mail.parcels))
            diff = answer["diff"]
            if change == "cancel":
                # What was on its way already, and is not sent, was skipped: there is no edge from there to cancelled.
                assert stands in (("sent", 1), ("cancelled", 0), ("skipped", 0)), (number, message)
                assert diff["withdrawn"] == (message["status"] == "cancelled"), (number, message)
                assert mail.late == []
            else:
                assert stands in (("sent", 1), ("scheduled", 0)), (number, message)
                due = later - DAY if message["status"] == "scheduled" else start - DAY
                assert datetime.fromisoformat(message["scheduledFor"]) == due, (number, message, diff)
                assert diff["moved"] == (message["status"] == "scheduled"), (number, message)
                # Sent after the answer, as one that was on its way is: then the answer said that it stays.
                assert not mail.late or diff["kept"] == 1
            outcomes[message["status"]] += 1
            mail.is_changed = False
            await house.pass_until(later)
            after = (await house.messages(row["id"]))["day"]
            assert after["id"] == message["id"]
            assert len(mail.parcels) == (after["status"] == "sent")
            assert after["status"] == ("sent" if message["status"] == "scheduled" else message["status"])
    return outcomes


@pytest.mark.req("A-3.4", "A-6.5")
async def test_what_is_on_its_way_is_sent_or_cancelled(sequences_database: TestDatabase) -> None:
    outcomes = await race_with_sending(sequences_database, "cancel", range(0, 36, 3))
    assert set(outcomes) >= {"sent", "cancelled"}, "both ends were met"


@pytest.mark.req("A-2.8", "A-3.4")
async def test_what_is_on_its_way_is_sent_or_moved(sequences_database: TestDatabase) -> None:
    outcomes = await race_with_sending(sequences_database, "dates", range(0, 36, 3))
    assert set(outcomes) == {"sent", "scheduled"}, "both ends were met"


@pytest.mark.slow
@pytest.mark.req("A-2.8", "A-3.4", "A-6.5")
@pytest.mark.parametrize("change", ["cancel", "dates"])
async def test_a_message_races_with_a_change_two_hundred_times(
    sequences_database: TestDatabase, change: str
) -> None:
    assert len(await race_with_sending(sequences_database, change, range(200))) > 1


async def speak(house: House) -> None:
    await house.template("plain", "Hello {{ contact.name }}", variables=[Variable(name="contact.name")])


def happening(house: House, name: str, **facts: Any) -> Json:
    return {
        "event": "trial_started",
        "subject": name,
        "facts": {"contacts": [str(house.ada)], "timezone": "Europe/Berlin", **facts},
    }


async def tell(house: House, event: Json) -> httpx2.Response:
    return await house.ask("POST", "/api/sequences/events", event)


async def owed(house: House, subject: str) -> dict[tuple[str, UUID], Any]:
    """What is owed about a subject: each message is there once, and has one job or none."""
    rows = await house.rows(_OWED, subject)
    assert all(row["count"] == 1 and row["job_count"] <= 1 for row in rows), rows
    return {
        (row["step"], UUID(int=row["recipient_id"].int)): row["due_at"] for row in rows if row["job_count"]
    }


async def enrol_at_once(house: House, rounds: int) -> None:
    """The same event several times at once, of a subject that is new to all and of one that is there."""
    await speak(house)
    steps = [step(key, offset, templateId="plain") for key, offset in (("a", "-P1D"), ("b", "-P2D"))]
    await house.save(*steps, event="trial_started")
    start = house.clock.now + 9 * DAY
    for number in range(rounds):
        event = happening(house, f"trial:{number}", start=start.isoformat())
        if number % 2:
            done(await tell(house, {**event, "event": "trial_seen"}))
        answers = await asyncio.gather(*(tell(house, event) for _ in range(3)))
        assert sorted(done(answer)["enrolled"] for answer in answers) == [0, 0, 2]
        found = await owed(house, f"sequence:trial:{number}")
        assert found == {("a", house.ada): start - DAY, ("b", house.ada): start - 2 * DAY}


@pytest.mark.req("A-2.6")
async def test_the_same_event_at_once_is_one_message_for_each_step(house: House) -> None:
    await enrol_at_once(house, 20)


@pytest.mark.slow
@pytest.mark.req("A-2.6")
async def test_the_same_event_at_once_two_hundred_times(house: House) -> None:
    await enrol_at_once(house, 200)


async def first_events_at_once(house: House, rounds: int) -> None:
    """Two first events of a subject, each of which starts another sequence and says something else of it."""
    await speak(house)
    for event in ("trial_started", "trial_paid"):
        await house.save(step(event, "-P1D", templateId="plain"), event=event, name=event)
    starts = [house.clock.now + days * DAY for days in (8, 9)]
    for number in range(rounds):
        events = [
            {**happening(house, f"trial:{number}", start=start.isoformat()), "event": event}
            for start, event in zip(starts, ("trial_started", "trial_paid"), strict=True)
        ]
        answers = await asyncio.gather(*(tell(house, event) for event in events))
        assert [done(answer)["enrolled"] for answer in answers] == [1, 1]
        found = await owed(house, f"sequence:trial:{number}")
        assert found.keys() == {(each["event"], house.ada) for each in events}
        # Both are counted from the start that was said last.
        assert set(found.values()) in ({starts[0] - DAY}, {starts[1] - DAY})


@pytest.mark.req("A-2.6")
async def test_two_first_events_at_once_both_count(house: House) -> None:
    await first_events_at_once(house, 20)


@pytest.mark.slow
@pytest.mark.req("A-2.6")
async def test_two_first_events_at_once_two_hundred_times(house: House) -> None:
    await first_events_at_once(house, 200)


async def change_at_once(house: House, rounds: int) -> None:
    """Two change one booking at once, each something else of it; another says more of a subject meanwhile."""
    for number in range(rounds):
        booked = await house.book()
        subject = happening(house, f"trial:{number}")
        done(await tell(house, subject))
        said = [{**subject, "facts": {**subject["facts"], name: number}} for name in ("seats", "rooms")]
        answers = await asyncio.gather(
            *(
                house.ask("PATCH", f"/api/bookings/{booked['id']}", change)
                for change in ({"eventName": f"Stay {number}"}, {"location": f"Room {number}"})
            ),
            *(tell(house, each) for each in said),
        )
        for answer in answers:
            done(answer)
        kept = done(await house.ask("GET", f"/api/bookings/{booked['id']}"))
        assert (kept["eventName"], kept["location"]) == (f"Stay {number}", f"Room {number}")
        facts = await house.value(
            "SELECT facts FROM sequences.subjects WHERE subject = $1", f"sequence:trial:{number}"
        )
        assert orjson.loads(facts) == {"seats": number, "rooms": number}


@pytest.mark.req("A-2.8")
async def test_what_two_change_at_once_both_counts(house: House) -> None:
    await change_at_once(house, 10)


@pytest.mark.slow
@pytest.mark.req("A-2.8")
async def test_what_two_change_at_once_two_hundred_times(house: House) -> None:
    await change_at_once(house, 200)


async def apply_beside(house: House, rounds: int) -> Counter[str]:
    """A version is applied while a booking comes, another goes on, and an event happens to who is enrolled already.

    Nobody is left with an older version, and what is pending is what that says.
    """
    await speak(house)
    outcomes: Counter[str] = Counter()
    row = await house.save(step("a", "-P1D"))
    confirmed = await house.save(step("c", "-P1D"), event="booking_confirmed", name="Confirmed")
    trial = await house.save(step("t", "-P1D", templateId="plain"), event="trial_started", name="Trial")
    start = house.clock.now + 20 * DAY
    when = {"startAt": start.isoformat(), "endAt": (start + DAY).isoformat()}
    known = happening(house, "trial:1", start=start.isoformat())
    done(await tell(house, known))
    for number in range(rounds):
        offset = f"-P{2 + number % 2}D"
        there = await house.book(**when)
        applied, booked, moved, told = await asyncio.gather(
            *(
                house.ask("PATCH", f"/api/sequences/{each['id']}?apply=true", {"steps": [said]})
                for each, said in ((row, step("a", offset)),)
            ),
            house.ask("POST", "/api/bookings", _booking(house, when)),
            house.ask("POST", f"/api/bookings/{there['id']}/confirm"),
            tell(house, known),
        )
        again = await asyncio.gather(
            house.ask(
                "PATCH",
                f"/api/sequences/{trial['id']}?apply=true",
                {"steps": [step("t", offset, templateId="plain")]},
            ),
            tell(house, known),
            house.ask(
                "PATCH", f"/api/sequences/{confirmed['id']}?apply=true", {"steps": [step("c", offset)]}
            ),
            house.ask("POST", f"/api/bookings/{there['id']}/cancel"),
            tell(house, {**known, "facts": {**known["facts"], "subtype": str(number)}}),
        )
        for answer in (applied, moved, told, *again):
            done(answer)
        fresh = done(booked, 201)
        assert await house.rows(_OLD) == []
        due = start - (2 + number % 2) * DAY
        assert await owed(house, f"booking:{fresh['id']}") == {("a", house.ada): due}
        assert await owed(house, f"booking:{there['id']}") == {}
        assert await owed(house, "sequence:trial:1") == {("t", house.ada): due}
        outcomes[str(applied.json()["application"]["enrolledCount"])] += 1
        # So few are enrolled that all of them have the version with the answer.
        await house.move(fresh["id"], "cancel")
    return outcomes


def _booking(house: House, when: Json) -> Json:
    said = {"contactId": str(house.ada), "subtype": "stay", "eventName": "x", "timezone": "Europe/Berlin"}
    return {**said, **when}


@pytest.mark.req("A-2.6")
async def test_nobody_slips_through_while_a_version_is_applied(house: House) -> None:
    await apply_beside(house, 10)


@pytest.mark.slow
@pytest.mark.req("A-2.6")
async def test_nobody_slips_through_two_hundred_times(house: House) -> None:
    await apply_beside(house, 200)


async def erase_beside(house: House, rounds: int) -> Counter[str]:
    """Somebody is erased while a booking of theirs is moved, and another is given to them, or just made for them."""
    outcomes: Counter[str] = Counter()
    await house.save(step("all", "-P1D", contacts="all"))
    start = house.clock.now + 20 * DAY
    when = {"startAt": start.isoformat(), "endAt": (start + DAY).isoformat()}
    later = {"startAt": (start + DAY).isoformat(), "endAt": (start + 2 * DAY).isoformat()}
    for number in range(rounds):
        async with house.bench.bell.transaction() as tx:
            guest = await house.notify.recipients.add(tx, name="Guest", email=f"guest{number}@example.org")
        theirs = await house.book(contacts=[str(guest.id)], **when)
        other = await house.book(**when)
        _, moved, given, made = await asyncio.gather(
            _erase(house, guest.id),
            house.ask("PATCH", f"/api/bookings/{theirs['id']}", later),
            house.ask("PATCH", f"/api/bookings/{other['id']}", {"contacts": [str(guest.id)]}),
            house.ask("POST", "/api/bookings", _booking(house, {**when, "contacts": [str(guest.id)]})),
        )
        assert moved.status_code == 200, moved.text
        assert given.status_code in (200, 422), given.text
        assert made.status_code in (201, 422), made.text
        left = await house.value(
            "SELECT count(*) FROM sequences.subject_people WHERE recipient_id = $1", guest.id
        )
        assert left == 0, (given.status_code, made.status_code)
        assert await owed(house, f"booking:{theirs['id']}") == {("all", house.ada): start}
        assert await owed(house, f"booking:{other['id']}") == {("all", house.ada): start - DAY}
        outcomes[f"{given.status_code} {made.status_code}"] += 1
    return outcomes


async def _erase(house: House, id: UUID) -> None:
    async with house.bench.bell.transaction() as tx:
        await house.notify.recipients.erase(tx, id)


@pytest.mark.req("A-2.8")
async def test_nothing_is_owed_to_who_is_erased_meanwhile(house: House) -> None:
    await erase_beside(house, 10)


@pytest.mark.slow
@pytest.mark.req("A-2.8")
async def test_nothing_is_owed_to_who_is_erased_meanwhile_two_hundred_times(house: House) -> None:
    assert len(await erase_beside(house, 200)) > 1, "it was no race"
