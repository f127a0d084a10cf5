"""Through PgBouncer in transaction mode, where every statement may run on another connection than the last."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import MODES, Load, Owed, asking
from tests.acceptance.faults.measures import longest_call, longest_wait
from tests.acceptance.faults.node import ROOT
from tests.acceptance.faults.pooler import Bouncer
from tests.acceptance.faults.servers import PASSWORD, served
from tests.acceptance.faults.stage import Stage
from tests.acceptance.processes import SOURCE, clean_environment
from tests.history import load as load_history
from tests.packages import need_program
from timebell.db.provision import ROLES

TENANTS = ("red", "blue")
PASSWORDS = dict.fromkeys(ROLES.values(), PASSWORD)
BATCH = 10


async def feed_tenant(load: Load, stage: Stage, tenant: str, count: int, seconds: float) -> None:
    """Small transactions of one tenant, close behind each other and between those of the other."""
    for first in range(0, count, BATCH):
        now = datetime.now(UTC)
        jobs = [
            Owed(
                name=f"{tenant}-{first + number}",
                mode=MODES[number % len(MODES)],
                due_at=now + timedelta(seconds=stage.chance.random()),
                payload={"takes_ms": stage.chance.randrange(10)},
                tenant=tenant,
            )
            for number in range(min(BATCH, count - first))
        ]
        await load.enqueue(jobs)
        await asyncio.sleep(seconds * BATCH / count)


@pytest.mark.slow
@pytest.mark.req("U-1", "U-2")
@pytest.mark.parametrize("listens", [True, False], ids=["with a direct way to listen", "without"])
async def test_nodes_behind_a_pooler_that_is_killed(
    make_stage: MakeStage, place: Path, listens: bool
) -> None:
    count = 800
    async with (
        served(place / "server") as server,
        Bouncer(place / "bouncer", server.port, PASSWORDS) as bouncer,
    ):
        url = server.url(port=bouncer.port)
        direct = {"TIMEBELL_LISTEN_URL": server.url()} if listens else {}
        stage = make_stage(
            seed=11,
            url=url,
            owner_url=server.url("owner"),
            admin_url=server.url("admin"),
            TIMEBELL_POOLED="true",
            **direct,
        )
        settings = {"pooled": True, "listen_url": server.url() if listens else None}
        async with asking(url, stage.owner_url, stage.history, **settings) as load:
            await stage.start("ada", "bob")
            feeding = [
                asyncio.create_task(feed_tenant(load, stage, tenant, count // 2, 10)) for tenant in TENANTS
            ]
            await asyncio.sleep(4)
            began = datetime.now(UTC)
            await bouncer.kill()
            await asyncio.sleep(1)
            await bouncer.start()
            stage.fault("cut", "database", began, datetime.now(UTC))
            await asyncio.gather(*feeding)
            await stage.drained()
        records = load_history(stage.file)
        wait = longest_wait(records)
        stage.note(f"longest wait {wait:.1f} s, longest call {longest_call(records):.1f} s")
        way = "with listen_url" if listens else "without listen_url"
        figures = await stage.verdict(
            "F11",
            "PgBouncer in transaction mode, killed and started again",
            f"pool of 3, 2 nodes, 2 tenants in turn, {way}",
            recovery_seconds=wait,
        )
        assert figures["jobs"] == count
        assert wait <= 5
        assert await _strangers(stage, TENANTS) == []


async def _strangers(stage: Stage, tenants: Sequence[str]) -> list[str]:
    """Rows that came to another tenant than the one they were made for, whose name their key begins with."""
    rows = await stage.ask(
        "SELECT tenant, key FROM timebell.job_log WHERE key IS NOT NULL"
        " UNION ALL SELECT tenant, key FROM timebell.job_keys"
    )
    assert {row["tenant"] for row in rows} == set(tenants)
    return [row["key"] for row in rows if not row["key"].startswith(f"{row['tenant']}-")]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["engine", "store"])
def test_the_suite_passes_through_a_pooler(folder: str) -> None:
    """The tests of the engine and the store, with Timebell's pools behind PgBouncer."""
    need_program("pgbouncer")
    plugin = "tests.acceptance.faults.through_pooler"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", plugin, "-p", "no:cacheprovider"),
            *("-n", "2", f"tests/{folder}", "--ignore", "tests/store/embedded"),
        ],
        cwd=ROOT,
        env=clean_environment(PYTHONPATH=f"{SOURCE}:{ROOT}"),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    print(done.stdout.strip().splitlines()[-1])
