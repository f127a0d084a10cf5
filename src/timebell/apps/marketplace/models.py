"""What all rooms of the marketplace share: who acts, and what a tenant has decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

PayoutTrigger = Literal["verification", "webhook"]
SYSTEM: Final = "marketplace"
# The job that finds out whose saved searches find somebody who was listed.
MATCH_SEARCHES: Final = "marketplace.match_searches"
# How often a tenant may allow that the time to verify a timesheet is extended, at most.
EXTENSIONS_MAX: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class By:
    """Who does something: a person, or whoever `name` names. `is_operator`: with an admin key, for nobody."""

    person: UUID | None = None
    name: str = SYSTEM
    is_operator: bool = False
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketplaceSettings:
    """What a tenant decides. `payout_trigger`: the lender is paid for a shift when it is verified, or for the whole
    week as soon as that is paid for. `max_extensions` is how often the time to verify a timesheet may be extended."""

    payout_trigger: PayoutTrigger = "verification"
    max_extensions: int = 1


def booking_subject(id: UUID) -> str:
    """Not `booking:`, which is what guests have."""
    return f"staffing:{id}"


def time_log_subject(id: UUID) -> str:
    return f"time_log:{id}"


def dispute_subject(id: UUID) -> str:
    return f"dispute:{id}"


def incident_subject(id: UUID) -> str:
    return f"incident:{id}"


def payment_subject(id: UUID) -> str:
    return f"payment:{id}"


def id_of(subject: str) -> UUID:
    return UUID(subject.partition(":")[2])
