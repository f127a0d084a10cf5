"""What each statement about insurances costs beside many rows of others and of its own tenant: along the indexes."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.apps.marketplace.test_staffing_plans import COMMON, NOW, RARE, READING, explained, fill, looked_at
from tests.query_plans import nodes
from timebell.apps.marketplace.insurance.store import PolicyStore
from timebell.testing.database import TestDatabase

LARGE = {
    *("insurance_policies", "insurance_warnings", "insurance_stops"),
    *("staffing_bookings", "companies", "company_members", "time_log"),
}
NIL = UUID(int=0)
TODAY = date(2027, 3, 1)
# Each company has one, ending some time within a year; one in ten was warned of, and has stopped the booking.
INSURE = """
    WITH made AS (
        INSERT INTO marketplace.insurance_policies (tenant, id, company_id, type, expiration_date, created_at,
            updated_at)
        SELECT c.tenant, timebell.new_id(), c.id, 'liability', $1::date + (row_number() OVER ())::integer % 365, $2, $2
        FROM marketplace.companies c
        RETURNING tenant, id, company_id, expiration_date
    ), numbered AS (
        SELECT m.*, row_number() OVER () AS n FROM made m
    ), warned AS (
        INSERT INTO marketplace.insurance_warnings
        SELECT n.tenant, n.id, n.expiration_date, 14, timebell.new_id(), 'email', $2 FROM numbered n WHERE n.n % 10 = 0
    )
    INSERT INTO marketplace.insurance_stops
    SELECT b.tenant, b.id, n.company_id, 'liability', n.id, true, $2
    FROM numbered n JOIN marketplace.staffing_bookings b ON b.tenant = n.tenant AND b.borrower_company_id = n.company_id
    WHERE n.n % 10 = 0
"""
WORK = """
    INSERT INTO marketplace.time_log (tenant, id, booking_id, worker_id, shift_date, shift_start_time, scheduled_start,
        amount, created_at, updated_at)
    SELECT b.tenant, timebell.new_id(), b.id, b.worker_id, $1::date, '08:00', $2::timestamptz, 1, $2, $2
    FROM marketplace.staffing_bookings b
"""
# What each takes at most, with twenty thousand of everything of its own tenant around it.
BOUNDED: dict[str, tuple[dict[str, object], int]] = {
    "list_policies": ({"limit": 50}, 100),
    "list_policies_of_companies": ({"company_ids": [RARE, COMMON], "limit": 50}, 100),
    "list_due_policies": (
        {"until": date(2027, 3, 15), "after_date": date.min, "after_id": NIL, "limit": 50},
        100,
    ),
    "list_affected": (
        {"company_id": COMMON, "type": "liability", "since": TODAY, "after": NIL, "limit": 20},
        100,
    ),
    "list_stopped": ({"company_id": RARE, "type": "liability", "after": NIL, "limit": 20}, 20),
    "is_covered": ({"company_id": RARE, "type": "liability", "today": TODAY}, 10),
    "list_wanting": ({"company_ids": [RARE, COMMON], "today": TODAY, "limit": 20}, 20),
    "share_companies": ({"ids": [RARE, COMMON]}, 10),
    "list_told_of_stop": ({"policy_id": RARE, "after": NIL, "shown_max": 20, "limit": 20}, 20),
    "list_leaders": ({"company_id": RARE, "limit": 20}, 20),
}


@pytest.mark.req("J-14.2")
@pytest.mark.parametrize("role", ["timebell", "timebell_api"])
async def test_what_is_asked_costs_what_it_finds_and_not_what_there_is(
    marketplace_database: TestDatabase, role: str
) -> None:
    owner: Any = await asyncpg.connect(marketplace_database.admin_url, timeout=10, server_settings=READING)
    try:
        await fill(owner, 20_000)
        await owner.execute("SET session_replication_role = replica")
        await owner.execute(INSURE, TODAY, NOW, timeout=600)
        await owner.execute(WORK, TODAY, NOW, timeout=600)
        await owner.execute("RESET session_replication_role")
        await owner.execute("VACUUM (ANALYZE)", timeout=600)
        await owner.execute("SET timebell.tenant = 'large'")
        await owner.execute(f"SET ROLE {role}")
        for name, query in PolicyStore.queries.items():
            plan = await explained(owner, query)
            read = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
            assert not read & LARGE, name
        for name, (given, most) in BOUNDED.items():
            query = PolicyStore.queries[name]
            plan = await explained(owner, query, is_run=True, tenant="large", now=NOW, **given)
            assert looked_at(plan) <= most, (name, looked_at(plan))
    finally:
        await owner.close(timeout=10)
