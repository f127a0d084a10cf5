"""`timebell bench`: what this machine reaches, beside the raw loop, on a throwaway database."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click

from timebell.bench.bars import missed
from timebell.bench.digests import digests as measure_digests
from timebell.bench.drain import drain as measure_drain
from timebell.bench.enqueue import enqueue as measure_enqueue
from timebell.bench.enrol import enrol as measure_enrol
from timebell.bench.following import following as measure_following
from timebell.bench.ground import MODES
from timebell.bench.http import http as measure_http
from timebell.bench.intake import intake as measure_intake
from timebell.bench.late import late as measure_late
from timebell.bench.notify import TOLD
from timebell.bench.notify import notify as measure_notify
from timebell.bench.plan import plan as measure_plan
from timebell.bench.publish import OUTSTANDING
from timebell.bench.publish import publish as measure_publish
from timebell.bench.steady import steady as measure_steady
from timebell.bench.suggest import MEETINGS_MAX
from timebell.bench.suggest import suggest as measure_suggest
from timebell.cli.common import run
from timebell.cli.logs import set_up_logs
from timebell.cli.printing import print_json, print_line, print_table

Function = TypeVar("Function", bound=Callable[..., Any])

_jobs = click.option("--jobs", default=60_000, show_default=True, type=click.IntRange(1, 10_000_000))
_future = click.option("--future", default=0, show_default=True, type=click.IntRange(0, 50_000_000))
_rate = click.option("--rate", default=1_000, show_default=True, type=click.IntRange(1, 100_000))
_seconds = click.option("--seconds", default=15, show_default=True, type=click.IntRange(1, 3_600))
_data = click.option(
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
_check = click.option("--check", is_flag=True, help="End with 1 where a figure misses its bar.")
_json = click.option("--json", "as_json", is_flag=True, help="One JSON object alone on standard output.")


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


@bench.command(short_help="Digests of saved searches composed a second.")
@click.option("--people", default=20_000, show_default=True, type=click.IntRange(100, 1_000_000))
@click.option(
    "--rate",
    default=100,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Jobs a second of each of two tenants meanwhile.",
)
@click.option("--sends", is_flag=True, help="Send the mails too, in the same process at the same time.")
@_data
@_check
@_json
def digests(as_json: bool, check: bool, **what: Any) -> None:
    """Digests of one instant that one process composes a second, and how late others' jobs and reminders are then."""
    _expect_nobody()
    _show(measure_digests(**what), as_json, check)


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
@_data
@_json
def drain(as_json: bool, **what: Any) -> None:
    """Due jobs paid a second by one process, and by its own statements alone."""
    _show(measure_drain(**what), as_json)


@bench.command(short_help="Jobs written a second.")
@_jobs
@_future
@_data
@_json
def enqueue(as_json: bool, **what: Any) -> None:
    """Jobs written a second in bulk by one process, and by a bare insert."""
    _show(measure_enqueue(**what), as_json)


@bench.command(short_help="Messages of sequences scheduled a second.")
@click.option("--bookings", default=10_000, show_default=True, type=click.IntRange(1, 1_000_000))
@_data
@_check
@_json
def enrol(as_json: bool, check: bool, **what: Any) -> None:
    """Messages that one process schedules a second for bookings that come, and a bare insert of the same rows."""
    _expect_nobody()
    _show(measure_enrol(**what), as_json, check)


@bench.command(short_help="Jobs written a second over HTTP.")
@click.option("--requests", default=20_000, show_default=True, type=click.IntRange(1, 1_000_000))
@click.option("--connections", default=64, show_default=True, type=click.IntRange(1, 1_000))
@_data
@_check
@_json
def http(as_json: bool, check: bool, **what: Any) -> None:
    """Jobs written a second by one request each, beside plain FastAPI and asyncpg, and by requests of a hundred."""
    _show(measure_http(**what), as_json, check)


