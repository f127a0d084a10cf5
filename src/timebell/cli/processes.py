"""The commands that run Timebell: up, serve, work, consume."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import click

from timebell.cli.common import place_options, run, settings_of
from timebell.cli.preview import INSTANT
from timebell.cli.printing import print_line
from timebell.cli.sandbox_folder import sandbox_folder
from timebell.cli.welcome import address_of, welcome
from timebell.config import Settings
from timebell.process import Process, Ready
from timebell.web.sandbox import NewSandbox


@click.command(short_help="Run everything in one process.")
@click.option("--port", type=click.IntRange(1, 65535), help="The port for HTTP.  [default: 8080]")
@click.option("--sandbox", is_flag=True, help="Let time pass only when told to, and nothing leave.")
@click.option("--start", type=INSTANT, help="When the time of a new sandbox begins.  [default: now]")
@place_options
def up(
    port: int | None, sandbox: bool, start: datetime | None, config: Path | None, data: Path | None
) -> None:
    """Run everything in one process, in the foreground, until SIGTERM or Ctrl-C.

    Without DATABASE_URL an embedded PostgreSQL is started on the data folder. A sandbox without a folder is thrown away
    at the end.
    """
    settings = settings_of(config, data, port=port)
    if sandbox:
        with sandbox_folder(settings) as folder:
            broker_url = settings.broker_url or "local:"
            _up(replace(settings, data=folder, demo=True, broker_url=broker_url), NewSandbox(start=start))
    elif start is not None:
        raise click.UsageError("--start is where a sandbox begins; give --sandbox too.")
    else:
        _up(settings, None)


def _say(*lines: str) -> None:
    """Whether anybody reads this must not decide whether the process goes on. A console ends it where nobody does."""
    with suppress(OSError, SystemExit):
        for line in lines:
            print_line(line)


def _up(settings: Settings, sandbox: NewSandbox | None) -> None:
    def ready(ready: Ready) -> None:
        _say(*welcome(settings, ready))

    async def process() -> None:
        await Process(settings, on_ready=ready, sandbox=sandbox).up()

    run(process())


@click.command(short_help="Answer HTTP, and leave the jobs to others.")
@click.option("--port", type=click.IntRange(1, 65535), help="The port for HTTP.  [default: 8080]")
@place_options
def serve(port: int | None, config: Path | None, data: Path | None) -> None:
    """Answer HTTP on a database that is there already, and leave the jobs to `timebell work`.

    The database is the one of DATABASE_URL, or the embedded one of a `timebell up` beside it.
    """
    settings = settings_of(config, data, port=port)

    def ready(ready: Ready) -> None:
        _say(f"Timebell answers at {address_of(settings)}, {ready.place.shown}. Ctrl-C stops it.")

    async def process() -> None:
        await Process(settings, on_ready=ready).serve()

    run(process())


@click.command(short_help="Run jobs as one more node.")
@click.option("--port", type=click.IntRange(1, 65535), help="A port for health and metrics.  [default: none]")
@click.option("--queues", help="Run the jobs of these queues alone, with commas between.  [default: all]")
@place_options
def work(port: int | None, queues: str | None, config: Path | None, data: Path | None) -> None:
    """Run jobs as one more node of a database that is there already.

    That is the one of DATABASE_URL, or the embedded one of a `timebell up` beside it. With --queues it leaves all other
    jobs to other nodes.
    """
    named = [name.strip() for name in (queues or "").split(",") if name.strip()]
    if queues is not None and not named:
        raise click.UsageError("--queues names no queue; give some, or leave it out.")
    settings = settings_of(config, data, port=port)

    def ready(ready: Ready) -> None:
        _say(f"A node is at work on {ready.place.shown}. Ctrl-C stops it.")

    async def process() -> None:
        await Process(settings, on_ready=ready, queues=named).work(has_port=port is not None)

    run(process())


@click.command(short_help="Take messages from a broker.")
@click.option("--port", type=click.IntRange(1, 65535), help="A port for health and metrics.  [default: none]")
@place_options
def consume(port: int | None, config: Path | None, data: Path | None) -> None:
    """Take messages from the broker of `broker_url`, and write what they ask for to a database that is there already.

    That is the one of DATABASE_URL, or the embedded one of a `timebell up` beside it. Jobs are left to `timebell work`.
    """
    settings = settings_of(config, data, port=port)

    def ready(ready: Ready) -> None:
        _say(f"Messages are taken for {ready.place.shown}. Ctrl-C stops it.")

    async def process() -> None:
        await Process(settings, on_ready=ready).consume(has_port=port is not None)

    run(process())
