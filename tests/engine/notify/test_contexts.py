"""A context that is read when something is told: asked late, never for nothing, and over what was planned."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.notify.stage import REMINDER, Owner, stage
from tests.engine.notify.test_digests import DAILY, MORNING, move, set_up, shown, states
from tests.engine.support import Cluster
from timebell.errors import ConfigurationError, InvalidInput
from timebell.kernel import App, Job, Registry
from timebell.notify import QuietHours, Route, Tell, notify_app
from timebell.notify.planning.telling import Teller
from timebell.notify.templates.templates import Templates
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NAME = "meetings.facts"


class Facts:
    """Answers with what it was told to answer with, and remembers who asked."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = {"title": "Board, moved"} if answer is None else answer
        self.jobs: list[Job] = []
        self.app = App(name="meetings", contexts={NAME: self.read}, guards={"meetings.wanted": self.ask})
        self.is_wanted = True

    async def read(self, job: Job) -> Mapping[str, Any]:
        self.jobs.append(job)
        if isinstance(self.answer, Exception):
            raise self.answer
        found: Mapping[str, Any] = self.answer
        return found

    async def ask(self, job: Job) -> bool:
        return self.is_wanted


def subjects(provider: RecordingProvider) -> list[str | None]:
    return [parcel.content.subject for parcel in provider.parcels]


async def test_it_is_read_when_it_is_told_and_goes_over_what_was_planned(database_url: TestDatabase) -> None:
    facts, provider = Facts(), RecordingProvider()
    async with stage(database_url.url, [provider], apps=[facts.app]) as s:
        planned = {"title": "Board", "type": "planned"}
        route = Route(first=["email"], also=["inbox"])
        due_at = s.clock.now + HOUR
        id = await s.tell(
            channels=route, context=planned, context_from=NAME, due_at=due_at, subject="meeting:1"
        )
        await s.harness.run_due()
        assert facts.jobs == []
        facts.answer = {"title": "Board in room 7", "at": due_at}
        await s.harness.advance(HOUR)
        story = await s.story(id)
        assert story.notification.state == "sent"
        assert story.notification.context == planned
        assert [(job.id, job.subject) for job in facts.jobs] == [(id, "meeting:1")]
        assert subjects(provider) == ["Soon: Board in room 7"]
        assert story.deliveries[0].content is not None
        assert story.deliveries[0].content["subject"] == "Soon: Board in room 7"
        inbox = await s.notify.inbox.list(s.recipient)
        assert [(line.title, line.type) for line in inbox.lines] == [("Soon: Board in room 7", "planned")]
        explained = [line.text for line in (await s.notify.explain(id)).story]
        assert f"What it says was read from {NAME!r} as it was told." in explained


async def test_it_is_not_read_for_what_is_not_told_now(database_url: TestDatabase) -> None:
    facts, provider = Facts(), RecordingProvider()
    async with stage(database_url.url, [provider], apps=[facts.app]) as s:
        now = s.clock.now
        quiet = QuietHours(start=now.time(), end=(now + 8 * HOUR).time())
        await s.change(quiet_hours=quiet)
        id = await s.tell(channels=["email"], context_from=NAME)
        await s.harness.run_due()
        assert ((await s.now(id)).reason, facts.jobs) == ("held_quiet_hours", [])
        facts.answer = {"title": "Morning"}
        await s.harness.advance(8 * HOUR)
        assert subjects(provider) == ["Soon: Morning"]
        await s.change(quiet_hours=None)
        facts.is_wanted = False
        refused = await s.told(channels=["email"], context_from=NAME, guard="meetings.wanted")
        assert refused.reason == "guard_refused"
        late = await s.told(channels=["email"], context_from=NAME, expires_at=s.clock.now)
        assert late.reason == "expired"
        assert len(facts.jobs) == 1


async def test_one_that_breaks_or_is_missing_stops_nothing_for_good(database_url: TestDatabase) -> None:
    facts, provider = Facts(RuntimeError("database")), RecordingProvider()
    async with stage(database_url.url, [provider], apps=[facts.app]) as s:
        broken = await s.told(channels=["email"], context_from=NAME)
        missing = await s.told(channels=["email"], context_from="meetings.unknown")
        assert (broken.state, missing.state) == ("pending", "pending")
        facts.answer = {"title": "Mended"}
        await s.harness.advance(HOUR)
        assert (await s.now(broken.id)).state == "sent"
        assert (await s.now(missing.id)).state == "pending"
        async with s.harness.bell.database.connection() as session:
            errors = await session.connection.fetch(
                "SELECT error FROM timebell.job_log WHERE id = $1", missing.id
            )
        assert "load the app that brings it" in str(errors)
    assert subjects(provider) == ["Soon: Mended"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (["title"], "is a list; answer with a mapping"),
        ({"title": "x" * 70_000}, "bytes, the limit is 65536"),
        ({"title": object()}, "cannot be written as JSON"),
        ({"title": "a\x00b"}, "must not contain a NUL"),
    ],
    ids=["no mapping", "too large", "no JSON", "NUL"],
)
async def test_what_no_text_can_say_waits_for_an_operator(
    database_url: TestDatabase, answer: Any, words: str
) -> None:
    facts, provider = Facts(answer), RecordingProvider()
    async with stage(database_url.url, [provider], apps=[facts.app]) as s:
        told = await s.told(channels=["email"], context_from=NAME)
        assert (told.state, told.reason) == ("failed", "given_up")
        async with s.harness.bell.database.connection() as session:
            reason = await session.connection.fetchval("SELECT reason FROM timebell.dead_jobs")
        assert words in reason
        assert NAME in reason
        facts.answer = {"title": "Mended"}
        async with s.harness.bell.transaction() as tx:
            assert await s.harness.bell.revive(tx, ids=[told.id]) == [told.id]
        await s.harness.run_due()
        assert (await s.now(told.id)).state == "sent"
    assert subjects(provider) == ["Soon: Mended"]


