"""A hundred thousand jobs of one tenant due in one second, and another tenant who must not notice."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import MODES, Load, Owed, asking
from tests.acceptance.faults.measures import lateness
from tests.acceptance.faults.servers import served
from tests.history import Mode
from tests.history import load as load_history

HERD = 100_000
BATCH = 10_000
# A quiet machine of two cores takes about fifteen.
DRAINED_SECONDS = 180.0


async def enqueue_herd(load: Load, mode: Mode, due_at: datetime) -> None:
    for first in range(0, HERD, BATCH):
        await load.enqueue(
            [
                Owed(name=f"herd-{first + number}", mode=mode, tenant="crowd", due_at=due_at)
                for number in range(BATCH)
            ]
        )


async def enqueue_others(load: Load, since: datetime, herd: asyncio.Event) -> None:
    """A job of another tenant four times a second, asked for long before and in the moment."""
    await load.enqueue(
        [
            Owed(
                name=f"planned-{number}",
                mode=MODES[number % 3],
                tenant="other",
                due_at=since + timedelta(seconds=number / 4),
            )
            for number in range(40)
        ]
    )
    number = 0
    while not herd.is_set():
        await asyncio.sleep(0.25)
        job = Owed(name=f"sudden-{number}", mode=MODES[number % 3], tenant="other", due_at=datetime.now(UTC))
        await load.enqueue([job])
        number += 1


@pytest.mark.slow
@pytest.mark.req("U-15")
@pytest.mark.parametrize("mode", ["plain", "external"])
async def test_another_tenant_is_not_kept_waiting(make_stage: MakeStage, place: Path, mode: Mode) -> None:
    async with served(place / "server", settings={"shared_buffers": "256MB"}) as server:
        stage = make_stage(
            seed=30,
            url=server.url(),
            owner_url=server.url("owner"),
            admin_url=server.url("admin"),
            lease_seconds=10.0,
        )
        async with asking(stage.url, stage.owner_url, stage.history) as load:
            await stage.start("ada", "bob")
            due_at = datetime.now(UTC) + timedelta(seconds=45)
            await enqueue_herd(load, mode, due_at)
            assert datetime.now(UTC) < due_at, "the herd was not ready in time"
            gone = asyncio.Event()
            others = asyncio.create_task(enqueue_others(load, due_at - timedelta(seconds=1), gone))
            await asyncio.sleep((due_at - datetime.now(UTC)).total_seconds())
            began = time.monotonic()
            await stage.drained(DRAINED_SECONDS)
            took = time.monotonic() - began
            gone.set()
            await others
            await stage.drained()
        late = max(lateness(load_history(stage.file), "planned-", "sudden-"))
        stage.note(f"the herd took {took:.1f} s; another tenant waited {late:.3f} s at most")
        figures = await stage.verdict(
            *("F30, F31", "a herd", f"{HERD:,} {mode} jobs of one tenant due at one instant, 2 nodes"),
            recovery_seconds=took,
            remark=f"drained; another tenant's jobs at most {late:.2f} s late",
        )
        assert figures["jobs"] > HERD
        assert late <= 2
