"""`timebell check`: have a thousand jobs run beside everything else, and say how late each of them began."""

from __future__ import annotations

import asyncio
import math
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from timebell.cli.common import Desk, ask, json_option, place_options
from timebell.cli.printing import print_json, print_line
from timebell.errors import DatabaseError
from timebell.kernel.insights import JobLine
from timebell.kernel.models import Enqueue
from timebell.loading import CHECK_KIND

TENANT = "timebell"
_LEAD_SECONDS = 1.0
_PATIENCE_SECONDS = 30.0
_LOOK_EVERY_SECONDS = 0.5
_PAGES_MAX = 1_000
_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """How late jobs began, in milliseconds after they were due, and how many began before: never any."""

    jobs: int
    seconds: float
    finished: int
    early: int
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None


@click.command(short_help="Measure how late jobs begin.")
@click.option("--jobs", "job_count", type=click.IntRange(1, 10_000), default=1_000, show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 600),
    default=10.0,
    show_default=True,
    help="How long a time the jobs are spread over.",
)
@json_option
@place_options
def check(job_count: int, seconds: float, as_json: bool, config: Path | None, data: Path | None) -> None:
    """Enqueue jobs that do nothing beside a running Timebell, and measure how late they begin."""
    report = ask(config, data, lambda at: _check(at, job_count, seconds))
    if as_json:
        print_json(report)
    else:
        _print(report)
    if report.early or report.finished < report.jobs:
        raise click.exceptions.Exit(1)


def _print(report: CheckReport) -> None:
    print_line(f"{report.finished} of {report.jobs} jobs ran, {report.early} of them early.")
    if report.finished:
        figures = f"p50 {report.p50_ms:.1f} ms, p99 {report.p99_ms:.1f} ms, at most {report.max_ms:.1f} ms"
        print_line(f"They began late by: {figures}.")
    if report.finished < report.jobs:
        print_line("The others wait: see `timebell doctor`, and `timebell queues list` for a pause.")


async def _check(at: Desk, job_count: int, seconds: float) -> CheckReport:
    if not await at.insights.nodes():
        raise DatabaseError("No node is alive to run anything; start `timebell up` or `timebell work` first.")
    ids = await _enqueue(at, job_count, seconds)
    seen: dict[UUID, JobLine] = {}
    deadline = asyncio.get_running_loop().time() + _LEAD_SECONDS + seconds + _PATIENCE_SECONDS
    with _progress() as progress:
        bar = progress.add_task("running", total=job_count)
        while len(seen) < job_count and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_LOOK_EVERY_SECONDS)
            await _look(at, ids, seen)
            progress.update(bar, completed=len(seen))
    return _report(job_count, seconds, list(seen.values()))


async def _enqueue(at: Desk, job_count: int, seconds: float) -> set[UUID]:
    """Spread evenly, the first a moment from now, so that writing them does not make it late."""
    delays = [_LEAD_SECONDS + seconds * number / job_count for number in range(job_count)]
    jobs = [Enqueue(kind=CHECK_KIND, delay=timedelta(seconds=delay)) for delay in delays]
    async with at.bell.transaction(tenant=TENANT) as tx:
        return {enqueued.id for enqueued in await at.bell.enqueue_many(tx, jobs)}


async def _look(at: Desk, ids: set[UUID], seen: dict[UUID, JobLine]) -> None:
    """Read what has ended, newest first, as far back as our own first job."""
    first, cursor = min(ids), None
    for _ in range(_PAGES_MAX):
        page = await at.insights.jobs(TENANT, state="finished", kind=CHECK_KIND, limit=_PAGE, cursor=cursor)
        seen.update({line.id: line for line in page.lines if line.id in ids})
        cursor = page.next_cursor
        if cursor is None or (page.lines and page.lines[-1].id <= first):
            return


def _report(job_count: int, seconds: float, lines: list[JobLine]) -> CheckReport:
    late = sorted(
        (line.started_at - line.due_at) / timedelta(milliseconds=1)
        for line in lines
        if line.state == "done" and line.started_at is not None
    )

    def percentile(share: float) -> float | None:
        return round(late[max(0, math.ceil(share * len(late)) - 1)], 3) if late else None

    return CheckReport(
        jobs=job_count,
        seconds=seconds,
        finished=len(late),
        early=sum(1 for milliseconds in late if milliseconds < 0),
        p50_ms=percentile(0.5),
        p99_ms=percentile(0.99),
        max_ms=percentile(1.0),
    )


def _progress() -> Progress:
    """On standard error, because standard output is for the answer, and only where somebody watches."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(file=sys.stderr),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
