"""The commands that prepare for running Timebell: migrate, config. They load nothing that runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from timebell.cli.common import json_option, place_options, run, settings_of
from timebell.cli.printing import print_json, print_line, print_table
from timebell.config import Settings, explain, load_settings, warn_of_retired
from timebell.db.migrate import Migration
from timebell.loading import apps_of, registry_of
from timebell.server import apply_migrations, database_place


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
    registry = registry_of(apps_of(settings))
    async with database_place(settings, "either") as place:
        return await apply_migrations(place, settings, registry, phase=phase, dry_run=dry_run)


@click.command()
@json_option
@place_options
def config(as_json: bool, config: Path | None, data: Path | None) -> None:
    """Show every setting, its value and where that came from. Secrets are masked."""
    settings = load_settings(config, data=data)
    warn_of_retired(settings)
    lines = explain(settings)
    if as_json:
        print_json(lines)
        return
    rows = [(line.name, line.value, line.unit, line.source, line.description) for line in lines]
    print_table(["setting", "value", "unit", "source", "what it is"], rows, empty="")
