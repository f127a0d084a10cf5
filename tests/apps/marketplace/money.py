"""Bookings that somebody has paid for, written as the weekly cycle would."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from tests.apps.marketplace.support import AMOUNT, BERLIN, NOW, Market
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.building import provider_of
from timebell.apps.marketplace.payments.ledger import Ledger
from timebell.apps.marketplace.payments.models import Balance, Payment, PaymentLine
from timebell.apps.marketplace.payments.payouts import Payouts
from timebell.apps.marketplace.payments.provider import Charge
from timebell.apps.marketplace.payments.rules import charge_entries
from timebell.apps.marketplace.payments.simulator_models import Orders
from timebell.apps.marketplace.payments.simulator_store import SimulatorStore
from timebell.apps.marketplace.shifts.models import Shift
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.apps.marketplace.staffing.booking_store import BookingStore
from timebell.apps.marketplace.staffing.models import Booking

BY = By(name="ada", correlation_id="walk-1")


class Purse:
    """One booking and its money."""

    def __init__(self, market: Market, booking_id: UUID, shift_ids: Sequence[UUID]) -> None:
        self.market = market
        self.bell = market.bench.bell
        self.ledger = Ledger(self.bell)
        self.payouts = Payouts(self.bell)
        self.id = booking_id
        self.shift_ids = list(shift_ids)

    async def booking(self, tx: Any) -> Booking:
        store = BookingStore(self.bell.clock)
        assert await store.lock_booking(tx, id=self.id)
        found = await store.read_booking(tx, id=self.id)
        assert found is not None
        return found

    async def shift(self, tx: Any, number: int) -> Shift:
        found = await ShiftStore(self.bell.clock).read_shift(tx, id=self.shift_ids[number])
        assert found is not None
        return found

    async def payment(self, *numbers: int, status: str = "Succeeded", amount: int = AMOUNT) -> Payment:
        """What is paid for these shifts: taken by the provider, and not yet in the ledger."""
        id, attempt = (
            uuid4(),
            await self.market.value("SELECT count(*) FROM marketplace.pending_payments") + 1,
        )
        lines = [PaymentLine(time_log_id=self.shift_ids[number], amount=amount) for number in numbers]
        total = sum(line.amount for line in lines)
        charge = Charge(
            key=f"payment:{id}",
            amount=total,
            currency="EUR",
            tenant="default",
            booking_id=self.id,
            payment_id=id,
        )
        charged = await provider_of(self.bell).charge(charge)
        start = NOW + timedelta(days=7 * attempt)
        settled = None if status == "Pending" else NOW
        await self.market.rows(
            "INSERT INTO marketplace.pending_payments (tenant, id, booking_id, period_start, period_end, amount, "
            "currency, status, provider, provider_intent_id, idempotency_key, attempt, settled_at, created_at, "
            "updated_at) VALUES ('default', $1, $2, $3, $4, $5, 'EUR', $6, 'simulator', $7, $8, 1, $9, $10, $10)",
            *(id, self.id, start, start + timedelta(days=7), total, status, charged.ref, f"payment:{id}"),
            *(settled, NOW),
        )
        for line in lines:
            await self.market.rows(
                "INSERT INTO marketplace.payment_lines VALUES ('default', $1, $2, $3)",
                *(id, line.time_log_id, line.amount),
            )
        return Payment(
            id=id,
            tenant="default",
            booking_id=self.id,
            period_start=start,
            period_end=start + timedelta(days=7),
            amount=total,
            currency="EUR",
            status="Succeeded",
            provider="simulator",
            provider_intent_id=charged.ref,
            idempotency_key=f"payment:{id}",
            attempt=1,
            failure=None,
            correlation_id=None,
            settled_at=settled,
            created_at=NOW,
            updated_at=NOW,
            lines=lines,
        )

    async def paid(self, *numbers: int, amount: int = AMOUNT) -> Payment:
        """The same, held for each of these shifts."""
        payment = await self.payment(*numbers, amount=amount)
        assert payment.provider_intent_id is not None
        async with self.bell.transaction() as tx:
            booking = await self.booking(tx)
            await self.ledger.post(tx, booking, charge_entries(payment, payment.provider_intent_id))
        return payment

    async def verified(self, number: int, *, by: str = "recipient:sue") -> None:
        """As if it had been worked."""
        for move in (
            "status = 'Working', clock_in_time = $2, work_start = $2, end_stated_at = $2",
            "status = 'Pending_Verification', clock_out_time = $2, auto_approval_time = $2, work_end = $2",
            "status = 'Verified', verified_at = $2, verified_by = $3",
        ):
            named = (by,) if "$3" in move else ()
            await self.market.rows(
                f"UPDATE marketplace.time_log SET {move} WHERE id = $1", self.shift_ids[number], NOW, *named
            )

    async def owe(self, number: int) -> Any:
        async with self.bell.transaction() as tx:
            return await self.payouts.owe_shift(tx, await self.booking(tx), await self.shift(tx, number), BY)

    async def refund(self, *numbers: int, reason: str = "cancelled") -> Any:
        async with self.bell.transaction() as tx:
            shifts = [await self.shift(tx, number) for number in numbers]
            return await self.payouts.refund_shifts(tx, await self.booking(tx), shifts, reason, BY)

    async def balance(self, at: datetime | None = None) -> Balance:
        async with self.bell.transaction() as tx:
            return await self.ledger.balance(tx, self.id, at=at)

    async def shift_balance(self, number: int) -> Balance:
        async with self.bell.transaction() as tx:
            id = self.shift_ids[number]
            return (await self.ledger.shift_balances(tx, [id]))[id]

    async def order(self, orders: Orders) -> None:
        """Tell the simulator what to do."""
        async with self.bell.transaction() as tx:
            await SimulatorStore(self.bell.clock).write_simulator(tx, orders)

    async def calls(self, call: str) -> list[Any]:
        rows = await self.market.rows(
            "SELECT * FROM marketplace.simulator_calls WHERE call = $1 ORDER BY at, id", call
        )
        return list(rows)

    async def moved(self, call: str) -> int:
        """What the simulator has moved, in all."""
        found: int = await self.market.value(
            "SELECT coalesce(sum(amount), 0)::bigint FROM marketplace.simulator_movements WHERE call = $1",
            call,
        )
        return found


async def purse_of(market: Market, shifts: int = 3, *, amount: int = AMOUNT) -> Purse:
    """A booking with so many shifts, of which nothing has been paid."""
    id = uuid4()
    await market.rows(
        "INSERT INTO marketplace.staffing_bookings (tenant, id, project_id, borrower_company_id, lender_company_id, "
        "worker_id, supervisor_id, payment_type, currency, timezone, start_date, end_date, funded_period_end, rate, "
        "created_at, updated_at) VALUES ('default', $1, $2, $3, $4, $5, $6, 'Weekly_Progress', 'EUR', $7, $8, $9, "
        "$10, 2500, $10, $10)",
        *(id, market.project, market.borrower, market.lender, market.worker, market.people["Sue"], BERLIN),
        *(date(2027, 3, 2), date(2027, 4, 30), NOW),
    )
    ids = [uuid4() for _ in range(shifts)]
    for number, shift_id in enumerate(ids):
        start = datetime(2027, 3, 8, 8, tzinfo=UTC) + timedelta(days=number)
        await market.rows(
            "INSERT INTO marketplace.time_log (tenant, id, booking_id, worker_id, shift_date, shift_start_time, "
            "scheduled_start, scheduled_end, amount, created_at, updated_at) "
            "VALUES ('default', $1, $2, $3, $4, $5, $6, $7, $8, $9, $9)",
            *(shift_id, id, market.worker, start.date(), start.time(), start, start + timedelta(hours=8)),
            *(amount, NOW),
        )
    return Purse(market, id, ids)


def is_whole(balance: Balance) -> bool:
    return (
        balance.charged == balance.held + balance.released + balance.refunded + balance.frozen
        and min(balance.charged, balance.held, balance.released, balance.refunded, balance.frozen) >= 0
    )
