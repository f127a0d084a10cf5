"""Taken back, moved or told otherwise until the very last moment: what is answered is true."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.engine.notify.stage import EMAIL, REMINDER, TITLE, Stage, stage
from tests.engine.support import Cluster, Moment, Owner
from timebell.errors import NotFound
from timebell.kernel import AgendaDiff, App
from timebell.notify import Cap, Notify, Route, Tell, Unavailable, notify_app
from timebell.notify.provider import Answer, Parcel
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
BUSY = Unavailable(reason="busy")


async def withdraw(s: Stage, **which: Any) -> list[str]:
    async with s.harness.bell.transaction() as tx:
        return [one.answer for one in await s.notify.withdraw(tx, **which)]


async def remind(
    s: Stage, meeting: datetime, *, offsets: tuple[timedelta, ...], **options: Any
) -> AgendaDiff:
    """State that the recipient is to be reminded of the meeting so long before."""
    asked = {"recipient": s.recipient, "template": REMINDER.key, "context": TITLE, "channels": ["email"]}
    async with s.harness.bell.transaction() as tx:
        steps = [
            await s.notify.step(
                tx, Tell(**{**asked, **options}), key=str(before), anchor=meeting, offset=-before
            )
            for before in offsets
        ]
        return await s.harness.bell.set_agenda(tx, subject="meeting:1", anchor=meeting, steps=steps)


def sent_at(provider: RecordingProvider) -> list[datetime | None]:
    return [parcel.attempted_at for parcel in provider.parcels]


async def test_an_apps_own_job_about_the_subject_is_left_alone(database_url: TestDatabase) -> None:
    ran: list[UUID] = []
    app = App(name="t", handlers={"t.act": lambda job: ran.append(job.id)})
    async with stage(database_url.url, [RecordingProvider()], apps=[app]) as s:
        async with s.harness.bell.transaction() as tx:
            job = await s.harness.bell.enqueue(tx, "t.act", subject="meeting:1")
        await s.tell(subject="meeting:1", due_at=s.clock.now + HOUR)
        assert await withdraw(s, subject="meeting:1") == ["cancelled"]
        assert await withdraw(s, id=job.id) == ["not_found"]
        await s.harness.run_due()
        assert ran == [job.id]


@pytest.mark.parametrize(
    "hold",
    ["held_due", "held_quiet_hours", "held_capped", "held_rate", "held_retry", "template_incomplete"],
)
async def test_what_is_held_for_any_reason_can_be_withdrawn(database_url: TestDatabase, hold: str) -> None:
    provider = RecordingProvider(rate_per_second=0.01 if hold == "held_rate" else None)
    async with stage(database_url.url, [provider]) as s:
        options: dict[str, Any] = {"channels": ["email"]}
        if hold == "held_due":
            options["due_at"] = s.clock.now + HOUR
        elif hold == "held_quiet_hours":
            await s.change(quiet_hours={"start": "00:00", "end": "23:00"})
        elif hold == "held_capped":
            await s.decide(caps=[Cap(count=1, per=HOUR)])
            await s.told(channels=["email"])
        elif hold == "held_rate":
            await s.told(channels=["email"])
        elif hold == "held_retry":
            provider.answer(BUSY)
        else:
            options["context"] = {}
        told = await s.told(subject="meeting:1", **options)
        assert told.reason == (None if hold == "held_due" else hold)
        calls = len(provider.parcels)
        assert await withdraw(s, subject="meeting:1") == ["cancelled"]
        told = await s.now(told.id)
        assert (told.state, told.reason, told.held_until) == ("withdrawn", "withdrawn", None)
        assert told.settled_at == s.clock.now
        assert (await s.notify.notifications.needs_attention()).lines == ()
        await s.harness.advance(2 * DAY)
        assert len(provider.parcels) == calls
        assert {state for _, state, _ in await s.states(told.id)} <= {"skipped"}
        assert await withdraw(s, id=told.id) == ["already_final"]


async def test_what_was_told_in_part_stays_told(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    provider.answer(BUSY)
    async with stage(database_url.url, [provider]) as s:
        told = await s.told(channels=Route(first=["email"], also=["inbox"]))
        assert await withdraw(s, id=told.id) == ["cancelled"]
        assert (await s.now(told.id)).state == "sent"
        assert sorted(await s.states(told.id)) == [
            ("email", "skipped", "withdrawn"),
            ("inbox", "sent", "shown"),
        ]


PLACES: list[tuple[Moment, str, str]] = [
    ("before", "start_jobs", "cancelled"),
    ("after", "start_jobs", "too_late"),
    ("before", "read_facts", "too_late"),
    ("after", "read_facts", "too_late"),
    ("before", "start_attempts", "too_late"),
    ("after", "start_attempts", "too_late"),
    ("before", "record_answers", "too_late"),
    ("after", "record_answers", "too_late"),
    ("before", "finish_jobs", "too_late"),
    ("after", "finish_jobs", "already_final"),
]


@pytest.mark.parametrize(("moment", "place", "said"), PLACES)
async def test_at_each_point_of_a_run_the_answer_is_true(
    cluster: Cluster, moment: Moment, place: str, said: str
) -> None:
    """Nothing is sent after `cancelled`; after `too_late` the run ends as it ends, and there is no other."""
    provider = RecordingProvider()
    node = await cluster.node([notify_app([provider])])
    notify = Notify(node.bell)
    async with node.bell.transaction() as tx:
        ada = await notify.recipients.add(tx, name="Ada", email=EMAIL)
        await notify.templates.save(tx, REMINDER)
        told = await notify.tell(tx, ada.id, REMINDER.key, context=TITLE, channels=["email"])
    hold = node.stage.hold(moment, place)
    await node.run_until(hold)
    async with node.bell.transaction() as tx:
        (answer,) = await notify.withdraw(tx, id=told.id)
    assert answer.answer == said
    calls = len(provider.parcels)
    await node.go_on(hold)
    for _ in range(3):
        cluster.clock.move(HOUR)
        await node.run_due()
    state = (await notify.notifications.get(told.id)).notification.state
    if said == "cancelled":
        assert len(provider.parcels) == calls
    # What had not begun its attempt yet does not begin it in spite of the answer.
    is_told = said != "cancelled" and (moment, place) not in (
        ("after", "start_jobs"),
        ("before", "read_facts"),
        ("after", "read_facts"),
    )
    assert (provider.taken.total(), state) == ((1, "sent") if is_told else (0, "withdrawn"))


@pytest.mark.parametrize("by", ["withdraw", "cancel"])
@pytest.mark.parametrize("besides", ["another provider", "the inbox"])
async def test_a_run_that_was_cancelled_begins_nothing_else(
    database_url: TestDatabase, by: str, besides: str
) -> None:
    """The first provider is being asked when the answer is `too_late`. Nobody tells the row of a notification that its
    job was cancelled."""
    first, second = RecordingProvider("first"), RecordingProvider("second")
    providers = [first] if besides == "the inbox" else [first, second]
    async with stage(database_url.url, providers) as s:

        async def cancelled_meanwhile(parcel: Parcel) -> Answer:
            if by == "withdraw":
                assert await withdraw(s, subject="meeting:1") == ["too_late"]
            else:
                async with s.harness.bell.transaction() as tx:
                    (one,) = await s.harness.bell.cancel(tx, subject="meeting:1")
                assert one.answer == "too_late"
            return BUSY

        first.answer(cancelled_meanwhile)
        route = Route(first=["email"], also=["inbox"] if besides == "the inbox" else [])
        await s.told(channels=route, subject="meeting:1")
        await s.harness.advance(DAY)
        assert (await s.notify.inbox.list(s.recipient)).lines == ()
    assert (len(first.parcels), second.parcels) == (1, [])


async def test_an_agenda_that_is_cleared_tells_nothing_more(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        await remind(s, s.clock.now + DAY, offsets=(2 * HOUR, MINUTE))
        await s.harness.advance(23 * HOUR)
        assert len(provider.parcels) == 1
        async with s.harness.bell.transaction() as tx:
            diff = await s.harness.bell.clear_agenda(tx, subject="meeting:1", reason="denied")
        assert len(diff.withdrawn) == 1
        await s.harness.advance(DAY)
    assert len(provider.parcels) == 1


async def test_an_agenda_that_is_moved_tells_at_the_new_instants(
    database_url: TestDatabase,
) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        began = s.clock.now
        await remind(s, began + DAY, offsets=(2 * HOUR, MINUTE))
        await s.harness.advance(23 * HOUR)
        diff = await remind(s, began + 2 * DAY, offsets=(2 * HOUR, MINUTE))
        assert len(diff.moved) == 1
        await s.harness.advance(3 * DAY)
    expected = [began + DAY - 2 * HOUR, began + 2 * DAY - 2 * HOUR, began + 2 * DAY - MINUTE]
    assert sent_at(provider) == expected


async def test_a_held_step_of_an_agenda_goes_with_it(database_url: TestDatabase) -> None:
    """It was due and waits for its next attempt when the meeting is called off."""
    provider = RecordingProvider()
    provider.answer(*[BUSY] * 9)
    async with stage(database_url.url, [provider]) as s:
        await remind(s, s.clock.now + HOUR, offsets=(HOUR - MINUTE,))
        await s.harness.advance(MINUTE)
        assert len(provider.parcels) == 1
        async with s.harness.bell.transaction() as tx:
            await s.harness.bell.clear_agenda(tx, subject="meeting:1")
        await s.harness.advance(DAY)
    assert len(provider.parcels) == 1


async def test_a_schedule_tells_each_of_its_occurrences(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        tell = Tell(recipient=s.recipient, template=REMINDER.key, context=TITLE, channels=["email"])
        began = s.clock.now
        async with s.harness.bell.transaction() as tx:
            step = await s.notify.step(tx, tell, key="a", offset=-HOUR, expires_after=30 * MINUTE)
            change = await s.harness.bell.schedules.create(
                tx,
                timezone="UTC",
                start_local=datetime(2026, 1, 5, 12),
                recurrence="FREQ=DAILY",
                steps=[step],
            )
        await s.harness.advance(2 * DAY)
        async with s.harness.bell.transaction() as tx:
            await s.harness.bell.schedules.end(tx, change.schedule.id)
        await s.harness.advance(2 * DAY)
        story = await s.story((await s.notify.notifications.list()).lines[0].id)
        due_at = story.notification.due_at
        assert story.notification.expires_at is not None
        assert story.notification.expires_at - due_at <= 30 * MINUTE
    first = datetime(2026, 1, 5, 11, tzinfo=UTC)
    assert began < first
    assert sent_at(provider) == [first, first + DAY]


async def test_a_key_tells_it_once(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        async with s.harness.bell.transaction() as tx:
            asked: dict[str, Any] = {"context": TITLE, "channels": ["email"], "key": "meeting:1/24h"}
            told = [await s.notify.tell(tx, s.recipient, REMINDER.key, **asked) for _ in range(2)]
        assert [one.created for one in told] == [True, False]
        await s.harness.advance(DAY)
        async with s.harness.bell.transaction() as tx:
            again = await s.notify.tell(tx, s.recipient, REMINDER.key, **asked)
            many = await s.notify.tell_many(tx, [Tell(recipient=s.recipient, template=REMINDER.key, **asked)])
        assert {(one.id, one.created) for one in (again, *many)} == {(told[0].id, False)}
        await s.harness.advance(DAY)
        async with s.harness.bell.transaction(tenant="b") as tx:
            await s.notify.templates.save(tx, REMINDER)
            bo = await s.notify.recipients.add(tx, name="Bo", email="bo@example.org")
            assert (await s.notify.tell(tx, bo.id, REMINDER.key, **asked)).created, "another tenant's own"
        await s.harness.run_due()
    assert provider.taken == {EMAIL: 1, "bo@example.org": 1}


@pytest.mark.parametrize("commits", [True, False])
async def test_it_is_told_if_the_caller_commits(
    database_url: TestDatabase, owner: Owner, commits: bool
) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        connection = await asyncpg.connect(database_url.url)
        try:
            transaction = connection.transaction()
            await transaction.start()
            tx = s.harness.bell.join(connection)
            await s.notify.tell(tx, s.recipient, REMINDER.key, context=TITLE, channels=["email"])
            await s.harness.run_due()
            assert provider.parcels == []
            await (transaction.commit() if commits else transaction.rollback())
        finally:
            await connection.close()
        await s.harness.advance(HOUR)
        assert await owner.value("SELECT count(*) FROM timebell_notify.notifications") == commits
    assert provider.taken.total() == commits


async def test_no_tenant_reaches_into_another(database_url: TestDatabase) -> None:
    """B knows every id of A's and can neither tell A's recipient nor take back, see or explain what A told."""
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        mine = await s.tell(channels=["email"], subject="meeting:1", due_at=s.clock.now + HOUR)
        tell = Tell(recipient=s.recipient, template=REMINDER.key, context=TITLE, channels=["email"])
        async with s.harness.bell.transaction(tenant="b") as tx:
            await s.notify.templates.save(tx, REMINDER)
            with pytest.raises(NotFound, match="recipient"):
                await s.notify.tell_many(tx, [tell])
            with pytest.raises(NotFound, match="recipient"):
                await s.notify.step(tx, tell, key="a", at=s.clock.now + HOUR)
            assert await s.notify.withdraw(tx, subject="meeting:1") == []
            (answer,) = await s.notify.withdraw(tx, id=mine)
            assert answer.answer == "not_found"
        with pytest.raises(NotFound):
            await s.notify.explain(mine, tenant="b")
        assert (await s.notify.notifications.list(tenant="b")).lines == ()
        assert (await s.now(mine)).state == "pending"
        await s.harness.advance(HOUR)
    assert provider.taken == {EMAIL: 1}


async def test_a_payload_that_names_anothers_recipient_tells_nobody(database_url: TestDatabase) -> None:
    """Whoever writes the job by hand gets past the verbs, and no further."""
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        bell = s.harness.bell
        async with bell.transaction(tenant="b") as tx:
            await s.notify.templates.save(tx, REMINDER)
            bo = await s.notify.recipients.add(tx, name="Bo", email="bo@example.org")
            step = await s.notify.step(
                tx, Tell(recipient=bo.id, template=REMINDER.key, context=TITLE), key="a", at=s.clock.now
            )
            payload = {**step.payload, "recipient": str(s.recipient)}
            job = await bell.enqueue(tx, "notify.deliver", payload)
        await s.harness.run_due()
        told = (await s.notify.notifications.get(job.id, tenant="b")).notification
        assert (told.state, told.reason) == ("skipped", "no_recipient")
        assert isinstance(told.id, UUID)
    assert provider.parcels == []
