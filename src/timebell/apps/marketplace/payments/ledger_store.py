"""The statements of the ledger and of what leaves: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from timebell.apps.marketplace.payments.models import (
    Balance,
    Entry,
    Frozen,
    NewEntry,
    PaymentLine,
    Payout,
    PayoutSort,
    PayoutState,
    Pot,
)
from timebell.apps.marketplace.payments.proving import Account
from timebell.db.queries import load_queries
from timebell.kernel import Statements, Transaction

Row = Mapping[str, Any]


class LedgerStore(Statements):
    """The ledger: it is written and read, and nothing in it changes."""

    queries = load_queries("timebell.apps.marketplace.payments.sql")

    async def insert_entries(
        self,
        tx: Transaction,
        *,
        booking_id: UUID,
        currency: str,
        ids: Sequence[UUID],
        entries: Sequence[NewEntry],
    ) -> list[Entry]:
        rows = await self._run(
            tx.session,
            "insert_entries",
            tenant=tx.tenant,
            booking_id=booking_id,
            currency=currency,
            ids=list(ids),
            types=[entry.type for entry in entries],
            from_places=[entry.from_place for entry in entries],
            to_places=[entry.to_place for entry in entries],
            amounts=[entry.amount for entry in entries],
            time_log_ids=[entry.time_log_id for entry in entries],
            dispute_ids=[entry.dispute_id for entry in entries],
            payment_ids=[entry.payment_id for entry in entries],
            provider_refs=[entry.provider_ref for entry in entries],
        )
        return [entry_of(row) for row in rows]

    async def list_entries(self, tx: Transaction, **filters: object) -> Sequence[Row]:
        return await self._run(tx.session, "list_entries", tenant=tx.tenant, **filters)

    async def read_balance(self, tx: Transaction, *, booking_id: UUID, at: datetime | None) -> Balance:
        rows = await self._run(tx.session, "read_balance", tenant=tx.tenant, booking_id=booking_id, at=at)
        return Balance(**rows[0])

    async def read_pots(self, tx: Transaction, *, time_log_ids: Sequence[UUID]) -> Sequence[Row]:
        ids = list(time_log_ids)
        return await self._run(tx.session, "read_pots", tenant=tx.tenant, time_log_ids=ids)

    async def read_frozen(self, tx: Transaction, *, dispute_id: UUID) -> list[Frozen]:
        rows = await self._run(tx.session, "read_frozen", tenant=tx.tenant, dispute_id=dispute_id)
        return [Frozen(**row) for row in rows if row["amount"] > 0]

    async def read_charge_ref(self, tx: Transaction, *, payment_id: UUID) -> str | None:
        rows = await self._run(tx.session, "read_charge_ref", tenant=tx.tenant, payment_id=payment_id)
        return rows[0]["provider_ref"] if rows else None

    async def list_payments(self, tx: Transaction, **filters: object) -> Sequence[Row]:
        return await self._run(tx.session, "list_payments", tenant=tx.tenant, **filters)

    async def list_accounts(self, tx: Transaction, *, after: UUID | None, limit: int) -> list[Account]:
        rows = await self._run(tx.session, "list_accounts", tenant=tx.tenant, after=after, limit=limit)
        return [
            Account(
                id=row["id"],
                currency=row["currency"],
                **{
                    name: orjson.loads(row[name])
                    for name in ("entries", "payments", "payouts", "told", "disputes")
                },
            )
            for row in rows
        ]

    async def read_held_shifts(self, tx: Transaction, *, payment_id: UUID) -> list[UUID]:
        rows = await self._run(tx.session, "read_held_shifts", tenant=tx.tenant, payment_id=payment_id)
        return [row["time_log_id"] for row in rows]


class PayoutStore(Statements):
    """What is to leave, and for which shifts."""

    queries = load_queries("timebell.apps.marketplace.payments.sql")

    async def insert_payout(
        self,
        tx: Transaction,
        *,
        id: UUID,
        booking_id: UUID,
        sort: PayoutSort,
        payment_id: UUID,
        amount: int,
        currency: str,
        reason: str,
        idempotency_key: str,
        correlation_id: str | None,
    ) -> None:
        await self._run(
            tx.session,
            "insert_payout",
            tenant=tx.tenant,
            id=id,
            booking_id=booking_id,
            sort=sort,
            payment_id=payment_id,
            amount=amount,
            currency=currency,
            reason=reason,
            idempotency_key=idempotency_key,
            correlation_id=correlation_id,
        )

    async def insert_payout_lines(
        self, tx: Transaction, *, payout_id: UUID, sort: PayoutSort, lines: Sequence[PaymentLine]
    ) -> None:
        await self._run(
            tx.session,
            "insert_payout_lines",
            tenant=tx.tenant,
            payout_id=payout_id,
            sort=sort,
            time_log_ids=[line.time_log_id for line in lines],
            amounts=[line.amount for line in lines],
        )

    async def delete_payout_lines(
        self, tx: Transaction, *, payout_id: UUID, time_log_ids: Sequence[UUID]
    ) -> None:
        ids = list(time_log_ids)
        await self._run(
            tx.session, "delete_payout_lines", tenant=tx.tenant, payout_id=payout_id, time_log_ids=ids
        )

    async def read_payout(self, tx: Transaction, *, id: UUID) -> Payout | None:
        rows = await self._run(tx.session, "read_payout", tenant=tx.tenant, id=id)
        return payout_of(rows[0]) if rows else None

    async def find_transfer(self, tx: Transaction, *, time_log_id: UUID) -> UUID | None:
        rows = await self._run(tx.session, "find_transfer", tenant=tx.tenant, time_log_id=time_log_id)
        return rows[0]["payout_id"] if rows else None

    async def find_refund(self, tx: Transaction, *, payment_id: UUID) -> UUID | None:
        rows = await self._run(tx.session, "find_refund", tenant=tx.tenant, payment_id=payment_id)
        return rows[0]["id"] if rows else None

    async def update_payout(self, tx: Transaction, payout: Payout, *, from_state: PayoutState) -> None:
        rows = await self._run(
            tx.session,
            "update_payout",
            tenant=tx.tenant,
            id=payout.id,
            from_state=from_state,
            state=payout.state,
            amount=payout.amount,
            idempotency_key=payout.idempotency_key,
            attempt=payout.attempt,
            provider_ref=payout.provider_ref,
        )
        assert rows, "whoever changes a payout holds its booking"

    async def read_destination(self, tx: Transaction, *, booking_id: UUID) -> str | None:
        rows = await self._run(tx.session, "read_destination", tenant=tx.tenant, booking_id=booking_id)
        return rows[0]["payment_account"] if rows else None

    async def list_unpayable(
        self, tx: Transaction, *, ids: Sequence[UUID], is_verified: bool
    ) -> frozenset[UUID]:
        rows = await self._run(
            tx.session, "list_unpayable", tenant=tx.tenant, ids=list(ids), is_verified=is_verified
        )
        return frozenset(row["id"] for row in rows)

    async def read_intent(self, tx: Transaction, *, id: UUID) -> str | None:
        rows = await self._run(tx.session, "read_intent", tenant=tx.tenant, id=id)
        return rows[0]["provider_intent_id"] if rows else None

    async def mark_refunded(self, tx: Transaction, *, id: UUID) -> bool:
        return bool(await self._run(tx.session, "mark_refunded", tenant=tx.tenant, id=id))


def entry_of(row: Row) -> Entry:
    return Entry(**row)


def pot_of(row: Row) -> Pot:
    return Pot(**{name: row[name] for name in Pot.__dataclass_fields__})


def payout_of(row: Row) -> Payout:
    lines = [
        PaymentLine(time_log_id=id, amount=amount)
        for id, amount in zip(row["time_log_ids"], row["amounts"], strict=True)
    ]
    fields = {name: row[name] for name in Payout.__dataclass_fields__ if name != "lines"}
    return Payout(**fields, lines=lines)
