"""What can be argued about shifts: their states, what is owed in each, until when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import product
from typing import Any, get_args
from uuid import UUID

import asyncpg
import pytest

from tests.apps.marketplace.shift_support import scheduled
from tests.apps.marketplace.support import HOUR, MINUTE, Market
from timebell.apps.marketplace.shifts.models import Shift, ShiftStatus
from timebell.apps.marketplace.shifts.rules import (
    EDGES,
    disputable,
    effective_end,
    extended,
    may_become,
    next_sweep,
    owed,
    refused_end,
    worked_minutes,
)
from timebell.apps.marketplace.staffing.models import Booking

NOW = datetime(2027, 3, 2, 15, tzinfo=UTC)
ONE = UUID(int=1)
STATES: tuple[ShiftStatus, ...] = get_args(ShiftStatus)
LEGAL = {
    ("Scheduled", "Working"),
    ("Scheduled", "Cancelled"),
    ("Working", "Draft"),
    ("Working", "Pending_Verification"),
    ("Draft", "Pending_Verification"),
    ("Pending_Verification", "Verified"),
    ("Pending_Verification", "Disputed"),
    ("Disputed", "Verified"),
}


def booking(**given: Any) -> Booking:
    said: dict[str, Any] = {
        "id": ONE,
        "tenant": "default",
        "project_id": ONE,
        "borrower_company_id": ONE,
        "lender_company_id": ONE,
        "worker_id": ONE,
        "worker_recipient_id": ONE,
        "supervisor_id": ONE,
        "payment_type": "Weekly_Progress",
        "currency": "EUR",
        "timezone": "Europe/Berlin",
        "status": "Active",
        "start_date": date(2027, 3, 2),
        "end_date": date(2027, 3, 14),
        "funded_period_end": NOW,
        "clock_in_hold": False,
        "scheduled_end_time": None,
        "release_reason": None,
        "rate": 2_500,
        "revision": 1,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Booking(**{**said, **given})


def shift(status: ShiftStatus = "Scheduled", **given: Any) -> Shift:
    said: dict[str, Any] = {
        **dict.fromkeys(Shift.__dataclass_fields__),
        "id": ONE,
        "tenant": "default",
        "booking_id": ONE,
        "worker_id": ONE,
        "shift_date": date(2027, 3, 2),
        "shift_start_time": time(8),
        "scheduled_start": datetime(2027, 3, 2, 7, tzinfo=UTC),
        "scheduled_end": NOW,
        "status": status,
        "extensions": 0,
        "amount": 1,
        "revision": 1,
        "created_at": NOW,
        "updated_at": NOW,
    }
    if status not in ("Scheduled", "Cancelled"):
        said["clock_in_time"] = said["work_start"] = said["end_stated_at"] = said["scheduled_start"]
    if status in ("Pending_Verification", "Verified", "Disputed"):
        said |= {"clock_out_time": NOW, "work_end": NOW, "auto_approval_time": NOW + 4 * HOUR}
    return Shift(**{**said, **given})


@pytest.mark.req("J-15.4", "X-J7")
def test_the_edges_between_states() -> None:
    assert {pair for pair in product(STATES, STATES) if may_become(*pair)} == LEGAL
    assert EDGES.keys() == set(STATES)


@pytest.mark.req("J-15.4")
async def test_the_database_has_the_same_edges(market: Market) -> None:
    """And one more: what nobody but the clock approved, a dispute takes back."""
    row = await scheduled(market)
    connection = await asyncpg.connect(market.database.admin_url)
    moved = set()
    try:
        for by in ("recipient:1", "auto"):
            for old, new in product(STATES, STATES):
                is_moved = old == new or await _moves(connection, UUID(row["id"]), old, new, by)
                if is_moved and old != new:
                    moved.add((old, new, by))
    finally:
        await connection.close()
    expected = {(*pair, by) for pair in LEGAL for by in ("recipient:1", "auto")}
    assert moved == {*expected, ("Verified", "Disputed", "auto")}


async def _moves(connection: asyncpg.Connection, id: UUID, old: str, new: str, by: str) -> bool:
    """Whether a row that is in one state may be written into another, with everything else as that has it."""
    async with _undone(connection):
        await connection.execute("SET LOCAL session_replication_role = replica")
        await _write(connection, id, old, by)
        await connection.execute("SET LOCAL session_replication_role = origin")
        try:
            await _write(connection, id, new, by)
        except asyncpg.CheckViolationError as error:
            if error.constraint_name != "time_log_status":
                raise
            return False
        return True


async def _write(connection: asyncpg.Connection, id: UUID, status: str, by: str) -> None:
    is_begun = status not in ("Scheduled", "Cancelled")
    is_over = status in ("Pending_Verification", "Verified", "Disputed")
    await connection.execute(
        "UPDATE marketplace.time_log SET status = $2, clock_in_time = $3, end_stated_at = $3, clock_out_time = $4, "
        "auto_approval_time = $4, verified_at = $5, verified_by = $6 WHERE id = $1",
        *(id, status, NOW if is_begun else None, NOW if is_over else None),
        *((NOW, by) if status == "Verified" else (None, None)),
    )


class _undone:  # noqa: N801
    """A transaction of which nothing stays."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._transaction = connection.transaction()

    async def __aenter__(self) -> None:
        await self._transaction.start()

    async def __aexit__(self, *_: object) -> None:
        await self._transaction.rollback()


