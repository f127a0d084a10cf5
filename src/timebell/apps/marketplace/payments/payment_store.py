"""The statements about payments: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.payments.models import Payment, PaymentLine, PaymentStatus
from timebell.apps.marketplace.shifts.models import ShiftStatus
from timebell.db.queries import load_queries
from timebell.kernel import Statements, Transaction

Row = Mapping[str, Any]

# A payment that took the money, and one that may still do so.
TAKEN: Final[tuple[PaymentStatus, ...]] = ("Succeeded",)
TAKEN_OR_PENDING: Final[tuple[PaymentStatus, ...]] = ("Pending", "Succeeded")


class PaymentStore(Statements):
    """Payments, what each is for, and what is still to be paid for."""

    queries = load_queries("timebell.apps.marketplace.payments.sql")

    async def insert_payment(
        self,
        tx: Transaction,
        *,
        id: UUID,
        booking_id: UUID,
        period_start: datetime,
        period_end: datetime,
        amount: int,
        currency: str,
        provider: str,
        idempotency_key: str,
        attempt: int,
        correlation_id: str | None,
    ) -> bool:
        """Whether it was written: False where the period has a payment that counts."""
        rows = await self._run(
            tx.session,
            "insert_payment",
            tenant=tx.tenant,
            id=id,
            booking_id=booking_id,
            period_start=period_start,
            period_end=period_end,
            amount=amount,
            currency=currency,
            provider=provider,
            idempotency_key=idempotency_key,
            attempt=attempt,
            correlation_id=correlation_id,
        )
        return bool(rows)

    async def insert_payment_lines(
        self, tx: Transaction, *, payment_id: UUID, lines: Sequence[PaymentLine]
    ) -> None:
        await self._run(
            tx.session,
            "insert_payment_lines",
            tenant=tx.tenant,
            payment_id=payment_id,
            time_log_ids=[line.time_log_id for line in lines],
            amounts=[line.amount for line in lines],
        )

    async def read_payment(self, tx: Transaction, *, id: UUID) -> Payment | None:
        """With its lines."""
        rows = await self._run(tx.session, "read_payment", tenant=tx.tenant, id=id)
        if not rows:
            return None
        return payment_of(rows[0], await self.read_payment_lines(tx, payment_id=id))

    async def read_payment_lines(self, tx: Transaction, *, payment_id: UUID) -> list[PaymentLine]:
        rows = await self._run(tx.session, "read_payment_lines", tenant=tx.tenant, payment_id=payment_id)
        return [line_of(row) for row in rows]

    async def list_payments_of_period(
        self, tx: Transaction, *, booking_id: UUID, period_start: datetime
    ) -> list[Payment]:
        """Without their lines."""
        rows = await self._run(
            tx.session,
            "list_payments_of_period",
            tenant=tx.tenant,
            booking_id=booking_id,
            period_start=period_start,
        )
        return [payment_of(row) for row in rows]

    async def settle_payment(
        self,
        tx: Transaction,
        *,
        id: UUID,
        status: PaymentStatus,
        provider_intent_id: str | None = None,
        failure: str | None = None,
    ) -> bool:
        rows = await self._run(
            tx.session,
            "settle_payment",
            tenant=tx.tenant,
            id=id,
            status=status,
            provider_intent_id=provider_intent_id,
            failure=failure,
        )
        return bool(rows)

    async def note_intent(self, tx: Transaction, *, id: UUID, provider_intent_id: str) -> None:
        await self._run(
            tx.session, "note_intent", tenant=tx.tenant, id=id, provider_intent_id=provider_intent_id
        )

    async def list_chargeable(
        self,
        tx: Transaction,
        *,
        booking_id: UUID,
        since: datetime,
        until: datetime,
        counted: Sequence[PaymentStatus],
    ) -> list[PaymentLine]:
        """`counted` are the states in which a payment counts."""
        rows = await self._run(
            tx.session,
            "list_chargeable",
            tenant=tx.tenant,
            booking_id=booking_id,
            since=since,
            until=until,
            counted=list(counted),
        )
        return [line_of(row) for row in rows]

    async def list_paid_shifts(
        self, tx: Transaction, *, payment_id: UUID, statuses: Sequence[ShiftStatus]
    ) -> list[tuple[UUID, ShiftStatus]]:
        rows = await self._run(
            tx.session, "list_paid_shifts", tenant=tx.tenant, payment_id=payment_id, statuses=list(statuses)
        )
        return [(UUID(int=row["id"].int), row["status"]) for row in rows]

    async def list_penalties(self, tx: Transaction, *, time_log_ids: Sequence[UUID]) -> Sequence[Row]:
        ids = list(time_log_ids)
        return await self._run(tx.session, "list_penalties", tenant=tx.tenant, time_log_ids=ids)

    async def find_open_dispute(self, tx: Transaction, *, time_log_id: UUID) -> UUID | None:
        rows = await self._run(tx.session, "find_open_dispute", tenant=tx.tenant, time_log_id=time_log_id)
        return UUID(int=rows[0]["id"].int) if rows else None

    async def read_card(self, tx: Transaction, *, booking_id: UUID) -> tuple[str | None, str | None]:
        """The customer and the card."""
        row = (await self._run(tx.session, "read_card", tenant=tx.tenant, booking_id=booking_id))[0]
        return row["payment_customer"], row["payment_method"]


def payment_of(row: Row, lines: Sequence[PaymentLine] = ()) -> Payment:
    return Payment(**{name: _plain(value) for name, value in row.items()}, lines=tuple(lines))


def line_of(row: Row) -> PaymentLine:
    return PaymentLine(time_log_id=UUID(int=row["time_log_id"].int), amount=row["amount"])


def _plain(value: Any) -> Any:
    """A driver may answer in its connection's zone, and with ids of its own kind."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return UUID(int=value.int) if isinstance(value, UUID) else value
