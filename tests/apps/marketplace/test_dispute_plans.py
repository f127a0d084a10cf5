"""What each statement about disputes costs beside a hundred thousand of a neighbour: along the indexes."""

from __future__ import annotations

from uuid import UUID

import asyncpg
import pytest

from tests.apps.marketplace.test_staffing_plans import NOW, READING, explained, looked_at
from tests.query_plans import nodes
from timebell.apps.marketplace.disputes.store import DisputeStore
from timebell.apps.marketplace.payments.ledger_store import LedgerStore
from timebell.apps.marketplace.payments.payment_store import PaymentStore
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.testing.database import TestDatabase

LARGE = {"disputes", "incident_reports", "dispute_penalties", "ledger_entries", "staffing_bookings"}
# One in a thousand is the small tenant's, one in ten is open, and a booking has ten.
FILL = """
    WITH made AS (
        SELECT n, CASE WHEN n % 1000 = 0 THEN 'small' ELSE 'large' END AS tenant, timebell.new_id() AS id,
            lpad(to_hex(n / 10), 32, '0')::uuid AS booking,
            CASE WHEN n % 10 = 0 THEN 'Open' ELSE 'Settled' END AS status
        FROM generate_series(1, 100000) n
    ), disputes AS (
        INSERT INTO marketplace.disputes (tenant, id, booking_id, time_log_id, dispute_option, status, reason, filed_by,
            dispute_filed_at, timeout_expiration_time, timed_out_at, resolved_at, created_at, updated_at)
        SELECT tenant, id, booking, id, 'A', status, 'late', 'sue', $1, $1,
            CASE WHEN n % 1000 = 0 THEN NULL ELSE $1 END, CASE status WHEN 'Open' THEN NULL ELSE $1 END, $1, $1
        FROM made
    ), incidents AS (
        INSERT INTO marketplace.incident_reports (tenant, id, booking_id, time_log_id, dispute_option, status,
            description, reported_by, reported_at, created_at, updated_at)
        SELECT tenant, id, booking, id, 'A', 'Pending', 'a fall', 'sue', $1, $1, $1 FROM made WHERE n % 5 = 0
    ), bookings AS (
        INSERT INTO marketplace.staffing_bookings (tenant, id, project_id, borrower_company_id, lender_company_id,
            worker_id, supervisor_id, payment_type, currency, timezone, start_date, end_date, funded_period_end, rate,
            created_at, updated_at)
        SELECT tenant, booking, id, id, id, id, id, 'Weekly_Progress', 'EUR', 'UTC', '2027-03-01', '2027-03-07', $1, 1,
            $1, $1 FROM made WHERE n % 10 = 0
    ), entries AS (
        INSERT INTO marketplace.ledger_entries (tenant, id, booking_id, at, type, from_place, to_place, amount,
            currency, time_log_id, dispute_id, payment_id)
        SELECT tenant, id, booking, $1, 'freeze', 'held', 'frozen', 1, 'EUR', id, id, id FROM made WHERE n % 5 = 0
    )
    INSERT INTO marketplace.dispute_penalties (tenant, dispute_id, time_log_id, amount)
    SELECT tenant, id, id, 1 FROM made WHERE n % 5 = 0
"""
RARE = UUID(int=100)
ASKED = (
    (ShiftStore, "is_contested", {"booking_id": RARE}, 20),
    (DisputeStore, "list_untimed", {"kind": "marketplace.time_out_dispute", "limit": 50}, 200),
    (DisputeStore, "list_disputes", {"booking_id": RARE, "limit": 50}, 50),
    (DisputeStore, "list_incidents", {"booking_id": RARE, "limit": 50}, 50),
    (PaymentStore, "list_penalties", {"time_log_ids": [RARE]}, 10),
    (LedgerStore, "read_frozen", {"dispute_id": RARE}, 10),
)


@pytest.mark.req("J-14.5")
@pytest.mark.parametrize("role", ["timebell", "timebell_api"])
async def test_what_is_asked_about_disputes_goes_along_the_indexes(
    marketplace_database: TestDatabase, role: str
) -> None:
    owner = await asyncpg.connect(marketplace_database.admin_url, timeout=10, server_settings=READING)
    try:
        index = await owner.fetchval(
            "SELECT indexdef FROM pg_indexes WHERE schemaname = 'marketplace' AND tablename = 'disputes' "
            "AND indexdef LIKE '%booking_id, status, dispute_filed_at)'"
        )
        assert index is not None
        await owner.execute("SET session_replication_role = replica")
        await owner.execute(FILL.replace("$1", f"'{NOW.isoformat()}'::timestamptz"), timeout=600)
        await owner.execute("RESET session_replication_role")
        await owner.execute("VACUUM (ANALYZE)", timeout=600)
        await owner.execute("SET timebell.tenant = 'small'")
        await owner.execute(f"SET ROLE {role}")
        for name, query in DisputeStore.queries.items():
            plan = await explained(owner, query)
            read = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
            assert not read & LARGE, name
        for store, name, given, most in ASKED:
            plan = await explained(owner, store.queries[name], is_run=True, tenant="small", now=NOW, **given)
            read = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
            assert not read & LARGE, name
            assert looked_at(plan) <= most, (name, looked_at(plan))
    finally:
        await owner.close(timeout=10)
