"""The statements about when people are available and when they are taken: one method for each file of that name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from timebell.apps.meetings.free_time import Block, Hours, clock_of
from timebell.apps.meetings.models import Slot
from timebell.db.queries import load_queries
from timebell.kernel import Statements, Transaction

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A slot of a meeting that somebody keeps free for a short while."""

    id: UUID
    meeting_id: UUID
    held_by: UUID
    slot: Slot
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """What time is taken for: a meeting that was accepted, or a hold on one."""

    kind: Literal["meeting", "hold"]
    meeting_id: UUID
    slot: Slot
    hold_id: UUID | None = None
    held_by: UUID | None = None
    expires_at: datetime | None = None


class AvailabilityStore(Statements):
    """Blocks, the numbers of people, and when they are taken."""

    queries = load_queries("timebell.apps.meetings.sql")

    async def insert_block(
        self, tx: Transaction, *, id: UUID, user_id: UUID, hours: Hours, blocks_max: int
    ) -> Block | None:
        """None where the person has as many as anybody may have."""
        rows = await self._run(
            tx.session,
            "insert_block",
            tenant=tx.tenant,
            id=id,
            user_id=user_id,
            blocks_max=blocks_max,
            **_columns(hours),
        )
        return block_of(rows[0]) if rows else None

    async def lock_block(self, tx: Transaction, *, user_id: UUID, id: UUID) -> Block | None:
        rows = await self._run(tx.session, "lock_block", tenant=tx.tenant, user_id=user_id, id=id)
        return block_of(rows[0]) if rows else None

    async def read_block(self, tx: Transaction, *, user_id: UUID, id: UUID) -> Block | None:
        rows = await self._run(tx.session, "read_block", tenant=tx.tenant, user_id=user_id, id=id)
        return block_of(rows[0]) if rows else None

    async def list_blocks(
        self, tx: Transaction, *, user_id: UUID, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session, "list_blocks", tenant=tx.tenant, user_id=user_id, after=after, limit=limit
        )

    async def update_block(self, tx: Transaction, block: Block, hours: Hours) -> Block:
        rows = await self._run(
            tx.session,
            "update_block",
            tenant=tx.tenant,
            id=block.id,
            user_id=block.user_id,
            **_columns(hours),
        )
        return block_of(rows[0])

    async def delete_block(self, tx: Transaction, *, user_id: UUID, id: UUID) -> None:
        await self._run(tx.session, "delete_block", tenant=tx.tenant, user_id=user_id, id=id)

    async def erase_blocks(self, tx: Transaction, *, user_id: UUID) -> None:
        await self._run(tx.session, "erase_blocks", tenant=tx.tenant, user_id=user_id)

    async def read_hours(self, tx: Transaction, *, people: Sequence[UUID]) -> list[list[Hours]]:
        """The hours of each, in no particular order; none for those who have no blocks."""
        rows = await self._run(tx.session, "read_hours", tenant=tx.tenant, people=list(people))
        found: dict[UUID, list[Hours]] = {}
        for row in rows:
            found.setdefault(row["user_id"], []).append(_hours_of(row))
        return list(found.values())

    async def number_people(self, tx: Transaction, people: Sequence[UUID]) -> None:
        await self._run(tx.session, "number_people", tenant=tx.tenant, people=list(people))

    async def lock_people(self, tx: Transaction, people: Sequence[UUID]) -> None:
        await self._run(tx.session, "lock_people", tenant=tx.tenant, people=list(people))

    async def read_people_taken(self, tx: Transaction, meeting_ids: Sequence[UUID]) -> list[UUID]:
        rows = await self._run(
            tx.session, "read_people_taken", tenant=tx.tenant, meeting_ids=list(meeting_ids)
        )
        return [row["recipient_id"] for row in rows]

    async def read_taken(
        self,
        tx: Transaction,
        *,
        people: Sequence[UUID],
        window: Slot,
        meeting_id: UUID | None = None,
        holders: Sequence[UUID] = (),
    ) -> list[Slot]:
        """When any of them is taken, in order. Left out is what a meeting has itself, and its holds of some people."""
        rows = await self._run(
            tx.session,
            "read_taken",
            tenant=tx.tenant,
            people=list(people),
            from_at=window.start,
            to_at=window.end,
            meeting_id=meeting_id,
            holders=list(holders),
        )
        return [_slot_of(row) for row in rows]

    async def take(self, tx: Transaction, people: Sequence[UUID], taking: Taking) -> int:
        """Of how many of them the time was taken."""
        rows = await self._run(
            tx.session,
            "take",
            tenant=tx.tenant,
            people=list(people),
            kind=taking.kind,
            meeting_id=taking.meeting_id,
            start_at=taking.slot.start,
            end_at=taking.slot.end,
            hold_id=taking.hold_id,
            held_by=taking.held_by,
            expires_at=taking.expires_at,
        )
        return len(rows)

    async def free_expired(self, tx: Transaction, people: Sequence[UUID]) -> None:
        await self._run(tx.session, "free_expired", tenant=tx.tenant, people=list(people))

    async def free_meeting(
        self, tx: Transaction, meeting_id: UUID, *, held_by: UUID | None = None
    ) -> set[UUID]:
        """The ids of the holds that ended with that."""
        rows = await self._run(
            tx.session, "free_meeting", tenant=tx.tenant, meeting_id=meeting_id, held_by=held_by
        )
        return {row["hold_id"] for row in rows if row["hold_id"] is not None}

    async def free_others(self, tx: Transaction, meeting_id: UUID, *, people: Sequence[UUID]) -> set[UUID]:
        """Of whom the meeting has taken its slot before and after."""
        rows = await self._run(
            tx.session, "free_others", tenant=tx.tenant, meeting_id=meeting_id, people=list(people)
        )
        return {row["recipient_id"] for row in rows}

    async def free_ended_hold(self, tx: Transaction, *, meeting_id: UUID, hold_id: UUID) -> None:
        await self._run(
            tx.session, "free_ended_hold", tenant=tx.tenant, meeting_id=meeting_id, hold_id=hold_id
        )

    async def free_person(self, tx: Transaction, person: UUID) -> None:
        await self._run(tx.session, "free_person", tenant=tx.tenant, person=person)

    async def erase_person(self, tx: Transaction, person: UUID) -> None:
        await self._run(tx.session, "erase_person", tenant=tx.tenant, person=person)

    async def read_holds(self, tx: Transaction, **filters: object) -> Sequence[Row]:
        return await self._run(tx.session, "read_holds", tenant=tx.tenant, **filters)


