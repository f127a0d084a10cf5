"""Several who change one meeting at once, and a reminder on its way while its meeting is changed."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.apps.meetings.support import DAY, HOUR, START, Office, done, open_office, slot
from timebell.apps.meetings import APP
from timebell.notify import Parcel, notify_app
from timebell.notify.provider import Answer
from timebell.testing import RecordingProvider, harness
from timebell.testing.database import TestDatabase

MOVES: dict[str, Any] = {
    "accept": {"slot": slot()},
    "deny": {},
    "reschedule": {"proposed_slots": [slot(START + DAY)]},
    "cancel": {},
}
BECOMES = {"accept": "accepted", "deny": "denied", "reschedule": "rescheduled", "cancel": "cancelled"}
# More statements than the node needs to tell one reminder.
STATEMENTS_MAX = 60


async def race(office: Office, rounds: int) -> Counter[str]:
    """All four at once on one meeting, by different people; who won how often."""
    winners: Counter[str] = Counter()
    by = {"accept": office.bob, "deny": office.cleo, "reschedule": office.ada, "cancel": office.ada}
    for round in range(rounds):
        id = (await office.propose())["id"]
        verbs = [*MOVES][round % 4 :] + [*MOVES][: round % 4]
        answers = await asyncio.gather(*(office.transit(by[verb], id, verb, MOVES[verb]) for verb in verbs))
        found = {verb: answer.status_code for verb, answer in zip(verbs, answers, strict=True)}
        assert sorted(found.values()) == [200, 409, 409, 409], found
        (winner,) = [verb for verb, status in found.items() if status == 200]
        winners[winner] += 1
        assert (await office.get(id))["status"] == BECOMES[winner]
        (event,) = await office.data(f"/api/meetings/{id}/events")
        assert event["to_status"] == BECOMES[winner]
        owed = "SELECT count(*) FROM timebell.jobs WHERE subject = $1 AND step IS NOT NULL"
        steps = await office.value(owed, f"meeting:{id}")
        assert steps == (10 if winner == "accept" else 0)
        if winner == "accept":
            done(await office.transit(office.ada, id, "cancel", {}))
    return winners


@pytest.mark.req("M-1.5", "X-M9")
async def test_of_those_who_race_one_wins(office: Office) -> None:
    winners = await race(office, 20)
    assert len(winners) > 1, "it was no race"


@pytest.mark.slow
@pytest.mark.req("M-1.5")
async def test_of_those_who_race_one_wins_two_hundred_times(office: Office) -> None:
    assert len(await race(office, 200)) > 1


@pytest.mark.req("M-1.5")
async def test_the_same_asked_many_times_at_once_is_done_once(office: Office) -> None:
    id = (await office.propose())["id"]
    answers = await asyncio.gather(
        *(office.transit(person, id, "accept", MOVES["accept"]) for person in (office.bob, office.cleo) * 5)
    )
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 9}
    assert len(await office.reminders(id, "pending")) == 9


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
    """Notes what is begun after a change of the meeting was answered."""

    def __init__(self) -> None:
        super().__init__(channels=["email"])
        self.is_changed = False
        self.late: list[Parcel] = []
        self.blocks: asyncio.Event | None = None
        self.begun = asyncio.Event()

    async def send(self, parcel: Parcel) -> Answer:
        if self.is_changed and parcel.content.subject == "Review":
            self.late.append(parcel)
        self.begun.set()
        if self.blocks is not None:
            await self.blocks.wait()
        return await super().send(parcel)


async def one_outcome(office: Office, mail: Watched, id: str) -> str:
    """Sent and never taken back, or taken back and never sent; there is no third."""
    (reminder,) = [
        one
        for one in await office.reminders(id)
        if (one["recipient_id"], one["reminder_type"]) == (str(office.bob), "24h_before")
    ]
    mailed = sum(parcel.content.subject == "Review" for parcel in mail.parcels)
    shown = sum(line.type == "meeting_reminder" for line in await office.inbox(office.bob))
    told = (reminder["status"], mailed)
    assert told in (("sent", 1), ("cancelled", 0)), (reminder, mailed)
    assert shown <= mailed, "the inbox tells of nothing that was taken back"
    assert mail.late == []
    return str(reminder["status"])


async def race_with_delivery(database: TestDatabase, change: str, numbers: range) -> Counter[str]:
    """The node stands before its n-th statement while the meeting is changed; then it goes on."""
    outcomes: Counter[str] = Counter()
    pause, mail = Pause(), Watched()
    people = {"Bob": {"email": "bob@example.org"}}
    async with open_office(database, [mail], worker_gate=pause, people=people) as office:
        for number in numbers:
            start = office.clock.now + DAY + 2 * HOUR
            id = (await office.propose(participants=[office.bob], proposed_slots=[slot(start)]))["id"]
            await office.accept(id, at=start)
            await office.bench.advance(to=start - DAY - HOUR)
            await mark_told(office)
            mail.parcels.clear()
            mail.is_changed = False
            office.clock.move_to(start - DAY)
            pause.arm(number)
            running = asyncio.create_task(office.bench.run_due())
            waiting = asyncio.create_task(pause.reached.wait())
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=20)
            waiting.cancel()
            changing = asyncio.create_task(office.transit(office.ada, id, change, MOVES[change]))
            # Where the node stands in a transaction, the change may have to wait for that.
            await asyncio.wait({changing}, timeout=0.2)
            mail.is_changed = changing.done()
            pause.left = None
            pause.goes_on.set()
            await asyncio.wait_for(running, 30)
            assert (await asyncio.wait_for(changing, 30)).status_code == 200
            mail.is_changed = True
            await office.bench.advance(to=start - DAY + HOUR)
            outcomes[await one_outcome(office, mail, id)] += 1
    return outcomes


async def mark_told(office: Office) -> None:
    """What people have in their inboxes from before is not what this is about."""
    await office.rows("DELETE FROM timebell_notify.inbox")


@pytest.mark.req("M-4.5")
async def test_a_reminder_on_its_way_is_sent_or_taken_back(meetings_database: TestDatabase) -> None:
    outcomes = await race_with_delivery(meetings_database, "reschedule", range(0, STATEMENTS_MAX, 6))
    assert set(outcomes) == {"sent", "cancelled"}, "both ends were met"


@pytest.mark.slow
@pytest.mark.req("M-4.5")
@pytest.mark.parametrize("change", ["reschedule", "cancel"])
async def test_a_reminder_on_its_way_is_sent_or_taken_back_at_every_statement(
    meetings_database: TestDatabase, change: str
) -> None:
    outcomes = await race_with_delivery(meetings_database, change, range(STATEMENTS_MAX))
    assert set(outcomes) == {"sent", "cancelled"}


@pytest.mark.req("M-4.5")
async def test_what_the_provider_has_already_is_sent(meetings_database: TestDatabase) -> None:
    mail = Watched()
    people = {"Bob": {"email": "bob@example.org"}}
    async with open_office(meetings_database, [mail], people=people) as office:
        id = (await office.accepted(participants=[office.bob]))["id"]
        await office.bench.advance(to=START - DAY - HOUR)
        mail.parcels.clear()
        mail.begun.clear()
        mail.blocks = asyncio.Event()
        office.clock.move_to(START - DAY)
        running = asyncio.create_task(office.bench.run_due())
        await asyncio.wait_for(mail.begun.wait(), 20)
        child = await office.reschedule(id, START + DAY, person=office.ada)
        mail.blocks.set()
        await asyncio.wait_for(running, 30)
        await office.bench.advance(HOUR)
        assert await office.reminders(child["id"]) == []
        bobs = [one for one in await office.reminders(id) if one["recipient_id"] == str(office.bob)]
        assert sorted((one["reminder_type"], one["status"]) for one in bobs) == [
            ("15m_before", "cancelled"),
            ("1h_before", "cancelled"),
            ("24h_before", "sent"),
        ]


@pytest.mark.req("M-1.7")
async def test_the_end_of_a_slot_and_a_cancel_at_once_have_one_winner(office: Office) -> None:
    """Neither waits for the other in a circle."""
    for round in range(5):
        start = START + round * DAY
        id = (await office.propose(proposed_slots=[slot(start)]))["id"]
        await office.accept(id, at=start)
        await office.bench.advance(to=start + HOUR - HOUR / 60)
        office.clock.move_to(start + HOUR)
        answer, _ = await asyncio.gather(office.transit(office.ada, id, "cancel", {}), office.bench.run_due())
        await office.bench.advance(HOUR / 60)
        status = (await office.get(id))["status"]
        assert (answer.status_code, status) in ((200, "cancelled"), (409, "completed"))
        assert len(await office.data(f"/api/meetings/{id}/events")) == 2


@pytest.mark.req("M-5.3")
async def test_two_nodes_tell_each_reminder_once(meetings_database: TestDatabase) -> None:
    mail = RecordingProvider(channels=["email"])
    people = {name: {"email": f"{name.lower()}@example.org"} for name in ("Ada", "Bob", "Cleo", "Dan")}
    async with open_office(meetings_database, [mail], people=people) as office:
        for number in range(10):
            start = START + number * HOUR
            row = await office.propose(participants=[office.bob, office.cleo], proposed_slots=[slot(start)])
            await office.accept(row["id"], at=start)
        await office.bench.run_due()
        mail.parcels.clear()
        apps = [notify_app([mail]), APP]
        async with harness(
            office.database.url, apps, clock=office.clock, node_name="second", seed=2
        ) as other:
            await office.bench.engine.beat()
            await other.engine.beat()
            office.clock.move_to(START - DAY + 9 * HOUR)
            for _ in range(20):
                await asyncio.gather(office.bench.run_due(), other.run_due())
                if len(mail.parcels) >= 30:
                    break
            await asyncio.gather(office.bench.run_due(), other.run_due())
        assert len(mail.parcels) == 30
        assert len({parcel.key for parcel in mail.parcels}) == 30
        nodes = await office.value(
            "SELECT count(DISTINCT node) FROM timebell.job_log WHERE step LIKE '24h%' AND state = 'done'"
        )
        assert nodes == 2
