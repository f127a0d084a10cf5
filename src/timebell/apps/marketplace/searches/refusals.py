"""What is refused, in words that name the remedy."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from timebell.errors import NotFound
from timebell.web import Problem

CODES: Final = {
    "too_many_searches": "Somebody has as many saved searches as one may have. Delete one first.",
}


def no_search(id: UUID) -> NotFound:
    return NotFound(f"there is no saved search {id}")


def too_many_searches(most: int) -> Problem:
    return Problem(409, "too_many_searches", f"one has at most {most} saved searches; delete one first")
