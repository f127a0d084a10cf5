"""The statements of the simulator: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson

from timebell.apps.marketplace.payments.simulator_models import Call, Fault, Movement, Orders
from timebell.db.queries import load_queries
from timebell.kernel import Session, Statements, Transaction

Row = Mapping[str, Any]


class SimulatorStore(Statements):
    """What it was told, what it did, and every call of it."""

    queries = load_queries("timebell.apps.marketplace.payments.sql")

    async def read_simulator(self, tx: Transaction) -> Orders:
        return _orders(await self._run(tx.session, "read_simulator", tenant=tx.tenant))

    async def lock_simulator(self, tx: Transaction) -> Orders:
        return _orders(await self._run(tx.session, "lock_simulator", tenant=tx.tenant))

    async def write_simulator(self, tx: Transaction, orders: Orders) -> None:
        faults = [{"call": fault.call, "fault": fault.fault, "times": fault.times} for fault in orders.faults]
        await self._run(
            tx.session,
            "write_simulator",
            tenant=tx.tenant,
            outcome=orders.outcome,
            webhook_after=orders.webhook_after,
            faults=orjson.dumps(faults).decode(),
        )

    async def insert_movement(self, tx: Transaction, movement: Movement) -> bool:
        """False where the key has moved something before."""
        rows = await self._run(
            tx.session,
            "insert_movement",
            tenant=tx.tenant,
            ref=movement.ref,
            call=movement.call,
            key=movement.key,
            fingerprint=movement.fingerprint,
            amount=movement.amount,
            currency=movement.currency,
            booking_id=movement.booking_id,
            payment_id=movement.payment_id,
            of_ref=movement.of_ref,
            state=movement.state,
        )
        return bool(rows)

    async def read_movement(self, tx: Transaction, *, call: Call, key: str) -> Movement | None:
        rows = await self._run(tx.session, "read_movement", tenant=tx.tenant, call=call, key=key)
        return Movement(**rows[0]) if rows else None

    async def lock_charge(self, tx: Transaction, *, ref: str) -> Movement | None:
        rows = await self._run(tx.session, "lock_charge", tenant=tx.tenant, ref=ref)
        return Movement(**rows[0]) if rows else None

    async def move_charge(self, tx: Transaction, *, ref: str, state: str) -> None:
        await self._run(tx.session, "move_charge", tenant=tx.tenant, ref=ref, state=state)

    async def sum_refunded(self, tx: Transaction, *, of_ref: str, call: Call) -> int:
        amount: int = (
            await self._run(tx.session, "sum_refunded", tenant=tx.tenant, of_ref=of_ref, call=call)
        )[0]["amount"]
        return amount

    async def insert_call(
        self,
        tx: Transaction,
        *,
        id: UUID,
        call: Call,
        key: str,
        amount: int | None,
        currency: str | None,
        booking_id: UUID | None,
        outcome: str,
    ) -> None:
        await self._run(
            tx.session,
            "insert_call",
            tenant=tx.tenant,
            id=id,
            call=call,
            key=key,
            amount=amount,
            currency=currency,
            booking_id=booking_id,
            outcome=outcome,
        )

    async def list_calls(self, tx: Transaction, **filters: object) -> Sequence[Row]:
        return await self._run(tx.session, "list_calls", tenant=tx.tenant, **filters)

    async def prune_calls(self, session: Session, *, days: int, limit: int) -> int:
        return len(await self._run(session, "prune_calls", days=days, limit=limit))


def _orders(rows: Sequence[Row]) -> Orders:
    if not rows:
        return Orders()
    row = rows[0]
    faults = [Fault(**each) for each in orjson.loads(row["faults"])]
    return Orders(outcome=row["outcome"], webhook_after=row["webhook_after"], faults=faults)
