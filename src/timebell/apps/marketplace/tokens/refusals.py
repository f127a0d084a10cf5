"""What is refused, in words that name the remedy."""

from __future__ import annotations

from typing import Final

from timebell.errors import NotFound
from timebell.web import Problem

CODES: Final = {
    "magic_link_used": "The link was used before, and is good once. Issue another.",
    "magic_link_expired": "The link is too old to be of use. Issue another.",
}


def no_link() -> NotFound:
    return NotFound("this tenant has issued no such link; issue another")


def link_used() -> Problem:
    return Problem(409, "magic_link_used", "the link was used before; issue another")


def link_expired() -> Problem:
    return Problem(410, "magic_link_expired", "the link is too old; issue another")
