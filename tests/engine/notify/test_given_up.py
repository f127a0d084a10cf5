"""What a dead job was to tell is shown as given up, and told all the same once an operator revives the job."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from tests.engine.notify.stage import EMAIL, TITLE, Owner, Stage, stage
from timebell.kernel import App, Job
from timebell.notify import Digest, Route, TemplateDraft, Text, Unavailable, Uncertain
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
DAILY = Digest(key="news", closes="FREQ=DAILY;BYHOUR=8;BYMINUTE=0", template="daily")


class Guard:
    """Says yes so many times, and then breaks until it is mended."""

    def __init__(self, times: int = 0) -> None:
        self._left = times
        self.is_mended = False
        self.app = App(name="meetings", guards={"meetings.wanted": self.ask})

    async def ask(self, job: Job) -> bool:
        self._left -= 1
        if self._left < 0 and not self.is_mended:
            raise RuntimeError("no such table")
        return True


async def attention(s: Stage) -> list[UUID]:
    """One on each page, so that every page has a next one but the last."""
    found: list[UUID] = []
    cursor = None
    for _ in range(10):
        page = await s.notify.notifications.needs_attention(limit=1, cursor=cursor)
        found += [line.id for line in page.lines]
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise AssertionError("the pages do not end")


async def revive(s: Stage, id: UUID) -> None:
    async with s.harness.bell.transaction() as tx:
        assert await s.harness.bell.revive(tx, ids=[id]) == [id]


async def test_what_died_was_given_up_until_it_is_revived(database_url: TestDatabase, owner: Owner) -> None:
    guard, provider = Guard(), RecordingProvider()
    async with stage(database_url.url, [provider], apps=[guard.app]) as s:
        told = await s.told(channels=["email"], guard="meetings.wanted")
        assert (told.state, told.reason) == ("pending", None), "it is tried again"
        assert await attention(s) == []
        await s.harness.advance(DAY)
        assert await owner.value("SELECT id FROM timebell.dead_jobs") == told.id
        told = await s.now(told.id)
        assert (told.state, told.reason, told.held_until) == ("failed", "given_up", None)
        assert await attention(s) == [told.id]
        assert (await s.notify.notifications.needs_attention(tenant="b")).lines == ()
        failed = await s.notify.notifications.list(state="failed")
        assert [line.id for line in failed.lines] == [told.id]
        explained = await s.notify.explain(told.id)
        assert explained.summary.startswith("Its job was given up and waits for an operator")
        guard.is_mended = True
        await revive(s, told.id)
        assert (await s.now(told.id)).state == "pending"
        await s.harness.run_due()
        assert (await s.now(told.id)).state == "sent"
        assert await attention(s) == []
    assert provider.taken == {EMAIL: 1}


async def test_a_run_that_fails_for_an_hour_costs_nothing(database_url: TestDatabase) -> None:
    guard, provider = Guard(), RecordingProvider()
    async with stage(database_url.url, [provider], apps=[guard.app]) as s:
        told = await s.told(channels=["email"], guard="meetings.wanted")
        await s.harness.advance(HOUR)
        assert (await s.now(told.id)).state == "pending"
        guard.is_mended = True
        # A quarter of an hour is the longest pause of the policy, and chance makes it up to half as long again.
        await s.harness.advance(HOUR / 2)
        assert (await s.now(told.id)).state == "sent"
    assert provider.taken == {EMAIL: 1}


async def test_it_is_given_up_after_twenty_runs(database_url: TestDatabase, owner: Owner) -> None:
    guard = Guard()
    async with stage(database_url.url, apps=[guard.app]) as s:
        await s.told(channels=["email"], guard="meetings.wanted")
        # Two and a half hours by the policy, and half as long again if chance lengthens every pause.
        await s.harness.advance(4 * HOUR)
        assert await owner.value("SELECT attempt FROM timebell.dead_jobs") == 20


async def test_what_was_told_before_its_job_died_was_told(database_url: TestDatabase) -> None:
    """In part, or perhaps; and what is left of it waits for an operator."""
    guard, provider = Guard(times=2), RecordingProvider(reports=True)
    provider.answer(Unavailable(reason="busy"), Uncertain(reason="hung up"))
    async with stage(database_url.url, [provider], apps=[guard.app]) as s:
        in_part = await s.told(channels=Route(first=["email"], also=["inbox"]), guard="meetings.wanted")
        perhaps = await s.told(channels=["email"], guard="meetings.wanted")
        assert (perhaps.state, perhaps.reason) == ("uncertain", "held_report")
        await s.harness.advance(DAY)
        assert await attention(s) == [in_part.id, perhaps.id], "each of them once"
        in_part, perhaps = await s.now(in_part.id), await s.now(perhaps.id)
        assert (in_part.state, in_part.reason) == ("sent", "given_up")
        assert (perhaps.state, perhaps.reason) == ("uncertain", "given_up")
    assert len(provider.parcels) == 2


async def test_what_is_in_a_digest_that_died_was_given_up_with_it(database_url: TestDatabase) -> None:
    guard = Guard(times=1)
    daily = TemplateDraft(
        key=DAILY.template,
        texts=[Text(channel="inbox", language="en", subject="Today", body="All of it")],
    )
    async with stage(database_url.url, apps=[guard.app]) as s:
        async with s.harness.bell.transaction() as tx:
            await s.notify.templates.save(tx, daily)
        id = await s.tell(channels=["inbox"], context=TITLE, guard="meetings.wanted", digest=DAILY)
        await s.harness.advance(HOUR)
        assert (await s.now(id)).reason == "held_digest"
        await s.harness.advance(2 * DAY)
        member = await s.now(id)
        assert (member.state, member.reason, member.held_until) == ("failed", "given_up", None)
        assert "None" not in (await s.notify.explain(id)).summary
        (digest,) = await attention(s)
        assert digest != id, "it is the digest that an operator can mend"
        guard.is_mended = True
        await revive(s, digest)
        await s.harness.run_due()
        assert ((await s.now(id)).state, (await s.now(id)).reason) == ("sent", "in_digest")


# What a database that is in trouble does to a digest, however often it is tried.
_KEPT_OPEN = (
    """CREATE FUNCTION keep_open() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN RAISE lock_not_available USING MESSAGE = 'somebody else has it'; END$$""",
    """CREATE TRIGGER keep_open BEFORE UPDATE OF closed_at ON timebell_notify.digests
    FOR EACH ROW EXECUTE FUNCTION keep_open()""",
)


async def test_what_waits_for_a_digest_that_died_open_is_told_by_itself(
    database_url: TestDatabase, owner: Owner
) -> None:
    provider = RecordingProvider()
    provider.answer(Unavailable(reason="busy"))
    daily = TemplateDraft(
        key=DAILY.template,
        texts=[Text(channel="email", language="en", subject="Today", body="All of it")],
    )
    async with stage(database_url.url, [provider]) as s:
        async with s.harness.bell.transaction() as tx:
            await s.notify.templates.save(tx, daily)
        ids = [await s.tell(channels=["email"], context=TITLE, digest=DAILY) for _ in range(2)]
        await s.harness.advance(HOUR)
        assert {(await s.now(id)).reason for id in ids} == {"held_digest"}
        for statement in _KEPT_OPEN:
            await owner.rows(statement)
        await s.harness.advance(2 * DAY)
        members = [await s.now(id) for id in ids]
        assert [(member.state, member.reason) for member in members] == [("sent", "accepted")] * 2
        assert len(provider.parcels) == 3, "one was put off, and told by itself all the same"
        assert {member.digest_id for member in members} == {None}
        assert "told by itself" in str(await s.notify.explain(ids[0]))
        (digest,) = await attention(s)
        await owner.rows("DROP TRIGGER keep_open ON timebell_notify.digests")
        await revive(s, digest)
        await s.harness.run_due()
        told = await s.now(digest)
        assert (told.state, told.reason) == ("skipped", "empty_digest")
    assert len(provider.parcels) == 3
