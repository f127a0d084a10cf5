"""`make bench ARGS="digests ..."`: one bench alone that says more of Timebell than of the machine it runs on.

What an operator asks of a machine of their own is `timebell bench`.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from bench.ours.digests import digests as measure_digests
from bench.ours.enrol import enrol as measure_enrol
from bench.ours.following import following as measure_following
from bench.ours.http import http as measure_http
from bench.ours.notify import TOLD
from bench.ours.notify import notify as measure_notify
from bench.ours.plan import plan as measure_plan
from bench.ours.suggest import MEETINGS_MAX
from bench.ours.suggest import suggest as measure_suggest
from timebell.cli.bench import check_option, data_option, expect_nobody, json_option, seconds_option, show
from timebell.cli.common import run
from timebell.cli.logs import set_up_logs
from timebell.cli.printing import print_json, print_table
from timebell.errors import TimebellError

# Those that are here; `bench.run` starts the others as `timebell bench`.
COMMANDS = ("digests", "enrol", "http", "next", "notify", "plan", "suggest")


@click.group()
def bench() -> None:
    """Measure Timebell on a database that is thrown away afterwards."""
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
@data_option
@check_option
@json_option
def digests(as_json: bool, check: bool, **what: Any) -> None:
    """Digests of one instant that one process composes a second, and how late others' jobs and reminders are then."""
    expect_nobody()
    show(measure_digests(**what), as_json, check)


@bench.command(short_help="Messages of sequences scheduled a second.")
@click.option("--bookings", default=10_000, show_default=True, type=click.IntRange(1, 1_000_000))
@data_option
@check_option
@json_option
def enrol(as_json: bool, check: bool, **what: Any) -> None:
    """Messages that one process schedules a second for bookings that come, and a bare insert of the same rows."""
    expect_nobody()
    show(measure_enrol(**what), as_json, check)


@bench.command(short_help="Jobs written a second over HTTP.")
@click.option("--requests", default=20_000, show_default=True, type=click.IntRange(1, 1_000_000))
@click.option("--connections", default=64, show_default=True, type=click.IntRange(1, 1_000))
@data_option
@check_option
@json_option
def http(as_json: bool, check: bool, **what: Any) -> None:
    """Jobs written a second by one request each, beside plain FastAPI and asyncpg, and by requests of a hundred."""
    show(measure_http(**what), as_json, check)


@bench.command(short_help="Notifications told a second.")
@click.option("--jobs", default=20_000, show_default=True, type=click.IntRange(1, 1_000_000))
@click.option(
    "--channel",
    type=click.Choice(TOLD),
    default="inbox",
    show_default=True,
    help="The inbox, or an e-mail through the provider that only logs.",
)
@data_option
@json_option
def notify(as_json: bool, **what: Any) -> None:
    """Notifications told a second by one process, and by its own statements alone."""
    show(measure_notify(**what), as_json)


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
@data_option
@check_option
@json_option
def plan(as_json: bool, check: bool, **what: Any) -> None:
    """Occurrences that one planner writes a second, and what a look costs that finds nothing to plan."""
    show(measure_plan(**what), as_json, check)


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
@data_option
@check_option
@json_option
def suggest(as_json: bool, check: bool, **what: Any) -> None:
    """How often in a second one process finds out when ten people can meet within four weeks."""
    show(measure_suggest(**what), as_json, check)


@bench.command("next", short_help="Recurrences asked when they are due next, a second.")
@seconds_option
@json_option
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


if __name__ == "__main__":
    try:
        bench()
    except TimebellError as error:
        sys.exit(str(error))
