"""The three schedules of a zone, and the runs that only enqueue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import orjson
import pytest

from tests.apps.marketplace.support import BERLIN, DAY, HOUR, Json, Market, done, local
from tests.apps.marketplace.weekly_support import (
    CUTOFF,
    PAID_AT,
    PERIOD,
    WARNED_AT,
    events_of,
    payments_of,
    set_status,
    status_of,
    with_bank,
)
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.cycles import CHARGE, Cycles
from timebell.kernel import Enqueue, Enqueued, Timebell, Transaction

QUEUES = {"weekly-payments", "weekly-payment-warning", "weekly-payment-cutoff"}


async def jobs(market: Market, kind: str) -> list[Json]:
    rows = await market.rows(
        "SELECT id, due_at, queue, key, correlation_id, payload::text FROM timebell.jobs WHERE kind = $1 ORDER BY id",
        kind,
    )
    return [{**dict(row), "payload": orjson.loads(row["payload"])} for row in rows]


async def hold_queue(market: Market, *queues: str) -> None:
    """Have what is enqueued stay where it can be looked at."""
    async with market.bench.bell.transaction() as tx:
        for queue in queues:
            await market.bench.bell.pause(tx, queue)


async def insert_bookings(market: Market, count: int) -> None:
    """As many bookings, each of a worker of its own."""
    await market.book()
    await market.rows(
        """
        WITH made AS (
            INSERT INTO marketplace.workers (tenant, id, recipient_id, company_id, trade, zip, hourly_rate,
                created_at, updated_at)
            SELECT tenant, gen_random_uuid(), gen_random_uuid(), company_id, trade, zip, hourly_rate, created_at,
                updated_at
            FROM marketplace.workers, generate_series(2, $1) WHERE id = $2 RETURNING id
        )
        INSERT INTO marketplace.staffing_bookings (tenant, id, project_id, borrower_company_id, lender_company_id,
            worker_id, supervisor_id, payment_type, currency, timezone, start_date, end_date, funded_period_end, rate,
            created_at, updated_at)
        SELECT b.tenant, gen_random_uuid(), b.project_id, b.borrower_company_id, b.lender_company_id, made.id,
            b.supervisor_id, b.payment_type, b.currency, b.timezone, b.start_date, b.end_date, b.funded_period_end,
            b.rate, b.created_at, b.updated_at
        FROM marketplace.staffing_bookings b, made
        """,
        *(count, market.worker),
    )


@pytest.mark.req("J-1.1", "J-2.1", "J-3.1", "X-J1", "X-J33")
async def test_the_first_project_of_a_zone_brings_its_three_schedules(market: Market) -> None:
    zones = [BERLIN, "America/New_York", "Asia/Kathmandu", "Asia/Kolkata", "Australia/Lord_Howe"]
    for zone in zones:
        order = {"company_id": str(market.borrower), "name": "One", "timezone": zone}
        for _ in range(2):
            done(await market.ask("Bea", "POST", "projects", order), 201)
    rows = await market.rows("SELECT * FROM timebell.schedules ORDER BY timezone, start_local")
    assert [(row["timezone"], row["recurrence"], row["start_local"].isoformat()) for row in rows] == [
        (zone, *terms)
        for zone in sorted(zones)
        for terms in (
            ("FREQ=WEEKLY;BYDAY=WE", "2027-03-03T10:00:00"),
            ("FREQ=WEEKLY;BYDAY=WE", "2027-03-03T14:00:00"),
            ("FREQ=WEEKLY;BYDAY=TH", "2027-03-04T00:00:00"),
        )
    ]
    assert [row["catch_up"] for row in rows] == ["latest", "latest", "all"] * len(zones)
    due = await market.rows(
        "SELECT kind, payload ->> 'timezone' AS zone, min(due_at) AS at FROM timebell.jobs "
        "WHERE kind LIKE 'marketplace.enqueue_%' GROUP BY 1, 2"
    )
    assert {(row["zone"], row["kind"].rpartition("_")[2]): row["at"] for row in due} == {
        (zone, run): at
        for zone in zones
        for run, at in (
            ("payments", local(2027, 3, 3, 10, zone=zone)),
            ("warnings", local(2027, 3, 3, 14, zone=zone)),
            ("cutoffs", local(2027, 3, 4, zone=zone)),
        )
    }


@pytest.mark.req("X-J2")
async def test_of_several_who_begin_in_a_zone_one_makes_its_schedules(market: Market) -> None:
    async def begin() -> None:
        async with market.bench.bell.transaction() as tx:
            await Cycles(market.bench.bell).ensure(tx, "Asia/Tokyo", by=By())

    await asyncio.gather(*(begin() for _ in range(8)))
    assert await market.value("SELECT count(*) FROM timebell.schedules") == 3
    assert await market.value("SELECT count(*) FROM marketplace.weekly_cycles") == 1


async def test_a_zone_that_begins_after_a_run_has_it_next_week(market: Market) -> None:
    await market.pass_until(local(2027, 3, 3, 12))
    await market.book()
    rows = await market.rows("SELECT start_local FROM timebell.schedules ORDER BY start_local")
    assert [row["start_local"].isoformat() for row in rows] == [
        "2027-03-03T14:00:00",
        "2027-03-04T00:00:00",
        "2027-03-10T10:00:00",
    ]


@pytest.mark.req("J-0.1", "J-1.2", "X-J57")
async def test_a_run_only_enqueues(market: Market) -> None:
    booking = await market.book()
    await hold_queue(market, *QUEUES)
    async with with_bank(market) as bank:
        await market.pass_until(PAID_AT)
        assert bank.calls == []
    (job,) = await jobs(market, CHARGE)
    assert job["queue"] == "weekly-payments"
    assert job["payload"] == {
        "booking_id": booking["id"],
        "timezone": BERLIN,
        "period_start": PERIOD[0].isoformat(),
        "period_end": PERIOD[1].isoformat(),
        "run_on": "2027-03-03",
        "correlation_id": job["correlation_id"],
        "attempt": 1,
    }
    assert await payments_of(market, booking["id"]) == []


@pytest.mark.req("J-0.5")
async def test_queues_have_the_names_of_the_source_and_a_job_is_cancelled_by_its_id(market: Market) -> None:
    booking = await market.book()
    listed = {
        row["name"]: row for row in await market.rows("SELECT name, rate_per_second FROM timebell.queues")
    }
    assert QUEUES | {"timesheet-notifications", "timesheet-auto-approval", "clock-out-reminders"} <= set(
        listed
    )
    assert listed["weekly-payments"]["rate_per_second"] == 50
    await hold_queue(market, "weekly-payments")
    await market.pass_until(PAID_AT)
    (job,) = await jobs(market, CHARGE)
    async with market.bench.bell.transaction() as tx, with_bank(market) as bank:
        (answer,) = await market.bench.bell.cancel(tx, id=UUID(str(job["id"])))
        assert answer.answer == "cancelled"
        await market.bench.bell.resume(tx, "weekly-payments")
    await market.pass_until(PAID_AT + HOUR)
    assert bank.calls == []
    assert await payments_of(market, booking["id"]) == []


@pytest.mark.req("J-1.4", "X-J9")
async def test_only_active_bookings_that_are_paid_by_the_week_are_enqueued(market: Market) -> None:
    statuses = ["Active", "Payment_Paused_Dispute", "Suspended_Insurance", "Cancelled", "Completed"]
    for status in statuses:
        booking = await market.book(worker_id=str(await market.add_worker(status)))
        await set_status(market, booking["id"], status)
    await market.book(worker_id=str(await market.add_worker("Upfront")), payment_type="Upfront")
    await hold_queue(market, *QUEUES)
    await market.pass_until(PAID_AT)
    assert [
        await status_of(market, str(job["payload"]["booking_id"])) for job in await jobs(market, CHARGE)
    ] == ["Active"]


@pytest.mark.req("J-1.21", "J-14.7")
async def test_bookings_are_enqueued_a_hundred_at_a_time(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    await insert_bookings(market, 250)
    await hold_queue(market, *QUEUES)
    sizes: list[int] = []
    enqueue_many = Timebell.enqueue_many

    async def counted(bell: Timebell, tx: Transaction, jobs: Sequence[Enqueue]) -> list[Enqueued]:
        sizes.append(len(jobs))
        return await enqueue_many(bell, tx, jobs)

    monkeypatch.setattr(Timebell, "enqueue_many", counted)
    await market.pass_until(PAID_AT)
    assert sizes == [100, 100, 50]
    assert len(await jobs(market, CHARGE)) == 250


@pytest.mark.req("J-1.17", "X-J2")
async def test_the_same_run_twice_makes_nothing_new(market: Market) -> None:
    await market.book()
    await hold_queue(market, *QUEUES)
    await market.pass_until(PAID_AT)
    async with market.bench.bell.transaction() as tx:
        payload = {"timezone": BERLIN, "original_local": "2027-03-03T10:00:00"}
        await market.bench.bell.enqueue(tx, "marketplace.enqueue_payments", payload)
    await market.bench.run_due()
    assert len(await jobs(market, CHARGE)) == 1


@pytest.mark.req("J-2.2", "J-3.2")
async def test_warnings_and_cutoffs_are_for_those_who_have_not_paid(market: Market) -> None:
    ahead = {
        "this": PERIOD[0],
        "next": PERIOD[1],
        "just": WARNED_AT + timedelta(days=7, microseconds=-1),
        "exactly": WARNED_AT + timedelta(days=7),
    }
    for name, until in ahead.items():
        booking = await market.book(worker_id=str(await market.add_worker(name)))
        await market.rows(
            "UPDATE marketplace.staffing_bookings SET funded_period_end = $2, release_reason = $3 WHERE id = $1",
            *(UUID(booking["id"]), until, name),
        )
    paused = await market.book()
    await set_status(market, paused["id"], "Payment_Paused_Dispute")
    await hold_queue(market, *QUEUES)
    await market.pass_until(WARNED_AT)
    ids = [UUID(str(job["payload"]["booking_id"])) for job in await jobs(market, "marketplace.warn")]
    rows = await market.rows(
        "SELECT release_reason FROM marketplace.staffing_bookings WHERE id = ANY ($1)", ids
    )
    assert sorted(row["release_reason"] for row in rows) == ["just", "this"]
    # At the cutoff, ten hours later, the same who are paid for up to ten hours later.
    await market.rows(
        "UPDATE marketplace.staffing_bookings SET funded_period_end = $1::timestamptz WHERE release_reason = 'exactly'",
        CUTOFF + 7 * DAY,
    )
    await market.pass_until(CUTOFF)
    ids = [UUID(str(job["payload"]["booking_id"])) for job in await jobs(market, "marketplace.cut_off")]
    rows = await market.rows(
        "SELECT release_reason FROM marketplace.staffing_bookings WHERE id = ANY ($1)", ids
    )
    assert sorted(row["release_reason"] for row in rows) == ["just", "this"]


@pytest.mark.req("X-J58")
async def test_a_zone_that_is_not_known_any_more_stops_its_runs_and_is_told_of(market: Market) -> None:
    booking = await market.book()
    await market.rows("UPDATE marketplace.staffing_bookings SET timezone = 'Mars/Olympus'")
    about = {
        "booking_id": booking["id"],
        "run_on": "2027-03-03",
        "attempt": 1,
        "period_start": PERIOD[0].isoformat(),
    }
    async with market.bench.bell.transaction() as tx:
        for kind in ("payments", "warnings", "cutoffs"):
            payload = {"timezone": "Mars/Olympus", "original_local": "2027-03-03T10:00:00"}
            await market.bench.bell.enqueue(tx, f"marketplace.enqueue_{kind}", payload)
        for kind in ("charge", "warn", "cut_off"):
            await market.bench.bell.enqueue(tx, f"marketplace.{kind}", about)
    async with with_bank(market) as bank:
        # All three want the booking at once, and who does not get it looks again a second later.
        await market.bench.advance(timedelta(seconds=5))
        assert bank.calls == []
    told = await events_of(market, "weekly_cycle.needs_review")
    assert {orjson.loads(one["data"])["run"] for one in told} == {"payments", "warnings", "cutoffs"}
    assert len(await events_of(market, "payment.needs_review")) == 3
    # Of the booking one alert is enough, whoever finds it.
    days = {"payments": 3, "warnings": 3, "cutoffs": 3}
    assert await market.alerts() == [
        ("marketplace_booking_needs_review", f"staffing:{booking['id']}"),
        *(
            ("marketplace_weekly_run_missed", f"weekly_cycle:Mars/Olympus:{run}:2027-03-0{day}")
            for run, day in sorted(days.items())
        ),
    ]
    assert market.bench.bell.tallies.counted["marketplace_weekly_runs"]["payments", "needs_review"] == 1
    assert await payments_of(market, booking["id"]) == []
    assert await status_of(market, booking["id"]) == "Active"


@pytest.mark.req("J-1.18", "X-J2")
async def test_a_run_that_comes_after_the_cutoff_says_so_and_enqueues_nothing(market: Market) -> None:
    await market.book()
    market.clock.move_to(CUTOFF + HOUR)
    async with with_bank(market) as bank:
        await market.bench.run_due()
        assert bank.calls == []
    skipped = await events_of(market, "weekly_cycle.skipped")
    assert {orjson.loads(one["data"])["run"] for one in skipped} == {"payments", "warnings"}
    assert market.bench.bell.tallies.counted["marketplace_weekly_runs"]["payments", "skipped"] == 1
    missed = [subject for rule, subject in await market.alerts() if rule == "marketplace_weekly_run_missed"]
    assert missed == [f"weekly_cycle:{BERLIN}:{run}:2027-03-03" for run in ("payments", "warnings")]


async def test_no_tenant_asks_for_these_jobs_by_itself(market: Market) -> None:
    for kind in ("charge", "warn", "cut_off", "enqueue_payments", "pay_out"):
        response = await market.site.ask(
            "POST", "/v1/jobs", json={"kind": f"marketplace.{kind}", "payload": {}}, key="admin"
        )
        assert response.status_code in (403, 422), response.text


def test_the_instants_of_these_tests_are_what_they_say() -> None:
    assert datetime(2027, 3, 3, 9, tzinfo=UTC) == PAID_AT
    assert datetime(2027, 3, 3, 23, tzinfo=UTC) == CUTOFF
