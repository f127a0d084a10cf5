"""Refusals that all rooms of the marketplace share, as errors."""

from __future__ import annotations

from uuid import UUID

from timebell.errors import InvalidInput, TimebellError


class MarketplaceRefused(TimebellError):
    """Something is not to be done in the marketplace, and nothing was changed."""


class WrongField(MarketplaceRefused, InvalidInput):
    """A field does not fit the others, or what is there."""


class UnknownReference(MarketplaceRefused, InvalidInput):
    """A field names something that does not exist for this tenant."""


def wrong_field(field: str, message: str) -> WrongField:
    """`field` is where it stands in the body, such as `shifts.0`."""
    return WrongField(message, field=field)


def unknown_reference(field: str, what: str, id: UUID) -> UnknownReference:
    return UnknownReference(f"there is no {what} {id}; add it first", field=field)
