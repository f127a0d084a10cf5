"""`Following`: a tenant's events in an order that never changes behind the place where somebody reads.

Every event has a place: the number of the transaction that wrote it, and its id. An event is shown once no transaction
is under way any more that could put another before it, so whoever goes on from the last place that it saw misses
nothing and sees nothing twice. The price is that a transaction that writes for long holds up those who follow, and
nobody else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import orjson

from timebell.clock import Clock
from timebell.db.pool import Database, Row
from timebell.errors import InvalidInput
from timebell.kernel.events.following_store import FollowingStore
from timebell.kernel.models import check_name
from timebell.kernel.paging import PAGE_MAX, check_limit

_PLACE: Final = re.compile(
    r"(0|[1-9][0-9]{0,18})(?:\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))?", re.ASCII
)
_NO_ID: Final = UUID(int=0)


@dataclass(frozen=True, slots=True, order=True)
class EventPlace:
    """Where an event stands among those of its tenant. Written as text it is the id of a message in a stream."""

    number: int
    id: UUID = _NO_ID

    def __str__(self) -> str:
        return str(self.number) if self.id == _NO_ID else f"{self.number}.{self.id}"

    @classmethod
    def read(cls, text: str) -> EventPlace:
        """The place that was written so; `0` is before everything."""
        found = _PLACE.fullmatch(text)
        if found is None:
            raise InvalidInput(
                "is no place; give the id of the last event of the stream that you saw, or 0 for the beginning",
                field="after",
            )
        return cls(int(found[1]), UUID(found[2]) if found[2] else _NO_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedEvent:
    """An event and its place."""

    place: EventPlace
    id: UUID
    name: str
    subject: str | None
    actor: str | None
    data: Mapping[str, Any]
    correlation_id: str | None
    occurred_at: datetime
    recorded_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EventEnd:
    """How far a tenant's events can be read. Who begins at `now` sees everything that is committed from here on."""

    last: EventPlace | None
    now: EventPlace
    given_below: int

    def knows(self, place: EventPlace) -> bool:
        """False for a place of another server, such as the one that this database was restored from."""
        return place.number <= self.given_below


class Following:
    """Reads events in the order of their places."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._store = FollowingStore(clock)

    async def end(self, tenant: str) -> EventEnd:
        check_name("tenant", tenant, required=True)
        async with self._database.connection() as session:
            row = await self._store.read_event_end(session, tenant=tenant)
        return EventEnd(
            last=None if row["id"] is None else EventPlace(int(row["number"]), row["id"]),
            now=EventPlace(int(row["settled_below"])),
            given_below=int(row["given_below"]),
        )

    async def after(
        self, tenant: str, place: EventPlace, *, limit: int = PAGE_MAX
    ) -> tuple[tuple[FollowedEvent, ...], bool]:
        """The events after a place, and whether there are more of them already."""
        check_name("tenant", tenant, required=True)
        check_limit(limit)
        async with self._database.connection() as session:
            rows = await self._store.read_events_after(
                session, tenant=tenant, number=str(place.number), id=place.id, limit=limit
            )
        return tuple(map(_event_of, rows[:limit])), len(rows) > limit


def _event_of(row: Row) -> FollowedEvent:
    return FollowedEvent(
        place=EventPlace(int(row["number"]), row["id"]),
        id=row["id"],
        name=row["name"],
        subject=row["subject"],
        actor=row["actor"],
        data=orjson.loads(row["data"]),
        correlation_id=row["correlation_id"],
        occurred_at=row["occurred_at"].astimezone(UTC),
        recorded_at=row["recorded_at"].astimezone(UTC),
    )
