"""The pending jobs of all occurrences are always the plan of their schedules, whatever was edited in whatever order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest

from tests.schedule_model import Change, Key, Owed, owed
from tests.store.schedule_support import DAY, STEPS, call, create, local, step
from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.errors import InvalidInput, NotFound
from timebell.kernel import Step, Timebell
from timebell.kernel.schedules.models import Schedule, ScheduleChange

RECURRENCES = (
    None,
    "FREQ=DAILY",
    "FREQ=DAILY;COUNT=12",
    "FREQ=WEEKLY;BYDAY=MO,WE,FR",
    "FREQ=MONTHLY;BYMONTHDAY=-1",
    "every PT31H",
    "cron 30 2 * * 1-5",
)
TIMEZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
STEP_LISTS: tuple[list[Step], ...] = (
    STEPS,
    [step("start", 0)],
    [step("week", -168), step("after", 2)],
    [step("start", 1)],
    [],
)
Job = tuple[str, datetime, datetime | None, bytes]


class World:
    """Some schedules, and somebody who edits them at random."""

    def __init__(self, bell: Timebell, tables: Tables, clock: StillClock, seed: int) -> None:
        self.bell = bell
        self.tables = tables
        self.clock = clock
        self.chance = random.Random(seed)
        self.schedules: dict[Any, Schedule] = {}
        self.edits = 0

    @property
    def now(self) -> datetime:
        assert self.clock.now is not None
        return self.clock.now

    def wall(self, days: int = 40) -> datetime:
        """Never at the odd minutes at which the clock stands, so that nothing is due at this very instant."""
        hours = self.chance.randrange(1, days * 24)
        return (NOW.replace(tzinfo=None) + hours * HOUR).replace(minute=self.chance.choice((0, 30)))

    def terms(self) -> dict[str, Any]:
        pick = self.chance.choice
        return {
            "recurrence": pick(RECURRENCES),
            "timezone": pick(TIMEZONES),
            "start_local": self.wall(),
            "until_local": pick((None, None, self.wall(90))),
            "steps": pick(STEP_LISTS),
            "payload": {"title": pick(("Bins", "Post"))},
            "exdates": [self.wall() for _ in range(self.chance.randrange(3))],
            "rdates": [self.wall() for _ in range(self.chance.randrange(3))],
            "catch_up": pick(("latest", "skip", "all")),
            "catch_up_max": pick((2, 100)),
            "grace": pick((None, HOUR, 3 * DAY)),
        }

    async def create(self) -> None:
        self.note(await create(self.bell, **self.terms()))

    async def edit(self) -> None:
        terms = self.terms()
        changed = self.chance.sample(sorted(terms), self.chance.randrange(1, 4))
        await self.change("edit", **{name: terms[name] for name in changed})

    async def override(self) -> None:
        options: dict[str, Any] = self.chance.choice(
            ({"skip": True}, {"start_local": self.wall(120)}, {"payload": {"room": self.chance.randrange(9)}})
        )
        await self.change_one("override", **options)

    async def restore(self) -> None:
        await self.change_one("restore")

    async def split(self) -> None:
        await self.change_one("split", **self.chance.choice(({}, {"start_local": self.wall()})))

    async def pause(self) -> None:
        await self.change("pause")

    async def resume(self) -> None:
        await self.change("resume")

    async def end(self) -> None:
        await self.change("end")

    async def wait(self) -> None:
        """Time passes, and everything that was due is done."""
        self.clock.now = self.now + timedelta(hours=self.chance.randrange(1, 60))
        for job in await self.tables.jobs("due_at < $1", self.now):
            await self.tables.finish(job["id"])

    async def change(self, verb: str, *arguments: Any, **options: Any) -> None:
        id = self.chance.choice(sorted(self.schedules))
        self.note(await call(self.bell, verb, id, *arguments, **options))

    async def change_one(self, verb: str, **options: Any) -> None:
        rows = await self.tables.rows(
            "SELECT schedule_id, original_local, fold FROM timebell.occurrences WHERE occurs_at > $1 "
            "ORDER BY original_local, id LIMIT 40",
            self.now,
        )
        if rows:
            row = self.chance.choice(rows)
            self.note(
                await call(
                    self.bell, verb, row["schedule_id"], row["original_local"], fold=row["fold"], **options
                )
            )

    def note(self, change: ScheduleChange) -> None:
        self.edits += 1
        for schedule in (change.schedule, change.split_from):
            if schedule is not None:
                self.schedules[schedule.id] = schedule

    async def owed(self) -> Counter[Job]:
        """What the schedules owe, told by a model that knows neither the rules nor the tables of those who plan."""
        changes: dict[UUID, dict[Key, Change]] = {}
        for row in await self.tables.rows("SELECT * FROM timebell.occurrence_overrides"):
            payload = orjson.loads(row["payload"]) if row["payload"] else None
            key = row["original_local"], row["fold"]
            changes.setdefault(row["schedule_id"], {})[key] = Change(row["new_local"], payload)
        return Counter(
            self.told(schedule, one)
            for schedule in self.schedules.values()
            if schedule.state == "active"
            for one in owed(schedule, changes.get(schedule.id, {}), schedule.updated_at)
            if one.due_at > self.now
        )

    def told(self, schedule: Schedule, one: Owed) -> Job:
        about = {
            "schedule_id": str(schedule.id),
            "original_local": one.original_local,
            "occurs_at": one.occurs_at,
        }
        return one.step, one.due_at, one.expires_at, _sorted({**one.payload, **about})

    async def pending(self) -> Counter[Job]:
        """All that is pending but what an occurrence owes that was over when its schedule was last edited."""
        pending: Counter[Job] = Counter()
        for job in await self.tables.jobs("due_at > $1", self.now):
            payload = orjson.loads(job["payload_text"])
            assert job["subject"] == f"occurrence:{payload.pop('occurrence_id')}"
            schedule = self.schedules[UUID(payload["schedule_id"])]
            is_history = datetime.fromisoformat(payload["occurs_at"]) < schedule.updated_at
            if schedule.state != "active" or not is_history:
                pending[job["step"], job["due_at"], job["expires_at"], _sorted(payload)] += 1
        return pending


def _sorted(payload: Any) -> bytes:
    return orjson.dumps(payload, option=orjson.OPT_SORT_KEYS)


@pytest.mark.req("R-4.5")
@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(each, marks=pytest.mark.slow) for each in range(4, 40))]
)
async def test_pending_jobs_are_always_the_plan(
    bell: Timebell, tables: Tables, clock: StillClock, seed: int
) -> None:
    world = World(bell, tables, clock, seed)
    clock.now = NOW + timedelta(minutes=7)
    deeds: list[Callable[[], Awaitable[None]]] = [
        *[world.create] * 3,
        *[world.edit] * 6,
        *[world.override] * 6,
        *[world.wait] * 4,
        *[world.restore, world.split, world.pause, world.resume] * 2,
        world.end,
    ]
    for _ in range(45):
        deed = world.chance.choice(deeds) if world.schedules else world.create
        try:
            await deed()
        except (InvalidInput, NotFound):
            continue
        finally:
            assert await world.pending() == await world.owed(), deed.__name__
    assert world.edits > 10
    assert local("2027-03-01T00:00") < min(one.start_local for one in world.schedules.values())
