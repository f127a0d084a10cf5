"""What is asked about schedules from the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest_asyncio

from tests.acceptance.processes import answer, assert_refused, command
from timebell import App, Job, Step
from timebell.testing import ManualClock, harness
from timebell.testing.database import TestDatabase

PREVIEW = ("schedule", "preview")
TOMORROW = datetime.now(UTC).replace(tzinfo=None, minute=0, second=0, microsecond=0) + timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """A database with a weekly schedule in UTC and a one-off."""

    url: str
    weekly: UUID
    once: UUID

    def ask(self, *arguments: object) -> Any:
        return answer("schedules", *arguments, DATABASE_URL=self.url)

    def pending(self) -> int:
        return len(answer("jobs", "list", "--limit", 500, DATABASE_URL=self.url)["data"])


@pytest_asyncio.fixture
async def owed(database_url: TestDatabase) -> AsyncIterator[Owed]:
    async def tell(job: Job) -> None:
        """Nothing is due while these tests run."""

    app = App(name="bins", handlers={"bins.tell": tell})
    async with harness(database_url.url, [app], clock=ManualClock(datetime.now(UTC))) as h:
        step = Step(key="eve", kind="bins.tell", offset=timedelta(hours=-1, minutes=-30))
        terms: dict[str, Any] = {"timezone": "UTC", "start_local": TOMORROW, "steps": [step]}
        async with h.bell.transaction() as tx:
            weekly = await h.bell.schedules.create(
                tx, recurrence="FREQ=WEEKLY", subject="bin:1", owner="ada", **terms
            )
            once = await h.bell.schedules.create(tx, **terms)
    yield Owed(url=database_url.url, weekly=weekly.schedule.id, once=once.schedule.id)


def test_a_preview_needs_no_database() -> None:
    gone = {"DATABASE_URL": "postgresql://me@127.0.0.1:1/d"}
    start = ("--tz", "Europe/Berlin", "--from", "2026-03-28T02:30")
    shown = command(*PREVIEW, "FREQ=DAILY", *start, "--count", 2, **gone)
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = [line.rstrip() for line in shown.stdout.splitlines()]
    assert lines[0] == "Every day at 02:30, Berlin time"
    assert lines[-3].split() == ["Sat", "2026-03-28", "02:30:00", "+01:00", "2026-03-28T01:30:00Z"]
    assert lines[-2].startswith(
        "Sun 2026-03-29 03:30:00  +02:00  2026-03-29T01:30:00Z  clocks leave out 02:30"
    )
    assert lines[-1] == "And so on."


def test_a_preview_refuses_in_one_line() -> None:
    assert_refused(command(*PREVIEW, "FREQ=DAILY;BYHOUR=24"), 2, "BYHOUR", "0 to 23")
    assert_refused(command(*PREVIEW, "FREQ=DAILY", "--from", "soon"), 2, "--from", "wall time")


async def test_looking_at_schedules(owed: Owed) -> None:
    listed = owed.ask("list")
    assert [line["id"] for line in listed["data"]] == [str(owed.weekly), str(owed.once)]
    assert (listed["has_more"], listed["next_cursor"]) == (False, None)
    assert [line["id"] for line in owed.ask("list", "--owner", "ada")["data"]] == [str(owed.weekly)]
    assert owed.ask("list", "--state", "parked", "--subject", "bin:1")["data"] == []
    first = owed.ask("list", "--limit", 1)
    second = owed.ask("list", "--limit", 1, "--cursor", first["next_cursor"])
    assert [page["data"][0]["id"] for page in (first, second)] == [str(owed.weekly), str(owed.once)]
    shown = command("schedules", "list", DATABASE_URL=owed.url)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"every {TOMORROW:%A} at {TOMORROW:%H:%M}, UTC" in shown.stdout
    assert f"once, {TOMORROW.isoformat(sep=' ')}, UTC" in shown.stdout


async def test_one_schedule_and_its_occurrences(owed: Owed) -> None:
    told = owed.ask("show", owed.weekly)
    assert told["description"] == f"every {TOMORROW:%A} at {TOMORROW:%H:%M}, UTC"
    assert told["schedule"]["steps"][0]["offset"] == "-PT1H30M"
    lines = told["occurrences"]["data"]
    assert len(lines) in (8, 9)
    assert lines[0]["occurs_at"] == f"{TOMORROW.isoformat()}Z"
    page = owed.ask("show", owed.weekly, "--past", "--limit", 3)["occurrences"]
    assert page["data"] == lines[:3]
    assert owed.ask("show", owed.weekly, "--cursor", page["next_cursor"])["occurrences"]["data"] == lines[3:]
    shown = command("schedules", "show", owed.once, DATABASE_URL=owed.url)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert TOMORROW.isoformat(sep=" ") in shown.stdout
    assert_refused(command("schedules", "show", uuid4(), DATABASE_URL=owed.url), 1, "no schedule")


async def test_pausing_and_resuming(owed: Owed) -> None:
    before = owed.pending()
    change = owed.ask("pause", owed.weekly, "--reason", "holidays", "--actor", "me")
    assert (change["schedule"]["state"], change["schedule"]["state_reason"]) == ("paused", "holidays")
    assert len(change["diff"]["withdrawn"]) == before - 1
    assert owed.pending() == 1
    resumed = command("schedules", "resume", owed.weekly, DATABASE_URL=owed.url)
    assert resumed.stdout == f"{owed.weekly} goes on; {before - 1} occurrences are planned.\n"
    assert owed.pending() == before
    assert_refused(command("schedules", "resume", owed.weekly, DATABASE_URL=owed.url), 2, "is active")
    paused = command("schedules", "pause", owed.once, DATABASE_URL=owed.url)
    assert paused.stdout == f"{owed.once} is paused; 1 occurrence is withdrawn.\n"