def hold_of(row: Row) -> Hold:
    return Hold(
        id=row["id"],
        meeting_id=row["meeting_id"],
        held_by=row["held_by"],
        slot=_slot_of(row),
        expires_at=row["expires_at"].astimezone(UTC),
    )


def block_of(row: Row) -> Block:
    return Block(
        id=row["id"],
        user_id=row["user_id"],
        hours=_hours_of(row),
        revision=row["revision"],
        created_at=row["created_at"].astimezone(UTC),
        updated_at=row["updated_at"].astimezone(UTC),
    )


def _hours_of(row: Row) -> Hours:
    return Hours(
        day_of_week=row["day_of_week"],
        start=row["start_time"],
        end=row["end_time"],
        timezone=row["timezone"],
        is_recurring=row["is_recurring"],
        valid_from=row["valid_from"],
        valid_until=row["valid_until"],
    )


def _columns(hours: Hours) -> dict[str, Any]:
    """The database knows 24:00 as a time of day, and Python does not."""
    return {
        "day_of_week": hours.day_of_week,
        "start_time": clock_of(hours.start),
        "end_time": clock_of(hours.end),
        "timezone": hours.timezone,
        "is_recurring": hours.is_recurring,
        "valid_from": hours.valid_from,
        "valid_until": hours.valid_until,
    }


def _slot_of(row: Row) -> Slot:
    return Slot(row["start_at"].astimezone(UTC), row["end_at"].astimezone(UTC))
