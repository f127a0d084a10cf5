"""Nobody was there for three days. Then nodes start, as processes of their own, and find what was due meanwhile."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.acceptance.conftest import Work
from tests.acceptance.faults.waiting import until
from tests.acceptance.processes import SOURCE
from timebell import App, Handler, Job, Step
from timebell.testing import ManualClock, harness
from timebell.testing.database import TestDatabase

APP = """
from timebell import App, Handler

async def note(job):
    await job.tx.connection.execute(
        "INSERT INTO public.notes VALUES ($1, $2)", job.payload["policy"], job.payload["original_local"]
    )

app = App(name="bins", handlers={"bins.note": Handler(run=note, mode="transactional")})
"""
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NEVER_RUN = "the test itself runs no engine for this"


async def state(url: str, now: datetime) -> datetime:
    """Three days ago somebody made schedules for every hour; the next hour of theirs is half an hour away."""

    async def note(job: Job) -> None:
        raise AssertionError(NEVER_RUN)

    app = App(name="bins", handlers={"bins.note": Handler(run=note, mode="transactional")})
    start = (now - 3 * DAY + HOUR / 2).replace(tzinfo=None, second=0, microsecond=0)
    terms: dict[str, Any] = {
        "recurrence": "FREQ=HOURLY",
        "timezone": "UTC",
        "start_local": start,
        "steps": [Step(key="then", kind="bins.note", offset=timedelta(0))],
    }
    async with harness(url, [app], clock=ManualClock(now - 3 * DAY)) as h, h.bell.transaction() as tx:
        for policy, options in (
            ("latest", {"grace": DAY}),
            ("strict", {"grace": timedelta(minutes=5)}),
            ("all", {"catch_up": "all", "catch_up_max": 5}),
            ("skip", {"catch_up": "skip"}),
        ):
            await h.bell.schedules.create(tx, payload={"policy": policy}, **options, **terms)
    return start + 71 * HOUR


@pytest.mark.slow
@pytest.mark.req("S-3.4", "U-10")
async def test_after_three_days_each_schedule_is_caught_up_as_it_says(
    database_url: TestDatabase, work: Work, place: Path
) -> None:
    owner = await asyncpg.connect(database_url.admin_url)
    await owner.execute(
        "CREATE TABLE public.notes (policy text, wall text); GRANT INSERT ON public.notes TO PUBLIC"
    )
    newest = await state(database_url.url, datetime.now(UTC))
    (place / "bins_app.py").write_text(APP)
    variables = {
        "DATABASE_URL": database_url.url,
        "PYTHONPATH": f"{SOURCE}:{place}",
        "TIMEBELL_APPS": "bins_app",
    }
    work(**variables, TIMEBELL_NODE_NAME="first")
    work(**variables, TIMEBELL_NODE_NAME="second")

    async def is_settled() -> bool:
        return not await owner.fetchval("SELECT count(*) FROM timebell.jobs WHERE due_at <= now()")

    await until(is_settled, 60, "everything that was due")
    notes = [tuple(row) for row in await owner.fetch("SELECT policy, wall FROM public.notes")]
    ends = await owner.fetch(
        "SELECT state, payload->>'policy' AS policy FROM timebell.job_log WHERE state <> 'pending'"
    )
    await owner.close()
    late = {("all", (newest - hours * HOUR).isoformat()) for hours in range(5)}
    assert Counter(notes) == Counter(late | {("latest", newest.isoformat())})
    # Whatever was not done has an end in the log that says so: nothing is lost in silence.
    assert Counter(row["policy"] for row in ends if row["state"] == "expired") == {
        "latest": 71,
        "strict": 72,
        "all": 67,
        "skip": 72,
    }
    assert Counter(row["state"] for row in ends) == {"done": 6, "expired": 282}
