"""What waits before it is told: for its guard, for a value that its text lacks, for another version of that text."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.engine.notify.stage import EMAIL, REMINDER, TITLE, stage
from timebell.errors import NotFound
from timebell.kernel import AgendaDiff, App, Job, Refused
from timebell.notify import Channel, Rejected, Route, Tell, TemplateDraft, Text, Unavailable, Variable
from timebell.notify.provider import Answer, Parcel
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def worded(body: str, *variables: Variable) -> TemplateDraft:
    """The reminder by mail alone, in other words."""
    text = Text(channel="email", language="en", subject="Soon", body=body)
    return TemplateDraft(key=REMINDER.key, texts=[text], variables=variables)


ROOM = Variable(name="room")


class Guard:
    """Says what it was told to say, and remembers that it was asked."""

    def __init__(self, *answers: bool | Refused | Exception) -> None:
        self._answers = list(answers)
        self.jobs: list[Job] = []
        self.app = App(name="meetings", guards={"meetings.wanted": self.ask})

    async def ask(self, job: Job) -> bool | Refused:
        self.jobs.append(job)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_guard_says_no(database_url: TestDatabase) -> None:
    guard, provider = Guard(False), RecordingProvider()
    async with stage(database_url.url, [provider], apps=[guard.app]) as s:
        told = await s.told(channels=["email"], guard="meetings.wanted", subject="meeting:1")
        assert (told.state, told.reason) == ("skipped", "guard_refused")
        assert ("guard", "refused", "guard_refused") in await s.checks(told.id)
    assert [(job.id, job.subject) for job in guard.jobs] == [(told.id, "meeting:1")]
    assert provider.parcels == []


async def test_a_guard_says_why(database_url: TestDatabase) -> None:
    guard, provider = Guard(Refused("the meeting was called off")), RecordingProvider()
    async with stage(database_url.url, [provider], apps=[guard.app]) as s:
        told = await s.told(channels=["email"], guard="meetings.wanted")
        assert (told.state, told.reason) == ("skipped", "guard_refused")
        (decision,) = (await s.story(told.id)).decisions
        assert decision.checks[0].detail == {"guard": "meetings.wanted", "why": "the meeting was called off"}
        explained = [line.text for line in (await s.notify.explain(told.id)).story]
        words = "The guard 'meetings.wanted' said that it is no longer wanted: the meeting was called off."
        assert words in explained
    assert provider.parcels == []


async def test_a_guard_is_asked_before_each_attempt(database_url: TestDatabase) -> None:
    guard, provider = Guard(True, True, False), RecordingProvider()
    provider.answer(*[Unavailable(reason="busy")] * 9)
    async with stage(database_url.url, [provider], apps=[guard.app]) as s:
        told = await s.told(channels=["email"], guard="meetings.wanted")
        await s.harness.advance(DAY)
        told = await s.now(told.id)
        assert (told.state, told.reason) == ("skipped", "guard_refused")
        assert await s.states(told.id) == [("email", "failed", "exhausted")]
    assert len(provider.parcels) == 2


async def test_a_guard_that_breaks_or_is_missing_stops_nothing_for_good(database_url: TestDatabase) -> None:
    guard, provider = Guard(RuntimeError("database"), True), RecordingProvider()
    async with stage(database_url.url, [provider], apps=[guard.app]) as s:
        broken = await s.told(channels=["email"], guard="meetings.wanted")
        missing = await s.told(channels=["email"], guard="meetings.unknown")
        assert (broken.state, missing.state) == ("pending", "pending")
        assert provider.parcels == []
        await s.harness.advance(HOUR)
        assert (await s.now(broken.id)).state == "sent"
        assert (await s.now(missing.id)).state == "pending"
        async with s.harness.bell.database.connection() as session:
            runs = await session.connection.fetchval(
                "SELECT count(*) FROM timebell.job_log WHERE id = $1", missing.id
            )
        assert runs <= 60, "what nobody can ask yet is not asked about every second"


async def test_what_one_channel_told_is_told_whatever_the_guard_says_later(
    database_url: TestDatabase,
) -> None:
    guard, provider = Guard(True, False), RecordingProvider()
    provider.answer(Unavailable(reason="busy"))
    async with stage(database_url.url, [provider], apps=[guard.app]) as s:
        route = Route(first=["email"], also=["inbox"])
        told = await s.told(channels=route, guard="meetings.wanted")
        assert told.state == "held"
        await s.harness.advance(DAY)
        told = await s.now(told.id)
        assert (told.state, told.reason) == ("sent", "shown")


@pytest.mark.parametrize(("late", "state"), [(-SECOND, "sent"), (timedelta(0), "skipped")])
async def test_the_instant_at_which_it_expires_is_too_late(
    database_url: TestDatabase, late: timedelta, state: str
) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        expires_at = s.clock.now + HOUR
        id = await s.tell(channels=["email"], due_at=s.clock.now + MINUTE, expires_at=expires_at)
        # The workers were away until then.
        s.clock.move_to(expires_at + late)
        await s.harness.run_due()
        told = await s.now(id)
        assert told.state == state
        assert told.reason == ("accepted" if state == "sent" else "expired")
    assert provider.taken.total() == (state == "sent")


@pytest.mark.parametrize("also", [[], ["inbox"]])
async def test_what_expires_while_it_is_told_goes_no_other_way(
    database_url: TestDatabase, also: list[Channel]
) -> None:
    """The first provider takes so long to say no that it would be too late for the second, and for the inbox."""
    first, second = RecordingProvider("first"), RecordingProvider("second")
    async with stage(database_url.url, [first] if also else [first, second]) as s:

        async def slow(parcel: Parcel) -> Answer:
            s.clock.move(MINUTE)
            return Rejected(reason="no", blame="account")

        first.answer(slow)
        route = Route(first=["email"], also=also)
        told = await s.told(channels=route, expires_at=s.clock.now + MINUTE)
        assert (told.state, told.reason) == ("failed", "rejected")
        assert ("expiry", "refused", "expired") in await s.checks(told.id)
        assert (await s.notify.inbox.list(s.recipient)).lines == ()
    assert (len(first.parcels), second.parcels) == (1, [])


@pytest.mark.req("A-4.3")
async def test_what_lacks_a_value_waits_for_a_person(database_url: TestDatabase) -> None:
    """It is listed, and nothing with a blank in it is ever sent."""
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        told = await s.told(channels=["email"], context={}, expires_at=s.clock.now + DAY)
        assert (told.state, told.reason) == ("skipped", "template_incomplete")
        assert (told.settled_at, told.held_until) == (None, s.clock.now + DAY)
        [line] = (await s.notify.notifications.needs_attention()).lines
        assert line.id == told.id
        await s.harness.advance(2 * DAY)
        told = await s.now(told.id)
        assert (told.state, told.reason) == ("skipped", "expired")
        assert (await s.notify.notifications.needs_attention()).lines == ()
    assert provider.parcels == []


@pytest.mark.req("A-4.3")
async def test_a_tenant_may_have_it_skipped(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        await s.decide(on_missing="skip")
        told = await s.told(channels=["email"], context={})
        assert (told.state, told.reason) == ("skipped", "template_incomplete")
        assert told.settled_at is not None
        assert await s.harness.engine.next_instant() is None
    assert provider.parcels == []


async def test_a_value_that_is_given_later_releases_it(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        told = await s.told(channels=["email"], context={})
        async with s.harness.bell.transaction() as tx:
            await s.notify.mend(tx, told.id, {"title": "Board"})
        await s.harness.run_due()
        told = await s.now(told.id)
        assert (told.state, dict(told.context)) == ("sent", TITLE)
        assert (await s.notify.notifications.needs_attention()).lines == ()
        async with s.harness.bell.transaction() as tx:
            with pytest.raises(NotFound, match="still to be told"):
                await s.notify.mend(tx, told.id, {"title": "Other"})
    assert provider.parcels[0].content.text == "Dear Ada, Board."


async def test_what_was_given_later_goes_with_what_its_agenda_says_since(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        bell, at = s.harness.bell, s.clock.now

        async def owe(title: str) -> AgendaDiff:
            tell = Tell(
                recipient=s.recipient, template=REMINDER.key, context={"title": title}, channels=["email"]
            )
            async with bell.transaction() as tx:
                step = await s.notify.step(tx, tell, key="a", at=at)
                diff = await bell.set_agenda(tx, subject="meeting:1", steps=[step])
            await s.harness.run_due()
            return diff

        async with bell.transaction() as tx:
            await s.notify.templates.save(
                tx, worded("{{ title }} in {{ room }}", Variable(name="title"), ROOM)
            )
        (added,) = (await owe("Board")).added
        assert added.job_id is not None
        await s.change(quiet_hours={"start": "00:00", "end": "23:59"})
        async with bell.transaction() as tx:
            await s.notify.mend(tx, added.job_id, {"room": "5"})
        await s.harness.run_due()
        assert (await s.now(added.job_id)).reason == "held_quiet_hours"
        await owe("Council")
        await s.change(quiet_hours=None)
        await s.harness.run_due()
    assert [parcel.content.text for parcel in provider.parcels] == ["Council in 5"]


async def test_a_better_text_releases_it_while_it_is_in_time(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        late = await s.told(channels=["email"], context={}, expires_at=s.clock.now + MINUTE)
        held = await s.told(channels=["email"], context={}, expires_at=s.clock.now + DAY)
        await s.harness.advance(HOUR)
        async with s.harness.bell.transaction() as tx:
            await s.notify.templates.save(tx, worded("Something is on."))
            assert await s.notify.repin(tx, REMINDER.key) == 1
        await s.harness.run_due()
        assert (await s.now(held.id)).state == "sent"
        assert (await s.now(late.id)).reason == "expired"
    assert [parcel.content.text for parcel in provider.parcels] == ["Something is on."]


async def test_release_tries_again_and_no_more(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        told = await s.told(channels=["email"], context={})
        async with s.harness.bell.transaction() as tx:
            assert await s.notify.release(tx, [told.id]) == [told.id]
        await s.harness.run_due()
        assert (await s.now(told.id)).reason == "template_incomplete"
        assert len((await s.story(told.id)).decisions) == 2
    assert provider.parcels == []


async def test_it_keeps_the_version_that_it_was_planned_with(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        await s.tell(channels=["email"], due_at=s.clock.now + HOUR)
        async with s.harness.bell.transaction() as tx:
            await s.notify.templates.save(tx, worded("In other words."))
        await s.tell(channels=["email"], due_at=s.clock.now + HOUR)
        await s.harness.advance(HOUR)
    assert [parcel.content.text for parcel in provider.parcels] == ["Dear Ada, Board.", "In other words."]


async def test_told_otherwise_it_takes_another_version(database_url: TestDatabase) -> None:
    """What is noted, what an agenda will only note when it is due, and nothing that is planned after."""
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        bell, due_at = s.harness.bell, s.clock.now + HOUR
        noted = await s.tell(channels=["email"], due_at=due_at)
        tell = Tell(recipient=s.recipient, template=REMINDER.key, context=TITLE, channels=["email"])
        async with bell.transaction() as tx:
            step = await s.notify.step(tx, tell, key="a", at=due_at + MINUTE)
            await bell.set_agenda(tx, subject="meeting:1", steps=[step])
            saved = await s.notify.templates.save(tx, worded("In other words."))
            assert await s.notify.repin(tx, REMINDER.key, saved.version) == 1
            after = await s.notify.step(
                tx, replace(tell, template_version=saved.version - 1), key="b", at=due_at + 2 * MINUTE
            )
            await bell.set_agenda(tx, subject="meeting:2", steps=[after])
        assert (await s.now(noted)).template_version == saved.version
        await s.harness.advance(DAY)
        async with bell.transaction() as tx:
            assert await s.notify.repin(tx, REMINDER.key, 1) == 0, "everything was told"
            with pytest.raises(NotFound, match="no version 9"):
                await s.notify.repin(tx, REMINDER.key, 9)
    assert [parcel.content.text for parcel in provider.parcels] == [
        "In other words.",
        "In other words.",
        "Dear Ada, Board.",
    ]


async def test_a_version_is_taken_for_one_tenant_alone(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        bell = s.harness.bell
        mine = await s.tell(channels=["email"], context={}, due_at=s.clock.now)
        await s.harness.run_due()
        async with bell.transaction(tenant="b") as tx:
            await s.notify.templates.save(tx, REMINDER)
            await s.notify.templates.save(tx, worded("Theirs."))
            assert await s.notify.repin(tx, REMINDER.key) == 0
            with pytest.raises(NotFound):
                await s.notify.mend(tx, mine, TITLE)
            assert await s.notify.release(tx, [mine]) == []
        await s.harness.run_due()
        assert (await s.now(mine)).reason == "template_incomplete"
    assert provider.taken[EMAIL] == 0


async def test_a_held_step_is_released_by_an_agenda_that_says_more(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        async with s.harness.bell.transaction() as tx:
            await s.notify.templates.save(tx, worded("In room {{ room }}.", ROOM))
        at = s.clock.now + MINUTE

        async def state(**context: str) -> None:
            tell = Tell(recipient=s.recipient, template=REMINDER.key, context=context, channels=["email"])
            async with s.harness.bell.transaction() as tx:
                step = await s.notify.step(tx, tell, key="a", at=at, late="run")
                await s.harness.bell.set_agenda(tx, subject="meeting:1", steps=[step])

        await state()
        await s.harness.advance(HOUR)
        assert provider.parcels == []
        await state(room="5")
        await s.harness.advance(HOUR)
    assert [parcel.content.text for parcel in provider.parcels] == ["In room 5."]
