"""Dead jobs wait whole for an operator, who revives or discards them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import structlog

from tests.engine.support import Owner
from tests.log_lines import kept_lines
from timebell.kernel import App, Handler, Job, Queue, Retry
from timebell.kernel.insights.insights import Insights
from timebell.testing import Harness, harness
from timebell.testing.database import TestDatabase

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
MODES = ("plain", "transactional", "external")


class Bank:
    """A handler that fails for good until it is mended, and notes what it was given."""

    def __init__(self) -> None:
        self.is_mended = False
        self.error = "account closed"
        self.clock: Any = None
        self.paid: list[tuple[datetime, Job]] = []

    def app(self, mode: Any = "plain") -> App:
        async def pay(job: Job) -> Any:
            if not self.is_mended:
                return Retry(f"{self.error} {job.payload.get('number')}", "permanent")
            self.paid.append((self.clock.now, job))
            return None

        return App(name="t", handlers={"t.pay": Handler(run=pay, mode=mode)}, queues=[Queue(name="q")])


async def kill_some(h: Harness, number: int, **options: Any) -> list[UUID]:
    async with h.bell.transaction() as tx:
        made = [await h.bell.enqueue(tx, "t.pay", {"number": each}, **options) for each in range(number)]
    await h.run_due()
    return [each.id for each in made]


async def revive(h: Harness, **options: Any) -> list[UUID]:
    async with h.bell.transaction() as tx:
        return await h.bell.revive(tx, actor="olga", **options)


@pytest.mark.req("J-13.3", "U-7")
@pytest.mark.parametrize("mode", MODES)
async def test_a_dead_job_keeps_all_that_is_needed_to_judge_it(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    bank = Bank()
    async with harness(database_url.url, [bank.app(mode)]) as h:
        (id,) = await kill_some(
            h, 1, queue="q", subject="booking:1", key="pay:1", priority=7, correlation_id="request-1"
        )
    (dead,) = await owner.rows("SELECT *, payload::text AS payload_text FROM timebell.dead_jobs")
    facts = (
        "id",
        "kind",
        "queue",
        "subject",
        "key",
        "priority",
        "attempt",
        "error",
        "error_class",
        "correlation_id",
    )
    assert [dead[name] for name in facts] == [
        id,
        "t.pay",
        "q",
        "booking:1",
        "pay:1",
        7,
        1,
        "account closed 0",
        "permanent",
        "request-1",
    ]
    assert dead["payload_text"] == '{"number": 0}'
    assert dead["reason"] == "permanent error"
    assert dead["died_at"] == h.clock.now
    assert await owner.value("SELECT count(*) FROM timebell.job_keys") == 0, "the key is free"


@pytest.mark.req("J-13.3", "U-7")
@pytest.mark.parametrize("mode", MODES)
async def test_a_revived_job_runs_under_its_own_id_with_its_attempts_anew(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    bank = Bank()
    async with harness(database_url.url, [bank.app(mode)]) as h:
        bank.clock = h.clock
        id, other = await kill_some(h, 2, subject="booking:1", correlation_id="request-1")
        bank.is_mended = True
        await h.advance(HOUR)
        assert bank.paid == [], "nobody brings it back but an operator"
        assert await revive(h, ids=[id]) == [id]
        await h.run_due()
        ((at, job),) = bank.paid
    assert (at, job.id, job.attempt, job.payload) == (h.clock.now, id, 1, {"number": 0})
    assert (job.subject, job.correlation_id, job.due_at) == ("booking:1", "request-1", h.clock.now - HOUR)
    log = await owner.rows("SELECT * FROM timebell.job_log WHERE id = $1 ORDER BY version, finished_at", id)
    assert [(row["state"], row["reason"], row["actor"]) for row in log] == [
        ("dead", "permanent error", None),
        ("pending", "revived", "olga"),
        ("done", None, None),
    ]
    assert [row["id"] for row in await owner.rows("SELECT id FROM timebell.dead_jobs")] == [other]


@pytest.mark.req("U-7")
async def test_a_revived_job_may_die_again_and_be_revived_again(
    database_url: TestDatabase, owner: Owner
) -> None:
    bank = Bank()
    async with harness(database_url.url, [bank.app()]) as h:
        bank.clock = h.clock
        (id,) = await kill_some(h, 1)
        for _ in range(3):
            assert await revive(h, ids=[id]) == [id]
            await h.run_due()
            assert await owner.value("SELECT count(*) FROM timebell.dead_jobs") == 1
        bank.is_mended = True
        await revive(h, ids=[id])
        await h.run_due()
    assert [job.id for _, job in bank.paid] == [id]


@pytest.mark.req("U-7")
async def test_a_payload_can_be_mended(database_url: TestDatabase) -> None:
    bank = Bank()
    async with harness(database_url.url, [bank.app()]) as h:
        bank.clock = h.clock
        (id,) = await kill_some(h, 1)
        bank.is_mended = True
        await revive(h, ids=[id], payload={"number": 42})
        await h.run_due()
    assert [job.payload for _, job in bank.paid] == [{"number": 42}]


@pytest.mark.req("U-7")
async def test_all_that_died_of_one_cause_come_back_at_a_capped_rate(database_url: TestDatabase) -> None:
    """Twenty of one cause at four a second; what died of another cause stays."""
    bank = Bank()
    async with harness(database_url.url, [bank.app()]) as h:
        bank.clock = h.clock
        ids = await kill_some(h, 20)
        bank.error = "no such bank"
        await kill_some(h, 3)
        insights = Insights(h.bell.database, h.clock)
        page = await insights.dead("default", limit=100)
        causes = {job.fingerprint for job in page.lines}
        assert len(causes) == 2
        fingerprint = next(job.fingerprint for job in page.lines if job.id == ids[0])
        bank.is_mended = True
        start = h.clock.now
        assert set(await revive(h, fingerprint=fingerprint, per_second=4)) == set(ids)
        await h.advance(10 * SECOND)
        assert len((await insights.dead("default", limit=100)).lines) == 3
    assert [at - start for at, _ in bank.paid] == [number * SECOND / 4 for number in range(20)]
    assert [job.id for _, job in bank.paid] == ids, "in the order in which they died"


@pytest.mark.req("U-7")
async def test_a_job_whose_key_was_taken_meanwhile_stays_dead(
    database_url: TestDatabase, owner: Owner
) -> None:
    bank = Bank()
    async with harness(database_url.url, [bank.app()]) as h:
        bank.clock = h.clock
        (id,) = await kill_some(h, 1, key="pay:1")
        bank.is_mended = True
        async with h.bell.transaction() as tx:
            another = await h.bell.enqueue(tx, "t.pay", {"number": 9}, key="pay:1", delay=HOUR)
        assert another.created
        assert await revive(h, ids=[id]) == []
        await h.advance(HOUR)
        assert [job.id for _, job in bank.paid] == [another.id]
        assert await revive(h, ids=[id]) == [id], "the key is free again"
        await h.run_due()
    assert [job.id for _, job in bank.paid] == [another.id, id]


@pytest.mark.req("J-13.3", "U-7")
async def test_what_is_discarded_is_gone_and_its_story_kept(database_url: TestDatabase, owner: Owner) -> None:
    bank = Bank()
    async with harness(database_url.url, [bank.app()]) as h:
        bank.clock = h.clock
        ids = await kill_some(h, 3)
        async with h.bell.transaction() as tx:
            assert await h.bell.discard(tx, ids=ids[:2], actor="olga") == sorted(ids[:2])
        bank.is_mended = True
        assert await revive(h, kind="t.pay") == ids[2:]
        await h.run_due()
    discarded = [row for row in await owner.log("dead") if row["reason"] == "discarded"]
    assert {(row["id"], row["actor"]) for row in discarded} == {(id, "olga") for id in ids[:2]}
    assert [job.id for _, job in bank.paid] == ids[2:]


async def test_a_tenant_reaches_its_own_dead_jobs_only(database_url: TestDatabase) -> None:
    bank = Bank()
    async with harness(database_url.url, [bank.app()]) as h:
        ids = await kill_some(h, 2)
        async with h.bell.transaction(tenant="stranger") as tx:
            assert await h.bell.revive(tx, ids=ids) == []
            assert await h.bell.discard(tx, kind="t.pay") == []
        assert (await Insights(h.bell.database, h.clock).dead("stranger", limit=10)).lines == ()


@pytest.mark.req("J-13.4")
@pytest.mark.parametrize("mode", ["plain", "external", "thread"])
async def test_a_correlation_id_runs_through_the_job_its_log_lines_and_its_events(
    database_url: TestDatabase, owner: Owner, mode: Any
) -> None:
    lines: list[dict[str, Any]] = []

    def say(job: Job) -> None:
        # What a handler or a provider logs says by itself to which job it belongs.
        bound = structlog.contextvars.get_contextvars()
        lines.append(dict(bound))
        assert job.correlation_id == "request-1"

    async def send(job: Job) -> None:
        say(job)
        async with h.bell.transaction() as tx:
            await h.bell.record(tx, "message.sent", subject="booking:1", correlation_id=job.correlation_id)
            await h.bell.enqueue(tx, "t.confirm", correlation_id=job.correlation_id)

    async def confirm(job: Job) -> Any:
        say(job)
        return Retry("refused", "permanent")

    handlers: dict[str, Handler] = {
        "t.trigger": Handler(
            run=say if mode == "thread" else send, mode="plain" if mode == "thread" else mode
        ),
        "t.confirm": Handler(run=confirm),
    }
    async with harness(database_url.url, [App(name="t", handlers=handlers)]) as h:
        async with h.bell.transaction() as tx:
            id = (await h.bell.enqueue(tx, "t.trigger", correlation_id="request-1")).id
        await h.run_due()
        journey = await Insights(h.bell.database, h.clock).journey("default", id)
        assert journey is not None
        assert journey.job.correlation_id == "request-1"
    assert {line["correlation_id"] for line in lines} == {"request-1"}
    assert lines[0]["job_id"] == str(id)
    assert lines[0]["kind"] == "t.trigger"
    assert {row["correlation_id"] for row in await owner.log()} == {"request-1"}
    if mode != "thread":
        assert await owner.value("SELECT correlation_id FROM timebell.events") == "request-1"
        assert await owner.value("SELECT correlation_id FROM timebell.dead_jobs") == "request-1"
        told = [entry.details["name"] for entry in journey.entries if entry.what == "event"]
        assert told == ["message.sent"]


@pytest.mark.req("J-13.4")
async def test_a_job_that_dies_is_written_to_the_log_of_the_process(
    database_url: TestDatabase,
) -> None:
    bank = Bank()
    with kept_lines() as lines:
        async with harness(database_url.url, [bank.app()]) as h:
            (id,) = await kill_some(h, 1, correlation_id="request-1")
    (line,) = [line for line in lines if line["event"] == "a job is dead"]
    assert line["log_level"] == "error"
    assert (line["job_id"], line["kind"], line["correlation_id"]) == (str(id), "t.pay", "request-1")
    assert line["error"] == "account closed 0"
