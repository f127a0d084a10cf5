"""The nouns of payments. Every amount is a whole number of minor units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from timebell.apps.marketplace.models import payment_subject

PaymentStatus = Literal["Pending", "Succeeded", "Failed", "Cancelled", "Refunded"]
EntryType = Literal["charge", "hold", "release", "refund", "freeze", "unfreeze", "penalty"]
Place = Literal["card", "clearing", "held", "frozen", "lender"]
PayoutSort = Literal["transfer", "refund"]
PayoutState = Literal["pending", "sending", "sent", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentLine:
    """What a payment pays for one shift."""

    time_log_id: UUID
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """What is charged for one period of a booking. `attempt` counts how often that was begun anew after a failure; the
    provider knows each by its `idempotency_key`."""

    id: UUID
    tenant: str
    booking_id: UUID
    period_start: datetime
    period_end: datetime
    amount: int
    currency: str
    status: PaymentStatus
    provider: str
    provider_intent_id: str | None
    idempotency_key: str
    attempt: int
    failure: str | None
    correlation_id: str | None
    settled_at: datetime | None
    created_at: datetime
    updated_at: datetime
    lines: Sequence[PaymentLine] = ()

    @property
    def subject(self) -> str:
        return payment_subject(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """What is to be written into the ledger. What comes from a card, or leaves for one or for a lender, carries the
    provider's name for it: it is written when the provider has confirmed."""

    type: EntryType
    from_place: Place
    to_place: Place
    amount: int
    payment_id: UUID
    time_log_id: UUID | None = None
    dispute_id: UUID | None = None
    provider_ref: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A double entry of the ledger: the amount leaves one place and arrives at another. Nothing changes it."""

    id: UUID
    booking_id: UUID
    at: datetime
    type: EntryType
    from_place: Place
    to_place: Place
    amount: int
    currency: str
    payment_id: UUID
    time_log_id: UUID | None = None
    dispute_id: UUID | None = None
    provider_ref: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pot:
    """What one payment holds for one shift. `charge_ref` is the provider's name for the charge, and `leaving` what is
    about to leave of what is held."""

    time_log_id: UUID
    payment_id: UUID
    charge_ref: str
    held: int = 0
    frozen: int = 0
    released: int = 0
    leaving: int = 0

    @property
    def free(self) -> int:
        return self.held - self.leaving


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """What is frozen for a dispute of what one payment holds for one shift."""

    time_log_id: UUID
    payment_id: UUID
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Where the money of a booking, or of one shift, is. `charged` is always the sum of the others."""

    charged: int = 0
    held: int = 0
    released: int = 0
    refunded: int = 0
    frozen: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Payout:
    """What is to leave for the lender (`transfer`), or to go back to the borrower (`refund`), and for which shifts. A
    refund without any is of a charge that nothing was held from."""

    id: UUID
    tenant: str
    booking_id: UUID
    sort: PayoutSort
    payment_id: UUID
    amount: int
    currency: str
    reason: str
    state: PayoutState
    idempotency_key: str
    attempt: int
    provider_ref: str | None
    correlation_id: str | None
    created_at: datetime
    updated_at: datetime
    lines: Sequence[PaymentLine] = ()
