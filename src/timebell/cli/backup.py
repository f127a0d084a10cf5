"""The commands that take everything out of a database and put it into another: backup, restore."""

from __future__ import annotations

from pathlib import Path

import click

from timebell.backups import Due, Keys, Restored, back_up
from timebell.backups import restore as restore_backup
from timebell.cli.common import actor_option, actor_or_me, json_option, place_options, run, settings_of
from timebell.cli.printing import print_json, print_line, print_table

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(short_help="Write everything into one file.")
@click.argument("file", type=FILE)
@json_option
@place_options
def backup(file: Path, as_json: bool, config: Path | None, data: Path | None) -> None:
    """Write everything that Timebell keeps into FILE, as it is at one instant. Nothing has to stop for it."""
    written = run(back_up(settings_of(config, data), file))
    if as_json:
        print_json(written)
    else:
        print_line(f"{written.row_count} rows as of {written.taken_at:%Y-%m-%d %H:%M:%S} UTC are in {file}.")


@click.command(short_help="Put everything back from a file.")
@click.argument("file", type=FILE)
@click.option(
    "--due",
    type=click.Choice(["hold", "run"]),
    default="hold",
    show_default=True,
    help="`run` what was due meanwhile, where nothing has run since the backup.",
)
@click.option(
    "--keys",
    type=click.Choice(["revoke", "keep"]),
    help="`keep` API keys as they were, also those revoked since.  [default: revoke, with --due run keep]",
)
@actor_option
@json_option
@place_options
def restore(
    file: Path,
    due: Due,
    keys: Keys | None,
    actor: str | None,
    as_json: bool,
    config: Path | None,
    data: Path | None,
) -> None:
    """Put everything from FILE into a database that is empty.

    What was done after the backup nobody knows here. So every queue is held, and nothing is sent, until you let it go
    with `timebell queues resume QUEUE --everyone`. Nor does anybody know which API keys were revoked, so all are.
    """
    restored = run(
        restore_backup(settings_of(config, data), file, due=due, keys=keys, actor=actor_or_me(actor))
    )
    if as_json:
        print_json(restored)
    else:
        _print(restored)


def _print(restored: Restored) -> None:
    taken = f"{restored.backup.taken_at:%Y-%m-%d %H:%M:%S}"
    print_line(f"{restored.backup.row_count} rows as of {taken} UTC are back.")
    rows = [(queue, count, restored.started[queue]) for queue, count in restored.due.items()]
    print_table(["queue", "due by now", "of them begun"], rows, empty="No job was due meanwhile.")
    if restored.revoked_key_count:
        print_line(
            f"{restored.revoked_key_count} API keys are revoked; make new ones: timebell keys create NAME"
        )
    if restored.held_queues:
        print_line(f"Held: {', '.join(restored.held_queues)}.")
        print_line("Start Timebell, look with `timebell jobs list`, cancel what was done already,")
        print_line("then let each queue go: timebell queues resume QUEUE --everyone")
