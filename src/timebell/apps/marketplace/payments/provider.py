"""The contract of a payment provider: what it has to be able to do. `stripe` and `simulator` are two of them.

A call has three kinds of ends. It answers. It raises `Unavailable`: nothing has happened, and it may be made again. Or
it raises `Uncertain`: nobody knows whether it happened, so it is looked up by its key before it is made again. Every
call that moves money carries a key of ours, and the same key never moves it twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol
from uuid import UUID

ChargeState = Literal["processing", "succeeded", "declined", "cancelled"]


class Unavailable(Exception):
    """Nothing was done: the connection was refused, the provider said so, or asks to wait for `retry_after` seconds."""

    def __init__(self, reason: str, *, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after


class Uncertain(Exception):
    """It was asked for and nobody knows whether it was done."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Refused(Exception):
    """The provider will never do this: it is wrong, and trying again changes nothing."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What is to be taken from a card on file while nobody is there. The ids go along, so that a report of it can be
    led back to us. `asked_at` is when it was first meant to be taken: a look-up goes no further back."""

    key: str
    amount: int
    currency: str
    tenant: str
    booking_id: UUID
    payment_id: UUID
    customer: str | None = None
    method: str | None = None
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Charged:
    """What became of a charge. `ref` is the provider's own name for it; `failure` says why it was declined."""

    ref: str
    state: ChargeState
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """Money that is to leave: to the connected account of a lender, or back to the card. `of_ref` is the provider's
    name for the charge that it comes from. `was_begun`: the provider may have been asked for it before, maybe so long
    ago that it has forgotten the key, so it looks for it first."""

    key: str
    amount: int
    currency: str
    tenant: str
    booking_id: UUID
    of_ref: str
    destination: str | None = None
    was_begun: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a provider tells afterwards about a charge."""

    event_id: str
    tenant: str
    payment_id: UUID
    ref: str
    state: ChargeState
    failure: str | None = None
    raw: Mapping[str, object] = field(default_factory=dict)


class PaymentProvider(Protocol):
    """Moves money."""

    @property
    def name(self) -> str: ...

    async def charge(self, charge: Charge) -> Charged:
        """Take the amount, once for each key."""

    async def look_up(self, charge: Charge, *, ref: str | None = None) -> Charged | None:
        """What became of a charge, by its key, or by the provider's name for it where we know that. None: there is
        none."""

    async def cancel(self, charge: Charge, *, ref: str) -> Charged:
        """Have a charge that is processing not happen. Answers what it is then: it may have succeeded before."""

    async def refund(self, movement: Movement) -> str:
        """Give back some of what a charge took, once for each key; answers with the provider's name for that."""

    async def transfer(self, movement: Movement) -> str:
        """Pay out to a connected account, once for each key; answers with the provider's name for that."""

    def read_report(self, raw: bytes, headers: Mapping[str, str]) -> Report | None:
        """The report that was sent, if its signature holds; None where it tells nothing that we wait for. Raises
        `Refused` where it is not the provider's."""

    async def close(self) -> None: ...
