"""`timebell bench`: what this machine reaches, beside the raw loop, on a throwaway database."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click

from timebell.bench.drain import drain as measure_drain
from timebell.bench.enqueue import enqueue as measure_enqueue
from timebell.bench.ground import MODES
from timebell.bench.late import late as measure_late
from timebell.bench.steady import steady as measure_steady
from timebell.cli.common import run
from timebell.cli.logs import set_up_logs
from timebell.cli.printing import print_json, print_table
from timebell.kernel.models import Mode

Function = TypeVar("Function", bound=Callable[..., Any])

_jobs = click.option("--jobs", default=60_000, show_default=True, type=click.IntRange(1, 10_000_000))
_future = click.option("--future", default=0, show_default=True, type=click.IntRange(0, 50_000_000))
_rate = click.option("--rate", default=1_000, show_default=True, type=click.IntRange(1, 100_000))
_seconds = click.option("--seconds", default=15, show_default=True, type=click.IntRange(1, 3_600))
_json = click.option("--json", "as_json", is_flag=True, help="One JSON object alone on standard output.")


@click.group(short_help="Measure this machine.")
def bench() -> None:
    """Measure this machine on a database that is thrown away afterwards."""
    set_up_logs("warning", "console")


@bench.command(short_help="Due jobs paid a second.")
@_jobs
@_future
@click.option("--hold-snapshot", is_flag=True, help="Keep an old snapshot open meanwhile.")
@click.option("--mode", type=click.Choice(MODES), default="plain", show_default=True)
@_json
def drain(jobs: int, future: int, hold_snapshot: bool, mode: Mode, as_json: bool) -> None:
    """Due jobs paid a second by one process, and by its own statements alone."""
    _show(measure_drain(jobs=jobs, future=future, hold_snapshot=hold_snapshot, mode=mode), as_json)


@bench.command(short_help="Jobs written a second.")
@_jobs
@_future
@_json
def enqueue(jobs: int, future: int, as_json: bool) -> None:
    """Jobs written a second in bulk by one process, and by a bare insert."""
    _show(measure_enqueue(jobs=jobs, future=future), as_json)


@bench.command()
@_rate
@_seconds
@_future
@_json
def late(rate: int, seconds: int, future: int, as_json: bool) -> None:
    """How long after its due instant a job begins."""
    _show(measure_late(rate=rate, seconds=seconds, future=future), as_json)


@bench.command(short_help="Jobs written and paid at the same time.")
@_rate
@_seconds
@_future
@_json
def steady(rate: int, seconds: int, future: int, as_json: bool) -> None:
    """Jobs written and paid at the same time, and what is left at the end."""
    _show(measure_steady(rate=rate, seconds=seconds, future=future), as_json)


def _show(measuring: Coroutine[Any, Any, dict[str, Any]], as_json: bool) -> None:
    result = run(measuring)
    if as_json:
        print_json(result)
        return
    flat = {
        f"{name} {part}" if isinstance(value, dict) else name: figure
        for name, value in result.items()
        for part, figure in (value.items() if isinstance(value, dict) else [("", value)])
    }
    print_table(["figure", "value"], flat.items(), empty="")
