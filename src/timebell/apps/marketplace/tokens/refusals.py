"""Refusals about magic links: errors in words that name the remedy."""

from __future__ import annotations

from typing import Final

from timebell.apps.marketplace.refusals import MarketplaceRefused
from timebell.errors import NotFound

CODES: Final = {
    "magic_link_used": "The link was used before, and is good once. Issue another.",
    "magic_link_expired": "The link is too old to be of use. Issue another.",
}


class MagicLinkUsed(MarketplaceRefused):
    """A link was used before, and is good once."""


class MagicLinkExpired(MarketplaceRefused):
    """A link is too old to be of use."""


def no_link() -> NotFound:
    return NotFound("this tenant has issued no such link; issue another")


def link_used() -> MagicLinkUsed:
    return MagicLinkUsed("the link was used before; issue another")


def link_expired() -> MagicLinkExpired:
    return MagicLinkExpired("the link is too old; issue another")