@bench.command(short_help="Requests taken in a second from a broker.")
@_messages
@_rounds
@_broker
@_data
@_check
@_json
def intake(as_json: bool, check: bool, **what: Any) -> None:
    """Requests that one process takes in a second from RabbitMQ, and what is written by hand for the same."""
    _expect_nobody()
    _show(measure_intake(**what), as_json, check)


@bench.command()
@_rate
@_seconds
@_future
@_data
@_json
def late(as_json: bool, **what: Any) -> None:
    """How long after its due instant a job begins."""
    _show(measure_late(**what), as_json)


@bench.command(short_help="Notifications told a second.")
@click.option("--jobs", default=20_000, show_default=True, type=click.IntRange(1, 1_000_000))
@click.option(
    "--channel",
    type=click.Choice(TOLD),
    default="inbox",
    show_default=True,
    help="The inbox, or an e-mail through the provider that only logs.",
)
@_data
@_json
def notify(as_json: bool, **what: Any) -> None:
    """Notifications told a second by one process, and by its own statements alone."""
    _show(measure_notify(**what), as_json)


@bench.command(short_help="Occurrences planned a second.")
@click.option(
    "--schedules",
    default=100_000,
    show_default=True,
    type=click.IntRange(1, 10_000_000),
    help="Active schedules, most of which need nothing.",
)
@click.option(
    "--due",
    default=1_000,
    show_default=True,
    type=click.IntRange(1, 1_000_000),
    help="Schedules that must be planned.",
)
@click.option(
    "--steps",
    default=1,
    show_default=True,
    type=click.IntRange(1, 10),
    help="What each occurrence owes.",
)
@_data
@_check
@_json
def plan(as_json: bool, check: bool, **what: Any) -> None:
    """Occurrences that one planner writes a second, and what a look costs that finds nothing to plan."""
    _show(measure_plan(**what), as_json, check)


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
@_seconds
@click.option(
    "--future",
    default=0,
    show_default=True,
    type=click.IntRange(0, 10_000_000),
    help="Requests for the coming weeks that lie beside them then.",
)
@_broker
@_data
@_check
@_json
def publish(as_json: bool, check: bool, **what: Any) -> None:
    """Messages that one process fires a second to RabbitMQ, each confirmed, beside its client in a tight loop; and how
    late one is confirmed."""
    _expect_nobody()
    _show(measure_publish(**what), as_json, check)


@bench.command(short_help="Jobs written and paid at the same time.")
@_rate
@_seconds
@_future
@_data
@_json
def steady(as_json: bool, **what: Any) -> None:
    """Jobs written and paid at the same time, and what is left at the end."""
    _show(measure_steady(**what), as_json)


@bench.command(short_help="Times to meet found a second, over HTTP.")
@click.option("--requests", default=500, show_default=True, type=click.IntRange(1, 1_000_000))
@click.option("--connections", default=8, show_default=True, type=click.IntRange(1, 1_000))
@click.option(
    "--meetings",
    default=MEETINGS_MAX,
    show_default=True,
    type=click.IntRange(0, MEETINGS_MAX),
    help="How many they have accepted.",
)
@_data
@_check
@_json
def suggest(as_json: bool, check: bool, **what: Any) -> None:
    """How often in a second one process finds out when ten people can meet within four weeks."""
    _show(measure_suggest(**what), as_json, check)


@bench.command("next", short_help="Recurrences asked when they are due next, a second.")
@_seconds
@_json
def following(as_json: bool, **what: Any) -> None:
    """How often in a second one can ask when a recurrence is due next. Needs no database."""
    result = run(measure_following(**what))
    if as_json:
        print_json(result)
        return
    rows = [
        (line["recurrence"], line["start_local"].date().isoformat(), line["per_s"], line["us"])
        for line in result["recurrences"]
    ]
    print_table(["recurrence", "start", "per second", "µs each"], rows, empty="")


def _show(measuring: Coroutine[Any, Any, dict[str, Any]], as_json: bool, check: bool = False) -> None:
    result = run(measuring)
    if as_json:
        print_json(result)
    else:
        _print(result)
    if check and (lines := missed(result)):
        raise click.ClickException("; ".join(lines))


def _expect_nobody() -> None:
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
