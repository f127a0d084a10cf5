"""Limits of a queue hold over all nodes, whatever is done to them and to the way to the database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import MODES, Load, Owed, asking
from tests.acceptance.faults.measures import busiest_second, longest_still, most_at_once
from tests.acceptance.faults.proxy import Proxy
from tests.acceptance.faults.servers import Server, served
from tests.acceptance.faults.stage import Stage
from tests.history import Mode
from tests.history import load as load_history

NODES = ("ada", "bob", "cem")
RATE = 200
CONCURRENCY = 5
How = Literal["plain", "external", "transactional", "thread"]


@asynccontextmanager
async def behind_proxy(
    make_stage: MakeStage, place: Path, *, seed: int, **settings: str
) -> AsyncIterator[tuple[Server, Proxy, Stage]]:
    """Nodes that reach their server through a proxy, which can cut them off."""
    async with served(place / "server") as server, Proxy("127.0.0.1", server.port) as proxy:
        yield (
            server,
            proxy,
            make_stage(
                seed=seed,
                url=server.url(port=proxy.port),
                owner_url=server.url("owner"),
                admin_url=server.url("admin"),
                lease_seconds=3.0,
                **settings,
            ),
        )


async def backlog(load: Load, how: How, count: int, **payload: int) -> datetime:
    """So many jobs of the queue with the rate, all of them late; answers since when."""
    mode: Mode = "external" if how == "thread" else how
    late = datetime.now(UTC) - timedelta(minutes=1)
    jobs = [
        Owed(
            name=f"{how}-{number}",
            mode=mode,
            in_thread=how == "thread",
            due_at=late,
            queue="paced",
            payload=dict(payload),
        )
        for number in range(count)
    ]
    for first in range(0, count, 1_000):
        await load.enqueue(jobs[first : first + 1_000])
    return late


async def kill_and_cut(stage: Stage, proxy: Proxy, seconds: float) -> None:
    """Kill nodes, cut and stall the way to the database, one after the other."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        at = datetime.now(UTC)
        match stage.chance.choice(["kill", "cut", "stall"]):
            case "kill":
                name = stage.chance.choice(NODES)
                stage.kill(name)
                await stage.start(name, is_ready=False)
            case "cut":
                proxy.abort()
                stage.fault("cut", "database", at, at)
            case _:
                proxy.pause()
                await asyncio.sleep(0.7)
                proxy.resume()
                stage.fault("stall", "database", at, datetime.now(UTC))
        await asyncio.sleep(1 + 2 * stage.chance.random())


@pytest.mark.slow
@pytest.mark.req("U-8", "J-0.2", "J-1.3")
@pytest.mark.parametrize("how", ["plain", "external", "transactional", "thread"])
@pytest.mark.parametrize("is_disturbed", [False, True])
async def test_no_second_holds_more_starts_than_the_rate(
    make_stage: MakeStage, place: Path, how: How, is_disturbed: bool
) -> None:
    seconds = 30
    async with behind_proxy(make_stage, place, seed=80, TIMEBELL_THREADS="32") as (server, proxy, stage):
        async with asking(server.url(), stage.owner_url, stage.history) as load:
            late = await backlog(load, how, RATE * (seconds + 15))
            await stage.start(*NODES)
            begun = len(load_history(stage.file))
            if is_disturbed:
                await kill_and_cut(stage, proxy, seconds)
            else:
                await asyncio.sleep(seconds)
            records = load_history(stage.file)
            for name in NODES:
                stage.kill(name)
        busiest = busiest_second(records)
        starts = sum(each.op == "start" for each in records[begun:])
        said = f"{busiest} in the busiest second, {starts} in {seconds} s"
        stage.note(f"{how}: {said}")
        faults = "kill -9, connections cut and stalled" if is_disturbed else "nothing goes wrong"
        await stage.verdict(
            "F41",
            f"a rate of {RATE} over 3 nodes",
            f"{how}, a backlog, {faults}",
            remark=said,
            owed_until=late,
        )
        assert busiest <= RATE
        if not is_disturbed:
            assert starts >= 0.8 * RATE * seconds, "the rate was not reached"


async def stop_kill_and_cut(stage: Stage, proxy: Proxy, seconds: float) -> None:
    """Let nodes stand still for longer than their lease, kill them, cut the way to the database and let it stall."""
    until = time.monotonic() + seconds
    faults = ["stop", "kill", "stop", "cut", "stop", "stall"]
    number = 0
    while time.monotonic() < until:
        at = datetime.now(UTC)
        name = stage.chance.choice(NODES)
        match faults[number % len(faults)]:
            case "stop":
                await stage.pause(name, stage.lease_seconds * (1 + 1.5 * stage.chance.random()))
            case "kill":
                stage.kill(name)
                await stage.start(name, is_ready=False)
            case "cut":
                proxy.abort()
                stage.fault("cut", "database", at, at)
            case _:
                proxy.pause()
                await asyncio.sleep(stage.lease_seconds + 2)
                proxy.resume()
                stage.fault("stall", "database", at, datetime.now(UTC))
        number += 1
        await asyncio.sleep(1 + stage.chance.random())


@pytest.mark.slow
@pytest.mark.req("U-8")
async def test_no_more_than_the_concurrency_run_at_once(make_stage: MakeStage, place: Path) -> None:
    """Whoever stood still takes no step under a permit that others have by then."""
    seconds = 40
    async with behind_proxy(make_stage, place, seed=81) as (server, proxy, stage):
        async with asking(server.url(), stage.owner_url, stage.history) as load:
            await stage.start(*NODES)
            now = datetime.now(UTC)
            jobs = [
                Owed(
                    name=f"narrow-{number}",
                    mode=MODES[number % 3],
                    due_at=now,
                    queue="narrow",
                    payload={"steps": 2 + stage.chance.randrange(40), "step_ms": 50},
                )
                for number in range(200)
            ]
            await load.enqueue(jobs)
            await stop_kill_and_cut(stage, proxy, seconds)
            await stage.drained()
        records = load_history(stage.file)
        most = most_at_once(records)
        await stage.verdict(
            "F41",
            f"a concurrency of {CONCURRENCY} over 3 nodes",
            "SIGSTOP for up to 2.5 leases, kill -9, connections cut, and stalled for longer than a lease",
            recovery_seconds=longest_still(records),
            remark=f"{most} at once at most",
        )
        assert most == CONCURRENCY
