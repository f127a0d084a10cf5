"""What the jobs about shifts and payments read beside a hundred thousand of a neighbour: along the indexes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.apps.marketplace.test_staffing_plans import NOW, READING, explained, looked_at
from tests.query_plans import nodes
from timebell.apps.marketplace.payments.payment_store import PaymentStore
from timebell.apps.marketplace.payments.question_store import PaymentQuestionStore
from timebell.apps.marketplace.shifts.question_store import ShiftQuestionStore
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.db.queries import Query
from timebell.testing.database import TestDatabase

LARGE = {"time_log", "pending_payments"}
# A booking has a hundred shifts and a hundred payments. One booking in a hundred is the small tenant's; of each booking
# one shift is worked at and one waits to be approved, and one payment is not settled.
FILL = """
    WITH made AS (
        SELECT n, CASE WHEN n / 100 % 100 = 0 THEN 'small' ELSE 'large' END AS tenant, timebell.new_id() AS id,
            lpad(to_hex(n / 100), 32, '0')::uuid AS booking,
            CASE n % 100 WHEN 1 THEN 'Working' WHEN 2 THEN 'Pending_Verification' ELSE 'Scheduled' END AS status,
            $1 + n * interval '1 minute' AS at
        FROM generate_series(1, 100000) n
    ), shifts AS (
        INSERT INTO marketplace.time_log (tenant, id, booking_id, worker_id, shift_date, shift_start_time,
            scheduled_start, clock_in_time, end_stated_at, clock_out_time, auto_approval_time, status, amount,
            created_at, updated_at)
        SELECT tenant, id, booking, id, '2027-03-01', '08:00', at, began_at, began_at, ended_at, ended_at, status, 1,
            $1, $1
        FROM made, LATERAL (SELECT CASE WHEN status <> 'Scheduled' THEN $1 END AS began_at,
            CASE WHEN status = 'Pending_Verification' THEN $1 END AS ended_at) worked
    )
    INSERT INTO marketplace.pending_payments (tenant, id, booking_id, period_start, period_end, amount, currency,
        status, provider, idempotency_key, attempt, settled_at, created_at, updated_at)
    SELECT tenant, id, booking, at, at + interval '1 minute', 1, 'EUR',
        CASE WHEN n % 100 = 3 THEN 'Pending' ELSE 'Succeeded' END, 'simulator', id::text, 1,
        CASE WHEN n % 100 = 3 THEN NULL ELSE $1 END, $1 - n * interval '1 minute', $1 FROM made
"""
RARE = UUID(int=100)
ASKED: tuple[tuple[Query, dict[str, Any], int], ...] = (
    (ShiftStore.queries["list_at_work"], {"booking_id": RARE}, 5),
    (ShiftStore.queries["list_open_shifts"], {"limit": 50}, 50),
    (ShiftStore.queries["list_scheduled"], {"booking_id": RARE, "since": NOW}, 200),
    (PaymentStore.queries["list_payments_of_period"], {"booking_id": RARE, "period_start": NOW}, 5),
)
# Those that ask for all tenants at once: what they find is one in a hundred, and they look at nothing else.
QUESTIONS: tuple[tuple[Query, dict[str, Any], int], ...] = (
    (PaymentQuestionStore.queries["ask_overdue_payments"], {"seconds": 86_400, "limit": 200}, 1_000),
    (ShiftQuestionStore.queries["ask_overdue_approvals"], {"seconds": -1, "limit": 200}, 1_000),
)
BY_STATUS = {
    "list_at_work": "idx_time_log_booking_status",
    "ask_overdue_payments": "idx_pending_payments_status",
}


async def check(owner: Any, query: Query, given: dict[str, Any], most: int) -> None:
    """It looks at so many at most, along indexes alone, and along that of the source where it is made for it."""
    plan = await explained(owner, query, is_run=True, now=NOW, **given)
    read = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
    assert not read & LARGE, query.name
    assert looked_at(plan) <= most, (query.name, looked_at(plan))
    used = {node["Index Name"] for node in nodes(plan) if "Index Name" in node}
    assert BY_STATUS.get(query.name) in {None, *used}, (query.name, used)


@pytest.mark.req("J-14.1", "J-14.4")
async def test_shifts_and_payments_are_found_by_the_indexes_of_the_source(
    marketplace_database: TestDatabase,
) -> None:
    owner = await asyncpg.connect(marketplace_database.admin_url, timeout=10, server_settings=READING)
    try:
        rows = await owner.fetch("SELECT indexdef FROM pg_indexes WHERE schemaname = 'marketplace'")
        for columns in (
            "marketplace.pending_payments USING btree (status, created_at)",
            "marketplace.time_log USING btree (tenant, booking_id, status, clock_out_time)",
        ):
            assert [row for row in rows if row["indexdef"].endswith(columns)], columns
        await owner.execute("SET session_replication_role = replica")
        await owner.execute(FILL.replace("$1", f"'{NOW.isoformat()}'::timestamptz"), timeout=600)
        await owner.execute("RESET session_replication_role")
        await owner.execute(
            "VACUUM (ANALYZE) marketplace.time_log, marketplace.pending_payments", timeout=600
        )
        await owner.execute("SET timebell.tenant = 'small'")
        for role in ("timebell", "timebell_api"):
            await owner.execute(f"SET ROLE {role}")
            for query, given, most in ASKED:
                await check(owner, query, {**given, "tenant": "small"}, most)
        await owner.execute("RESET ROLE")
        for query, given, most in QUESTIONS:
            await check(owner, query, {**given, "after_tenant": "", "after_subject": ""}, most)
    finally:
        await owner.close(timeout=10)
