"""Refusals about insurances: errors in words that name the remedy."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from timebell.apps.marketplace.refusals import MarketplaceRefused
from timebell.errors import NotFound

# As the pages explain them that a refusal points to.
CODES: Final = {
    "policy_inactive": "The insurance is not valid already, so that nothing is left to stop. Renew it."
}


class PolicyInactive(MarketplaceRefused):
    """An insurance is not valid already."""


def no_policy(id: UUID) -> NotFound:
    return NotFound(f"there is no insurance policy {id}")


def not_active() -> PolicyInactive:
    return PolicyInactive("the insurance is not valid already; renew it to have it again")
