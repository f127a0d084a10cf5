"""Refusals about saved searches: errors in words that name the remedy."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from timebell.apps.marketplace.refusals import MarketplaceRefused
from timebell.errors import NotFound

CODES: Final = {
    "too_many_searches": "Somebody has as many saved searches as one may have. Delete one first.",
}


class TooManySearches(MarketplaceRefused):
    """Somebody has as many saved searches as one may have."""


def no_search(id: UUID) -> NotFound:
    return NotFound(f"there is no saved search {id}")


def too_many_searches(most: int) -> TooManySearches:
    return TooManySearches(f"one has at most {most} saved searches; delete one first")
