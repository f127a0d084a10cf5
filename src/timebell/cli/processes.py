"""The commands that run Timebell, and those that prepare for it: up, work, migrate, config."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from timebell.cli.common import json_option, place_options, run, settings_of
from timebell.cli.printing import print_json, print_line, print_table
from timebell.config import Settings, explain, load_settings
from timebell.db.migrate import Migration
from timebell.loading import load_apps, registry_of
from timebell.server import Place, Process, apply_migrations, database_place
from timebell.web.health import HOST


@click.command(short_help="Run everything in one process.")
@click.option("--port", type=click.IntRange(1, 65535), help="The port for HTTP.  [default: 8080]")
@place_options
def up(port: int | None, config: Path | None, data: Path | None) -> None:
    """Run everything in one process, in the foreground, until SIGTERM or Ctrl-C.

    Without DATABASE_URL an embedded PostgreSQL is started on the data folder.
    """
    settings = settings_of(config, data, port=port)

    def ready(place: Place) -> None:
        print_line(
            f"Timebell is ready: http://{HOST}:{settings.port}/readyz, {place.shown}. Ctrl-C stops it."
        )

    async def process() -> None:
        await Process(settings, on_ready=ready).up()

    run(process())


@click.command(short_help="Run jobs as one more node.")
@place_options
def work(config: Path | None, data: Path | None) -> None:
    """Run jobs as one more node of a database that is there already.

    That is the one of DATABASE_URL, or the embedded one of a `timebell up` beside it.
    """
    settings = settings_of(config, data)

    def ready(place: Place) -> None:
        print_line(f"A node is at work on {place.shown}. Ctrl-C stops it.")

    async def process() -> None:
        await Process(settings, on_ready=ready).work()

    run(process())


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be applied.")
@click.option(
    "--phase",
    type=click.Choice(["expand", "all"]),
    default="all",
    show_default=True,
    help="`expand` leaves the version before this one working.",
)
@json_option
@place_options
def migrate(
    dry_run: bool, phase: Literal["expand", "all"], as_json: bool, config: Path | None, data: Path | None
) -> None:
    """Bring the schema up to this version, as the role of owner_url."""
    migrations = run(_migrate(settings_of(config, data), phase, dry_run))
    if as_json:
        names = [str(migration) for migration in migrations]
        print_json({"dry_run": dry_run, "phase": phase, "migrations": names})
        return
    for migration in migrations:
        print_line(f"{'pending' if dry_run else 'applied'}  {migration}")
    if not migrations:
        print_line("The schema is up to date.")


async def _migrate(settings: Settings, phase: Literal["expand", "all"], dry_run: bool) -> list[Migration]:
    registry = registry_of(load_apps(settings.apps))
    async with database_place(settings, "either") as place:
        return await apply_migrations(place, settings, registry, phase=phase, dry_run=dry_run)


@click.command()
@json_option
@place_options
def config(as_json: bool, config: Path | None, data: Path | None) -> None:
    """Show every setting, its value and where that came from. Secrets are masked."""
    lines = explain(load_settings(config, data=data))
    if as_json:
        print_json(lines)
        return
    rows = [(line.name, line.value, line.unit, line.source, line.description) for line in lines]
    print_table(["setting", "value", "unit", "source", "what it is"], rows, empty="")
