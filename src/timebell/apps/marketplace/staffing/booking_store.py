"""The statements about bookings: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any
from uuid import UUID

import orjson

from timebell.apps.marketplace.staffing.models import (
    Booking,
    BookingFilter,
    BookingStatus,
    NewBooking,
    Project,
)
from timebell.apps.marketplace.staffing.store import Row, utc
from timebell.db.queries import load_queries
from timebell.kernel import Statements, Transaction


class BookingStore(Statements):
    """Bookings, when they take their workers, and who has to do with them."""

    queries = load_queries("timebell.apps.marketplace.staffing.sql")

    async def insert_booking(
        self,
        tx: Transaction,
        new: NewBooking,
        *,
        id: UUID,
        project: Project,
        funded_period_end: datetime,
        rate: int,
    ) -> None:
        await self._run(
            tx.session,
            "insert_booking",
            tenant=tx.tenant,
            id=id,
            project_id=project.id,
            borrower_company_id=project.company_id,
            lender_company_id=new.lender_company_id,
            worker_id=new.worker_id,
            supervisor_id=new.supervisor_id,
            payment_type=new.payment_type,
            currency=new.currency,
            timezone=project.timezone,
            start_date=new.start_date,
            end_date=new.end_date,
            funded_period_end=funded_period_end,
            scheduled_end_time=new.scheduled_end_time,
            rate=rate,
        )

    async def take_worker(
        self, tx: Transaction, *, booking_id: UUID, worker_id: UUID, start_at: datetime, end_at: datetime
    ) -> bool:
        """Whether the worker could be had."""
        rows = await self._run(
            tx.session,
            "take_worker",
            tenant=tx.tenant,
            booking_id=booking_id,
            worker_id=worker_id,
            start_at=start_at,
            end_at=end_at,
        )
        return bool(rows)

    async def free_worker(self, tx: Transaction, *, booking_id: UUID, from_at: datetime) -> None:
        await self._run(tx.session, "free_worker", tenant=tx.tenant, booking_id=booking_id, from_at=from_at)

    async def lock_booking(self, tx: Transaction, *, id: UUID) -> bool:
        return bool(await self._run(tx.session, "lock_booking", tenant=tx.tenant, id=id))

    async def lock_free_booking(self, tx: Transaction, *, id: UUID) -> bool:
        return bool(await self._run(tx.session, "lock_free_booking", tenant=tx.tenant, id=id))

    async def read_booking(self, tx: Transaction, *, id: UUID) -> Booking | None:
        rows = await self._run(tx.session, "read_booking", tenant=tx.tenant, id=id)
        return booking_of(rows[0]) if rows else None

    async def list_bookings(
        self, tx: Transaction, wanted: BookingFilter, *, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session, "list_bookings", tenant=tx.tenant, after=after, limit=limit, **_filters(wanted)
        )

    async def list_bookings_of_person(
        self, tx: Transaction, wanted: BookingFilter, *, person: UUID, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "list_bookings_of_person",
            tenant=tx.tenant,
            person=person,
            after=after,
            limit=limit,
            **_filters(wanted),
        )

    async def move_booking(
        self,
        tx: Transaction,
        *,
        id: UUID,
        from_status: BookingStatus,
        to_status: BookingStatus,
        end_date: date | None = None,
        release_reason: str | None = None,
    ) -> None:
        rows = await self._run(
            tx.session,
            "move_booking",
            tenant=tx.tenant,
            id=id,
            from_status=from_status,
            to_status=to_status,
            end_date=end_date,
            release_reason=release_reason,
        )
        assert rows, "whoever moves a booking holds it"

    async def fund_booking(self, tx: Transaction, *, id: UUID, funded_period_end: datetime) -> None:
        """Paid for up to then; an earlier instant changes nothing."""
        await self._run(
            tx.session, "fund_booking", tenant=tx.tenant, id=id, funded_period_end=funded_period_end
        )

    async def hold_clock_in(self, tx: Transaction, *, id: UUID, is_held: bool) -> None:
        await self._run(tx.session, "hold_clock_in", tenant=tx.tenant, id=id, is_held=is_held)

    async def read_people(self, tx: Transaction, *, company_ids: Sequence[UUID]) -> Sequence[Row]:
        return await self._run(tx.session, "read_people", tenant=tx.tenant, company_ids=list(company_ids))

    async def list_open_bookings(self, tx: Transaction, *, worker_id: UUID, limit: int) -> list[UUID]:
        rows = await self._run(
            tx.session, "list_open_bookings", tenant=tx.tenant, worker_id=worker_id, limit=limit
        )
        return [row["id"] for row in rows]

    async def delete_memberships(self, tx: Transaction, *, person: UUID) -> None:
        await self._run(tx.session, "delete_memberships", tenant=tx.tenant, person=person)

    async def erase_worker(self, tx: Transaction, *, person: UUID) -> UUID | None:
        """The worker that somebody was."""
        rows = await self._run(tx.session, "erase_worker", tenant=tx.tenant, person=person)
        return rows[0]["id"] if rows else None

    async def export_person(
        self, tx: Transaction, *, person: UUID, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        rows = await self._run(
            tx.session, "export_person", tenant=tx.tenant, person=person, after=after, limit=limit
        )
        return [orjson.loads(row["line"]) for row in rows]

    async def read_roles(
        self, tx: Transaction, *, person: UUID, company_ids: Sequence[UUID]
    ) -> Sequence[Row]:
        return await self._run(
            tx.session, "read_roles", tenant=tx.tenant, person=person, company_ids=list(company_ids)
        )


def booking_of(row: Row) -> Booking:
    return Booking(**{name: utc(row[name]) for name in Booking.__dataclass_fields__})


def _filters(wanted: BookingFilter) -> dict[str, Any]:
    return {"status": wanted.status, "project_id": wanted.project_id, "worker_id": wanted.worker_id}
