"""The commands about tenants: who is separated from whom."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import click

from timebell.cli.common import Desk, actor_option, actor_or_me, ask, json_option, page_options, place_options
from timebell.cli.printing import page_json, print_json, print_line, print_page
from timebell.errors import NotFound
from timebell.kernel.paging import Page
from timebell.notify.people.senders import ApprovedSender, SenderKind, Senders
from timebell.web.access.quotas import NAMES, Quota, Quotas, save_quotas
from timebell.web.access.tenants import Tenant, Tenants


@click.group()
def tenants() -> None:
    """Make tenants, list them, and say how much each may have and in whose name it may send."""


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


@tenants.command("quotas", short_help="Show the quotas of a tenant, or set them.")
@click.argument("tenant")
@click.option("--set", "given", multiple=True, metavar="NAME=NUMBER", help="Give it a quota of its own.")
@click.option("--reset", multiple=True, type=click.Choice(NAMES), help="Let it have the default again.")
@actor_option
@json_option
@place_options
def tenant_quotas(
    tenant: str,
    given: tuple[str, ...],
    reset: tuple[str, ...],
    actor: str | None,
    as_json: bool,
    config: Path | None,
    data: Path | None,
) -> None:
    """Show what the tenant TENANT may have and what it has of that, or set it: --set pending_jobs=5000000."""
    changes: dict[str, int | None] = {**dict(map(_quota, given)), **dict.fromkeys(reset)}

    async def change(at: Desk) -> list[Quota]:
        await Tenants(at.bell).get(tenant)
        if changes:
            async with at.bell.transaction() as tx:
                await save_quotas(at.bell.clock, tx, tenant, changes)
                about = {"tenant": tenant, **changes}
                await at.bell.record(tx, "tenant.quotas_set", about, actor=actor_or_me(actor))
        return await Quotas(at.bell).usage(tenant)

    found = ask(config, data, change)
    if as_json:
        print_json(found)
        return
    rows = [(one.name, one.used, one.limit, "own" if one.is_own else "default") for one in found]
    page: Page[Quota] = Page(lines=tuple(found))
    print_page(["quota", "used", "limit", "from"], page, rows, empty="There are no quotas.")


@tenants.command("senders", short_help="Show in whose name a tenant may send, or decide it.")
@click.argument("tenant")
@click.option(
    "--approve", multiple=True, metavar="KIND=VALUE", help="Let it send as this: email=example.org."
)
@click.option("--withdraw", multiple=True, metavar="KIND=VALUE", help="Let it send as this no longer.")
@actor_option
@json_option
@place_options
def tenant_senders(
    tenant: str,
    approve: tuple[str, ...],
    withdraw: tuple[str, ...],
    actor: str | None,
    as_json: bool,
    config: Path | None,
    data: Path | None,
) -> None:
    """Show in whose name the tenant TENANT may send: mail addresses and domains, senders of SMS and of WhatsApp."""
    given, taken = [_sender(one) for one in approve], [_sender(one) for one in withdraw]

    async def change(at: Desk) -> Sequence[ApprovedSender]:
        await Tenants(at.bell).get(tenant)
        senders = Senders(at.bell)
        if given or taken:
            async with at.bell.transaction(tenant=tenant) as tx:
                for kind, value in given:
                    await senders.approve(tx, kind, value, actor=actor_or_me(actor))
                for kind, value in taken:
                    if not await senders.withdraw(tx, kind, value, actor=actor_or_me(actor)):
                        raise NotFound(f"{kind}={value} is not approved for {tenant}; nothing was changed")
        return await senders.list(tenant=tenant)

    found = ask(config, data, change)
    if as_json:
        print_json(found)
        return
    rows = [(one.kind, one.value, one.actor, one.approved_at) for one in found]
    page: Page[ApprovedSender] = Page(lines=tuple(found))
    print_page(
        ["kind", "sender", "by", "since"], page, rows, empty="None: the providers' own senders are used."
    )


def _sender(text: str) -> tuple[SenderKind, str]:
    kind, _, value = text.partition("=")
    kinds: dict[str, SenderKind] = {each: each for each in get_args(SenderKind)}
    if kind not in kinds or not value:
        raise click.BadParameter(f"{text!r} is refused; give KIND=VALUE with one of {', '.join(kinds)}")
    return kinds[kind], value


def _quota(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if name not in NAMES or not number.isdecimal():
        raise click.BadParameter(
            f"{text!r} is refused; give NAME=NUMBER with one of {', '.join(NAMES)}", param_hint="--set"
        )
    return name, int(number)


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
