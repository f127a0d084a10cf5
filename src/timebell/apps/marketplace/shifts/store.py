"""The statements of shifts: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.shifts.models import Shift
from timebell.db.queries import load_queries
from timebell.kernel import Statements, Transaction

Row = Mapping[str, Any]
# What `save_shift` writes, besides the revision that it raises.
_SAVED: Final = (
    "scheduled_end",
    "end_stated_at",
    "clock_in_time",
    "draft_end",
    "clock_out_time",
    "work_start",
    "work_end",
    "worked_minutes",
    "status",
    "cancel_reason",
    "auto_approval_time",
    "extensions",
    "verified_at",
    "verified_by",
    "revision",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedShift:
    """A shift as it is planned. The date and the time are its start by the project's clock."""

    id: UUID
    shift_date: date
    shift_start_time: time
    scheduled_start: datetime
    scheduled_end: datetime | None
    amount: int


class ShiftStore(Statements):
    """Shifts, and whether something about them is disputed."""

    queries = load_queries("timebell.apps.marketplace.shifts.sql")

    async def read_clock(self, tx: Transaction) -> datetime:
        now: datetime = (await self._run(tx.session, "read_clock"))[0]["now"]
        return now.astimezone(UTC)

    async def insert_shifts(
        self, tx: Transaction, *, booking_id: UUID, worker_id: UUID, shifts: Sequence[PlannedShift]
    ) -> None:
        await self._run(
            tx.session,
            "insert_shifts",
            tenant=tx.tenant,
            booking_id=booking_id,
            worker_id=worker_id,
            ids=[one.id for one in shifts],
            shift_dates=[one.shift_date for one in shifts],
            shift_start_times=[one.shift_start_time for one in shifts],
            scheduled_starts=[one.scheduled_start for one in shifts],
            scheduled_ends=[one.scheduled_end for one in shifts],
            amounts=[one.amount for one in shifts],
        )

    async def read_shift(self, tx: Transaction, *, id: UUID) -> Shift | None:
        rows = await self._run(tx.session, "read_shift", tenant=tx.tenant, id=id)
        return shift_of(rows[0]) if rows else None

    async def list_shifts(self, tx: Transaction, **filters: object) -> Sequence[Row]:
        return await self._run(tx.session, "list_shifts", tenant=tx.tenant, **filters)

    async def list_scheduled(self, tx: Transaction, *, booking_id: UUID, since: datetime) -> list[Shift]:
        rows = await self._run(
            tx.session, "list_scheduled", tenant=tx.tenant, booking_id=booking_id, since=since
        )
        return [shift_of(row) for row in rows]

    async def list_at_work(self, tx: Transaction, *, booking_id: UUID) -> list[Shift]:
        rows = await self._run(tx.session, "list_at_work", tenant=tx.tenant, booking_id=booking_id)
        return [shift_of(row) for row in rows]

    async def list_open_shifts(self, tx: Transaction, *, after: UUID | None, limit: int) -> list[Shift]:
        rows = await self._run(tx.session, "list_open_shifts", tenant=tx.tenant, after=after, limit=limit)
        return [shift_of(row) for row in rows]

    async def read_owed_steps(
        self, tx: Transaction, *, subjects: Sequence[str]
    ) -> frozenset[tuple[str, str]]:
        rows = await self._run(tx.session, "read_owed_steps", tenant=tx.tenant, subjects=list(subjects))
        return frozenset((row["subject"], row["step"]) for row in rows)

    async def save_shift(self, tx: Transaction, shift: Shift) -> Shift:
        """The shift as it is then. Its revision is the one that was read."""
        columns = {name: getattr(shift, name) for name in _SAVED}
        rows = await self._run(tx.session, "save_shift", tenant=tx.tenant, id=shift.id, **columns)
        assert rows, "whoever changes a shift holds its booking"
        return shift_of(rows[0])

    async def note_reminders(
        self,
        tx: Transaction,
        *,
        id: UUID,
        reminder_5m_job_id: UUID | None,
        reminder_30m_job_id: UUID | None,
    ) -> None:
        await self._run(
            tx.session,
            "note_reminders",
            tenant=tx.tenant,
            id=id,
            reminder_5m_job_id=reminder_5m_job_id,
            reminder_30m_job_id=reminder_30m_job_id,
        )

    async def is_contested(self, tx: Transaction, *, booking_id: UUID) -> bool:
        rows = await self._run(tx.session, "is_contested", tenant=tx.tenant, booking_id=booking_id)
        return bool(rows[0]["is_contested"])

    async def has_open_dispute(self, tx: Transaction, *, time_log_id: UUID) -> bool:
        rows = await self._run(tx.session, "has_open_dispute", tenant=tx.tenant, time_log_id=time_log_id)
        return bool(rows[0]["has_one"])

    async def has_sweep(self, tx: Transaction) -> bool:
        return bool((await self._run(tx.session, "has_sweep", tenant=tx.tenant))[0]["has_one"])

    async def note_sweep(self, tx: Transaction, *, job_id: UUID) -> bool:
        """False where somebody else's is there already."""
        return bool(await self._run(tx.session, "note_sweep", tenant=tx.tenant, job_id=job_id))


def shift_of(row: Row) -> Shift:
    return Shift(**plain(row))


def plain(row: Row) -> dict[str, Any]:
    """A driver may answer in its connection's zone, and with ids of its own kind."""
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return UUID(int=value.int) if isinstance(value, UUID) else value
