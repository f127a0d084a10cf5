"""The engine's own rules: each opens beyond its bound and not at it, once, and closes."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from tests.engine.alert_support import MINUTE, SECOND, Watched, watched
from tests.store.insights_support import IDS, bury, enqueue, log, write
from timebell.engine.watch import own_alerts
from timebell.kernel import App, Queue
from timebell.kernel.insights.store import InsightsStore
from timebell.testing.database import TestDatabase

APP = App(name="office", queues=[Queue(name="mail")])
HOUR = timedelta(hours=1)


@pytest.mark.req("J-12.2")
async def test_a_hundred_dead_jobs_are_borne(database_url: TestDatabase) -> None:
    async with watched(database_url, [APP]) as w:
        for number in range(100):
            await bury(w.tables, queue="mail" if number % 2 else "default", tenant=f"tenant-{number % 3}")
        assert await w.look() == []
        last = await bury(w.tables)
        assert await w.look() == await w.look(MINUTE) == ["many_dead_jobs"]
        [row] = await w.rows("many_dead_jobs")
        assert row["detail"] == "101 dead jobs: default 51, mail 50"
        assert (row["tenant"], row["app"], row["severity"], row["is_of_engine"]) == (
            "default",
            "engine",
            "critical",
            True,
        )
        await w.tables.rows("DELETE FROM timebell.dead_jobs WHERE id = $1", last)
        assert await w.look() == await w.look(MINUTE) == []
        assert await w.events() == ["alert.opened", "alert.closed"]


@pytest.mark.req("J-12.3")
async def test_five_minutes_are_borne(database_url: TestDatabase) -> None:
    async with watched(database_url, [APP]) as w:
        id = await enqueue(w.tables, queue="mail", run_at=w.clock.now, due_at=w.clock.now)
        # What is held by a pause waits on purpose.
        await enqueue(w.tables, lane=2, run_at=w.clock.now - HOUR, due_at=w.clock.now - HOUR)
        assert await w.look(300 * SECOND) == []
        assert await w.look(SECOND) == await w.look(MINUTE) == ["jobs_are_late"]
        [row] = await w.rows("jobs_are_late")
        assert (row["detail"], row["severity"]) == ("the oldest due job has waited: mail 361 s", "warning")
        await w.tables.rows("DELETE FROM timebell.jobs WHERE id = $1", id)
        assert await w.look() == []


class Outcome(NamedTuple):
    state: str
    reason: str | None = None


async def note(w: Watched, count: int, outcome: Outcome, *, at: datetime | None = None) -> None:
    for _ in range(count):
        values: dict[str, Any] = {"finished_at": at or w.clock.now, "started_at": at or w.clock.now}
        await log(w.tables, queue="mail", due_at=w.clock.now, **outcome._asdict(), **values)


@pytest.mark.req("J-12.3")
async def test_a_fifth_of_the_attempts_may_be_tried_again(database_url: TestDatabase) -> None:
    async with watched(database_url, [APP]) as w:
        await note(w, 20, Outcome("pending", "retry"))
        await note(w, 80, Outcome("done"))
        # These are no attempts that were tried again.
        await note(w, 5, Outcome("pending", "moved"))
        await note(w, 5, Outcome("cancelled"))
        # And these are too long ago.
        await note(w, 30, Outcome("pending", "retry"), at=w.clock.now - 15 * MINUTE)
        assert await w.look() == []
        await note(w, 1, Outcome("pending", "retry"))
        assert await w.look() == ["many_retries"]
        [row] = await w.rows("many_retries")
        assert (row["subject"], row["severity"]) == ("queue:mail", "warning")
        assert await w.look(16 * MINUTE) == []


@pytest.mark.req("J-13.5", "A-9.3")
async def test_one_in_twenty_jobs_may_die(database_url: TestDatabase) -> None:
    async with watched(database_url, [APP]) as w:
        await note(w, 1, Outcome("dead"))
        await note(w, 18, Outcome("done"))
        assert await w.look() == []
        await note(w, 1, Outcome("done"))
        assert await w.look() == []
        await note(w, 1, Outcome("dead", "discarded"))
        assert await w.look() == []
        await note(w, 1, Outcome("dead"))
        assert await w.look() == ["jobs_fail"]
        [row] = await w.rows("jobs_fail")
        assert row["detail"] == "2 of 21 jobs of the queue mail died"
        assert await w.look(61 * MINUTE) == []


async def say(w: Watched, **values: object) -> None:
    """As the node says of itself with its next beat, from which it lives for longer than the test takes."""
    for name, value in {"lease_until": "now() + interval '1 hour'", **values}.items():
        await w.tables.rows(f"UPDATE timebell.nodes SET {name} = {value}")


@pytest.mark.req("A-9.1")
@pytest.mark.parametrize(
    ("loop", "column", "borne", "too_long"),
    [("sweep", "passed_at", 28, 32), ("planner", "planned_at", 118, 122)],
)
async def test_a_loop_may_miss_one_pass(
    database_url: TestDatabase, loop: str, column: str, borne: int, too_long: int
) -> None:
    async with watched(database_url, [APP]) as w:
        await say(w, **{column: f"now() - interval '{borne} s'"})
        assert await w.look() == []
        await say(w, **{column: f"now() - interval '{too_long} s'"})
        assert await w.look() == await w.look() == ["loop_stands_still"]
        [row] = await w.rows("loop_stands_still")
        assert row["subject"].startswith(f"loop:{loop} node:")
        await say(w, **{column: "now()"})
        assert await w.look() == []


@pytest.mark.req("A-9.1")
async def test_a_node_says_with_each_beat_when_its_loops_passed(database_url: TestDatabase) -> None:
    async with watched(database_url, [APP]) as w:
        engine = w.h.engine
        w.bell.holds.hold("mail", "the broker is away")
        columns = "passed_at, planned_at, held, clock_off_seconds"
        [before] = await w.tables.rows(f"SELECT {columns} FROM timebell.nodes")
        assert set(before.values()) == {None}
        for loop in engine.loops:
            loop.passed = asyncio.get_running_loop().time() - 7
        await engine.beat()
        [row] = await w.tables.rows(f"SELECT {columns}, now() AS now FROM timebell.nodes")
        for name in ("passed_at", "planned_at"):
            assert row["now"] - 60 * SECOND < row[name] <= row["now"] - 7 * SECOND
        assert row["held"] == ["mail the broker is away"]
        assert abs(row["clock_off_seconds"]) < 60


@pytest.mark.req("J-12.4")
async def test_an_engine_complains_of_a_loop_that_stands_still(database_url: TestDatabase) -> None:
    async with watched(database_url, [APP]) as w:
        engine, elapsed = w.h.engine, asyncio.get_running_loop().time()
        allowed = {"node": 30, "sweep": 30, "planner": 120}
        for loop in engine.loops:
            loop.passed = elapsed - allowed.get(loop.name, 10_000) + 10
        running = {"the engine is not running"}
        assert set(engine.complaints()) == running
        for loop in engine.loops:
            loop.passed = elapsed - allowed.get(loop.name, 10_000) - 10
        assert set(engine.complaints()) - running == {f"the {name} loop stands still" for name in allowed}


async def test_what_is_owed_may_be_without_an_owner_for_a_little_while(database_url: TestDatabase) -> None:
    async with watched(database_url, [APP]) as w:
        await w.tables.rows("UPDATE timebell.slots SET owner = NULL WHERE slot < 3")
        assert [await w.look(MINUTE) for _ in range(3)] == [[], [], ["nobody_works"]]
        [row] = await w.rows("nobody_works")
        assert row["detail"] == "1 nodes live, and 3 of 256 slots have none"


async def test_a_kind_that_nobody_can_run(database_url: TestDatabase) -> None:
    async with watched(database_url, [APP]) as w:
        await w.tables.rows(
            "INSERT INTO timebell.kinds (kind, queue, mode, payload_bytes_max) "
            "VALUES ('gone.run', 'default', 'plain', 1000)"
        )
        await enqueue(w.tables, kind="gone.run", run_at=w.clock.now, due_at=w.clock.now)
        assert [await w.look(MINUTE) for _ in range(3)] == [[], [], ["nobody_can_run"]]
        assert [row["subject"] for row in await w.rows("nobody_can_run")] == ["kind:gone.run"]


@pytest.mark.req("J-13.2")
async def test_a_breaker_that_stays_open(database_url: TestDatabase) -> None:
    async with watched(database_url, [APP]) as w:
        for destination in ("smtp.example.org", "sms.example.org"):
            await write(
                w.tables,
                "breakers",
                destination=destination,
                failure_count=5,
                open_seconds=60.0,
                open_until=w.clock.now,
                updated_at=w.clock.now,
            )
        assert await w.look() == await w.look(14 * MINUTE) == []
        assert await w.look(MINUTE) == ["breaker_open", "breaker_open"]
        await w.tables.rows("DELETE FROM timebell.breakers WHERE destination = 'sms.example.org'")
        assert await w.look() == ["breaker_open"]
        assert [row["subject"] for row in await w.rows("breaker_open") if row["closed_at"] is None] == [
            "destination:smtp.example.org"
        ]


@pytest.mark.req("S-6.3")
async def test_a_broker_that_is_away_from_any_node(database_url: TestDatabase) -> None:
    async with watched(database_url, [APP]) as w:
        await say(w, held="ARRAY['broker it is blocked: low on disk', 'mail the broker is away']")
        assert await w.look() == []
        assert await w.look(MINUTE) == ["broker_away", "broker_away"]
        assert [row["detail"] for row in await w.rows("broker_away")] == [
            "1 nodes cannot serve the queue broker: it is blocked: low on disk",
            "1 nodes cannot serve the queue mail: the broker is away",
        ]
        await say(w, held="'{}'")
        assert await w.look() == []


async def test_a_disk_that_fills(
    database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    free = 0.0

    class Usage(NamedTuple):
        free: float

    monkeypatch.setattr("timebell.engine.watch.questions.shutil.disk_usage", lambda folder: Usage(free))
    async with watched(database_url, [APP]) as w:
        assert await w.look() == [], "another server's disk cannot be seen"
    async with watched(database_url, [APP], database_url=None, data=tmp_path) as w:
        for free, expected in (
            (1e9, []),
            (1e9 - 1, ["disk_fills"]),
            (1.4e9, ["disk_fills"]),
            (1.5e9, []),
            (1.4e9, []),
        ):
            assert await w.look() == expected, free
        [row] = await w.rows("disk_fills")
        assert row["detail"] == f"1.4 GB are free for {tmp_path}"


async def test_a_clock_that_is_off(database_url: TestDatabase) -> None:
    async with watched(database_url, [APP]) as w:
        await say(w, clock_off_seconds="5.0")
        assert await w.look() == await w.look(MINUTE) == []
        await say(w, clock_off_seconds="-5.1")
        assert await w.look() == []
        assert await w.look(MINUTE) == ["clock_off"]
        await say(w, clock_off_seconds="2.5")
        assert await w.look() == ["clock_off"]
        await say(w, clock_off_seconds="2.0")
        assert await w.look() == []


async def planned(w: Watched, **values: object) -> UUID:
    id = IDS.new()
    now = w.clock.now
    await write(
        w.tables,
        "schedules",
        **{
            "id": id,
            "tenant": "shop",
            "timezone": "UTC",
            "start_local": datetime(2026, 1, 1, 9),
            "steps": "[]",
            "planned_until": now,
            "timezone_version": "2025a",
            "created_at": now,
            "updated_at": now,
            **values,
        },
    )
    return id


async def test_schedules_that_do_not_run(database_url: TestDatabase) -> None:
    async with watched(database_url, [APP]) as w:
        parked = await planned(w, state="parked", state_reason="the timezone is gone")
        waiting = await planned(w, plan_at=w.clock.now)
        local = datetime(2026, 1, 5, 9)
        await write(
            w.tables,
            "occurrences",
            schedule_id=waiting,
            original_local=local,
            id=IDS.new(),
            tenant="shop",
            local=local,
            occurs_at=w.clock.now,
            state="missed",
            revision=1,
            timezone_version="2025a",
            created_at=w.clock.now,
        )
        assert await w.look(300 * SECOND) == ["schedule_missed", "schedule_parked"]
        assert await w.look(SECOND) == ["schedule_missed", "schedule_parked", "planner_is_behind"]
        [row] = await w.rows("schedule_parked")
        assert row["subject"] == f"schedule:{parked}"
        assert row["detail"] == "the schedule of the tenant shop is parked: the timezone is gone"
        [row] = await w.rows("schedule_missed")
        assert row["subject"] == f"schedule:{waiting}"
        await w.tables.rows("UPDATE timebell.schedules SET state = 'active', plan_at = NULL")
        assert await w.look() == ["schedule_missed"]
        assert await w.look(timedelta(days=1)) == []


async def test_what_keeps_the_database_from_being_kept_up(
    database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(database_url, [APP]) as w:
        await say(w)
        snapshot: dict[str, Any] = {"pid": 7, "application_name": "", "role": "ada", "age_seconds": 3_600.0}
        upkeep: dict[str, Any] = {"node_count": 1, "unowned_slot_count": 0, "log_days_ahead": 2}
        unsealed = 3_600.0

        async def read_snapshot(*_: object) -> dict[str, Any]:
            return snapshot

        async def read_upkeep(*_: object) -> dict[str, Any]:
            return upkeep

        async def read_unsealed(*_: object) -> float:
            return unsealed

        monkeypatch.setattr(InsightsStore, "read_oldest_snapshot", read_snapshot)
        monkeypatch.setattr(InsightsStore, "read_upkeep", read_upkeep)
        monkeypatch.setattr(InsightsStore, "read_unsealed", read_unsealed)
        assert await w.look() == []
        snapshot["age_seconds"] = unsealed = 3_601.0
        upkeep["log_days_ahead"] = 1
        assert await w.look() == ["audit_not_sealed", "old_snapshot"]
        assert await w.look(HOUR) == ["audit_not_sealed", "old_snapshot", "log_not_prepared"]


async def test_every_question_can_be_asked(database_url: TestDatabase) -> None:
    async with watched(database_url, [APP]) as w:
        await w.look()
        assert w.watch._failed == {}
        asked = {rule.name for rule in own_alerts.OWN_RULES}
        assert {brought.rule.name for brought in w.watch.rules.values()} == asked
