"""People edit while planners plan: each occurrence stays one, and nothing is owed but what the last edit says.

Nobody holds anybody up here. Planners and editors run beside each other as fast as the database lets them, and
every round the schedules are due for planning again. A seed decides what is edited.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from tests.engine.planner_support import DAY, DUE, HOUR, Diary, occurrences, row_of, schedule, wall
from tests.engine.support import Cluster, ClusterNode, Owner
from tests.schedule_model import Terms, generated, instant
from timebell.errors import InvalidInput, NotFound
from timebell.kernel import Step, Timebell
from timebell.rules.planned import occurrence_id

STEPS = [DUE, Step(key="before", kind="t.remind", offset=-26 * HOUR)]
RECURRENCES = ("FREQ=DAILY", "FREQ=DAILY;INTERVAL=2", "FREQ=WEEKLY;BYDAY=MO,TH", "every PT36H")
TIMEZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
SCHEDULES, EDITORS, EDITS = 4, 3, 12


class Editor:
    """Changes any schedule in any way, one transaction after the other."""

    def __init__(self, bell: Timebell, ids: list[UUID], seed: int) -> None:
        self._bell = bell
        self._ids = ids
        self._chance = random.Random(seed)
        self.deeds: Counter[str] = Counter()

    async def run(self) -> None:
        for _ in range(EDITS):
            verb = self._chance.choice(("edit", "edit", "override", "restore", "pause", "resume"))
            try:
                await self._do(verb, self._chance.choice(self._ids))
            except (InvalidInput, NotFound):
                # It is paused already, or there is no such occurrence now: another editor was quicker.
                continue
            self.deeds[verb] += 1

    async def _do(self, verb: str, id: UUID) -> None:
        schedules = self._bell.schedules
        async with self._bell.transaction() as tx:
            if verb == "edit":
                await schedules.edit(tx, id, **self._changes())
            elif verb in {"override", "restore"}:
                lines = (await schedules.occurrences(tx, id, from_at=self._bell.clock.sql_now())).lines
                if lines:
                    one = self._chance.choice(lines)
                    terms: dict[str, Any] = {} if verb == "restore" else self._override(one.original_local)
                    await getattr(schedules, verb)(tx, id, one.original_local, fold=one.fold, **terms)
            else:
                await getattr(schedules, verb)(tx, id)

    def _changes(self) -> dict[str, Any]:
        pick = self._chance.choice
        changes = {
            "recurrence": pick(RECURRENCES),
            "timezone": pick(TIMEZONES),
            "start_local": wall(2026, 1, pick((6, 7, 8)), pick((2, 9, 23)), 30),
        }
        return {name: changes[name] for name in self._chance.sample(sorted(changes), pick((1, 2)))}

    def _override(self, original: datetime) -> dict[str, Any]:
        return self._chance.choice(
            ({"skip": True}, {"start_local": original + self._chance.randint(1, 9) * HOUR})
        )


async def keep_due(owner: Owner, until: asyncio.Event) -> None:
    """Every schedule is due for planning again, all the time."""
    while not until.is_set():
        await owner.connection.execute(
            "UPDATE timebell.schedules SET plan_at = created_at WHERE id IN"
            " (SELECT id FROM timebell.schedules WHERE state = 'active' FOR UPDATE SKIP LOCKED)"
        )


async def keep_planning(node: ClusterNode, now: datetime, until: asyncio.Event) -> None:
    while not until.is_set():
        await node.engine.planner.run_due(now)


async def owed(owner: Owner, id: UUID, now: datetime) -> set[tuple[str, str, datetime]]:
    """What a schedule owes from now on, told from its row and its overrides by a model that shares no code."""
    row = await row_of(owner, id)
    if row["state"] != "active":
        return set()
    overrides = await owner.rows("SELECT * FROM timebell.occurrence_overrides WHERE schedule_id = $1", id)
    moved = {(each["original_local"], each["fold"]): each["new_local"] for each in overrides}
    reach = now + 60 * DAY + 26 * HOUR
    found: dict[tuple[datetime, int], datetime] = {}
    for one in generated(Terms(row["recurrence"], row["timezone"], row["start_local"])):
        if one.at >= reach:
            break
        key = (one.original_local, one.fold)
        if key not in moved:
            found[key] = one.at
        elif moved[key] is not None:
            found[key] = instant(moved[key], ZoneInfo(row["timezone"]))
    return {
        (str(occurrence_id(id, local, fold)), step.key, at + (step.offset or timedelta(0)))
        for (local, fold), at in found.items()
        for step in STEPS
        if at < reach and at + (step.offset or timedelta(0)) >= now
    }


@pytest.mark.req("R-4.5", "X-R16")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
async def test_edits_beside_planners_leave_what_the_last_of_them_says(
    cluster: Cluster, owner: Owner, seed: int
) -> None:
    nodes = [await cluster.node([Diary().app()]) for _ in range(2)]
    made = [
        await schedule(
            nodes[0].bell, recurrence="FREQ=DAILY", start_local=wall(2026, 1, 6, 9, 30), steps=STEPS
        )
        for _ in range(SCHEDULES)
    ]
    ids = [each.schedule.id for each in made]
    editors = [Editor(nodes[number % 2].bell, ids, 100 * seed + number) for number in range(EDITORS)]
    is_over = asyncio.Event()
    beside = [asyncio.create_task(keep_due(owner, is_over))]
    beside += [asyncio.create_task(keep_planning(node, cluster.clock.now, is_over)) for node in nodes]
    try:
        async with asyncio.timeout(60):
            await asyncio.gather(*(editor.run() for editor in editors))
    finally:
        is_over.set()
        await asyncio.gather(*beside)
    assert sum((editor.deeds for editor in editors), Counter[str]()).total() >= EDITORS * EDITS / 2
    await nodes[0].engine.planner.run_due(cluster.clock.now)
    assert all(node.engine.planner.counters.claimed > 0 for node in nodes), "a planner had nothing to do"
    assert all(node.engine.planner.counters.parked == 0 for node in nodes)
    jobs = await owner.jobs()
    pending = {(job["subject"].removeprefix("occurrence:"), job["step"], job["due_at"]) for job in jobs}
    assert len(pending) == len(jobs), "a step is owed twice"
    expected = set().union(*[await owed(owner, id, cluster.clock.now) for id in ids])
    assert pending == expected
    rows = await occurrences(owner)
    names = {(row["schedule_id"], row["original_local"], row["fold"]): row["id"] for row in rows}
    assert all(id == occurrence_id(*name) for name, id in names.items())
    assert {subject for subject, _, _ in pending} <= {str(row["id"]) for row in rows}, (
        "a job without occurrence"
    )
