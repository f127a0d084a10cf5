"""Steps of agendas that are told in a digest: what the agenda says of them holds until the digest closes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.engine.notify.stage import REMINDER, Stage, stage
from tests.engine.support import Cluster, Owner
from tests.store.notify.digest_support import as_run, close
from timebell.kernel import AgendaDiff
from timebell.notify import (
    Digest,
    Notify,
    Report,
    Route,
    Tell,
    TellOptions,
    TemplateDraft,
    Text,
    Variable,
    notify_app,
)
from timebell.notify.delivery.digests import Digests
from timebell.notify.rules.intents import Intent
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

MORNING = datetime(2027, 3, 2, 7, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
DAILY = Digest(key="news", closes="FREQ=DAILY;BYHOUR=7;BYMINUTE=0", template="news.daily")
TEXT = "{% for entry in entries %}{{ entry.title }}. {% endfor %}"
DAILY_DRAFT = TemplateDraft(
    key="news.daily",
    texts=[
        Text(channel="inbox", language="en", subject="Today", body=TEXT),
        Text(channel="email", language="en", subject="Today", body=TEXT),
    ],
    variables=[Variable(name="entries")],
)


class Meetings:
    """Agendas whose one step is told in the digest of the next morning."""

    def __init__(self, s: Stage) -> None:
        self.s = s

    async def owe(self, subject: str, at: datetime, title: str, **tell: Any) -> AgendaDiff:
        bell = self.s.harness.bell
        asked: dict[str, Any] = {
            "recipient": self.s.recipient,
            "template": REMINDER.key,
            "context": {"title": title},
            "channels": ["inbox"],
            "digest": DAILY,
        }
        async with bell.transaction() as tx:
            step = await self.s.notify.step(tx, Tell(**{**asked, **tell}), key="remind", at=at)
            diff = await bell.set_agenda(tx, subject=subject, steps=[step])
        await self.s.harness.run_due()
        return diff

    async def clear(self, subject: str) -> AgendaDiff:
        bell = self.s.harness.bell
        async with bell.transaction() as tx:
            return await bell.clear_agenda(tx, subject=subject)

    async def told(self) -> list[str]:
        page = await self.s.notify.inbox.list(self.s.recipient)
        return [line.description.strip() for line in page.lines]

    async def until(self, at: datetime) -> None:
        await self.s.harness.advance(at - self.s.clock.now)


async def begin(s: Stage) -> Meetings:
    async with s.harness.bell.transaction() as tx:
        await s.notify.templates.save(tx, DAILY_DRAFT)
    meetings = Meetings(s)
    await meetings.until(MORNING - 10 * HOUR)
    return meetings


async def test_what_an_agenda_withdraws_leaves_the_digest(database_url: TestDatabase, owner: Owner) -> None:
    async with stage(database_url.url) as s:
        meetings = await begin(s)
        at = s.clock.now
        kept = (await meetings.owe("meeting:1", at, "One")).added[0].job_id
        gone = (await meetings.owe("meeting:2", at, "Two")).added[0].job_id
        replaced = (await meetings.owe("meeting:3", at, "Three")).added[0].job_id
        assert kept is not None
        assert gone is not None
        assert replaced is not None
        assert (await s.now(gone)).state == "held"
        diff = await meetings.clear("meeting:2")
        assert [step.job_id for step in diff.withdrawn] == [gone]
        async with s.harness.bell.transaction() as tx:
            await s.harness.bell.set_agenda(tx, subject="meeting:3", steps=[])
        assert [(await s.now(id)).state for id in (kept, gone, replaced)] == [
            "held",
            "withdrawn",
            "withdrawn",
        ]
        await meetings.until(MORNING)
        assert await meetings.told() == ["One."]
        assert [(await s.now(id)).state for id in (kept, gone, replaced)] == [
            "sent",
            "withdrawn",
            "withdrawn",
        ]
    assert await owner.jobs() == []


async def test_a_step_that_was_told_in_a_digest_is_not_owed_again(database_url: TestDatabase) -> None:
    async with stage(database_url.url) as s:
        meetings = await begin(s)
        at = s.clock.now
        await meetings.owe("meeting:1", at, "One")
        await meetings.until(MORNING)
        diff = await meetings.owe("meeting:1", at, "One", context={"title": "One again"})
        assert [step.key for step in diff.done] == ["remind"]
        await meetings.until(MORNING + 2 * DAY)
        assert await meetings.told() == ["One."]


async def test_a_step_that_is_moved_is_told_with_the_digest_of_its_new_time(
    database_url: TestDatabase, owner: Owner
) -> None:
    async with stage(database_url.url) as s:
        meetings = await begin(s)
        at = s.clock.now
        await meetings.owe("meeting:1", at, "Stays")
        await meetings.owe("meeting:2", at, "Moves")
        diff = await meetings.owe("meeting:2", MORNING + HOUR, "Moved")
        assert [step.key for step in diff.moved] == ["remind"]
        await meetings.until(MORNING)
        assert await meetings.told() == ["Stays."]
        await meetings.until(MORNING + DAY)
        assert await meetings.told() == ["Stays.", "Moved."]
    assert await owner.jobs() == []


async def test_a_step_that_is_changed_is_told_as_it_is_then(database_url: TestDatabase) -> None:
    async with stage(database_url.url) as s:
        meetings = await begin(s)
        at = s.clock.now
        await meetings.owe("meeting:1", at, "Room 1")
        await meetings.owe("meeting:2", at, "Alone")
        await meetings.owe("meeting:1", at, "Room 2")
        await meetings.owe("meeting:2", at, "Alone", digest=None)
        assert await meetings.told() == ["Your meeting."], "without a digest it is told at once"
        await meetings.until(MORNING + DAY)
        assert await meetings.told() == ["Your meeting.", "Room 2."]


async def test_a_key_stands_for_what_was_told_in_a_digest(database_url: TestDatabase) -> None:
    async with stage(database_url.url) as s:
        meetings = await begin(s)
        asked = {"channels": ["inbox"], "digest": DAILY, "key": "welcome", "context": {"title": "Welcome"}}
        first = await s.tell(**asked)
        await meetings.until(MORNING)
        assert await s.tell(**asked) == first
        await meetings.until(MORNING + 2 * DAY)
        assert await meetings.told() == ["Welcome."]


@pytest.mark.parametrize(
    ("kind", "expected"), [("delivered", ("delivered", "in_digest")), ("bounced", ("failed", "bounced"))]
)
async def test_what_is_reported_of_a_digest_is_so_of_what_it_told(
    database_url: TestDatabase, kind: Any, expected: tuple[str, str]
) -> None:
    mails = RecordingProvider("mails", channels=["email"], reports=True)
    async with stage(database_url.url, [mails]) as s:
        meetings = await begin(s)
        at = s.clock.now
        one, two, out = [
            (await meetings.owe(f"meeting:{name}", at, name, channels=["email"])).added[0].job_id
            for name in ("one", "two", "out")
        ]
        assert one is not None
        assert two is not None
        assert out is not None
        await meetings.clear("meeting:out")
        await meetings.until(MORNING)
        (parcel,) = mails.parcels
        report = Report(report_id=uuid4().hex, kind=kind, delivery_id=parcel.delivery_id)
        (received,) = await s.notify.reports.receive("mails", [report])
        assert received.outcome == "applied"
        for id in (one, two):
            found = await s.now(id)
            assert (found.state, found.reason) == expected
        assert (await s.now(out)).state == "withdrawn"


@pytest.mark.parametrize("statement", ["note_progress", "retry_jobs"])
async def test_what_runs_while_the_digest_closes_is_told_once_with_the_next(
    cluster: Cluster, owner: Owner, statement: str
) -> None:
    """The run has joined and stands still before its end, while another worker closes the digest."""
    node = await cluster.node([notify_app()])
    notify = Notify(node.bell)
    async with node.bell.transaction() as tx:
        ana = await notify.recipients.add(tx, name="Ana")
        await notify.templates.save(tx, DAILY_DRAFT)
        await notify.templates.save(tx, REMINDER)
    cluster.clock.move_to(MORNING - HOUR)

    async def tell(title: str) -> UUID:
        async with node.bell.transaction() as tx:
            options: TellOptions = {"context": {"title": title}, "channels": ["inbox"], "digest": DAILY}
            return (await notify.tell(tx, ana.id, REMINDER.key, **options)).id

    early = await tell("Rain")
    await node.run_due()
    late = await tell("Wind")
    hold = node.stage.hold("before", statement)
    await node.run_until(hold)
    (window,) = await owner.rows("SELECT * FROM timebell_notify.digests")
    intent = Intent(
        recipient=ana.id,
        template="news.daily",
        template_version=1,
        topic="news",
        message_class="transactional",
        route=Route(first=["inbox"]),
        digest_id=window["id"],
    )
    job = as_run(node.bell, window["notification_id"], intent.payload())
    closed = await close(Digests(node.bell), job, window["id"], ana, MORNING)
    assert closed is not None
    assert [entry["title"] for entry in closed["entries"]] == ["Rain"]
    await node.go_on(hold)
    for at in (MORNING, MORNING + timedelta(minutes=5), MORNING + DAY, MORNING + 2 * DAY):
        cluster.clock.move_to(at)
        await node.run_due()
    page = await notify.inbox.list(ana.id)
    assert [line.description.strip() for line in page.lines] == ["Rain.", "Wind."]
    for id in (early, late):
        assert (await notify.notifications.get(id)).notification.reason == "in_digest"
    assert await owner.jobs() == []
