"""Thousands of payments that are due at once are spread at the rate of their queue, over real nodes of which one is
killed."""

from __future__ import annotations

import signal
import time
from bisect import bisect_left
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.acceptance.processes import SOURCE, Process, clean_environment, free_port
from tests.apps.marketplace.support import BERLIN, add_company, add_worker
from timebell.apps.marketplace import APP
from timebell.apps.marketplace.payments.cycles import CHARGE, Week
from timebell.apps.marketplace.payments.weeks import local_date, monday_of
from timebell.db.pool import Database
from timebell.kernel import Enqueue, Registry, Timebell
from timebell.testing.database import TestDatabase

COUNT = 3_000
RATE = 50
NODES = 3
POOL = 6
# Of each node, whatever is due: its lease, its wake-ups, and two that its metrics are read with.
BESIDE = 4

CONNECTIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
SUCCEEDED = "SELECT count(*) FROM marketplace.pending_payments WHERE status = 'Succeeded'"
TAKEN = (
    "SELECT booking_id, count(*) AS n FROM marketplace.simulator_movements WHERE call = 'charge' GROUP BY 1"
)

# The app as it is, with a note of each start by the clock that all processes of a machine share.
TIMED = """
import os, time
from dataclasses import replace
from timebell.apps.marketplace import APP
from timebell.apps.marketplace.payments.cycles import CHARGE

notes = os.open(os.environ["TIMED_NOTES"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
charge = APP.handlers[CHARGE].run

async def noted(job):
    os.write(notes, f"{time.monotonic()}\\n".encode())
    return await charge(job)

app = replace(APP, handlers={**APP.handlers, CHARGE: replace(APP.handlers[CHARGE], run=noted)})
"""


def busiest(starts: list[float]) -> int:
    """The most in any half-open second; those that begin with a start are enough to look at."""
    return max(bisect_left(starts, at + 1.0) - rank for rank, at in enumerate(starts))


async def furnish(database: TestDatabase, week: Week, day: date) -> list[UUID]:
    """So many bookings with a shift each in the week that is paid for."""
    borrower, lender = await add_company(database, "borrower"), await add_company(database, "lender")
    first = await add_worker(database, uuid4(), lender)
    connection = await asyncpg.connect(database.admin_url, timeout=10)
    project, bookings = uuid4(), [uuid4() for _ in range(COUNT)]
    now = datetime.now(UTC)
    try:
        await connection.execute(
            "INSERT INTO marketplace.projects VALUES ('default', $1, $2, 'The site', $3, $4)",
            *(project, borrower, BERLIN, now),
        )
        await connection.execute(
            "INSERT INTO marketplace.staffing_bookings (tenant, id, project_id, borrower_company_id, "
            "lender_company_id, worker_id, supervisor_id, payment_type, currency, timezone, start_date, end_date, "
            "funded_period_end, rate, created_at, updated_at) SELECT 'default', id, $2, $3, $4, $5, $5, "
            "'Weekly_Progress', 'EUR', $6, $7, $8, $9, 1000, $10, $10 FROM unnest($1::uuid[]) AS id",
            *(bookings, project, borrower, lender, first, BERLIN, day, day + timedelta(days=14)),
            *(week.period.start, now),
        )
        await connection.execute(
            "INSERT INTO marketplace.time_log (tenant, id, booking_id, worker_id, shift_date, shift_start_time, "
            "scheduled_start, amount, created_at, updated_at) SELECT 'default', gen_random_uuid(), id, $2, $3, "
            "'08:00', $4, 20000, $5, $5 FROM unnest($1::uuid[]) AS id",
            *(bookings, first, day + timedelta(days=7), week.period.start + timedelta(hours=8), now),
        )
    finally:
        await connection.close(timeout=10)
    return bookings


@pytest.mark.slow
@pytest.mark.req("J-0.2", "J-1.3", "X-J48")
async def test_no_second_has_more_than_fifty_payments(
    marketplace_database: TestDatabase, tmp_path: Path
) -> None:
    database = marketplace_database
    day = monday_of(local_date(datetime.now(UTC), BERLIN)) + timedelta(days=9)
    week = Week.of("payments", BERLIN, day)
    bookings = await furnish(database, week, day)
    (tmp_path / "timed.py").write_text(TIMED)
    notes = tmp_path / "starts"
    environment = clean_environment(
        DATABASE_URL=database.url,
        TIMEBELL_APPS="timed",
        TIMEBELL_PAYMENT_PROVIDER="simulator",
        TIMEBELL_POOL_SIZE=str(POOL),
        TIMEBELL_LEASE_SECONDS="6",
        TIMEBELL_LEASE_MARGIN_SECONDS="1",
        TIMED_NOTES=str(notes),
        PYTHONPATH=f"{SOURCE}:{tmp_path}",
    )
    nodes: list[Process] = []
    connection = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        for number in range(NODES):
            port = free_port()
            node = Process(
                tmp_path / f"node{number}",
                *("work", "--port", port),
                port=port,
                environment={**environment, "TIMEBELL_NODE_NAME": f"node{number}"},
            )
            nodes.append(node)
        for node in nodes:
            node.wait_ready()
        await enqueue(database, week, bookings)
        most, begun = 0, time.monotonic()
        is_killed = False
        while time.monotonic() - begun < 180:
            most = max(most, await connection.fetchval(CONNECTIONS))
            done = await connection.fetchval(SUCCEEDED)
            if done == COUNT:
                break
            if not is_killed and done > COUNT // 3:
                nodes[0].signal(signal.SIGKILL)
                is_killed = True
            await connection.execute("SELECT pg_sleep(0.5)")
    finally:
        for node in nodes:
            if node.popen.poll() is None:
                node.signal(signal.SIGKILL)
            node.popen.wait(10)
        calls = await connection.fetch(TAKEN)
        await connection.close(timeout=10)
    assert is_killed
    starts = sorted(float(line) for line in notes.read_text().splitlines())
    took = starts[-1] - starts[0]
    said = (
        f"{len(starts)} starts in {took:.1f} s, {busiest(starts)} in the busiest second, {most} connections"
    )
    assert done == COUNT, said
    assert [row["n"] for row in calls] == [1] * COUNT, said
    assert busiest(starts) <= RATE, said
    assert most <= NODES * (POOL + BESIDE), said
    assert 58 <= took <= 75, said


async def enqueue(database: TestDatabase, week: Week, bookings: list[UUID]) -> None:
    """All due at the same instant, some seconds from now."""
    opened = await Database.open(database.url)
    bell = Timebell(opened, registry=Registry([APP]))
    try:
        due_at = datetime.now(UTC) + timedelta(seconds=8)
        jobs = [
            Enqueue(
                kind=CHARGE,
                payload=week.payload(booking, correlation_id="walk-1", attempt=1),
                key=str(booking),
                due_at=due_at,
            )
            for booking in bookings
        ]
        for first in range(0, COUNT, 500):
            async with bell.transaction() as tx:
                await bell.enqueue_many(tx, jobs[first : first + 500])
    finally:
        await bell.close()
        await opened.close()
