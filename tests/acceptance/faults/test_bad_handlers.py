"""Handlers that hold every connection, stop the event loop, leave the process or kill it."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime

import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import MODES, Load, Owed, asking, feed
from tests.acceptance.faults.stage import Stage
from tests.history import load as load_history

PROGRAM = (sys.executable, "-m", "tests.acceptance.faults.program")


async def misbehave(load: Load, misdeed: str, count: int, **payload: int) -> None:
    """So many jobs of each mode that do this."""
    now = datetime.now(UTC)
    for mode in MODES:
        jobs = [
            Owed(
                name=f"{misdeed}-{mode}-{number}",
                mode=mode,
                due_at=now,
                payload={"misdeed": misdeed, **payload},
            )
            for number in range(count)
        ]
        await load.enqueue(jobs)


async def dead_names(stage: Stage) -> set[str]:
    return {row["key"] for row in await stage.ask("SELECT key FROM timebell.dead_jobs")}


@pytest.mark.slow
@pytest.mark.req("U-2")
async def test_handlers_that_hold_every_connection(make_stage: MakeStage) -> None:
    """The lease has a connection of its own, so the node lives on, and does the rest when it can."""
    stage = make_stage(seed=10, lease_seconds=3.0, TIMEBELL_POOL_SIZE="5")
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        stage.launch("ada", program=PROGRAM, TIMEBELL_OWNER_URL=stage.owner_url)
        await stage.ready("ada")
        now = datetime.now(UTC)
        held = {"misdeed": "hold", "hold_ms": 4_500}
        await load.enqueue(
            [Owed(name=f"hold-{number}", mode="plain", due_at=now, payload=held) for number in range(10)]
        )
        await feed(load, stage.chance, 500, seconds=8)
        await stage.drained()
    [node] = await stage.ask("SELECT incarnation FROM timebell.nodes")
    figures = await stage.verdict(
        "F10", "handlers hold every connection", "10 handlers, 5 connections, one and a half leases each"
    )
    assert figures["jobs"] == 510
    assert node["incarnation"] == 1, "the node lost its lease and began another life"


@pytest.mark.slow
async def test_handlers_that_leave_the_process(make_stage: MakeStage) -> None:
    """SystemExit is an error of the handler; the node goes on, and the job is dead after its attempts."""
    stage = make_stage(seed=33)
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await stage.start("ada")
        await misbehave(load, "exit", 5)
        await feed(load, stage.chance, 500, seconds=3)
        await stage.drained()
    assert stage.nodes["ada"].popen.poll() is None, stage.nodes["ada"].words
    assert await dead_names(stage) == {f"exit-{mode}-{number}" for mode in MODES for number in range(5)}
    await stage.verdict(
        "F34", "handlers leave the process", "15 of 515 jobs raise SystemExit at every attempt"
    )


@pytest.mark.slow
async def test_handlers_that_kill_their_process(make_stage: MakeStage) -> None:
    """After three crashes while it ran alone a killer is dead; whoever happened to run beside it is done."""
    stage = make_stage(seed=34, lease_seconds=2.0)
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await stage.start("ada", "bob")
        feeding = asyncio.create_task(feed(load, stage.chance, 1_500, seconds=15))
        await asyncio.sleep(1)
        await misbehave(load, "kill", 1, takes_ms=200)
        deaths = await revive_until_drained(stage, feeding)
    assert await dead_names(stage) == {f"kill-{mode}-0" for mode in MODES}
    figures = await stage.verdict(
        *("F34", "handlers kill their process", "3 of 1,503 jobs, each kill -9 to its own node"),
        remark=f"{deaths} nodes died; the 3 are dead, all others done",
    )
    assert figures["jobs"] == 1_503
    assert deaths >= 3


async def revive_until_drained(stage: Stage, feeding: asyncio.Task[None]) -> int:
    """What a service manager does: whichever node has died is started again. Answers with how many had."""
    deaths = 0
    for _ in range(600):
        for name in [each for each, node in stage.nodes.items() if node.popen.poll() is not None]:
            died = datetime.now(UTC)
            stage.fault("kill", name, died, died)
            # Nobody waits until it is ready: another may die meanwhile, and that should be noted at once.
            await stage.start(name, is_ready=False)
            deaths += 1
        if feeding.done() and not await stage.count("timebell.jobs"):
            await feeding
            return deaths
        await asyncio.sleep(0.2)
    raise AssertionError(f"not drained after {deaths} deaths")


@pytest.mark.slow
async def test_handlers_that_stop_the_loop_for_longer_than_a_lease(make_stage: MakeStage) -> None:
    """The node cannot renew its lease meanwhile: to the others it is dead. After three times alone so is the job."""
    stage = make_stage(seed=35, lease_seconds=2.0)
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await stage.start("ada", "bob")
        feeding = asyncio.create_task(feed(load, stage.chance, 1_500, seconds=20))
        await asyncio.sleep(1)
        await misbehave(load, "block", 1, takes_ms=200, block_ms=4_000)
        await feeding
        await stage.drained()
    note_blocks(stage)
    for node in stage.nodes.values():
        assert node.popen.poll() is None, node.words
    dead = await dead_names(stage)
    assert dead <= {f"block-{mode}-0" for mode in MODES}
    figures = await stage.verdict(
        *("F34", "handlers stop the event loop", "3 of 1,503 jobs, each for two leases"),
        remark=f"{len(dead)} of the 3 are dead, all others done",
    )
    assert figures["recovered"] > 0, "nobody took anything over; nothing is proven"


def note_blocks(stage: Stage) -> None:
    """From its start to its end each of them kept its node from everything else; the last may still do so."""
    blocks = [record for record in load_history(stage.file) if record.key.startswith("block-")]
    for start in [record for record in blocks if record.op == "start"]:
        ends = [
            record.invoked_at
            for record in blocks
            if record.op == "end"
            and (record.key, record.node) == (start.key, start.node)
            and record.invoked_at > start.invoked_at
        ]
        stage.fault("pause", start.node, start.invoked_at, min(ends, default=None))
