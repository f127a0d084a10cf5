"""The commands about API keys: who may call over HTTP."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
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
    settings_of,
    tenant_option,
)
from timebell.cli.printing import page_json, plain, print_json, print_line, print_page
from timebell.db.data_folder import DataFolder, default_data_folder
from timebell.db.probe import bare_connection
from timebell.errors import ConfigurationError
from timebell.kernel.paging import Page
from timebell.web.access.keys import SCOPES, ApiKey, ApiKeys, NewKey
from timebell.web.access.tenants import Tenants

_PREVIOUS_MAX = 5


@click.group()
def keys() -> None:
    """Make API keys, list and revoke them."""


@keys.command("create", short_help="Make an API key and show it, this once.")
@click.argument("name")
@click.option(
    "--scope", type=click.Choice(SCOPES), default="admin", show_default=True, help="What it may do."
)
@click.option("--test", "is_test", is_flag=True, help="Let it begin with tb_test_.")
@click.option("--days", type=click.IntRange(1, 3_660), help="It expires after so many.  [default: never]")
@actor_option
@tenant_option
@json_option
@place_options
def create_key(
    name: str,
    days: int | None,
    actor: str | None,
    tenant: str,
    as_json: bool,
    config: Path | None,
    data: Path | None,
    **options: Any,
) -> None:
    """Make an API key with the name NAME and show it, this once: only its digest is kept."""

    async def create(at: Desk) -> NewKey:
        await Tenants(at.bell).ensure_default()
        await Tenants(at.bell).get(tenant)
        expires_at = None if days is None else await _now(at) + timedelta(days=days)
        async with at.bell.transaction(tenant=tenant) as tx:
            return await ApiKeys(at.bell).create(
                tx, name=name, expires_at=expires_at, actor=actor_or_me(actor), **options
            )

    made = ask(config, data, create)
    if as_json:
        print_json({**plain(made.key), "key": made.secret})
        return
    print_line(made.secret)


async def _now(at: Desk) -> datetime:
    """Keys live in real time, which the database tells."""
    async with bare_connection(at.bell.database.url) as connection:
        now: datetime = await connection.fetchval("SELECT clock_timestamp()")
        return now


@keys.command("list", short_help="List the API keys of a tenant.")
@tenant_option
@page_options
@json_option
@place_options
def list_keys(
    tenant: str, limit: int, cursor: str | None, as_json: bool, config: Path | None, data: Path | None
) -> None:
    """List the API keys of a tenant, revoked ones too, the oldest first. The keys themselves are not known."""

    async def look(at: Desk) -> Page[ApiKey]:
        return await ApiKeys(at.bell).list(tenant=tenant, limit=limit, cursor=cursor)

    page = ask(config, data, look)
    if as_json:
        print_json(page_json(page))
        return
    columns = ["id", "name", "prefix", "scope", "made", "by", "last used", "expires", "revoked"]
    rows = [
        (
            line.id,
            line.name,
            line.prefix,
            line.scope,
            line.created_at,
            line.actor,
            line.last_used_on,
            line.expires_at,
            line.revoked_at,
        )
        for line in page.lines
    ]
    print_page(columns, page, rows, empty="There is no key.")


@keys.command("revoke", short_help="Revoke an API key.")
@click.argument("id", type=ID)
@actor_option
@tenant_option
@json_option
@place_options
def revoke_key(
    id: UUID, actor: str | None, tenant: str, as_json: bool, config: Path | None, data: Path | None
) -> None:
    """Revoke the API key ID: no request with it is answered any more, within five seconds on every node."""

    async def revoke(at: Desk) -> ApiKey:
        async with at.bell.transaction(tenant=tenant) as tx:
            return await ApiKeys(at.bell).revoke(tx, id, actor=actor_or_me(actor))

    revoked = ask(config, data, revoke)
    if as_json:
        print_json(revoked)
        return
    print_line(f"The key {revoked.prefix} ({revoked.name}) is revoked.")


@keys.command("rotate-secret", short_help="Sign links and tokens with a new secret.")
@click.option(
    "--keep",
    type=click.IntRange(0, _PREVIOUS_MAX),
    default=1,
    show_default=True,
    help="How many secrets of before are still believed.",
)
@json_option
@place_options
def rotate_secret(keep: int, as_json: bool, config: Path | None, data: Path | None) -> None:
    """Let an embedded server sign with a new secret from its next start on. On another one, set secret_key anew."""
    settings = settings_of(config, data)
    if settings.secret_key is not None or settings.database_url is not None:
        raise ConfigurationError(
            "secret_key: here the settings have it; put what it is into previous_secret_keys and a new one into "
            "secret_key, on every node"
        )
    folder = DataFolder(settings.data or default_data_folder())
    if not folder.secret_file.exists():
        raise ConfigurationError(f"data: {folder.path} has no secret yet; `timebell up` makes one there")
    with folder.explained():
        folder.rotate_secret_key(kept=keep)
    if as_json:
        print_json({"kept": keep})
        return
    print_line("There is a new secret. Start every process of Timebell on this folder again to sign with it.")
