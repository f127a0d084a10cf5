"""The commands about the audit trail."""

from __future__ import annotations

from pathlib import Path

import click

from timebell.cli.common import Desk, ask, json_option, place_options
from timebell.cli.printing import plain, print_json, print_line
from timebell.kernel.events import Audit, Break, Verdict

_DAMAGE = {
    "changed": "was changed, or its seal was",
    "gone": "is gone",
    "seal_gone": "has lost its seal",
}


@click.group()
def audit() -> None:
    """Seal the audit trail, and verify that nobody rewrote it."""


@audit.command(short_help="Compare every event with its seal.")
@click.option("--tenant", help="Only this tenant.  [default: all of them]")
@json_option
@place_options
def verify(tenant: str | None, as_json: bool, config: Path | None, data: Path | None) -> None:
    """Compare every event with its seal, and each seal with the one before it. Ends with 1 if one does not fit, or if
    an event has had no seal for more than an hour."""

    async def look(at: Desk) -> Verdict:
        return await Audit(at.bell.database, at.bell.clock).verify(tenant)

    verdict = ask(config, data, look)
    if as_json:
        print_json({"is_whole": verdict.is_whole, **plain(verdict)})
    else:
        for each in verdict.breaks:
            print_line(_told(each))
        chains = f"{verdict.seal_count} seals of {len(verdict.heads)} tenants"
        print_line(
            f"{chains} {'fit' if verdict.is_whole else 'were compared'}, "
            f"{verdict.unsealed_count} events have none yet."
        )
        if verdict.overdue_count:
            print_line(
                f"{verdict.overdue_count} of these were recorded more than an hour ago, the first at "
                f"{verdict.unsealed_since}: nothing vouches for them. Is a node running? "
                "`timebell audit seal` seals them as they are now."
            )
        for head in verdict.heads:
            print_line(f"{head.tenant}  {head.number}  {head.hash}")
    if not verdict.is_whole:
        raise click.exceptions.Exit(1)


@audit.command(short_help="Seal every event that has no seal yet.")
@json_option
@place_options
def seal(as_json: bool, config: Path | None, data: Path | None) -> None:
    """Seal every event that has no seal yet, however old; nodes seal new ones by themselves."""

    async def work(at: Desk) -> int:
        trail, sealed = Audit(at.bell.database, at.bell.clock), 0
        while True:
            sealed += await trail.seal()
            if not trail.has_more:
                return sealed

    sealed = ask(config, data, work)
    if as_json:
        print_json({"sealed": sealed})
    else:
        print_line(f"{sealed} events were sealed.")


def _told(each: Break) -> str:
    what = f"event {each.event_id}" if each.event_id is not None else "an event"
    return f"{each.tenant}: number {each.number}: {what} {_DAMAGE[each.damage]}"
