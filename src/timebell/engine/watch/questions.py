"""Questions of the engine's own alert rules. The answers are figures and what they are in words; the rules decide."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from timebell.db.embedded import default_data_folder
from timebell.engine.watch.question_store import QuestionStore
from timebell.kernel.alerts import Asked, Finding
from timebell.kernel.insights import InsightsStore
from timebell.kernel.models import NAME_MAX

_DEAD_MAX: Final = 100_000
_LOOK_MAX: Final = 10_000
_NAMED_MAX: Final = 5
_SLOT_ROWS_MAX: Final = 130
_TAIL_PAGES: Final = 1_024
_NONE: Final = UUID(int=0)


def _about(sort: str, name: str) -> str:
    """The subject of a finding. A name may be as long as a subject by itself."""
    return f"{sort}:{name}"[:NAME_MAX]


def _store(asked: Asked) -> QuestionStore:
    return QuestionStore(asked.bell.clock)


def _insights(asked: Asked) -> InsightsStore:
    return InsightsStore(asked.bell.clock)


async def dead_jobs(asked: Asked) -> Sequence[Finding]:
    rows = await _insights(asked).count_dead(asked.session, rows_max=_DEAD_MAX)
    count = sum(row["dead_count"] for row in rows)
    most = sorted(rows, key=lambda row: -row["dead_count"])[:_NAMED_MAX]
    named = ", ".join(f"{row['queue']} {row['dead_count']}" for row in most)
    return [Finding(value=count, detail=f"{count} dead jobs: {named}")]


async def late_jobs(asked: Asked) -> Sequence[Finding]:
    rows = await _store(asked).ask_late(asked.session, limit=_NAMED_MAX)
    if not rows:
        return []
    named = ", ".join(f"{row['queue']} {row['seconds']:.0f} s" for row in rows)
    return [Finding(value=rows[0]["seconds"], detail=f"the oldest due job has waited: {named}")]


async def retried_jobs(asked: Asked) -> Sequence[Finding]:
    findings = []
    for row in await _attempts(asked):
        samples = row["done_count"] + row["retried_count"] + row["dead_count"]
        retried = row["retried_count"]
        findings.append(
            Finding(
                subject=_about("queue", row["queue"]),
                value=retried / samples,
                samples=samples,
                detail=f"{retried} of {samples} attempts of the queue {row['queue']} are tried again",
            )
        )
    return findings


async def failed_jobs(asked: Asked) -> Sequence[Finding]:
    findings = []
    for row in await _attempts(asked):
        samples = row["done_count"] + row["dead_count"]
        if samples:
            findings.append(
                Finding(
                    subject=_about("queue", row["queue"]),
                    value=row["dead_count"] / samples,
                    samples=samples,
                    detail=f"{row['dead_count']} of {samples} jobs of the queue {row['queue']} died",
                )
            )
    return findings


async def _attempts(asked: Asked) -> Sequence[Any]:
    tail = await _insights(asked).read_log_tail(asked.session, pages_max=_TAIL_PAGES)
    seconds = asked.window.total_seconds()
    return await _store(asked).ask_attempts(asked.session, seconds=seconds, tail=tail, limit=asked.limit - 1)


async def loops(asked: Asked) -> Sequence[Finding]:
    settings = asked.bell.settings
    rows = await _store(asked).ask_loops(
        asked.session,
        sweep_seconds=settings.sweep_seconds,
        plan_seconds=settings.tuning.plan_seconds,
        least_seconds=settings.lease_seconds / 2,
        limit=asked.limit - 1,
    )
    return [
        Finding(
            subject=_about("loop", f"{row['loop']} node:{row['node']}"),
            value=row["intervals"],
            detail=f"the {row['loop']} loop of the node {row['node']} made no pass for {row['seconds']:.0f} s",
        )
        for row in reversed(rows)
    ]


async def unowned_slots(asked: Asked) -> Sequence[Finding]:
    upkeep = await _insights(asked).read_upkeep(asked.session)
    count, nodes = upkeep["unowned_slot_count"], upkeep["node_count"]
    return [Finding(value=count, detail=f"{nodes} nodes live, and {count} of 256 slots have none")]


async def log_days(asked: Asked) -> Sequence[Finding]:
    days = (await _insights(asked).read_upkeep(asked.session))["log_days_ahead"]
    return [Finding(value=days, detail=f"the log is prepared for {days} days")]


async def left_kinds(asked: Asked) -> Sequence[Finding]:
    rows = await _insights(asked).count_left(
        asked.session, slot_rows_max=_SLOT_ROWS_MAX, kinds_max=asked.limit - 1
    )
    return [
        Finding(
            subject=_about("kind", row["kind"]),
            value=row["due_count"],
            detail=f"{row['due_count']} jobs of the kind {row['kind']} are due",
        )
        for row in rows
    ]


async def breakers(asked: Asked) -> Sequence[Finding]:
    after = "" if asked.after is None else asked.after[1].removeprefix("destination:")
    rows = await _store(asked).ask_breakers(asked.session, after=after, limit=asked.limit)
    return [
        Finding(
            subject=_about("destination", row["destination"]),
            value=1,
            detail=f"{row['destination']} does not answer as it should",
        )
        for row in rows
    ]


async def held_queues(asked: Asked) -> Sequence[Finding]:
    rows = await _store(asked).ask_held(asked.session, limit=asked.limit - 1)
    return [
        Finding(
            subject=_about("queue", row["queue"]),
            value=row["node_count"],
            detail=f"{row['node_count']} nodes cannot serve the queue {row['queue']}: {row['reason']}",
        )
        for row in rows
    ]


async def disk(asked: Asked) -> Sequence[Finding] | None:
    """Of the embedded server alone: another one's disk cannot be seen from here."""
    folder = data_folder(asked)
    if folder is None:
        return None
    free = shutil.disk_usage(folder).free
    return [Finding(value=free, detail=f"{free / 1e9:.1f} GB are free for {folder}")]


