"""The providers under the same questions: how each is made to behave, and what it has taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol
from uuid import UUID, uuid4

from tests.apps.marketplace.contract.fake_stripe import (
    ACCOUNT,
    CUSTOMER,
    SECRET_KEY,
    WEBHOOK_SECRET,
    FakeStripe,
)
from tests.apps.marketplace.contract.fake_stripe import Fault as StripeFault
from timebell.apps.marketplace.payments.provider import Charge, ChargeState, Movement, PaymentProvider
from timebell.apps.marketplace.payments.simulator import Simulator
from timebell.apps.marketplace.payments.simulator_models import Fault, FaultSort, FaultyCall, Orders
from timebell.apps.marketplace.payments.simulator_store import SimulatorStore
from timebell.apps.marketplace.payments.stripe import StripePayments
from timebell.kernel import Timebell

Fate = Literal["succeed", "decline", "processing"]
Trouble = Literal["lost", "done_and_lost", "away"]
Moving = Literal["charge", "refund", "transfer"]

BOOKING = UUID("0199a3c2-0000-7000-8000-000000000001")


class Side(Protocol):
    """A provider, and whoever is behind it."""

    @property
    def provider(self) -> PaymentProvider: ...

    async def decide(self, fate: Fate) -> None:
        """What becomes of charges."""

    async def trouble(self, call: Moving, what: Trouble) -> None:
        """What goes wrong with the next call of that sort."""

    async def taken(self, call: Moving) -> list[int]:
        """The amounts that were moved so far."""

    async def report(self, charge: Charge, ref: str, state: ChargeState) -> tuple[bytes, Mapping[str, str]]:
        """What it sends when a charge has come to that."""

    async def close(self) -> None: ...

    def charge(self, amount: int = 20_000) -> Charge: ...


def movement(charge: Charge, ref: str, **given: object) -> Movement:
    said = {
        "key": f"payout:{uuid4()}",
        "amount": charge.amount,
        "currency": charge.currency,
        "tenant": charge.tenant,
        "booking_id": charge.booking_id,
        "of_ref": ref,
        "destination": ACCOUNT,
        **given,
    }
    return Movement(**said)  # type: ignore[arg-type]


def new_charge(amount: int, method: str) -> Charge:
    id = uuid4()
    return Charge(
        key=f"payment:{id}:1",
        amount=amount,
        currency="EUR",
        tenant="default",
        booking_id=BOOKING,
        payment_id=id,
        customer=CUSTOMER,
        method=method,
    )


class SimulatorSide:
    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = SimulatorStore(bell.clock)
        self.provider = Simulator(bell)

    async def decide(self, fate: Fate) -> None:
        async with self._bell.transaction() as tx:
            await self._store.write_simulator(tx, Orders(outcome=fate))

    async def trouble(self, call: Moving, what: Trouble) -> None:
        faults: dict[Trouble, FaultSort] = {
            "lost": "timeout_before",
            "done_and_lost": "timeout_after",
            "away": "unavailable",
        }
        faulty: FaultyCall = call
        async with self._bell.transaction() as tx:
            orders = Orders(faults=[Fault(call=faulty, fault=faults[what], times=1)])
            await self._store.write_simulator(tx, orders)

    async def taken(self, call: Moving) -> list[int]:
        async with self._bell.transaction() as tx:
            rows = await tx.connection.fetch(
                "SELECT amount FROM marketplace.simulator_movements "
                "WHERE call = $1 AND state = 'succeeded' ORDER BY ref",
                call,
            )
        return [row["amount"] for row in rows]

    async def report(self, charge: Charge, ref: str, state: ChargeState) -> tuple[bytes, Mapping[str, str]]:
        async with self._bell.transaction() as tx:
            moved = await self._store.lock_charge(tx, ref=ref)
        assert moved is not None
        return self.provider.write_report(charge.tenant, moved, state)

    async def close(self) -> None:
        await self.provider.close()

    def charge(self, amount: int = 20_000) -> Charge:
        return new_charge(amount, "pm_card_visa")


class StripeSide:
    def __init__(self) -> None:
        self.fake = FakeStripe()
        self._method = "pm_card_visa"
        self._provider: StripePayments | None = None

    async def open(self) -> None:
        await self.fake.server.open()
        self._provider = StripePayments(
            secret_key=SECRET_KEY, webhook_secret=WEBHOOK_SECRET, url=self.fake.url, seconds=5
        )

    @property
    def provider(self) -> StripePayments:
        assert self._provider is not None
        return self._provider

    async def decide(self, fate: Fate) -> None:
        self._method = {
            "succeed": "pm_card_visa",
            "decline": "pm_card_visa_chargeDeclined",
            "processing": "pm_card_processing",
        }[fate]

    async def trouble(self, call: Moving, what: Trouble) -> None:
        paths = {"charge": "payment_intents", "refund": "refunds", "transfer": "transfers"}
        faults: dict[Trouble, StripeFault] = {
            "lost": "lost",
            "done_and_lost": "done_and_lost",
            "away": "busy",
        }
        self.fake.faults.append((f"POST {paths[call]}", faults[what]))

    async def taken(self, call: Moving) -> list[int]:
        known = {"charge": self.fake.intents, "refund": self.fake.refunds, "transfer": self.fake.transfers}[
            call
        ]
        return [each["amount"] for each in known.values() if each.get("status", "succeeded") == "succeeded"]

    async def report(self, charge: Charge, ref: str, state: ChargeState) -> tuple[bytes, Mapping[str, str]]:
        types = {
            "succeeded": "payment_intent.succeeded",
            "declined": "payment_intent.payment_failed",
            "cancelled": "payment_intent.canceled",
            "processing": "payment_intent.processing",
        }
        return self.fake.event(ref, types[state])

    async def close(self) -> None:
        await self.provider.close()
        await self.fake.server.close()

    def charge(self, amount: int = 20_000) -> Charge:
        return new_charge(amount, self._method)
