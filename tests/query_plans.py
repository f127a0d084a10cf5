"""What PostgreSQL says about how it goes about a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.shape.tree import PACKAGE
from timebell.db.queries import Query, load_queries


def queries_of(slice_name: str) -> Mapping[str, Query]:
    """The queries of all rooms of a slice, by name."""
    folders = [path for path in sorted((PACKAGE / slice_name).rglob("sql")) if path.is_dir()]
    names = [".".join(("timebell", *path.relative_to(PACKAGE).parts)) for path in folders]
    return {name: query for package in names for name, query in load_queries(package).items()}


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A plan and everything below it."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)
