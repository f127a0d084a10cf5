"""The commands about schedules: look at them and their occurrences, pause and resume them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import click

from timebell.cli.common import (
    ID,
    Desk,
    actor_option,
    actor_or_me,
    ask,
    json_option,
    page_options,
    place_options,
    tenant_option,
)
from timebell.cli.printing import page_json, plain, print_fields, print_json, print_line, print_page
from timebell.errors import TimebellError
from timebell.kernel.paging import Page
from timebell.kernel.schedules import Occurrence, Schedule, ScheduleChange, ScheduleState
from timebell.rules.recurrence import describe


@click.group()
def schedules() -> None:
    """Look at schedules, pause and resume them."""


@schedules.command("list", short_help="List schedules, the oldest first.")
@tenant_option
@click.option("--state", type=click.Choice(get_args(ScheduleState)), help="Only those in this state.")
@click.option("--owner", help="Only those of this owner.")
@click.option("--subject", help="Only those about this subject.")
@page_options
@json_option
@place_options
def list_schedules(
    tenant: str, as_json: bool, config: Path | None, data: Path | None, **options: Any
) -> None:
    """List schedules, the oldest first, in words."""

    async def look(at: Desk) -> Page[Schedule]:
        async with at.bell.transaction(tenant=tenant) as tx:
            return await at.bell.schedules.list(tx, **options)

    page = ask(config, data, look)
    if as_json:
        print_json(page_json(page))
        return
    columns = ["id", "state", "when", "subject", "owner", "planned until", "reason"]
    rows = [
        (line.id, line.state, _when(line), line.subject, line.owner, line.planned_until, line.state_reason)
        for line in page.lines
    ]
    print_page(columns, page, rows, empty="No such schedules.")


@schedules.command("show", short_help="Show one schedule and its occurrences.")
@click.argument("id", type=ID)
@click.option("--past", is_flag=True, help="From its first occurrence on.  [default: from now on]")
@tenant_option
@page_options
@json_option
@place_options
def show_schedule(
    id: UUID,
    past: bool,
    tenant: str,
    as_json: bool,
    config: Path | None,
    data: Path | None,
    **options: Any,
) -> None:
    """Show one schedule and the occurrences that are planned of it."""

    async def look(at: Desk) -> tuple[Schedule, Page[Occurrence]]:
        async with at.bell.transaction(tenant=tenant) as tx:
            found = await at.bell.schedules.get(tx, id)
            from_at = None if past else await at.bell.store.read_clock(tx.session)
            return found, await at.bell.schedules.occurrences(tx, id, from_at=from_at, **options)

    found, page = ask(config, data, look)
    if as_json:
        print_json({"schedule": found, "description": _when(found), "occurrences": page_json(page)})
        return
    print_line(_when(found))
    print_line("")
    print_fields(plain(found).items())
    print_line("")
    columns = ["original", "now at", "instant", "state", "clocks", "id"]
    rows = [
        (_second_pass(line), line.local, line.occurs_at, line.state, line.adjusted, line.id)
        for line in page.lines
    ]
    print_page(columns, page, rows, empty="No occurrence is planned.")


@schedules.command("pause")
@click.argument("id", type=ID)
@click.option("--reason", default="paused by an operator", show_default=True, help="Why, for the record.")
@actor_option
@tenant_option
@json_option
@place_options
def pause_schedule(
    id: UUID,
    reason: str,
    actor: str | None,
    tenant: str,
    as_json: bool,
    config: Path | None,
    data: Path | None,
) -> None:
    """Owe nothing of the schedule ID until it is resumed."""

    async def pause(at: Desk) -> ScheduleChange:
        async with at.bell.transaction(tenant=tenant) as tx:
            return await at.bell.schedules.pause(tx, id, reason, actor=actor_or_me(actor))

    change = ask(config, data, pause)
    if as_json:
        print_json(change)
    else:
        print_line(f"{id} is paused; {_occurrences(len(change.diff.withdrawn))} withdrawn.")


@schedules.command("resume")
@click.argument("id", type=ID)
@actor_option
@tenant_option
@json_option
@place_options
def resume_schedule(
    id: UUID, actor: str | None, tenant: str, as_json: bool, config: Path | None, data: Path | None
) -> None:
    """Go on with the schedule ID, from now on. One that was parked is tried again."""

    async def resume(at: Desk) -> ScheduleChange:
        async with at.bell.transaction(tenant=tenant) as tx:
            return await at.bell.schedules.resume(tx, id, actor=actor_or_me(actor))

    change = ask(config, data, resume)
    if as_json:
        print_json(change)
    else:
        print_line(f"{id} goes on; {_occurrences(len(change.diff.added))} planned.")


def _when(line: Schedule) -> str:
    """In words; a schedule may be parked because nobody can read its recurrence, and is shown as it is then."""
    if line.recurrence is None:
        return f"once, {line.start_local.isoformat(sep=' ')}, {line.timezone}"
    try:
        return describe(line.recurrence, line.start_local, line.timezone)
    except TimebellError:
        return f"{line.recurrence}, {line.timezone}"


def _second_pass(line: Occurrence) -> str:
    return line.original_local.isoformat(sep=" ") + (" (second)" if line.fold else "")


def _occurrences(count: int) -> str:
    return "1 occurrence is" if count == 1 else f"{count} occurrences are"
