"""The statements of meetings: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from timebell.apps.meetings.models import Meeting, MeetingSettings, ReminderJob, Slot, Status, StatusEvent
from timebell.db.queries import load_queries
from timebell.kernel import Statements, Transaction

Row = Mapping[str, Any]


class MeetingStore(Statements):
    """Meetings, who takes part in them, and what became of them."""

    queries = load_queries("timebell.apps.meetings.sql")

    async def read_clock(self, tx: Transaction) -> datetime:
        now: datetime = (await self._run(tx.session, "read_clock"))[0]["now"]
        return now.astimezone(UTC)

    async def insert_meeting(
        self,
        tx: Transaction,
        *,
        id: UUID,
        requester_id: UUID,
        title: str,
        description: str,
        location: str | None,
        timezone: str,
        proposed_slots: Sequence[Slot],
        parent_meeting_id: UUID | None,
        root_id: UUID,
        sequence: int,
    ) -> None:
        await self._run(
            tx.session,
            "insert_meeting",
            tenant=tx.tenant,
            id=id,
            requester_id=requester_id,
            title=title,
            description=description,
            location=location,
            timezone=timezone,
            proposed_slots=slots_json(proposed_slots),
            parent_meeting_id=parent_meeting_id,
            root_id=root_id,
            sequence=sequence,
        )

    async def insert_participants(
        self, tx: Transaction, *, meeting_id: UUID, recipient_ids: Sequence[UUID]
    ) -> None:
        ids = list(recipient_ids)
        await self._run(
            tx.session, "insert_participants", tenant=tx.tenant, meeting_id=meeting_id, recipient_ids=ids
        )

    async def delete_participant(self, tx: Transaction, *, meeting_id: UUID, recipient_id: UUID) -> None:
        await self._run(
            tx.session,
            "delete_participant",
            tenant=tx.tenant,
            meeting_id=meeting_id,
            recipient_id=recipient_id,
        )

    async def lock_meeting(self, tx: Transaction, *, id: UUID) -> bool:
        return bool(await self._run(tx.session, "lock_meeting", tenant=tx.tenant, id=id))

    async def lock_free_meeting(self, tx: Transaction, *, id: UUID) -> bool:
        return bool(await self._run(tx.session, "lock_free_meeting", tenant=tx.tenant, id=id))

    async def read_meeting(self, tx: Transaction, *, id: UUID) -> Meeting | None:
        rows = await self._run(tx.session, "read_meeting", tenant=tx.tenant, id=id)
        return meeting_of(rows[0]) if rows else None

    async def list_meetings(self, tx: Transaction, **filters: object) -> Sequence[Row]:
        return await self._run(tx.session, "list_meetings", tenant=tx.tenant, **filters)

    async def list_meetings_back(self, tx: Transaction, **filters: object) -> Sequence[Row]:
        return await self._run(tx.session, "list_meetings_back", tenant=tx.tenant, **filters)

    async def list_lineage(self, tx: Transaction, **filters: object) -> Sequence[Row]:
        return await self._run(tx.session, "list_lineage", tenant=tx.tenant, **filters)

    async def move_meeting(
        self, tx: Transaction, *, id: UUID, from_status: Status, to_status: Status, slot: Slot | None
    ) -> None:
        rows = await self._run(
            tx.session,
            "move_meeting",
            tenant=tx.tenant,
            id=id,
            from_status=from_status,
            to_status=to_status,
            accepted_start=None if slot is None else slot.start,
            accepted_end=None if slot is None else slot.end,
        )
        assert rows, "whoever moves a meeting holds it"

    async def touch_meeting(self, tx: Transaction, *, id: UUID) -> None:
        await self._run(tx.session, "touch_meeting", tenant=tx.tenant, id=id)

    async def insert_status_event(
        self,
        tx: Transaction,
        *,
        id: UUID,
        meeting_id: UUID,
        from_status: Status,
        to_status: Status,
        reason: str | None,
        actor: str,
    ) -> None:
        await self._run(
            tx.session,
            "insert_status_event",
            tenant=tx.tenant,
            id=id,
            meeting_id=meeting_id,
            from_status=from_status,
            to_status=to_status,
            reason=reason,
            actor=actor,
        )

    async def insert_reschedule_event(
        self,
        tx: Transaction,
        *,
        id: UUID,
        original_meeting_id: UUID,
        new_meeting_id: UUID,
        reason: str | None,
        new_slots: Sequence[Slot],
        actor: str,
    ) -> None:
        await self._run(
            tx.session,
            "insert_reschedule_event",
            tenant=tx.tenant,
            id=id,
            original_meeting_id=original_meeting_id,
            new_meeting_id=new_meeting_id,
            reason=reason,
            new_slots=slots_json(new_slots),
            actor=actor,
        )

    async def list_status_events(self, tx: Transaction, **filters: object) -> Sequence[Row]:
        return await self._run(tx.session, "list_status_events", tenant=tx.tenant, **filters)

    async def list_reminders(self, tx: Transaction, **filters: object) -> Sequence[Row]:
        return await self._run(tx.session, "list_reminders", tenant=tx.tenant, **filters)

    async def read_settings(self, tx: Transaction) -> MeetingSettings:
        rows = await self._run(tx.session, "read_settings", tenant=tx.tenant)
        return settings_of(rows[0]) if rows else MeetingSettings()

    async def hold_settings(self, tx: Transaction) -> MeetingSettings:
        """As they are until the transaction ends. There has to be a row to hold, so the defaults become one."""
        rows = await self._run(tx.session, "hold_settings", tenant=tx.tenant)
        if not rows:
            await self.insert_settings(tx)
            rows = await self._run(tx.session, "hold_settings", tenant=tx.tenant)
        return settings_of(rows[0])

    async def insert_settings(self, tx: Transaction) -> None:
        defaults = MeetingSettings()
        await self._run(
            tx.session,
            "insert_settings",
            tenant=tx.tenant,
            reminder_offsets_min=list(defaults.reminder_offsets_min),
            reminder_attempts_max=defaults.reminder_attempts_max,
        )

    async def update_settings(
        self, tx: Transaction, *, offsets_min: Sequence[int] | None, attempts_max: int | None
    ) -> MeetingSettings:
        """None leaves something as it is."""
        rows = await self._run(
            tx.session,
            "update_settings",
            tenant=tx.tenant,
            reminder_offsets_min=None if offsets_min is None else list(offsets_min),
            reminder_attempts_max=attempts_max,
        )
        return settings_of(rows[0])

    async def list_accepted(self, tx: Transaction, *, after: UUID | None, limit: int) -> list[UUID]:
        rows = await self._run(tx.session, "list_accepted", tenant=tx.tenant, after=after, limit=limit)
        return [row["id"] for row in rows]

    async def list_open_of_person(self, tx: Transaction, *, person: UUID) -> list[UUID]:
        rows = await self._run(tx.session, "list_open_of_person", tenant=tx.tenant, person=person)
        return [row["id"] for row in rows]

    async def export_person(
        self, tx: Transaction, *, person: UUID, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        rows = await self._run(
            tx.session, "export_person", tenant=tx.tenant, person=person, after=after, limit=limit
        )
        return [orjson.loads(row["line"]) for row in rows]

    async def erase_participant(self, tx: Transaction, *, person: UUID) -> None:
        await self._run(tx.session, "erase_participant", tenant=tx.tenant, person=person)


def meeting_of(row: Row) -> Meeting:
    start, end = _utc(row["accepted_start"]), _utc(row["accepted_end"])
    plain = {name: _utc(row[name]) for name in Meeting.__dataclass_fields__ if name in row}
    return Meeting(
        **{
            **plain,
            "participants": tuple(row["participants"]),
            "proposed_slots": tuple(
                Slot(datetime.fromisoformat(slot["start"]), datetime.fromisoformat(slot["end"]))
                for slot in orjson.loads(row["proposed_slots"])
            ),
            "accepted_slot": None if start is None else Slot(start, end),
        }
    )


def event_of(row: Row) -> StatusEvent:
    return StatusEvent(**{name: _utc(value) for name, value in row.items()})


def reminder_of(row: Row) -> ReminderJob:
    return ReminderJob(**{name: _utc(row[name]) for name in ReminderJob.__dataclass_fields__})


def settings_of(row: Row) -> MeetingSettings:
    return MeetingSettings(
        reminder_offsets_min=tuple(row["reminder_offsets_min"]),
        reminder_attempts_max=row["reminder_attempts_max"],
    )


def slots_json(slots: Sequence[Slot]) -> str:
    """In UTC, so that what is stored reads the same whoever proposed it."""
    stored = [
        {"start": slot.start.astimezone(UTC).isoformat(), "end": slot.end.astimezone(UTC).isoformat()}
        for slot in slots
    ]
    return orjson.dumps(stored).decode()


def _utc(value: Any) -> Any:
    """A driver may answer in its connection's zone."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value
