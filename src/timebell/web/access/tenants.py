"""Tenants: who is separated from whom."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime

from timebell.db.walls import move_wall, walled_to
from timebell.errors import InvalidInput, KeyConflict, NotFound
from timebell.kernel import Timebell, Transaction
from timebell.kernel.bell import DEFAULT_TENANT
from timebell.kernel.models import check_name
from timebell.kernel.paging import Page, check_limit
from timebell.web.store import WebStore

_TENANT = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    tenant: str
    name: str
    created_at: datetime


@asynccontextmanager
async def written_for(tx: Transaction, tenant: str) -> AsyncIterator[Transaction]:
    """The same transaction, for another tenant: what is written in there commits with the rest, or not at all."""
    await tx.session.execute(move_wall(tenant))
    yield Transaction(tx.session, tenant)
    await tx.session.execute(move_wall(tx.tenant))


class Tenants:
    """The tenants of the installation, administered by those who have an admin key of the tenant `default`."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = WebStore(bell.clock)

    async def create(
        self,
        tx: Transaction,
        tenant: str,
        *,
        name: str,
        actor: str | None = None,
        correlation_id: str | None = None,
    ) -> Tenant:
        """A new tenant. Its id is part of many keys and never changes; its name is for people."""
        if not _TENANT.fullmatch(tenant):
            raise InvalidInput(
                "give 1 to 100 lower-case letters, digits, dots, hyphens and underscores, the first a letter or digit",
                field="tenant",
            )
        check_name("name", name, required=True)
        row = await self._store.insert_tenant(tx.session, tenant=tenant, name=name)
        if row is None:
            raise KeyConflict(f"tenant: {tenant} is taken; choose another")
        await self._bell.record(
            tx, "tenant.created", {"tenant": tenant}, actor=actor, correlation_id=correlation_id
        )
        return Tenant(**row)

    async def ensure_default(self) -> None:
        """The tenant that is there from the beginning, and administers the others."""
        with walled_to(DEFAULT_TENANT):
            async with self._bell.transaction() as tx:
                await self._store.insert_tenant(tx.session, tenant=DEFAULT_TENANT, name="Default")

    async def get(
        self, tenant: str, *, asking: str = DEFAULT_TENANT, tx: Transaction | None = None
    ) -> Tenant:
        """One tenant, in a transaction where one is open; who is asking sees themselves, and `default` sees all."""
        async with self._bell.database.connection() if tx is None else nullcontext(tx.session) as session:
            row = await self._store.read_tenant(session, tenant=tenant, asking=asking)
        if row is None:
            raise NotFound(f"there is no tenant {tenant[:100]}; `timebell tenants create` makes one")
        return Tenant(**row)

    async def list(
        self, *, asking: str = DEFAULT_TENANT, limit: int = 50, cursor: str | None = None
    ) -> Page[Tenant]:
        """The tenants by their ids; the cursor is the last id of the page before."""
        check_limit(limit)
        async with self._bell.database.connection() as session:
            rows = await self._store.list_tenants(session, asking=asking, after=cursor, limit=limit)
        lines = tuple(Tenant(**row) for row in rows[:limit])
        return Page(lines=lines, next_cursor=lines[-1].tenant if len(rows) > limit else None)
