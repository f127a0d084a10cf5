"""`simulator`: a payment provider for demonstrations and tests, in which no money moves.

It keeps what it did in tables, in transactions of its own, so that it remembers what we forget in a crash, as somebody
outside would. What it is to do, and what is to go wrong, a tenant decides for itself.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from uuid import UUID

import orjson

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
from timebell.apps.marketplace.payments.simulator_models import Call, FaultSort, FaultyCall, Orders
from timebell.apps.marketplace.payments.simulator_models import Movement as Moved
from timebell.apps.marketplace.payments.simulator_store import SimulatorStore
from timebell.kernel import Ids, Timebell, Transaction

SIMULATE_REPORT: Final = "marketplace.simulate_report"
SIGNATURE: Final = "simulator-signature"
_PURPOSE: Final = b"marketplace.simulator"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One call, as it is remembered."""

    call: Call
    key: str
    amount: int
    currency: str
    booking_id: UUID


class Simulator:
    """Behaves as it was told, and moves nothing twice for one key."""

    name: Final = "simulator"

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = SimulatorStore(bell.clock)
        self._ids = Ids(bell.chance)
        secret = bell.settings.secret_key
        # Without a secret to sign with nobody but this process is believed.
        self._key = (
            self._ids.new().bytes if secret is None else hmac.digest(secret.encode(), _PURPOSE, sha256)
        )

    async def charge(self, charge: Charge) -> Charged:
        asked = _asked("charge", charge)
        async with self._bell.transaction(tenant=charge.tenant) as tx:
            orders, fault = await self._orders(tx, "charge")
            if fault is None and orders.outcome == "timeout":
                fault = "timeout_after"
            answer: Charged | Refused | None = None
            if fault in (None, "timeout_after"):
                answer = await self._charge(tx, charge, orders)
            said = answer.state if isinstance(answer, Charged) else "refused" if answer else ""
            await self._note(tx, asked, fault, said)
        _fail(fault)
        if isinstance(answer, Refused):
            raise answer
        assert answer is not None, "whatever does not fail is answered"
        return answer

    async def look_up(self, charge: Charge, *, ref: str | None = None) -> Charged | None:
        async with self._bell.transaction(tenant=charge.tenant) as tx:
            _, fault = await self._orders(tx, "lookup")
            found = await self._store.read_movement(tx, call="charge", key=charge.key)
            if ref is not None and (found is None or found.ref != ref):
                found = await self._store.lock_charge(tx, ref=ref)
            await self._note(tx, _asked("lookup", charge), fault, found.state if found else "none")
        _fail(fault)
        return None if found is None else _charged(found.ref, found.state)

    async def cancel(self, charge: Charge, *, ref: str) -> Charged:
        async with self._bell.transaction(tenant=charge.tenant) as tx:
            _, fault = await self._orders(tx, "cancel")
            found = (
                None if fault not in (None, "timeout_after") else await self._store.lock_charge(tx, ref=ref)
            )
            state: ChargeState | None = None if found is None else found.state
            if state == "processing":
                state = "cancelled"
                await self._store.move_charge(tx, ref=ref, state=state)
            await self._note(tx, _asked("cancel", charge), fault, state or "refused")
        _fail(fault)
        if state is None:
            raise Refused(f"there is no charge {ref}")
        return _charged(ref, state)

    async def refund(self, movement: Movement) -> str:
        return await self._move(_asked("refund", movement), movement)

    async def transfer(self, movement: Movement) -> str:
        return await self._move(_asked("transfer", movement), movement)

    def read_report(self, raw: bytes, headers: Mapping[str, str]) -> Report | None:
        if not hmac.compare_digest(headers.get(SIGNATURE, ""), self._signature(raw)):
            raise Refused("the signature is not the simulator's")
        said = orjson.loads(raw)
        return Report(
            event_id=said["id"],
            tenant=said["tenant"],
            payment_id=UUID(said["payment_id"]),
            ref=said["ref"],
            state=said["state"],
            failure=said["failure"],
            raw=said,
        )

    def write_report(self, tenant: str, charge: Moved, state: ChargeState) -> tuple[bytes, Mapping[str, str]]:
        """As it is sent: the same state of a charge is the same event."""
        charged = _charged(charge.ref, state)
        said = {
            "id": f"evt_{charge.ref}_{state}",
            "tenant": tenant,
            "payment_id": str(charge.payment_id),
            "ref": charge.ref,
            "state": state,
            "failure": charged.failure,
        }
        raw = orjson.dumps(said)
        return raw, {SIGNATURE: self._signature(raw)}

    async def close(self) -> None:
        """Nothing is open."""

    async def _charge(self, tx: Transaction, charge: Charge, orders: Orders) -> Charged | Refused:
        state: ChargeState = (
            "declined"
            if orders.outcome == "decline"
            else "processing"
            if orders.outcome == "processing"
            else "succeeded"
        )
        moved = Moved(
            ref=f"sim_{self._ids.new().hex}",
            call="charge",
            key=charge.key,
            fingerprint=_fingerprint(charge.amount, charge.currency, charge.payment_id),
            amount=charge.amount,
            currency=charge.currency,
            booking_id=charge.booking_id,
            payment_id=charge.payment_id,
            of_ref=None,
            state=state,
        )
        if await self._store.insert_movement(tx, moved):
            if state != "processing" or orders.webhook_after:
                payload = {"ref": moved.ref}
                await self._bell.enqueue(tx, SIMULATE_REPORT, payload, delay=orders.webhook_after)
        else:
            before = await self._store.read_movement(tx, call="charge", key=charge.key)
            assert before is not None, "it was in the way"
            if before.fingerprint != moved.fingerprint:
                return Refused("the key was used for something else")
            moved = before
        # What was taken is told by the report.
        is_told = moved.state in ("declined", "cancelled")
        return _charged(moved.ref, moved.state if is_told else "processing")

    async def _move(self, asked: _Asked, movement: Movement) -> str:
        assert asked.call in ("refund", "transfer")
        async with self._bell.transaction(tenant=movement.tenant) as tx:
            _, fault = await self._orders(tx, asked.call)
            answer: str | Refused = ""
            if fault in (None, "timeout_after"):
                answer = await self._moved(tx, asked, movement)
            await self._note(tx, asked, fault, "refused" if isinstance(answer, Refused) else "succeeded")
        _fail(fault)
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def _moved(self, tx: Transaction, asked: _Asked, movement: Movement) -> str | Refused:
        assert asked.call in ("refund", "transfer")
        fingerprint = _fingerprint(movement.amount, movement.currency, movement.of_ref, movement.destination)
        charge = await self._store.lock_charge(tx, ref=movement.of_ref)
        before = await self._store.read_movement(tx, call=asked.call, key=asked.key)
        if before is not None:
            return before.ref if before.fingerprint == fingerprint else Refused("the key was used otherwise")
        if charge is None or charge.state != "succeeded":
            return Refused(f"there is no charge {movement.of_ref} that succeeded")
        gone = await self._store.sum_refunded(tx, of_ref=movement.of_ref, call=asked.call)
        if gone + movement.amount > charge.amount:
            return Refused(f"more would leave than {movement.of_ref} took")
        moved = Moved(
            ref=f"sim_{self._ids.new().hex}",
            call=asked.call,
            key=asked.key,
            fingerprint=fingerprint,
            amount=movement.amount,
            currency=movement.currency,
            booking_id=movement.booking_id,
            payment_id=None,
            of_ref=movement.of_ref,
            state="succeeded",
        )
        await self._store.insert_movement(tx, moved)
        return moved.ref

    async def _orders(self, tx: Transaction, call: FaultyCall) -> tuple[Orders, FaultSort | None]:
        """What is to be done, and what goes wrong this time."""
        orders = await self._store.read_simulator(tx)
        if orders.fault_of(call) is None:
            return orders, None
        orders = await self._store.lock_simulator(tx)
        fault = orders.fault_of(call)
        await self._store.write_simulator(tx, orders.used(call))
        return orders, fault

    async def _note(self, tx: Transaction, asked: _Asked, fault: FaultSort | None, said: str) -> None:
        await self._store.insert_call(
            tx,
            id=self._ids.new(),
            call=asked.call,
            key=asked.key,
            amount=asked.amount,
            currency=asked.currency,
            booking_id=asked.booking_id,
            outcome=said if fault is None else _FAULTS[fault],
        )

    def _signature(self, raw: bytes) -> str:
        return hmac.digest(self._key, raw, sha256).hex()


_FAULTS: Final[Mapping[FaultSort, str]] = {
    "refuse": "refused",
    "unavailable": "unavailable",
    "timeout_before": "timeout",
    "timeout_after": "timeout",
}


def _fail(fault: FaultSort | None) -> None:
    if fault == "refuse":
        raise Refused("the simulator was told to refuse this")
    if fault == "unavailable":
        raise Unavailable("the simulator was told to be away")
    if fault is not None:
        raise Uncertain("the simulator was told not to answer in time")


def _asked(call: Call, said: Charge | Movement) -> _Asked:
    return _Asked(
        call=call, key=said.key, amount=said.amount, currency=said.currency, booking_id=said.booking_id
    )


def _charged(ref: str, state: ChargeState) -> Charged:
    return Charged(ref=ref, state=state, failure="card_declined" if state == "declined" else None)


def _fingerprint(*said: object) -> str:
    return sha256("\n".join(map(str, said)).encode()).hexdigest()
