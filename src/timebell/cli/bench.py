"""`timebell bench`: what this machine reaches, beside the raw loop, on a throwaway database."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click

from timebell.bench.bars import missed
from timebell.bench.drain import drain as measure_drain
from timebell.bench.enqueue import enqueue as measure_enqueue
from timebell.bench.ground import MODES
from timebell.bench.intake import intake as measure_intake
from timebell.bench.late import late as measure_late
from timebell.bench.publish import OUTSTANDING
from timebell.bench.publish import publish as measure_publish
from timebell.bench.steady import steady as measure_steady
from timebell.cli.common import run
from timebell.cli.logs import set_up_logs
from timebell.cli.printing import print_json, print_line, print_table

Function = TypeVar("Function", bound=Callable[..., Any])

_jobs = click.option("--jobs", default=60_000, show_default=True, type=click.IntRange(1, 10_000_000))
_future = click.option("--future", default=0, show_default=True, type=click.IntRange(0, 50_000_000))
_rate = click.option("--rate", default=1_000, show_default=True, type=click.IntRange(1, 100_000))
seconds_option = click.option("--seconds", default=15, show_default=True, type=click.IntRange(1, 3_600))
data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Use the embedded server that runs on this folder.  [default: one of its own]",
)
_messages = click.option("--messages", default=20_000, show_default=True, type=click.IntRange(1, 1_000_000))
_rounds = click.option(
    "--rounds",
    default=3,
    show_default=True,
    type=click.IntRange(1, 20),
    help="How often both sides take turns.",
)
check_option = click.option("--check", is_flag=True, help="End with 1 where a figure misses its bar.")
json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON object alone on standard output."
)


def _broker(function: Function) -> Function:
    """Which broker is measured."""
    function = click.option(
        "--broker-pid", type=click.IntRange(1), help="The process of that broker, to count what it costs too."
    )(function)
    return click.option(
        "--broker-url",
        envvar="BENCH_BROKER_URL",
        help="Measure on this RabbitMQ, in a virtual host that nobody uses.  [default: one of its own]",
    )(function)


@click.group(short_help="Measure this machine.")
def bench() -> None:
    """Measure this machine on a database that is thrown away afterwards."""
    set_up_logs("warning", "console")


@bench.command(short_help="Due jobs paid a second.")
@_jobs
@_future
@click.option("--hold-snapshot", is_flag=True, help="Keep an old snapshot open meanwhile.")
@click.option(
    "--held-seconds",
    default=0,
    show_default=True,
    type=click.IntRange(0, 3_600),
    help="How long the snapshot is open, and jobs are paid, before anything is measured.",
)
@click.option("--mode", type=click.Choice(MODES), default="plain", show_default=True)
@data_option
@json_option
def drain(as_json: bool, **what: Any) -> None:
    """Due jobs paid a second by one process, and by its own statements alone."""
    show(measure_drain(**what), as_json)


@bench.command(short_help="Jobs written a second.")
@_jobs
@_future
@data_option
@json_option
def enqueue(as_json: bool, **what: Any) -> None:
    """Jobs written a second in bulk by one process, and by a bare insert."""
    show(measure_enqueue(**what), as_json)


@bench.command(short_help="Requests taken in a second from a broker.")
@_messages
@_rounds
@_broker
@data_option
@check_option
@json_option
def intake(as_json: bool, check: bool, **what: Any) -> None:
    """Requests that one process takes in a second from RabbitMQ, and what is written by hand for the same."""
    expect_nobody()
    show(measure_intake(**what), as_json, check)


@bench.command()
@_rate
@seconds_option
@_future
@data_option
@json_option
def late(as_json: bool, **what: Any) -> None:
    """How long after its due instant a job begins."""
    show(measure_late(**what), as_json)


@bench.command(short_help="Messages fired a second to a broker.")
@_messages
@_rounds
@click.option(
    "--concurrency",
    default=OUTSTANDING,
    show_default=True,
    type=click.IntRange(4, 10_000),
    help="How many are on their way at once, on both sides.",
)
@click.option(
    "--rate",
    default=500,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Requests a second while the lateness is measured.",
)
@seconds_option
@click.option(
    "--future",
    default=0,
    show_default=True,
    type=click.IntRange(0, 10_000_000),
    help="Requests for the coming weeks that lie beside them then.",
)
@_broker
@data_option
@check_option
@json_option
def publish(as_json: bool, check: bool, **what: Any) -> None:
    """Messages that one process fires a second to RabbitMQ, each confirmed, beside its client in a tight loop; and how
    late one is confirmed."""
    expect_nobody()
    show(measure_publish(**what), as_json, check)


@bench.command(short_help="Jobs written and paid at the same time.")
@_rate
@seconds_option
@_future
@data_option
@json_option
def steady(as_json: bool, **what: Any) -> None:
    """Jobs written and paid at the same time, and what is left at the end."""
    show(measure_steady(**what), as_json)


def show(measuring: Coroutine[Any, Any, dict[str, Any]], as_json: bool, check: bool = False) -> None:
    result = run(measuring)
    if as_json:
        print_json(result)
    else:
        _print(result)
    if check and (lines := missed(result)):
        raise click.ClickException("; ".join(lines))


def expect_nobody() -> None:
    """Both sides come and go, and nobody has to be told that what one of them needs is away meanwhile."""
    set_up_logs("error", "console")


def _print(result: dict[str, Any]) -> None:
    flat = {
        f"{name} {part}" if isinstance(value, dict) else name: figure
        for name, value in result.items()
        if name != "bars"
        for part, figure in (value.items() if isinstance(value, dict) else [("", value)])
    }
    print_table(["figure", "value"], flat.items(), empty="")
    for line in missed(result):
        print_line(line)
