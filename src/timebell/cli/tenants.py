"""The commands about tenants: who is separated from whom."""

from __future__ import annotations

from pathlib import Path

import click

from timebell.cli.common import Desk, actor_option, actor_or_me, ask, json_option, page_options, place_options
from timebell.cli.printing import page_json, print_json, print_line, print_page
from timebell.kernel.paging import Page
from timebell.web.tenants import Tenant, Tenants


@click.group()
def tenants() -> None:
    """Make tenants and list them."""


@tenants.command("create")
@click.argument("tenant")
@click.option("--name", help="What people call it.  [default: TENANT]")
@actor_option
@json_option
@place_options
def create_tenant(
    tenant: str, name: str | None, actor: str | None, as_json: bool, config: Path | None, data: Path | None
) -> None:
    """Make the tenant TENANT. It has no key yet: `timebell keys create --tenant TENANT` makes one."""

    async def create(at: Desk) -> Tenant:
        async with at.bell.transaction() as tx:
            return await Tenants(at.bell).create(tx, tenant, name=name or tenant, actor=actor_or_me(actor))

    made = ask(config, data, create)
    if as_json:
        print_json(made)
        return
    print_line(f"The tenant {made.tenant} is there.")


@tenants.command("list")
@page_options
@json_option
@place_options
def list_tenants(
    limit: int, cursor: str | None, as_json: bool, config: Path | None, data: Path | None
) -> None:
    """List the tenants in the order of their ids."""

    async def look(at: Desk) -> Page[Tenant]:
        return await Tenants(at.bell).list(limit=limit, cursor=cursor)

    page = ask(config, data, look)
    if as_json:
        print_json(page_json(page))
        return
    rows = [(line.tenant, line.name, line.created_at) for line in page.lines]
    print_page(["tenant", "name", "since"], page, rows, empty="There is no tenant yet.")
