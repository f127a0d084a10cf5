"""The commands about alerts: what needs a person, and that somebody sees to it."""

from __future__ import annotations

from pathlib import Path
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
from timebell.cli.printing import page_json, print_json, print_line, print_page
from timebell.kernel.alerts import Acknowledged, AlertLine, Alerts, AlertState
from timebell.kernel.bell import DEFAULT_TENANT
from timebell.kernel.paging import Page


@click.group(invoke_without_command=True)
@json_option
@place_options
@click.pass_context
def alerts(ctx: click.Context, as_json: bool, config: Path | None, data: Path | None) -> None:
    """Look at alerts and acknowledge them. Without a command: list those that are open."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(
            list_alerts, as_json=as_json, config=config, data=data, tenant=DEFAULT_TENANT, state="open"
        )


@alerts.command("list")
@click.option("--state", type=click.Choice(["open", "closed"]), help="Only those that are open, or closed.")
@tenant_option
@page_options
@json_option
@place_options
def list_alerts(
    as_json: bool,
    config: Path | None,
    data: Path | None,
    tenant: str,
    state: AlertState | None,
    limit: int = 50,
    cursor: str | None = None,
) -> None:
    """List alerts, the last that opened first."""

    async def look(at: Desk) -> Page[AlertLine]:
        alerts = Alerts(at.bell)
        return await alerts.list(tenant, state=state, oldest_first=False, limit=limit, cursor=cursor)

    page = ask(config, data, look)
    if as_json:
        print_json(page_json(page))
        return
    columns = ["id", "severity", "rule", "subject", "opened", "closed", "seen to by", "what"]
    rows = [
        (
            line.id,
            line.severity,
            line.rule,
            line.subject,
            line.opened_at,
            line.closed_at,
            line.acknowledged_by,
            line.detail,
        )
        for line in page.lines
    ]
    print_page(columns, page, rows, empty="No alerts.")


@alerts.command("acknowledge", short_help="Say that you see to one.")
@click.argument("id", type=ID)
@actor_option
@tenant_option
@json_option
@place_options
def acknowledge_alert(
    id: UUID, actor: str | None, tenant: str, as_json: bool, config: Path | None, data: Path | None
) -> None:
    """Say that you see to the alert ID. What no question closes is closed by this."""

    async def acknowledge(at: Desk) -> Acknowledged:
        async with at.bell.transaction(tenant=tenant) as tx:
            return await Alerts(at.bell).acknowledge(tx, id, actor=actor_or_me(actor))

    done = ask(config, data, acknowledge)
    if as_json:
        print_json(done.alert)
    elif done.is_first:
        print_line(f"{id} is seen to by {done.alert.acknowledged_by}.")
    else:
        print_line(f"{id} was seen to by {done.alert.acknowledged_by} before.")
