"""A payment provider in the memory of a test, and what the tests of the weekly cycle ask."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from tests.apps.marketplace.support import AMOUNT, Json, Market, local
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.applying import Applied, Applying
from timebell.apps.marketplace.payments.building import use_provider
from timebell.apps.marketplace.payments.payment_store import PaymentStore
from timebell.apps.marketplace.payments.provider import (
    Charge,
    Charged,
    ChargeState,
    Movement,
    Refused,
    Report,
    Unavailable,
    Uncertain,
)
from timebell.apps.marketplace.staffing.service import Bookings

# The Wednesday of the week that the market begins in, and what happens in it.
PAID_AT = local(2027, 3, 3, 10)
WARNED_AT = local(2027, 3, 3, 14)
CUTOFF = local(2027, 3, 4)
SUNDAY = "2027-03-07"
# The week that is paid for then: five shifts of it, unless a test says otherwise.
PERIOD = local(2027, 3, 8), local(2027, 3, 15)
WEEK = 5 * AMOUNT


@dataclass(slots=True)
class Bank:
    """Does what it is told: `outcome` is what a new charge comes to, `faults` what goes wrong next, by the call."""

    outcome: ChargeState = "succeeded"
    is_cancellable: bool = True
    faults: dict[str, list[str]] = field(default_factory=dict)
    charges: dict[str, Charged] = field(default_factory=dict)
    amounts: dict[str, int] = field(default_factory=dict)
    asked: list[Charge] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    moved: dict[str, Movement] = field(default_factory=dict)
    name: str = "bank"

    async def charge(self, charge: Charge) -> Charged:
        self.asked.append(charge)
        after = self._begin("charge", charge.key)
        if charge.key not in self.charges:
            failure = "card_declined" if self.outcome == "declined" else None
            self.charges[charge.key] = Charged(
                ref=f"ch_{len(self.charges) + 1}", state=self.outcome, failure=failure
            )
            self.amounts[charge.key] = charge.amount
        self._end(after)
        return self.charges[charge.key]

    async def look_up(self, charge: Charge, *, ref: str | None = None) -> Charged | None:
        self._end(self._begin("lookup", charge.key))
        return self.charges.get(charge.key)

    async def cancel(self, charge: Charge, *, ref: str) -> Charged:
        after = self._begin("cancel", charge.key)
        found = self.charges[charge.key]
        assert found.ref == ref
        if self.is_cancellable and found.state == "processing":
            self.charges[charge.key] = replace(found, state="cancelled")
        self._end(after)
        return self.charges[charge.key]

    async def refund(self, movement: Movement) -> str:
        return self._move("refund", movement)

    async def transfer(self, movement: Movement) -> str:
        return self._move("transfer", movement)

    def read_report(self, raw: bytes, headers: Mapping[str, str]) -> Report | None:
        raise AssertionError("nobody reports over HTTP to a bank in memory")

    async def close(self) -> None:
        pass

    def settle(self, key: str, state: ChargeState) -> None:
        """What was processing has an end."""
        self.charges[key] = replace(self.charges[key], state=state)

    @property
    def taken(self) -> dict[str, int]:
        """What was really taken, by its key."""
        return {key: self.amounts[key] for key, one in self.charges.items() if one.state == "succeeded"}

    def called(self, call: str) -> int:
        return sum(name == call for name, _ in self.calls)

    def _move(self, call: str, movement: Movement) -> str:
        after = self._begin(call, movement.key)
        self.moved.setdefault(movement.key, movement)
        self._end(after)
        return f"{call}_{movement.key}"

    def _begin(self, call: str, key: str) -> str | None:
        self.calls.append((call, key))
        waiting = self.faults.get(call, [])
        fault = waiting.pop(0) if waiting else None
        if fault == "unavailable":
            raise Unavailable("nobody is there")
        if fault == "timeout_before":
            raise Uncertain("timed out")
        if fault == "refuse":
            raise Refused("there is no card")
        return fault

    def _end(self, fault: str | None) -> None:
        if fault == "timeout_after":
            raise Uncertain("timed out")


@asynccontextmanager
async def with_bank(market: Market, **given: Any) -> AsyncIterator[Bank]:
    bank = Bank(**given)
    use_provider(market.bench.bell, bank)
    yield bank


async def payments_of(market: Market, booking: str) -> list[Json]:
    rows = await market.rows(
        "SELECT * FROM marketplace.pending_payments WHERE booking_id = $1 ORDER BY period_start, attempt",
        UUID(booking),
    )
    return [dict(row) for row in rows]


async def status_of(market: Market, booking: str) -> str:
    status: str = await market.value(
        "SELECT status FROM marketplace.staffing_bookings WHERE id = $1", UUID(booking)
    )
    return status


async def funded_until(market: Market, booking: str) -> datetime:
    until: datetime = await market.value(
        "SELECT funded_period_end FROM marketplace.staffing_bookings WHERE id = $1", UUID(booking)
    )
    return until


async def set_status(market: Market, booking: str, status: str) -> None:
    await market.rows(
        "UPDATE marketplace.staffing_bookings SET status = $2 WHERE id = $1", UUID(booking), status
    )


async def report(market: Market, payment: UUID, charged: Charged) -> Applied:
    """The provider tells what became of a payment."""
    bell = market.bench.bell
    async with bell.transaction() as tx:
        found = await PaymentStore(bell.clock).read_payment(tx, id=payment)
        assert found is not None
        booking = await Bookings(bell).hold(tx, found.booking_id)
        found = await PaymentStore(bell.clock).read_payment(tx, id=payment)
        assert found is not None
        return await Applying(bell).apply(tx, booking, found, charged, by=By())


async def dispute(market: Market, booking: str, *, option: str = "A", status: str = "Open") -> None:
    """Written as filing does, about the first shift."""
    (shift,) = await market.rows(
        "SELECT id FROM marketplace.time_log WHERE booking_id = $1 ORDER BY scheduled_start LIMIT 1",
        UUID(booking),
    )
    resolved = None if status == "Open" else market.clock.now
    await market.rows(
        "INSERT INTO marketplace.disputes (tenant, id, booking_id, time_log_id, dispute_option, status, reason, "
        "filed_by, dispute_filed_at, timeout_expiration_time, resolved_at, created_at, updated_at) VALUES "
        "('default', gen_random_uuid(), $1, $2, $3, $4, 'late', 'sue', $5, $5, $6, $5, $5)",
        *(UUID(booking), shift["id"], option, status, market.clock.now, resolved),
    )


async def incident(market: Market, booking: str, *, status: str = "Pending") -> None:
    (shift,) = await market.rows(
        "SELECT id FROM marketplace.time_log WHERE booking_id = $1 ORDER BY scheduled_start LIMIT 1",
        UUID(booking),
    )
    closed = None if status == "Pending" else market.clock.now
    await market.rows(
        "INSERT INTO marketplace.incident_reports (tenant, id, booking_id, time_log_id, dispute_option, status, "
        "description, reported_by, reported_at, closed_at, created_at, updated_at) VALUES "
        "('default', gen_random_uuid(), $1, $2, 'A', $3, 'a fall', 'sue', $4, $5, $4, $4)",
        *(UUID(booking), shift["id"], status, market.clock.now, closed),
    )


async def events_of(market: Market, name: str) -> list[Json]:
    rows = await market.rows(
        "SELECT subject, actor, data::text, correlation_id FROM timebell.events WHERE name = $1 ORDER BY id",
        name,
    )
    return [dict(row) for row in rows]


def sent(market: Market, text: str) -> list[tuple[str, str]]:
    """Who got a text that has these words, and how."""
    return sorted(
        (parcel.channel, parcel.address) for parcel in market.arrived if text in parcel.content.text
    )
