"""The daily run over a million insurances: how long it takes, and how long a batch of it holds what it has locked.

It is slow, and measures what it says on a machine that does nothing else. `-s` shows the figures.
"""

from __future__ import annotations

import time
from datetime import date
from typing import Any, cast
from uuid import uuid4

import asyncpg
import pytest

from tests.apps.marketplace.insurance_support import midnight
from timebell.apps.marketplace import APP
from timebell.apps.marketplace.insurance.monitoring import monitor_insurance
from timebell.apps.marketplace.insurance.service import MONITOR
from timebell.apps.marketplace.texts import ship
from timebell.kernel import Done, Job, Snooze
from timebell.notify import notify_app
from timebell.testing import ManualClock, harness
from timebell.testing.database import TestDatabase

POLICIES = 1_000_000
COMPANIES = 50_000
SECONDS_MAX = 30.0
LOCKED_MAX = 0.2
# Each company has an admin and twenty insurances that end some time within a year. Who was to be warned until
# yesterday was.
FILL = """
    WITH people AS (
        INSERT INTO timebell_notify.recipients (tenant, id, name, created_at, updated_at)
        SELECT 'default', timebell.new_id(), 'Admin', $3::timestamptz, $3 FROM generate_series(1, $2::integer)
        RETURNING id
    ), companies AS (
        INSERT INTO marketplace.companies (tenant, id, name, type, created_at, updated_at)
        SELECT 'default', p.id, 'A company', 'lender', $3, $3 FROM people p RETURNING id
    ), members AS (
        INSERT INTO marketplace.company_members (tenant, company_id, recipient_id, role, created_at)
        SELECT 'default', c.id, c.id, 'lender_admin', $3 FROM companies c
    ), policies AS (
        INSERT INTO marketplace.insurance_policies (tenant, id, company_id, type, expiration_date, created_at,
            updated_at)
        SELECT 'default', timebell.new_id(), c.id, 'type ' || n, $4::date - 1 + (random() * 364)::integer, $3, $3
        FROM companies c, generate_series(1, $1::integer / $2::integer) n
        RETURNING id, company_id, expiration_date
    )
    INSERT INTO marketplace.insurance_warnings
    SELECT 'default', p.id, p.expiration_date, said.threshold, p.company_id, said.channel, $3
    FROM policies p, (VALUES (14, 'email'), (7, 'email'), (7, 'sms')) AS said(threshold, channel)
    WHERE p.expiration_date < $4::date + said.threshold
"""


@pytest.mark.slow
async def test_a_million_insurances_take_half_a_minute(marketplace_database: TestDatabase) -> None:
    now = midnight(3, 2)
    owner: Any = await asyncpg.connect(marketplace_database.admin_url, timeout=10)
    try:
        await owner.execute("SET session_replication_role = replica")
        await owner.execute(FILL, POLICIES, COMPANIES, now, date(2027, 3, 2), timeout=3_600)
        await owner.execute("RESET session_replication_role")
        await owner.execute("VACUUM (ANALYZE)", timeout=3_600)
    finally:
        await owner.close(timeout=10)
    longest, batches, cursor = 0.0, 0, None
    async with harness(marketplace_database.url, [notify_app([]), APP], clock=ManualClock(now)) as bench:
        await ship(bench.bell)
        begun = time.monotonic()
        while True:
            started = time.monotonic()
            async with bench.bell.transaction() as tx:
                job = Job(
                    id=uuid4(),
                    tenant="default",
                    kind=MONITOR,
                    queue="insurance-monitor",
                    payload={},
                    due_at=now,
                    attempt=1,
                    started_at=now,
                    bell=bench.bell,
                    destinations=cast(Any, None),
                    cursor=cursor,
                    transaction=tx,
                )
                outcome = await monitor_insurance(job)
            longest, batches = max(longest, time.monotonic() - started), batches + 1
            if isinstance(outcome, Done):
                break
            assert isinstance(outcome, Snooze)
            cursor = outcome.cursor
        seconds = time.monotonic() - begun
        told = bench.bell.tallies.counted["marketplace_insurance_warnings"]
        ended = bench.bell.tallies.counted["marketplace_insurance_policies"]
    print(
        f"{seconds:.1f} s, {batches} batches, the longest {longest * 1000:.0f} ms, {dict(told)}, {dict(ended)}"
    )
    assert seconds <= SECONDS_MAX
    assert longest <= LOCKED_MAX
