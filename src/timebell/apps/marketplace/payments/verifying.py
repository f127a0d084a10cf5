"""Proves the ledger of a tenant, some bookings at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from timebell.apps.marketplace.payments.ledger_store import LedgerStore
from timebell.apps.marketplace.payments.proving import Misfit, prove
from timebell.kernel import Timebell

_BOOKINGS: Final = 50
_MISFITS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was looked at, and what does not fit; no more than so many of those are told."""

    bookings: int
    entries: int
    misfits: tuple[Misfit, ...]
    is_cut: bool


async def verify(bell: Timebell, tenant: str) -> Proof:
    """Look at every booking of a tenant. What goes on meanwhile is seen whole or not at all."""
    store = LedgerStore(bell.clock)
    bookings = entries = 0
    misfits: list[Misfit] = []
    after: UUID | None = None
    while True:
        async with bell.transaction(tenant=tenant) as tx:
            accounts = await store.list_accounts(tx, after=after, limit=_BOOKINGS)
        for account in accounts:
            misfits += prove(account)
            entries += len(account.entries)
        bookings += len(accounts)
        if len(misfits) > _MISFITS_MAX or len(accounts) < _BOOKINGS:
            break
        after = accounts[-1].id
    is_cut = len(misfits) > _MISFITS_MAX
    return Proof(bookings=bookings, entries=entries, misfits=tuple(misfits[:_MISFITS_MAX]), is_cut=is_cut)
