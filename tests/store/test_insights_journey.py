"""The journey of one job: everything that is known of it, in order, and nobody else's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest

from tests.store.insights_support import IDS, MINUTE, SECOND, ago, bury, enqueue, log, write
from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.db.pool import Database
from timebell.kernel import Dead, Done, Handler, Job, Outcome, Retry, Snooze, Step, Timebell
from timebell.kernel.app import App
from timebell.kernel.insights.insights import Insights
from timebell.kernel.insights.journey import time_of_id
from timebell.kernel.insights.records import Journey
from timebell.testing.database import TestDatabase
from timebell.testing.harness import harness


@pytest.fixture
def insights(bell: Timebell, database: Database, clock: StillClock) -> Insights:
    return Insights(database, clock)


async def journey_of(insights: Insights, id: UUID, tenant: str = "default") -> Journey:
    journey = await insights.journey(tenant, id)
    assert journey is not None
    return journey


def words(journey: Journey) -> list[str]:
    return [entry.what for entry in journey.entries]


async def post(job: Job) -> Outcome:
    """Fails, then asks for more time, then is done."""
    match job.cursor, job.attempt:
        case None, 1:
            return Retry("no answer from 10.0.0.7")
        case None, _:
            return Snooze(delay=timedelta(minutes=5), cursor={"sent": 1}, reason="in quiet hours")
        case _:
            return Done()


async def give_up(job: Job) -> Outcome:
    return Dead("no such guest")


OFFICE = App(
    name="office",
    handlers={"office.post": Handler(run=post, mode="external"), "office.give_up": give_up},
)


@pytest.mark.req("U-16", "U-20")
async def test_the_journey_of_a_job_that_the_engine_ran(database_url: TestDatabase) -> None:
    async with harness(database_url.url, [OFFICE], node_name="north") as world:
        bell, insights = world.bell, Insights(world.bell.database, world.clock)
        start = world.clock.now
        async with bell.transaction() as tx:
            job = await bell.enqueue(
                tx, "office.post", {"to": "ann"}, delay=HOUR, subject="guest:1", correlation_id="c1"
            )
            await bell.record(tx, "guest.invited", {"by": "bob"}, subject="guest:1", actor="bob")
        assert words(await journey_of(insights, job.id)) == ["enqueued", "event", "due"]

        await world.advance(HOUR + SECOND)
        retried = await journey_of(insights, job.id)
        assert words(retried) == ["enqueued", "event", "started", "retried", "due"]
        began, failed, to_come = retried.entries[2:]
        assert (began.at, began.details["attempt"], began.details["node"]) == (start + HOUR, 1, "north")
        assert began.details["lateness_seconds"] == 0.0
        assert (failed.reason, failed.details["error_class"]) == ("retry", "transient")
        assert failed.details["error"] == "no answer from 10.0.0.7"
        assert to_come.at == retried.job.run_at
        assert to_come.details == {"attempt": 2}

        await world.advance(HOUR)
        async with bell.transaction() as tx:
            await bell.record(tx, "guest.answered", subject="guest:1", correlation_id="c1")
            await bell.record(tx, "guest.left", subject="guest:1")
        ended = await journey_of(insights, job.id)
        assert sorted(words(ended)[:2]) == ["enqueued", "event"]
        assert words(ended)[2:] == ["started", "retried", "started", "snoozed", "started", "done", "event"]
        assert [entry.reason for entry in ended.entries if entry.what == "snoozed"] == ["in quiet hours"]
        assert ended.entries[-1].details["name"] == "guest.answered", (
            "what came later belongs to it by its id"
        )
        assert (ended.job.state, ended.job.attempt, ended.is_cut) == ("done", 2, False)
        assert [entry.at for entry in ended.entries[2:-1]] == sorted(
            entry.at for entry in ended.entries[2:-1]
        )


async def test_the_journey_of_a_dead_job_and_back(database_url: TestDatabase) -> None:
    async with harness(database_url.url, [OFFICE]) as world:
        bell, insights = world.bell, Insights(world.bell.database, world.clock)
        async with bell.transaction() as tx:
            job = await bell.enqueue(tx, "office.give_up")
        await world.run_due()
        died = await journey_of(insights, job.id)
        assert words(died) == ["enqueued", "started", "dead"]
        assert (died.entries[2].reason, died.entries[2].details["error_class"]) == (
            "no such guest",
            "permanent",
        )
        async with bell.transaction() as tx:
            await bell.revive(tx, ids=[job.id], actor="ann")
        revived = await journey_of(insights, job.id)
        assert words(revived) == ["enqueued", "started", "dead", "revived", "due"]
        assert revived.entries[3].details["actor"] == "ann"
        await world.run_due()
        async with bell.transaction() as tx:
            await bell.discard(tx, ids=[job.id], actor="bob")
        given_up = await journey_of(insights, job.id)
        assert words(given_up)[3:] == ["revived", "started", "dead", "discarded"]
        assert given_up.entries[-1].details["actor"] == "bob"


async def test_a_step_tells_of_its_agenda(insights: Insights, bell: Timebell) -> None:
    def steps(*keys: str) -> list[Step]:
        return [Step(key=key, kind="office.ring", offset=-HOUR) for key in keys]

    for tenant, subject in [("other", "meeting:1"), ("default", "meeting:0")]:
        for _ in range(3):
            async with bell.transaction(tenant=tenant) as tx:
                await bell.set_agenda(tx, subject=subject, anchor=NOW + 7 * HOUR, steps=steps("a"))
    async with bell.transaction() as tx:
        diff = await bell.set_agenda(tx, subject="meeting:1", anchor=NOW + 5 * HOUR, steps=steps("a", "b"))
    ids = {change.key: change.job_id for change in diff.added}
    assert ids["a"]
    assert ids["b"]
    async with bell.transaction() as tx:
        await bell.set_agenda(
            tx, subject="meeting:1", anchor=NOW + 9 * HOUR, steps=steps("a"), reason="dropped", actor="ann"
        )
    moved = await journey_of(insights, ids["a"])
    assert words(moved) == ["enqueued", "moved", "due"]
    assert moved.entries[1].details["due_at"] == moved.entries[2].at == NOW + 8 * HOUR
    assert moved.agenda is not None
    assert (moved.agenda.subject, moved.agenda.step, moved.agenda.anchor) == (
        "meeting:1",
        "a",
        NOW + 9 * HOUR,
    )
    assert (moved.agenda.planned_revision, moved.agenda.revision) == (2, 2)
    withdrawn = await journey_of(insights, ids["b"])
    assert words(withdrawn) == ["enqueued", "cancelled"]
    assert (withdrawn.entries[1].reason, withdrawn.entries[1].details["actor"]) == ("dropped", "ann")
    assert withdrawn.agenda is not None
    assert (withdrawn.agenda.planned_revision, withdrawn.agenda.revision) == (None, 2)


async def test_a_running_job_that_was_asked_to_stop(insights: Insights, tables: Tables) -> None:
    await write(
        tables, "nodes", incarnation=7, node="north", version="1", started_at=NOW, lease_until=NOW + HOUR
    )
    id = await enqueue(
        tables,
        due_at=ago(2 * SECOND),
        attempt=1,
        started_by=7,
        started_at=NOW,
        cancel_requested_at=NOW + SECOND,
    )
    journey = await journey_of(insights, id)
    assert words(journey) == ["enqueued", "started", "cancel_requested"]
    assert journey.entries[1].details == {
        "attempt": 1,
        "node": "north",
        "incarnation": 7,
        "lateness_seconds": 2.0,
    }
    assert (journey.job.state, journey.agenda) == ("running", None)


async def test_a_crash_is_told_as_uncertain(insights: Insights, tables: Tables) -> None:
    id = await enqueue(tables, version=3, attempt=1, crash_count=1, created_at=ago(HOUR))
    await log(tables, id=id, state="pending", reason="uncertain", version=3, started_at=None, node=9)
    journey = await journey_of(insights, id)
    assert words(journey) == ["enqueued", "uncertain", "due"]
    assert journey.entries[1].details == {"attempt": 1, "incarnation": 9}


@pytest.mark.parametrize("state", ["skipped", "expired", "cancelled"])
async def test_a_job_that_never_ran(insights: Insights, tables: Tables, state: str) -> None:
    id = await log(tables, state=state, reason="too late", attempt=0, started_at=None)
    journey = await journey_of(insights, id)
    assert words(journey) == ["enqueued", state]
    assert (journey.entries[1].at, journey.entries[1].reason, journey.entries[1].details) == (
        NOW,
        "too late",
        {},
    )


async def test_a_death_is_told_after_the_log_was_pruned(insights: Insights, tables: Tables) -> None:
    id = await bury(tables, reason="out of attempts", error="no answer")
    journey = await journey_of(insights, id)
    assert words(journey) == ["enqueued", "dead"]
    assert (journey.entries[0].at, journey.entries[1].at) == (ago(2 * HOUR), NOW)
    assert journey.entries[1].details == {"attempt": 3, "error": "no answer"}


@pytest.mark.req("U-15")
async def test_no_event_of_another_tenant_or_of_before(insights: Insights, tables: Tables) -> None:
    async def event(name: str, **values: Any) -> None:
        row = {"tenant": "default", "subject": "guest:1", "data": "{}", "occurred_at": NOW, **values}
        await write(tables, "events", id=IDS.new(), name=name, **row)

    real = await tables.value("SELECT now()")
    await event("guest.old", recorded_at=real - HOUR)
    await event("guest.cause", recorded_at=real - SECOND)
    await event("guest.same_story", subject="room:1", correlation_id="c1", recorded_at=real - HOUR)
    await event("guest.other_tenant", tenant="other", correlation_id="c1")
    await event("guest.other_subject", subject="guest:2")
    await event("guest.meanwhile", correlation_id="c1")
    id = await enqueue(tables, subject="guest:1", correlation_id="c1")
    journey = await journey_of(insights, id)
    named = [entry.details["name"] for entry in journey.entries if entry.what == "event"]
    assert named == ["guest.same_story", "guest.cause", "guest.meanwhile"]


async def test_a_long_journey_is_cut(
    insights: Insights, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timebell.kernel.insights.insights.ENTRIES_MAX", 3)
    monkeypatch.setattr("timebell.kernel.insights.insights.EVENTS_MAX", 2)
    id = await enqueue(tables, subject="guest:1", correlation_id="c1", version=4)
    for version in (2, 3, 4):
        await log(tables, id=id, state="pending", reason="snoozed", version=version, started_at=None)
        await write(
            tables,
            "events",
            id=IDS.new(),
            tenant="default",
            name=f"guest.asked_{version}",
            subject="guest:1",
            data="{}",
            correlation_id="c1",
            occurred_at=NOW,
        )
    cut = await journey_of(insights, id)
    assert cut.is_cut
    names = [entry.details["name"] for entry in cut.entries if entry.what == "event"]
    assert names == ["guest.asked_3", "guest.asked_4"]
    monkeypatch.setattr("timebell.kernel.insights.insights.EVENTS_MAX", 3)
    assert not (await journey_of(insights, id)).is_cut
    await log(tables, id=id, state="pending", reason="snoozed", version=5, started_at=None)
    cut = await journey_of(insights, id)
    assert cut.is_cut
    assert words(cut).count("snoozed") == 3


async def test_entries_follow_the_versions(insights: Insights, tables: Tables) -> None:
    """A move that was made in a long transaction is logged with the instant at which that began."""
    real = await tables.value("SELECT now()")
    id = await enqueue(tables, version=3, created_at=real - MINUTE)
    attempt = {"state": "pending", "started_at": ago(SECOND), "finished_at": NOW}
    await log(tables, id=id, version=2, reason="retry", logged_at=real, **attempt)
    await log(
        tables,
        id=id,
        version=3,
        state="pending",
        reason="moved",
        started_at=None,
        logged_at=real - 5 * SECOND,
    )
    assert words(await journey_of(insights, id)) == ["enqueued", "started", "retried", "moved", "due"]


async def test_a_journey_is_fit_for_json(insights: Insights, tables: Tables) -> None:
    id = await log(tables)
    told = orjson.loads(orjson.dumps(await journey_of(insights, id)))
    assert told["job"]["id"] == str(id)
    assert [entry["what"] for entry in told["entries"]] == ["enqueued", "started", "done"]


def test_an_id_says_when_it_was_made() -> None:
    made = UUID("01a1dd42-999a-748d-b358-4f8cd8f16adf")
    assert time_of_id(made) == datetime(2026, 11, 15, 3, 31, 31, 866000, tzinfo=UTC)
    assert time_of_id(UUID("6fa459ea-ee8a-4ca4-894e-db77e160355e")) is None
