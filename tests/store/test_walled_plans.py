"""What lists cost behind the wall: a page begins where the one before it ended, and not at the beginning.

Row-level security lets no condition into an index that could tell of hidden rows, and takes `coalesce` for one. In a
query of its own it is a value by then. Statements that are used often are planned for any argument, as they are here.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import orjson
import pytest
import pytest_asyncio

from tests.query_plans import queries_of
from timebell.testing.database import TestDatabase

QUERIES = {
    **queries_of("kernel"),
    **queries_of("notify"),
    **queries_of("web"),
}
# By which column of its index each of them finds the place.
PLACES = [
    ("list_unfinished", "id"),
    ("list_unfinished_oldest", "id"),
    ("list_dead", "died_at"),
    ("list_dead_oldest", "died_at"),
    ("list_events", "id"),
    ("list_events_oldest", "id"),
    ("list_schedules", "id"),
    ("list_alerts", "opened_at"),
    ("list_alerts_oldest", "opened_at"),
    ("list_recipients", "id"),
    ("list_notifications", "id"),
    ("list_notifications_on", "id"),
    ("list_deliveries", "id"),
    ("list_outbox", "id"),
    ("list_attention", "id"),
]


@pytest_asyncio.fixture
async def api(database_url: TestDatabase) -> AsyncIterator[asyncpg.Connection[Any]]:
    """The tables are empty, so that only what is possible decides."""
    settings = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_bitmapscan": "off"}
    connection = await asyncpg.connect(database_url.api_url, server_settings=settings)
    yield connection
    await connection.close()


def conditions(plan: dict[str, Any]) -> Iterator[str]:
    """What leads into each index that a plan uses."""
    if "Index Cond" in plan:
        yield plan["Index Cond"]
    for child in plan.get("Plans", ()):
        yield from conditions(child)


@pytest.mark.parametrize(("name", "column"), PLACES)
async def test_a_list_begins_where_it_is_told(api: asyncpg.Connection[Any], name: str, column: str) -> None:
    query = QUERIES[name]
    await api.execute(f"PREPARE planned AS {query.text}")
    anything = ", ".join(["NULL"] * len(query.parameters))
    plan = orjson.loads(await api.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE planned ({anything})"))[0]["Plan"]
    found = list(conditions(plan))
    # Before 17 a plan calls what was looked up by a number, as it does a parameter.
    place = r"InitPlan" if api.get_server_version().major >= 17 else r"[<>].*\$\d"
    assert any(re.search(rf"\b{column}\b.*{place}", condition) for condition in found), found


async def test_what_a_tenant_has_is_counted_past_no_other(api: asyncpg.Connection[Any]) -> None:
    query = QUERIES["read_usage"]
    await api.execute(f"PREPARE planned AS {query.text}")
    anything = ", ".join(["NULL"] * len(query.parameters))
    plan = orjson.loads(await api.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE planned ({anything})"))[0]["Plan"]
    found = [condition for condition in conditions(plan) if re.search(r"\btenant = \$", condition)]
    assert len(found) == 3, list(conditions(plan))
