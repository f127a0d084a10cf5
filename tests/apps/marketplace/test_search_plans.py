"""What saved searches cost beside many of others and of their own tenant: along the indexes, and not what there is."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.apps.marketplace.test_staffing_plans import NOW, READING, explained, looked_at
from tests.query_plans import nodes
from timebell.apps.marketplace.searches.rules import BATCH, probes_of
from timebell.apps.marketplace.searches.store import SearchStore
from timebell.testing.database import TestDatabase

LARGE = {"saved_searches", "search_alerts", "workers", "alert_skips"}
WORKER, PERSON, SEARCH = UUID(int=1), UUID(int=2), UUID(int=3)
PROBES = probes_of("carpenter", "10115", ["roofs", "stairs"])
# A hundred find the worker; each of the others lies under a zip, a trade or a skill of its own, or asks too much.
FILL = """
    INSERT INTO marketplace.saved_searches (tenant, id, user_id, criteria, trade, zip_from, zip_to, skills, rate_max,
        trade_key, zip_key, skill_key, instant_enabled, digest_enabled, send_empty_digest, channels, timezone,
        created_at, updated_at)
    SELECT CASE WHEN n % 100 = 99 THEN 'small' ELSE 'large' END, timebell.new_id(),
        CASE WHEN n % 1000 = 7 THEN $2::uuid ELSE timebell.new_id() END, '{}', m.trade, m.zip, m.zip || chr(127),
        CASE WHEN m.skill = '' THEN '{}' ELSE ARRAY[m.skill] END, m.rate, coalesce(m.trade, ''), coalesce(m.zip, ''),
        m.skill, true, true, true, '{email}', CASE WHEN n % 1000 = 7 THEN 'Asia/Kolkata' ELSE 'UTC' END, $3, $3
    FROM generate_series(1, $1::integer) n
    CROSS JOIN LATERAL (SELECT
        CASE WHEN n % 5 = 0 THEN NULL WHEN n % 5 = 1 THEN 'carpenter' ELSE 'trade ' || n % 97 END,
        CASE WHEN n <= 450 THEN '101' ELSE 'z' || n % 9973 END,
        CASE n % 3 WHEN 0 THEN '' WHEN 1 THEN 'roofs' ELSE 'skill ' || n % 89 END,
        CASE WHEN n % 7 = 0 THEN 100 END) AS m (trade, zip, skill, rate)
"""
SEARCH_ALERTS = """
    INSERT INTO marketplace.search_alerts (tenant, search_id, worker_id, user_id, event, state, listed_at, alerted_at)
    SELECT tenant, id, $1, user_id, id, 'told', $2, $2 FROM marketplace.saved_searches
"""
WORKERS = """
    INSERT INTO marketplace.workers (tenant, id, recipient_id, company_id, state, trade, zip, skills, hourly_rate,
        listed_at, created_at, updated_at)
    SELECT CASE WHEN n % 100 = 0 THEN 'small' ELSE 'large' END, CASE n WHEN 1 THEN $2::uuid ELSE timebell.new_id() END,
        timebell.new_id(), $2, 'Listed', CASE n % 50 WHEN 1 THEN 'carpenter' ELSE 'trade ' || n % 50 END, '10115',
        '{roofs,stairs}', 2500, $3::timestamptz - make_interval(hours => n - 1), $3, $3
    FROM generate_series(1, $1::integer) n
"""
MATCH: dict[str, object] = {
    "worker_id": WORKER,
    "trade_keys": [trade for trade, _, _ in PROBES],
    "zip_keys": [zip for _, zip, _ in PROBES],
    "skill_keys": [skill for _, _, skill in PROBES],
    "after_number": 1,
    "after": None,
    "limit": BATCH,
}
# What each takes at most, with a hundred thousand searches around it.
BOUNDED: dict[str, tuple[dict[str, object], int]] = {
    "match_searches": (MATCH, 300),
    "find_match": ({"id": SEARCH, "worker_id": WORKER}, 5),
    "list_searches": ({"user_id": PERSON, "limit": 50}, 200),
    "count_searches": ({"user_id": PERSON}, 200),
    "count_alerts": ({"user_ids": [PERSON], "limit": 10}, 20),
    "read_alerts": ({"search_ids": [SEARCH], "worker_id": WORKER}, 5),
    "list_digest_searches": ({"timezone": "Asia/Kolkata", "limit": 50}, 60),
    "read_digest_searches": ({"user_ids": [PERSON], "at": NOW, "limit": 50}, 200),
}


async def fill(owner: Any, searches: int, workers: int = 20_000) -> None:
    await owner.execute("SET session_replication_role = replica")
    await owner.execute(FILL, searches, PERSON, NOW, timeout=900)
    await owner.execute(WORKERS, workers, WORKER, NOW, timeout=600)
    await owner.execute("RESET session_replication_role")
    await owner.execute("VACUUM (ANALYZE) marketplace.saved_searches", timeout=900)
    await owner.execute("VACUUM (ANALYZE) marketplace.workers", timeout=600)


@pytest.mark.req("J-5.16")
@pytest.mark.parametrize("role", ["timebell", "timebell_api"])
async def test_whoever_is_listed_is_not_compared_with_every_search(
    marketplace_database: TestDatabase, role: str
) -> None:
    owner = await asyncpg.connect(marketplace_database.admin_url, timeout=10, server_settings=READING)
    try:
        await fill(owner, 30_000)
        await owner.execute(SEARCH_ALERTS, WORKER, NOW, timeout=600)
        await owner.execute("ANALYZE marketplace.search_alerts")
        await owner.execute("SET timebell.tenant = 'large'")
        await owner.execute(f"SET ROLE {role}")
        for name, query in SearchStore.queries.items():
            if name.startswith("prune"):
                continue
            plan = await explained(owner, query)
            read = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
            assert not read & LARGE, name
        for name, (given, most) in BOUNDED.items():
            query = SearchStore.queries[name]
            plan = await explained(owner, query, is_run=True, tenant="large", now=NOW, **given)
            assert looked_at(plan) <= most, (name, looked_at(plan))
        plan = await explained(owner, SearchStore.queries["match_searches"])
        indexes = {node["Index Name"] for node in nodes(plan) if "Index Name" in node}
        assert "idx_saved_searches_match" in indexes
    finally:
        await owner.close(timeout=10)


@pytest.mark.slow
@pytest.mark.req("J-5.16")
async def test_of_a_million_searches_a_hundred_are_found_within_twenty_milliseconds(
    marketplace_database: TestDatabase,
) -> None:
    owner = await asyncpg.connect(marketplace_database.admin_url, timeout=10)
    try:
        await fill(owner, 1_000_000)
        await owner.execute("SET jit = off")
        query, found, after_number, after = SearchStore.queries["match_searches"], 0, 1, None
        spent: list[float] = []
        for _ in range(2):
            found, after_number, after, total = 0, 1, None, 0.0
            while True:
                given = {**MATCH, "tenant": "large", "after_number": after_number, "after": after}
                began = time.perf_counter()
                rows = await owner.fetch(query.text, *query.arguments(given))
                total += time.perf_counter() - began
                found += len(rows[:BATCH])
                if len(rows) <= BATCH:
                    break
                after_number, after = rows[BATCH - 1]["number"], rows[BATCH - 1]["id"]
            spent.append(total)
        print(f"{found} of 1,000,000 searches: {spent[0] * 1000:.1f} ms cold, {spent[1] * 1000:.1f} ms warm")
        assert 80 <= found <= 130
        assert spent[1] <= 0.020
    finally:
        await owner.close(timeout=10)