@pytest.mark.req("J-6.1", "J-6.9", "X-J63")
def test_the_end_is_the_shifts_or_else_the_bookings() -> None:
    plain, said = booking(), booking(scheduled_end_time=time(17))
    assert effective_end(said, shift()) == NOW
    assert effective_end(said, shift(scheduled_end=None)) == datetime(2027, 3, 2, 16, tzinfo=UTC)
    assert effective_end(plain, shift(scheduled_end=None)) is None
    night = shift(scheduled_end=None, scheduled_start=datetime(2027, 3, 2, 21, tzinfo=UTC))
    assert effective_end(booking(scheduled_end_time=time(6)), night) == datetime(2027, 3, 3, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("night", "ends"),
    [
        # Half past two does not exist in the night to the 28th, and comes twice in the one to the 31st of October.
        (date(2027, 3, 27), datetime(2027, 3, 28, 1, 30, tzinfo=UTC)),
        (date(2027, 10, 30), datetime(2027, 10, 31, 0, 30, tzinfo=UTC)),
    ],
)
@pytest.mark.req("J-6.1")
def test_the_bookings_hour_in_nights_when_clocks_change(night: date, ends: datetime) -> None:
    begins = datetime.combine(night, time(19), UTC)
    sheet = shift(scheduled_end=None, shift_date=night, scheduled_start=begins)
    assert effective_end(booking(scheduled_end_time=time(2, 30)), sheet) == ends


@pytest.mark.req("J-6.1", "J-6.2", "J-6.12", "J-6.14")
@pytest.mark.parametrize("status", ["Working", "Draft"])
def test_who_works_is_reminded_after_the_end(status: ShiftStatus) -> None:
    due = owed(booking(), shift(status))
    assert {one.key: one.at for one in due.steps} == {
        "clock_out_5m": NOW + 5 * MINUTE,
        "clock_out_30m": NOW + 30 * MINUTE,
    }
    assert due.payload == {
        "time_log_id": str(ONE),
        "booking_id": str(ONE),
        "worker_id": str(ONE),
        "supervisor_id": str(ONE),
        "scheduled_end_time": NOW.isoformat(),
        "reminder_5m_time": (NOW + 5 * MINUTE).isoformat(),
        "reminder_30m_time": (NOW + 30 * MINUTE).isoformat(),
    }
    assert owed(booking(), shift(status, end_stated_at=NOW)).steps
    assert not owed(booking(), shift(status, end_stated_at=NOW + timedelta(microseconds=1))).steps
    assert not owed(booking(status="Cancelled"), shift(status)).steps


@pytest.mark.req("J-7.2", "J-7.3")
def test_what_is_submitted_is_climbed_for_and_approved() -> None:
    due = owed(booking(), shift("Pending_Verification", auto_approval_time=NOW + 5 * HOUR))
    assert {one.key: one.at - NOW for one in due.steps} == {
        "ladder_0": timedelta(0),
        "ladder_60m": HOUR,
        "ladder_3h": 3 * HOUR,
        "auto_approve": 5 * HOUR,
    }
    assert due.payload == {
        "time_log_id": str(ONE),
        "booking_id": str(ONE),
        "clock_out_time": NOW.isoformat(),
        "notification_times": [(NOW + after).isoformat() for after in (timedelta(0), HOUR, 3 * HOUR)],
        "auto_approval_time": (NOW + 5 * HOUR).isoformat(),
    }


@pytest.mark.req("J-7.1")
@pytest.mark.parametrize("status", ["Scheduled", "Verified", "Disputed", "Cancelled"])
def test_elsewhere_nothing_is_owed(status: ShiftStatus) -> None:
    given = {"verified_at": NOW, "verified_by": "auto"} if status == "Verified" else {}
    assert not owed(booking(), shift(status, **given)).steps


@pytest.mark.req("J-7.5", "X-J18")
@pytest.mark.parametrize(
    ("after", "is_longer"),
    [
        (2 * HOUR, False),
        (3 * HOUR, False),
        (3 * HOUR + timedelta(microseconds=1), True),
        (3 * HOUR + 30 * MINUTE, True),
        (4 * HOUR, True),
        (4 * HOUR + timedelta(microseconds=1), False),
    ],
)
def test_an_edit_shortly_before_the_end_extends_once(after: timedelta, is_longer: bool) -> None:
    sheet = shift("Pending_Verification")
    assert extended(sheet, NOW + after, 1) == (NOW + 5 * HOUR if is_longer else None)
    assert extended(replace(sheet, extensions=1), NOW + after, 1) is None
    assert extended(sheet, NOW + after, 0) is None


@pytest.mark.req("J-8.2", "X-J15")
def test_a_dispute_is_there_in_time_or_not() -> None:
    late = timedelta(microseconds=1)
    verified = {"verified_at": NOW, "verified_by": "recipient:1"}
    for sheet, in_time in (
        (shift("Pending_Verification"), "yes"),
        (shift("Verified", **{**verified, "verified_by": "auto"}), "if_unpaid"),
        (shift("Verified", **verified), "no"),
        (shift("Disputed"), "no"),
        (shift("Working"), "no"),
        (shift("Scheduled"), "no"),
    ):
        assert disputable(sheet, NOW + 4 * HOUR) == in_time, sheet.status
        assert disputable(sheet, NOW + 4 * HOUR + late) == "no"


def test_what_may_be_said_of_the_end_of_work() -> None:
    assert refused_end(NOW, NOW, NOW) is None
    assert "before work began" in str(refused_end(NOW, NOW - MINUTE, NOW))
    assert "still to come" in str(refused_end(NOW, NOW + MINUTE, NOW))
    assert worked_minutes(NOW, NOW + timedelta(seconds=119)) == 1
    assert worked_minutes(NOW, None) is None
    assert next_sweep(NOW) == NOW + HOUR
    assert next_sweep(NOW + 59 * MINUTE) == NOW + HOUR
