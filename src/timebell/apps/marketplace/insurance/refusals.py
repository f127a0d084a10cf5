"""What is refused, in words that name the remedy."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from timebell.errors import NotFound
from timebell.web import Problem

# As the pages explain them that a refusal points to.
CODES: Final = {
    "policy_inactive": "The insurance is not valid already, so that nothing is left to stop. Renew it."
}


def no_policy(id: UUID) -> NotFound:
    return NotFound(f"there is no insurance policy {id}")


def not_active() -> Problem:
    return Problem(409, "policy_inactive", "the insurance is not valid already; renew it to have it again")
