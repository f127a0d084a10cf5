"""The nouns that all rooms of the marketplace share, as records: who acts, and what a tenant has decided."""

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
# The longest notice that a policy may ask for.
NOTICE_HOURS_MAX: Final = 2_160


@dataclass(frozen=True, slots=True, kw_only=True)
class By:
    """Who does something: a person, or whoever `name` names. `is_operator`: with an admin key, for nobody."""

    person: UUID | None = None
    name: str = SYSTEM
    is_operator: bool = False
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PenaltyPolicy:
    """What is kept of shifts that are cancelled at short notice. A booking of at most `short_term_days` days keeps
    `short_percent` of each that begins within `short_notice_hours`, a longer one `long_percent` of each within its
    notice of `long_notice_hours`."""

    short_term_days: int = 7
    short_notice_hours: int = 24
    short_percent: int = 50
    long_notice_hours: int = 168
    long_percent: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketplaceSettings:
    """What a tenant decides. `payout_trigger`: the lender is paid for a shift when it is verified, or for the whole
    week as soon as that is paid for. `max_extensions` is how often the time to verify a timesheet may be extended,
    `penalty_policy` what is kept of the shifts that a dispute cancels. `hold_until_disputes_resolved`: after an
    insurance was renewed nobody clocks in until nothing is disputed."""

    payout_trigger: PayoutTrigger = "verification"
    max_extensions: int = 1
    penalty_policy: PenaltyPolicy = PenaltyPolicy()
    hold_until_disputes_resolved: bool = True


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


def policy_subject(id: UUID) -> str:
    return f"policy:{id}"


def id_of(subject: str) -> UUID:
    return UUID(subject.partition(":")[2])
