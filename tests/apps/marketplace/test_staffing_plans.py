"""What each statement of staffing costs beside many rows of others and of its own tenant: along the indexes."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import orjson
import pytest

from tests.query_plans import nodes
from timebell.apps.marketplace.staffing.store import StaffingStore
from timebell.db.queries import Query
from timebell.testing.database import TestDatabase

# Tables are thousands of times as large in life, and reading one costs so much more.
READING = {"seq_page_cost": "100", "plan_cache_mode": "force_generic_plan"}
NOW = datetime.fromisoformat("2027-03-01T08:00:00+00:00")
RARE, COMMON = UUID(int=1), UUID(int=2)
LARGE = {"workers", "staffing_bookings", "taken", "company_members", "companies", "projects"}
# Each worker has a company, a project and a booking of their own; one in a hundred is of a neighbour, and one in a
# thousand has a rare zip, and is lent and supervised by somebody who seldom does that.
FILL = """
    WITH made AS (
        SELECT n, CASE WHEN n % 100 = 0 THEN 'small' ELSE 'large' END AS tenant, timebell.new_id() AS id,
            timebell.new_id() AS person, CASE WHEN n % 1000 = 7 THEN $2::uuid ELSE $3::uuid END AS other
        FROM generate_series(1, $1::integer) n
    ), companies AS (
        INSERT INTO marketplace.companies (tenant, id, name, type, created_at, updated_at)
        SELECT tenant, id, 'one', 'lender', $4::timestamptz, $4 FROM made
    ), members AS (
        INSERT INTO marketplace.company_members (tenant, company_id, recipient_id, role, created_at)
        SELECT tenant, id, other, 'lender_admin', $4 FROM made
    ), projects AS (
        INSERT INTO marketplace.projects (tenant, id, company_id, name, timezone, created_at)
        SELECT tenant, id, id, 'one', 'UTC', $4 FROM made
    ), workers AS (
        INSERT INTO marketplace.workers (tenant, id, recipient_id, company_id, state, trade, zip, hourly_rate,
            created_at, updated_at)
        SELECT tenant, id, person, other, 'Listed', 'carpenter', CASE WHEN n % 1000 = 7 THEN '99' ELSE '10' END || n, 1,
            $4, $4 FROM made
    ), bookings AS (
        INSERT INTO marketplace.staffing_bookings (tenant, id, project_id, borrower_company_id, lender_company_id,
            worker_id, supervisor_id, payment_type, currency, timezone, start_date, end_date, funded_period_end, rate,
            created_at, updated_at)
        SELECT tenant, id, other, id, other, id, other, 'Weekly_Progress', 'EUR', 'UTC', '2027-03-01', '2027-03-07', $4,
            1, $4, $4 FROM made
    )
    INSERT INTO marketplace.taken (tenant, booking_id, worker_id, number, during)
    SELECT tenant, id, id, n, tstzrange($4, $4 + interval '1 week') FROM made
"""


async def fill(owner: Any, number: int) -> None:
    await owner.execute("SET session_replication_role = replica")
    await owner.execute(FILL, number, RARE, COMMON, NOW, timeout=600)
    await owner.execute("RESET session_replication_role")
    await owner.execute("VACUUM (ANALYZE)", timeout=600)


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "'{" + ",".join(f'"{one}"' for one in value) + "}'"
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return text if isinstance(value, int) else f"'{text}'"


async def explained(owner: Any, query: Query, *, is_run: bool = False, **given: object) -> dict[str, Any]:
    """The plan for whatever arguments; with those that are given, where it is run."""
    await owner.execute(f"PREPARE noted AS {query.text}")
    try:
        values = ", ".join(literal(given.get(name)) for name in query.parameters)
        arguments = f"({values})" if query.parameters else ""
        how = "ANALYZE, BUFFERS OFF, " if is_run else ""
        text = await owner.fetchval(f"EXPLAIN ({how}FORMAT JSON) EXECUTE noted {arguments}", timeout=60)
        plan: dict[str, Any] = orjson.loads(text)[0]["Plan"]
        return plan
    finally:
        await owner.execute("DEALLOCATE noted")


def looked_at(plan: dict[str, Any]) -> int:
    """The most rows that any part of a plan took from a table, those that it then left out too."""
    left_out = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
    taken: int = max(
        round((node["Actual Rows"] + sum(node.get(name, 0) for name in left_out)) * node["Actual Loops"])
        for node in nodes(plan)
        if "Relation Name" in node
    )
    return taken


# What each takes at most, with twenty thousand of everything of its own tenant around it.
BOUNDED: dict[str, tuple[dict[str, object], int]] = {
    "search_workers": (
        {"trade": "carpenter", "zip_from": "99", "zip_to": "99\x7f", "skills": [], "limit": 50},
        100,
    ),
    "list_workers": ({"state": "Listed", "skills": [], "limit": 50}, 100),
    "list_company_workers": ({"company_id": RARE, "state": "Listed", "skills": [], "limit": 50}, 100),
    "list_bookings": ({"limit": 50}, 100),
    "list_bookings_of_person": ({"person": RARE, "limit": 50}, 200),
    "list_companies": ({"limit": 50}, 100),
    "list_companies_of_person": ({"person": RARE, "limit": 50}, 100),
    "list_projects": ({"limit": 50}, 100),
    "list_projects_of_companies": ({"company_ids": [RARE], "limit": 50}, 100),
    "read_roles": ({"person": RARE, "company_ids": [RARE, COMMON]}, 10),
}


@pytest.mark.parametrize("role", ["timebell", "timebell_api"])
async def test_what_is_asked_costs_what_it_finds_and_not_what_there_is(
    marketplace_database: TestDatabase, role: str
) -> None:
    owner = await asyncpg.connect(marketplace_database.admin_url, timeout=10, server_settings=READING)
    try:
        await fill(owner, 20_000)
        await owner.execute("SET timebell.tenant = 'large'")
        await owner.execute(f"SET ROLE {role}")
        for name, query in StaffingStore.queries.items():
            plan = await explained(owner, query)
            read = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
            assert not read & LARGE, name
        for name, (given, most) in BOUNDED.items():
            query = StaffingStore.queries[name]
            plan = await explained(owner, query, is_run=True, tenant="large", now=NOW, **given)
            assert looked_at(plan) <= most, (name, looked_at(plan))
    finally:
        await owner.close(timeout=10)