async def test_a_step_of_an_agenda_reads_it_too(database_url: TestDatabase) -> None:
    facts, provider = Facts(), RecordingProvider()
    async with stage(database_url.url, [provider], apps=[facts.app]) as s:
        anchor = s.clock.now + DAY
        tell = Tell(recipient=s.recipient, template=REMINDER.key, channels=["email"], context_from=NAME)
        async with s.harness.bell.transaction() as tx:
            step = await s.notify.step(tx, tell, key="soon", anchor=anchor, offset=-HOUR)
            await s.harness.bell.set_agenda(tx, subject="meeting:1", anchor=anchor, steps=[step])
        await s.harness.advance(DAY)
    assert subjects(provider) == ["Soon: Board, moved"]


async def test_what_joined_a_digest_is_read_as_it_closes(cluster: Cluster, owner: Owner) -> None:
    titles = {"1": "Rain", "2": "Snow", "3": "Wind"}
    asked: list[str] = []

    async def read(job: Job) -> Mapping[str, Any]:
        asked.append(job.payload["context"]["n"])
        assert job.payload["context_from"] == "news.facts"
        answer: Any = None if job.payload["context"]["n"] == "2" else {"title": titles[asked[-1]]}
        found: Mapping[str, Any] = answer
        return found

    node = await cluster.node((notify_app(), App(name="news", contexts={"news.facts": read})))
    ana = await set_up(node.bell)
    cluster.clock.move_to(MORNING - HOUR)
    tells = [
        Tell(
            recipient=ana,
            template="news.one",
            context={"title": "planned", "n": n},
            context_from="news.facts" if n != "4" else None,
            channels=["inbox"],
            digest=DAILY,
        )
        for n in "1234"
    ]
    async with node.bell.transaction() as tx:
        ids = [told.id for told in await Teller(node.bell, Templates(node.bell)).tell_many(tx, tells)]
    await node.run_due()
    assert asked == []
    titles["1"] = "Sun"
    await move(cluster, MORNING, node)
    assert asked == ["1", "2", "3"]
    assert [text for _, text, _ in await shown(node.bell, ana)] == ["Sun. Wind. planned. 0 more"]
    found = await states(owner)
    assert [found[id] for id in ids] == [
        ("sent", "in_digest"),
        ("skipped", "template_failed"),
        ("sent", "in_digest"),
        ("sent", "in_digest"),
    ]


async def test_a_digest_holds_as_much_as_there_is_room_for(cluster: Cluster) -> None:
    async def read(job: Job) -> Mapping[str, Any]:
        return {"title": "x", "much": "y" * 60_000}

    node = await cluster.node((notify_app(), App(name="news", contexts={"news.facts": read})))
    ana = await set_up(node.bell)
    cluster.clock.move_to(MORNING - HOUR)
    tell = Tell(
        recipient=ana, template="news.one", context_from="news.facts", channels=["inbox"], digest=DAILY
    )
    async with node.bell.transaction() as tx:
        await Teller(node.bell, Templates(node.bell)).tell_many(tx, [tell] * 20)
    await node.run_due()
    await move(cluster, MORNING, node)
    (line,) = await shown(node.bell, ana)
    assert line[1] == "x. " * 16 + "4 more"


def test_a_name_is_brought_once_and_checked() -> None:
    async def read(job: Job) -> Mapping[str, Any]:
        return {}

    apps = [App(name=name, contexts={NAME: read}) for name in ("one", "two")]
    assert Registry(apps[:1]).contexts[NAME] is read
    with pytest.raises(ConfigurationError, match=r"the context 'meetings.facts' is already brought"):
        Registry(apps)


async def test_a_name_that_is_none_is_refused(database_url: TestDatabase) -> None:
    async with stage(database_url.url) as s:
        for name in ("", 7, "x" * 201):
            with pytest.raises(InvalidInput) as raised:
                await s.tell(context_from=name)
            assert raised.value.field == "context_from"
