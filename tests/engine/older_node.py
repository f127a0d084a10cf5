"""A process with older timezone data: it makes schedules, or tries to plan, and prints what came of it as JSON.

`python -m tests.engine.older_node URL INSTANT create|plan [GRACE_MINUTES]`
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import datetime, timedelta

from tests.engine.planner_support import DUE, Diary, schedule, wall
from timebell.errors import OldTimezoneData
from timebell.rules.localtime import TIMEZONE_VERSION
from timebell.testing import ManualClock
from timebell.testing.harness import Harness, harness


async def create(h: Harness, grace: timedelta | None) -> dict[str, object]:
    made: dict[str, object] = {}
    for timezone in ("America/Vancouver", "Europe/Berlin"):
        change = await schedule(
            h.bell,
            recurrence="FREQ=DAILY",
            start_local=wall(2026, 10, 1, 9),
            timezone=timezone,
            steps=[DUE],
            grace=grace,
        )
        made[timezone] = str(change.schedule.id)
    return made


async def plan(h: Harness) -> dict[str, object]:
    planner = h.engine.planner
    await planner.run_due(h.clock.now)
    answer: dict[str, object] = {
        "is_behind": planner.timezones.is_behind,
        "planned": planner.counters.planned,
    }
    try:
        await create(h, None)
    except OldTimezoneData as error:
        answer["refusal"] = str(error)
    return answer


async def main(url: str, instant: str, action: str, grace_minutes: str | None = None) -> None:
    clock = ManualClock(datetime.fromisoformat(instant))
    grace = None if grace_minutes is None else timedelta(minutes=int(grace_minutes))
    async with harness(url, [Diary().app()], clock=clock) as h:
        answer = await (create(h, grace) if action == "create" else plan(h))
    print(json.dumps({**answer, "version": TIMEZONE_VERSION}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
