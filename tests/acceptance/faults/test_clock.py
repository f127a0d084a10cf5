"""Clocks that jump: a node's own, which must not matter, and the database's, which is the only one that does."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import MODES, Load, Owed, asking, feed
from tests.acceptance.faults.measures import longest_wait, needless_starts
from tests.acceptance.faults.node import CLOCK
from tests.acceptance.faults.servers import FakeClock, Server, served
from tests.acceptance.faults.stage import Stage
from tests.acceptance.faults.waiting import until
from tests.history import load as load_history

HOUR = 3600.0
_RUN_AGAIN_MAX = 20
# What the records say is the database's time, asked for each; it is another than ours while its clock is wrong.
ASKED: dict[str, str] = {CLOCK: "database"}


@pytest.mark.slow
@pytest.mark.req("U-1", "U-2")
async def test_the_clock_of_a_node_jumps(make_stage: MakeStage, place: Path) -> None:
    """A node that believes that it is an hour later starts nothing early, and one that is behind is not late."""
    count = 1_500
    clock = FakeClock(place / "clock")
    async with served(place / "server") as server:
        stage = make_stage(
            seed=18, url=server.url(), owner_url=server.url("owner"), admin_url=server.url("admin"), **ASKED
        )
        async with asking(stage.url, stage.owner_url, stage.history) as load:
            stage.launch("ada", **clock.environment)
            stage.launch("bob")
            for name in stage.nodes:
                await stage.ready(name)
            feeding = asyncio.create_task(feed(load, stage.chance, count, seconds=15))
            while not feeding.done():
                clock.set(stage.chance.choice([HOUR, -HOUR, 0, 5, -5, 30 * 24 * HOUR]))
                at = datetime.now(UTC)
                stage.fault("clock", "ada", at, at)
                await asyncio.sleep(1)
            await feeding
            await stage.drained()
        records = load_history(stage.file)
        # A node with a wrong clock has no excuse to be late, and neither has the other.
        wait = longest_wait([each for each in records if each.op != "fault"])
        figures = await stage.verdict(
            "F18",
            "the clock of a node jumps",
            "libfaketime, every second, from an hour back to a month ahead",
            recovery_seconds=wait,
        )
        assert figures["jobs"] == count
        assert needless_starts(records) == 0
        assert {each.node for each in records if each.op == "start"} == {"ada", "bob"}
        assert wait <= 2
        assert "the database is away" not in stage.nodes["ada"].words


async def owe(load: Load, stage: Stage, prefix: str, count: int, now: datetime) -> None:
    """Jobs that are due within the next two seconds of the database's time and do not fail: a failed one would be
    tried again at a time that the jump takes away."""
    jobs = [
        Owed(
            name=f"{prefix}-{number}",
            mode=stage.chance.choice(MODES),
            due_at=now + timedelta(seconds=2 * stage.chance.random()),
            payload={"takes_ms": stage.chance.randrange(20)},
        )
        for number in range(count)
    ]
    await load.enqueue(jobs)


def jump(stage: Stage, clock: FakeClock, seconds: float) -> None:
    """Written down in the time before the jump and after, so that whatever came between is covered."""
    before = datetime.now(UTC)
    clock.set(seconds)
    for shift in (0.0, seconds):
        at = before + timedelta(seconds=shift)
        stage.fault("clock", "database", at, at + timedelta(seconds=1))
    stage.note(f"the database is {seconds:+.0f} s off")


async def _now(server: Server) -> datetime:
    now: datetime = await server.ask("SELECT now()")
    return now


@pytest.mark.slow
@pytest.mark.req("U-1", "U-2")
@pytest.mark.parametrize("offset", [HOUR, -HOUR], ids=["forward and back", "back and forward"])
async def test_the_clock_of_the_database_jumps(make_stage: MakeStage, place: Path, offset: float) -> None:
    """What is due by its clock runs, nothing runs twice, and jobs of the far future wait for their time."""
    clock = FakeClock(place / "clock")
    async with served(place / "server", clock=clock) as server:
        stage = make_stage(
            seed=19, url=server.url(), owner_url=server.url("owner"), admin_url=server.url("admin"), **ASKED
        )
        async with asking(stage.url, stage.owner_url, stage.history) as load:
            await stage.start("ada", "bob")
            later = Owed(name="later", mode="external", due_at=await _now(server) + timedelta(hours=3))
            await load.enqueue([later])
            longest = 0.0
            for round_number, seconds in enumerate([0, offset, 0, offset, 0]):
                jump(stage, clock, seconds)
                jumped = time.monotonic()
                await owe(load, stage, f"round{round_number}", 200, await _now(server))
                await _only_later_is_left(stage)
                longest = max(longest, time.monotonic() - jumped)
            assert await load.cancel(later) == "cancelled"
        records = load_history(stage.file)
        needless = needless_starts(records)
        figures = await stage.verdict(
            "F19",
            "the clock of the database jumps",
            f"libfaketime, {offset:+.0f} s and back, twice",
            recovery_seconds=longest,
            remark=f"{needless} ran again" if needless else "",
        )
        assert figures["jobs"] == 1_001
        # Ahead by more than a lease, every lease has run out: what ran in that instant may run again, as after a pause.
        assert needless <= _RUN_AGAIN_MAX
        assert longest <= 3 * stage.lease_seconds + 5


async def _only_later_is_left(stage: Stage) -> None:
    async def is_alone() -> bool:
        return await stage.count("timebell.jobs") == 1

    await until(is_alone, 60, "the jobs that are due")


@pytest.mark.slow
@pytest.mark.req("U-1", "U-2")
async def test_a_lease_from_the_future_is_not_for_ever(make_stage: MakeStage, place: Path) -> None:
    """A node dies while the database is an hour ahead. When its clock is right again, the lease has an hour to go."""
    clock = FakeClock(place / "clock")
    async with served(place / "server", clock=clock) as server:
        stage = make_stage(
            seed=190, url=server.url(), owner_url=server.url("owner"), admin_url=server.url("admin"), **ASKED
        )
        async with asking(stage.url, stage.owner_url, stage.history) as load:
            await stage.start("ada", "bob")
            jump(stage, clock, HOUR)
            await owe(load, stage, "ahead", 200, await _now(server))
            await stage.drained(60)
            stage.kill("ada")
            jump(stage, clock, 0)
            await owe(load, stage, "again", 200, await _now(server))
            began = time.monotonic()
            await stage.drained(60)
            seconds = time.monotonic() - began
        await stage.verdict(
            "F19",
            "a node dies while the database's clock is ahead",
            "libfaketime, an hour back after the kill -9",
            recovery_seconds=seconds,
        )
        assert seconds <= 3 * stage.lease_seconds + 5
