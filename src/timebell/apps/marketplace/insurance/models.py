"""The nouns of insurance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal
from uuid import UUID

from timebell.apps.marketplace.models import policy_subject

# How many days before its end a company is warned.
Threshold = Literal[14, 7]
Due = Literal["expired", 14, 7]
Outcome = Literal["expired", "invalidated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """An insurance of a company, valid through `expiration_date`, by the clock of UTC. `replaced_by` is another of its
    type that came after it had ended."""

    id: UUID
    company_id: UUID
    company_name: str
    type: str
    expiration_date: date
    is_active: bool
    deactivated_at: datetime | None
    replaced_by: UUID | None
    revision: int
    created_at: datetime
    updated_at: datetime

    @property
    def subject(self) -> str:
        return policy_subject(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class DuePolicy:
    """One that the daily run is about."""

    id: UUID
    company_id: UUID
    company_name: str
    type: str
    expiration_date: date


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """One that the daily run has deactivated. `revision` is which of its endings this is."""

    id: UUID
    company_id: UUID
    type: str
    expiration_date: date
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Somebody whom a stop concerns, and by which bookings; of many the first are named."""

    recipient_id: UUID
    booking_ids: Sequence[UUID]
    booking_count: int
