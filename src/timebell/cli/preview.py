"""`timebell schedule preview`: try a recurrence, without a database and without writing anything."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, get_args
from uuid import NAMESPACE_URL, uuid5

import click

from timebell.cli.common import json_option
from timebell.cli.printing import print_json, print_line, print_table
from timebell.errors import InvalidInput
from timebell.rules.ics import CalendarEntry, calendar_file
from timebell.rules.localtime import OnFold, OnGap
from timebell.rules.previewing import Preview, PreviewLine, preview


class LocalType(click.ParamType[datetime]):
    """A wall time."""

    name = "local"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        moment = _read_moment(value)
        if moment is None or moment.tzinfo is not None:
            self.fail(f"{str(value)[:100]!r} is not a wall time such as 2026-03-29T02:30", param)
        return moment


class InstantType(click.ParamType[datetime]):
    """An instant."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        moment = _read_moment(value)
        if moment is None or moment.tzinfo is None:
            self.fail(f"{str(value)[:100]!r} is not an instant such as 2026-03-29T00:30Z", param)
        return moment


LOCAL = LocalType()
INSTANT = InstantType()


def _read_moment(value: Any) -> datetime | None:
    try:
        return value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        return None


@click.group(short_help="Try a recurrence before it is written.")
def schedule() -> None:
    """Try a recurrence before a schedule is written with it."""


@schedule.command("preview", short_help="Show when a recurrence is due.")
@click.argument("recurrence")
@click.option("--tz", "timezone", default="UTC", show_default=True, help="The timezone, by its IANA name.")
@click.option("--from", "start_local", type=LOCAL, help="The start, as a wall time.  [default: now]")
@click.option("--count", type=click.IntRange(1, 1_000), default=10, show_default=True, help="How many.")
@click.option("--after", type=INSTANT, help="Only what is due later than this.")
@click.option("--until", "until_local", type=LOCAL, help="The end, as a wall time, inclusive.")
@click.option("--exdate", "exdates", type=LOCAL, multiple=True, help="A wall time that is left out.")
@click.option("--rdate", "rdates", type=LOCAL, multiple=True, help="A wall time that is added.")
@click.option("--on-gap", type=click.Choice(get_args(OnGap)), default="shift", show_default=True)
@click.option("--on-fold", type=click.Choice(get_args(OnFold)), default="first", show_default=True)
@click.option("--ics", "as_ics", is_flag=True, help="Answer with an iCalendar file.")
@json_option
def preview_schedule(recurrence: str, as_ics: bool, as_json: bool, **options: Any) -> None:
    """Show when RECURRENCE is due and what clocks do to it: FREQ=..., "every PT15M" or "cron 0 9 * * 1"."""
    if as_ics and as_json:
        raise InvalidInput("choose one of --ics and --json", field="ics")
    now = datetime.now(UTC)  # noqa: TID251
    seen = preview(recurrence, now=now, **options)
    if as_ics:
        sys.stdout.buffer.write(calendar_file(_entries(seen), made_at=now).encode())
    elif as_json:
        print_json(seen)
    else:
        _print(seen)


def _print(seen: Preview) -> None:
    print_line(f"{seen.description[:1].upper()}{seen.description[1:]}")
    for warning in seen.warnings:
        print_line(f"Note that {warning}.")
    print_line("")
    columns = ["clocks show", "offset", "instant", "note"]
    print_table(columns, [_row(line) for line in seen.occurrences], empty="Nothing is due.")
    if seen.has_more:
        print_line("And so on.")


def _row(line: PreviewLine) -> Sequence[str | None]:
    shown = f"{line.shown_local:%a} {line.shown_local.replace(fold=0).isoformat(sep=' ')}"
    return (shown, _offset(line.offset_seconds), line.at.strftime("%Y-%m-%dT%H:%M:%SZ"), line.note)


def _offset(seconds: int) -> str:
    hours, rest = divmod(abs(seconds), 3600)
    minutes, odd = divmod(rest, 60)
    return f"{'-' if seconds < 0 else '+'}{hours:02}:{minutes:02}" + (f":{odd:02}" if odd else "")


def _entries(seen: Preview) -> list[CalendarEntry]:
    """The same preview gives the same ids, so that a calendar that is given it twice shows it once."""
    series = f"timebell:{seen.recurrence}:{seen.timezone}:{seen.start_local.isoformat()}"
    return [
        CalendarEntry(
            uid=str(uuid5(NAMESPACE_URL, f"{series}:{line.local.isoformat()}:{line.local.fold}")),
            at=line.at,
            title=seen.description,
            text=f"{seen.recurrence}, {seen.timezone}" + (f"; {line.note}" if line.note else ""),
        )
        for line in seen.occurrences
    ]
