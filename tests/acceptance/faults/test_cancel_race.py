"""A cancel at the very moment at which the job is due."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import MODES, Load, Owed, asking
from tests.acceptance.faults.stage import Stage

ROUND = 50


async def cancel_near_due(stage: Stage, load: Load, job: Owed) -> str:
    at = job.due_at + timedelta(milliseconds=stage.chance.uniform(-50, 50))
    await asyncio.sleep(max(0.0, (at - datetime.now(UTC)).total_seconds()))
    return await load.cancel(job)


@pytest.mark.slow
@pytest.mark.req("U-3")
async def test_a_thousand_cancels_at_the_due_instant(make_stage: MakeStage) -> None:
    """The answer is the truth each time: `cancelled` and nothing began, or it began and the answer says so."""
    stage = make_stage(seed=32)
    answers: Counter[str] = Counter()
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await stage.start("ada", "bob")
        for first in range(0, 1_000, ROUND):
            now = datetime.now(UTC)
            jobs = [
                Owed(
                    name=f"near-{first + number}",
                    mode=stage.chance.choice(MODES),
                    due_at=now + timedelta(seconds=0.3 + stage.chance.random()),
                    payload={"takes_ms": stage.chance.choice([0, 0, 30])},
                )
                for number in range(ROUND)
            ]
            await load.enqueue(jobs)
            answers.update(await asyncio.gather(*(cancel_near_due(stage, load, job) for job in jobs)))
        await stage.drained()
    stage.note(f"answers: {dict(answers)}")
    await stage.verdict(
        "F32", "a cancel meets its job", "cancelled within 50 ms of the due instant, 1,000 times"
    )
    assert answers["cancelled"] >= 200
    assert answers["already_final"] + answers["too_late"] >= 200
