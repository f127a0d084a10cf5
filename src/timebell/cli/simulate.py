"""`timebell simulate`: let time pass in a sandbox up to an instant, and say what happened."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from timebell.cli.common import json_option, place_options, run, settings_of
from timebell.cli.preview import INSTANT
from timebell.cli.printing import print_json, print_line
from timebell.config import Settings
from timebell.loading import load
from timebell.rules.localtime import show_instant
from timebell.server import apply_migrations, database_place, open_bell, with_secret_key
from timebell.web.sandbox import Advanced, NewSandbox, Sandbox, sandboxed


@click.command(short_help="Let time pass in a sandbox.")
@click.option("--until", required=True, type=INSTANT, help="How far to go, such as 2027-03-01T00:00:00Z.")
@json_option
@place_options
def simulate(until: datetime, as_json: bool, config: Path | None, data: Path | None) -> None:
    """Let time pass in a sandbox that nobody runs just now, and say what happened on the way.

    It is the one that `timebell up --sandbox` left in --data, or in DATABASE_URL. Nothing leaves.
    """
    advanced = run(_simulate(settings_of(config, data), until.astimezone(UTC)))
    if as_json:
        print_json(advanced)
        return
    told = f"{advanced.sent} messages were captured or shown, {advanced.failed} failed"
    print_line(f"It is {show_instant(advanced.now)}: {advanced.ran} jobs came to their end, {told}.")


async def _simulate(settings: Settings, until: datetime) -> Advanced:
    async with _opened(settings) as sandbox:
        start = sandbox.now
        with _progress() as progress:
            bar = progress.add_task(_day(start), total=max(1.0, (until - start).total_seconds()))

            async def moved(instant: datetime) -> None:
                progress.update(bar, completed=(instant - start).total_seconds(), description=_day(instant))

            return await sandbox.advance(to=until, moved=moved)


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Sandbox]:
    """A sandbox that is there already, without the API in front of it."""
    settings = replace(settings, demo=True)
    async with AsyncExitStack() as stack:
        loaded = await stack.enter_async_context(load(settings))
        place = await stack.enter_async_context(database_place(settings, "start", is_sandbox=True))
        settings = with_secret_key(settings, place)
        await apply_migrations(place, settings, loaded.registry)
        old = NewSandbox(must_exist=True)
        bell = await stack.enter_async_context(open_bell(place, settings, loaded.registry, sandbox=old))
        yield await stack.enter_async_context(sandboxed(bell, is_alone=place.is_started_here))


def _day(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M}"


def _progress() -> Progress:
    """On standard error, because standard output is for the answer, and only where somebody watches."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
