"""The property that must always hold: what is pending is what the schedules owe, whoever planned it.

Everything random comes from a seed. The model knows the wall times of each schedule and nothing of the tables.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from tests.engine.planner_support import DAY, HOUR, MINUTE, Diary, schedule, wall
from tests.engine.support import Owner
from tests.schedule_model import Terms, generated, instant
from timebell.errors import InvalidInput
from timebell.kernel import Step
from timebell.testing.database import TestDatabase
from timebell.testing.harness import Harness, harness

TIMEZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC")
RECURRENCES = (
    "FREQ=DAILY",
    "FREQ=DAILY;INTERVAL=3",
    "FREQ=WEEKLY;BYDAY=MO,TH",
    "FREQ=MONTHLY;BYMONTHDAY=-1",
    "FREQ=DAILY;COUNT=40",
    "every PT36H",
)
STEPS = [
    Step(key="before", kind="t.remind", offset=-26 * HOUR),
    Step(key="due", kind="t.remind", offset=timedelta(0)),
]
LEAD = 26 * HOUR
ROUNDS = 30


@dataclass
class Model:
    """A schedule as whoever edits it means it."""

    recurrence: str
    timezone: str
    start_local: datetime
    moved: dict[datetime, datetime | None] = field(default_factory=dict)
    is_paused: bool = False

    def generated(self, after: datetime, before: datetime) -> dict[datetime, datetime]:
        series = generated(Terms(self.recurrence, self.timezone, self.start_local))
        found = takewhile(lambda one: one.at < before, series)
        return {one.original_local.replace(fold=one.fold): one.at for one in found if one.at > after}

    def owed(self, now: datetime) -> set[tuple[str, str, datetime]]:
        """Occurrence, step and instant of everything that is to come within the horizon."""
        if self.is_paused:
            return set()
        reach = now + 60 * DAY + LEAD
        due: dict[datetime, datetime] = {}
        for local, at in self.generated(now - 5 * DAY, reach).items():
            new = self.moved.get(local, local)
            if new is not None:
                due[local] = at if new == local else instant(new, ZoneInfo(self.timezone))
        return {
            (local.isoformat(), step.key, at + (step.offset or timedelta(0)))
            for local, at in due.items()
            for step in STEPS
            if now <= at < reach and at + (step.offset or timedelta(0)) > now
        }


class World:
    def __init__(self, h: Harness, owner: Owner, seed: int) -> None:
        self.h = h
        self.owner = owner
        self.chance = random.Random(seed)
        self.models: dict[UUID, Model] = {}

    async def pending(self, id: UUID) -> set[tuple[str, str, datetime]]:
        rows = await self.owner.rows(
            "SELECT payload->>'original_local' AS original, step, due_at FROM timebell.jobs"
            " WHERE payload->>'schedule_id' = $1::text AND due_at > $2",
            str(id),
            self.h.clock.now,
        )
        found = {(row["original"], row["step"], row["due_at"]) for row in rows}
        assert len(found) == len(rows), "a step is pending twice"
        return found

    async def check(self) -> None:
        for id, model in self.models.items():
            assert await self.pending(id) == model.owed(self.h.clock.now), model

    async def act(self) -> None:
        action = self.chance.choice(
            ("create", "edit", "skip", "move", "pause", "advance", "advance", "forget")
        )
        if action == "advance":
            await self.h.advance(self.chance.randint(1, 40 * 24 * 60) * MINUTE)
        elif action == "create" or not self.models:
            await self._create()
        elif action == "forget":
            await self.owner.connection.execute(
                "UPDATE timebell.schedules SET plan_at = $1, planned_until = $1 WHERE state = 'active'",
                self.h.clock.now,
            )
            await self.h.run_due()
        else:
            id = self.chance.choice(list(self.models))
            try:
                await getattr(self, f"_{action}")(id, self.models[id])
            except InvalidInput as refused:
                # It is over, or nothing would ever be due any more; then nothing has changed.
                if "ended" not in str(refused) and "due after" not in str(refused):
                    raise

    def _wall(self) -> datetime:
        day = self.h.clock.now.replace(tzinfo=None) + self.chance.randint(1, 30) * DAY
        return wall(day.year, day.month, day.day, self.chance.choice((2, 9, 23)), self.chance.choice((0, 30)))

    async def _create(self) -> None:
        model = Model(self.chance.choice(RECURRENCES), self.chance.choice(TIMEZONES), self._wall())
        made = await schedule(
            self.h.bell,
            recurrence=model.recurrence,
            timezone=model.timezone,
            start_local=model.start_local,
            steps=STEPS,
        )
        self.models[made.schedule.id] = model

    async def _edit(self, id: UUID, model: Model) -> None:
        changes: dict[str, Any] = {
            "recurrence": self.chance.choice(RECURRENCES),
            "start_local": self._wall(),
            "timezone": self.chance.choice(TIMEZONES),
        }
        changes = {
            name: changes[name] for name in self.chance.sample(sorted(changes), self.chance.randint(1, 3))
        }
        async with self.h.bell.transaction() as tx:
            await self.h.bell.schedules.edit(tx, id, **changes)
        for name, value in changes.items():
            setattr(model, name, value)

    async def _skip(self, id: UUID, model: Model) -> None:
        await self._override(id, model, None)

    async def _move(self, id: UUID, model: Model) -> None:
        await self._override(id, model, self._wall())

    async def _override(self, id: UUID, model: Model, new: datetime | None) -> None:
        now = self.h.clock.now
        coming = [
            local
            for local in model.generated(now + 2 * DAY, now + 30 * DAY)
            if local not in model.moved and not local.fold
        ]
        if model.is_paused or not coming:
            return
        local = self.chance.choice(coming)
        async with self.h.bell.transaction() as tx:
            await self.h.bell.schedules.override(
                tx, id, local, **({"skip": True} if new is None else {"start_local": new})
            )
        model.moved[local] = new

    async def _pause(self, id: UUID, model: Model) -> None:
        async with self.h.bell.transaction() as tx:
            if model.is_paused:
                await self.h.bell.schedules.resume(tx, id)
            else:
                await self.h.bell.schedules.pause(tx, id)
        model.is_paused = not model.is_paused


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
async def test_what_is_pending_is_what_is_owed(database_url: TestDatabase, owner: Owner, seed: int) -> None:
    diary = Diary()
    async with harness(database_url.url, [diary.app()]) as h:
        diary.clock = h.clock
        world = World(h, owner, seed)
        for _ in range(ROUNDS):
            await world.act()
            await world.check()
    done = [
        (payload["schedule_id"], payload["original_local"], step, payload["occurs_at"])
        for _, step, payload in diary.lines
    ]
    assert len(done) == len(set(done))
