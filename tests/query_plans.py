"""What PostgreSQL says about how it goes about a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A plan and everything below it."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)
