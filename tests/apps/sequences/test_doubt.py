"""What may have been sent is not sent again, however often the plan takes it back and brings it back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from uuid import UUID

import pytest
import pytest_asyncio

from tests.apps.sequences.nodes import BY, furnish, open_cluster, stay_of, steps_of
from tests.apps.sequences.support import DAY, HOUR, START, House, Json, done, open_house, step
from tests.engine.notify.test_delivery_crashes import CALL, calls_through
from tests.engine.support import Moment
from timebell.apps.sequences import APP
from timebell.apps.sequences.bookings import BookingChange, Bookings
from timebell.apps.sequences.settling import Settling
from timebell.kernel import Timebell
from timebell.notify import Notify, Parcel, Unavailable, Uncertain, notify_app
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

DUE = START - DAY
AWAY = Unavailable(reason="away", about="parcel")
STANDS = "SELECT status, reason FROM sequences.message_queue"


@pytest.fixture
def mail() -> RecordingProvider:
    """Knows a key for so short that trying again is no way out of a doubt once something was moved."""
    return RecordingProvider("mail", key_lifetime=HOUR)


@pytest_asyncio.fixture
async def house(sequences_database: TestDatabase, mail: RecordingProvider) -> AsyncIterator[House]:
    async with open_house(sequences_database, [mail]) as opened:
        yield opened


def hang_up(mail: RecordingProvider) -> None:
    """The next parcel arrives, and nobody hears of that."""

    async def taken(parcel: Parcel) -> Uncertain:
        mail.take(parcel)
        return Uncertain(reason="no answer", about="parcel")

    mail.answer(taken)


async def begun(house: House) -> tuple[Json, Json]:
    """A sequence and a booking whose message was just tried, and waits to be looked at again."""
    sequence = await house.save(step("day", "-P1D", contacts="all"))
    row = await house.book(contacts=[str(house.bob)], contactId=str(house.bob))
    await house.pass_until(DUE)
    assert await house.statuses(row["id"]) == {"day": "scheduled"}
    return sequence, row


def dates(start: datetime) -> Json:
    return {"startAt": start.isoformat(), "endAt": (start + DAY).isoformat()}


async def take_back(house: House, sequence: Json, row: Json, how: str) -> Json:
    if how == "dates":
        return await house.change(row["id"], **dates(DUE + HOUR))
    if how == "contact":
        return await house.change(row["id"], contactId=str(house.ada), contacts=[])
    return await use_steps(house, sequence, step("other", "-P1D"))


async def bring_back(house: House, sequence: Json, row: Json, how: str) -> None:
    if how == "step":
        await use_steps(house, sequence, step("day", "-P1D", contacts="all"))
    await house.change(row["id"], contactId=str(house.bob), contacts=[], **dates(START + 9 * DAY))


async def use_steps(house: House, sequence: Json, *steps: Json) -> Json:
    path = f"/api/sequences/{sequence['id']}"
    return done(await house.ask("PATCH", path, {"steps": list(steps)}, params={"apply": "true"}))


async def to_bob(house: House, row: Json) -> Json:
    found = (await house.data(f"/api/bookings/{row['id']}/messages"))["data"]
    (one,) = [each for each in found if (each["stepKey"], each["contactId"]) == ("day", str(house.bob))]
    return dict(one)


@pytest.mark.req("A-2.8", "A-3.4", "A-7.1")
@pytest.mark.parametrize("how", ["dates", "contact", "step"])
async def test_what_may_have_been_sent_is_not_sent_again(
    house: House, mail: RecordingProvider, how: str
) -> None:
    hang_up(mail)
    sequence, row = await begun(house)
    before = await to_bob(house, row)
    await take_back(house, sequence, row, how)
    left = await to_bob(house, row)
    await bring_back(house, sequence, row, how)
    await house.pass_until(START + 9 * DAY)
    assert mail.taken["bob@example.org"] == 1
    assert (left["status"], left["reason"], left["id"]) == ("failed", "no_answer", before["id"])
    assert await to_bob(house, row) == left
    assert len([parcel for parcel in mail.parcels if parcel.address == "bob@example.org"]) == 1


@pytest.mark.req("A-2.8", "A-7.1")
@pytest.mark.parametrize("how", ["dates", "contact", "step"])
async def test_what_was_certainly_not_taken_is_sent_when_it_is_wanted_again(
    house: House, mail: RecordingProvider, how: str
) -> None:
    mail.answer(AWAY)
    house.provider.answer(AWAY)
    sequence, row = await begun(house)
    await take_back(house, sequence, row, how)
    assert (await to_bob(house, row))["status"] == ("skipped" if how == "dates" else "cancelled")
    await bring_back(house, sequence, row, how)
    await house.pass_until(START + 9 * DAY)
    assert (await to_bob(house, row))["status"] == "sent"
    assert mail.taken["bob@example.org"] == 1


@pytest.mark.req("A-2.8", "A-3.4")
@pytest.mark.parametrize(("later", "stands"), [(HOUR / 2, "sent"), (9 * DAY, "failed")])
async def test_what_may_have_been_sent_and_is_moved_keeps_its_key(
    house: House, mail: RecordingProvider, later: timedelta, stands: str
) -> None:
    """As long as the provider knows the key, it is asked again under it; afterwards nobody is."""
    hang_up(mail)
    _, row = await begun(house)
    await house.change(row["id"], **dates(START + later))
    await house.pass_until(START + later)
    left = await to_bob(house, row)
    assert (left["status"], mail.taken) == (stands, {"bob@example.org": 1})
    assert len({parcel.key for parcel in mail.parcels}) == 1
    assert len(mail.parcels) == (2 if stands == "sent" else 1)


@pytest.mark.req("A-2.8", "A-4.1")
async def test_what_was_certainly_not_taken_and_is_moved_says_what_the_booking_says_then(
    house: House, mail: RecordingProvider
) -> None:
    mail.answer(AWAY)
    house.provider.answer(AWAY)
    _, row = await begun(house)
    await house.change(row["id"], eventName="A week in the hills", **dates(START + 9 * DAY))
    await house.pass_until(START + 9 * DAY)
    assert (await to_bob(house, row))["status"] == "sent"
    assert [parcel.content.subject for parcel in mail.parcels] == [
        "About A stay by the lake",
        "About A week in the hills",
    ]


@pytest.mark.req("A-3.4", "A-4.1")
async def test_what_may_have_been_sent_is_repeated_with_the_words_of_then(
    house: House, mail: RecordingProvider
) -> None:
    hang_up(mail)
    _, row = await begun(house)
    await house.change(row["id"], eventName="A week in the hills", **dates(START + HOUR / 2))
    await house.pass_until(START + HOUR / 2)
    assert (await to_bob(house, row))["status"] == "sent"
    assert [parcel.content.subject for parcel in mail.parcels] == ["About A stay by the lake"] * 2


@pytest.mark.req("A-6.5", "A-7.1")
async def test_a_cancelled_booking_does_not_claim_that_nothing_was_sent(
    house: House, mail: RecordingProvider
) -> None:
    hang_up(mail)
    _, row = await begun(house)
    await house.move(row["id"], "cancel")
    await house.bench.advance(DAY)
    left = await to_bob(house, row)
    assert (left["status"], left["reason"]) == ("failed", "no_answer")
    assert len(mail.parcels) == 1


async def test_it_stays_so_when_notify_has_forgotten_it(house: House, mail: RecordingProvider) -> None:
    """What nobody knows is written down like every other end, before what tells of it is pruned."""
    hang_up(mail)
    sequence, row = await begun(house)
    await take_back(house, sequence, row, "dates")
    await Settling()(house.bench.bell, 100)
    await house.rows("TRUNCATE timebell_notify.notifications, timebell_notify.deliveries CASCADE")
    await bring_back(house, sequence, row, "dates")
    await house.pass_until(START + 9 * DAY)
    assert (await to_bob(house, row))["status"] == "failed"
    assert mail.taken["bob@example.org"] == 1


@pytest.mark.req("A-3.3", "A-3.4")
@pytest.mark.parametrize(
    ("moment", "name", "stands"),
    [
        ("before", CALL, {"status": "failed", "reason": "no_answer"}),
        ("after", CALL, {"status": "failed", "reason": "no_answer"}),
        ("after", "record_answers", {"status": "sent", "reason": None}),
    ],
)
async def test_what_a_crash_cut_off_is_not_sent_again_by_another_job(
    sequences_database: TestDatabase,
    mail: RecordingProvider,
    moment: Moment,
    name: str,
    stands: Json,
) -> None:
    """The attempt was never answered, or its job never heard of the answer, when the message is taken back."""
    apps = [notify_app([mail]), APP]
    async with open_cluster(sequences_database) as cluster:
        doomed = await cluster.node(apps)
        ada, _ = await furnish(doomed.bell, steps_of(1))
        calls_through(mail, doomed)
        async with doomed.bell.transaction() as tx:
            made = await Bookings(doomed.bell, Notify(doomed.bell)).add(tx, stay_of(ada), by=BY)
        cluster.clock.move_to(DUE)
        await doomed.run_until(doomed.stage.hold(moment, name))
        called_count = len(mail.parcels)
        await cluster.kill(doomed)
        node = await cluster.node(apps)
        # It has been given back, and the next attempt is about to begin.
        hold = node.stage.hold("before", "start_jobs")
        await node.run_until(hold)
        assert [job["started_by"] for job in await cluster.owner.jobs()] == [None]
        await move_to(node.bell, made.subject.id, DUE + HOUR)
        await node.go_on(hold)
        assert await cluster.owner.rows(STANDS) == [stands]
        await move_to(node.bell, made.subject.id, START + 9 * DAY)
        for _ in range(3):
            cluster.clock.move(5 * DAY)
            await node.run_due()
        assert await cluster.owner.rows(STANDS) == [stands]
        assert len(mail.parcels) == called_count


async def move_to(bell: Timebell, id: UUID, start: datetime) -> None:
    bookings = Bookings(bell, Notify(bell))
    async with bell.transaction() as tx:
        held = await bookings.hold(tx, id)
        change = BookingChange(starts_at=start, ends_at=start + DAY)
        await bookings.change(tx, held, change, by=BY)