def data_folder(asked: Asked) -> Path | None:
    settings = asked.bell.settings
    folder = settings.data or default_data_folder()
    return folder if settings.database_url is None and folder.is_dir() else None


async def clocks(asked: Asked) -> Sequence[Finding]:
    rows = await _store(asked).ask_clocks(asked.session, limit=asked.limit - 1)
    return [
        Finding(
            subject=_about("node", row["node"]),
            value=abs(row["seconds"]),
            detail=f"the clock of the node {row['node']} is {row['seconds']:+.0f} s from the database's",
        )
        for row in reversed(rows)
    ]


async def parked_schedules(asked: Asked) -> Sequence[Finding]:
    rows = await _store(asked).ask_parked(asked.session, after=_after(asked), limit=asked.limit)
    return [
        Finding(
            subject=f"schedule:{row['id']}",
            value=1,
            detail=f"the schedule of the tenant {row['tenant']} is parked: {row['reason']}",
        )
        for row in rows
    ]


async def missed_schedules(asked: Asked) -> Sequence[Finding]:
    rows = await _store(asked).ask_missed(
        asked.session,
        seconds=asked.window.total_seconds(),
        rows_max=_LOOK_MAX,
        after=_after(asked),
        limit=asked.limit,
    )
    return [
        Finding(
            subject=f"schedule:{row['schedule_id']}",
            value=row["missed_count"],
            detail=f"{row['missed_count']} occurrences of the schedule of the tenant {row['tenant']} were missed, "
            f"the last of {row['last_at'].isoformat()}",
        )
        for row in rows
    ]


def _after(asked: Asked) -> UUID:
    return _NONE if asked.after is None else UUID(asked.after[1].removeprefix("schedule:"))


async def unplanned_schedules(asked: Asked) -> Sequence[Finding]:
    row = await _store(asked).ask_unplanned(asked.session)
    if row is None:
        return []
    return [
        Finding(
            value=row["seconds"], detail=f"the schedule {row['id']} has waited for {row['seconds']:.0f} s"
        )
    ]


async def oldest_snapshot(asked: Asked) -> Sequence[Finding]:
    holder = await _insights(asked).read_oldest_snapshot(asked.session)
    if holder is None or holder["age_seconds"] is None:
        return []
    who = holder["application_name"] or holder["role"]
    return [
        Finding(
            value=holder["age_seconds"],
            detail=f"process {holder['pid']} ({who}) has a snapshot that is {holder['age_seconds']:.0f} s old",
        )
    ]


async def unsealed_events(asked: Asked) -> Sequence[Finding]:
    seconds = await _insights(asked).read_unsealed(asked.session)
    return [Finding(value=seconds, detail=f"an event has had no seal for {seconds:.0f} s")]
