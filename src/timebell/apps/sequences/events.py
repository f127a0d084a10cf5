"""`Events`: the door for every subject, whatever it is. Bookings come through it too, with their own events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from timebell.apps.sequences.bookings import check_dates
from timebell.apps.sequences.enrolling import Enrolling
from timebell.apps.sequences.models import FACTS_BYTES_MAX, OTHER, By, Happened, Subject
from timebell.apps.sequences.refusals import unknown_contact
from timebell.apps.sequences.store import SequenceStore
from timebell.errors import InvalidInput, RevisionConflict
from timebell.kernel import Ids, Timebell, Transaction
from timebell.notify import Notify, Recipient


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectEvent:
    """Something that happened to a subject of a stranger's system, with what is so about it by now.

    What is not said stays as it was. `entry` lets a subject enter again what it has entered before. One that `cancels`
    first ends whatever is pending.
    """

    event: str
    name: str
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    timezone: str | None = None
    subtype: str | None = None
    status: str | None = None
    people: Sequence[tuple[UUID, str]] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    entry: int = 1
    cancels: bool = False


class Events:
    """What happens to subjects."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._bell = bell
        self._enrolling = Enrolling(bell, notify)
        self._store = SequenceStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def happen(self, tx: Transaction, event: SubjectEvent, *, by: By) -> Happened:
        """The same event again starts nothing again; but what it says of the subject counts."""
        name = f"{OTHER}{event.name}"
        try:
            async with tx.all_or_nothing():
                happened = await self._happen(tx, name, event, by=by)
        except RevisionConflict:
            # Two have told of a subject that was new to both; what the other wrote is there by now.
            happened = await self._happen(tx, name, event, by=by)
        data = {"event": event.event, "enrolled": happened.enrolled, "diff": happened.diff}
        await self._bell.record(
            tx, "sequences.happened", data, subject=name, actor=by.name, correlation_id=by.correlation_id
        )
        return happened

    async def _happen(self, tx: Transaction, name: str, event: SubjectEvent, *, by: By) -> Happened:
        held = (await self._enrolling.hold(tx, [name], event=event.event)).get(name)
        if held is not None:
            said, _ = await self._checked(tx, held, event)
            written = await self._enrolling.write(tx, said)
            return await self._enrolling.happen(
                tx, written, event.event, by=by, entry=event.entry, cancels=event.cancels
            )
        now = await self._store.read_clock(tx)
        new = Subject(
            subject=name,
            id=self._ids.new(),
            timezone=event.timezone or "UTC",
            dates_at=now,
            created_at=now,
            updated_at=now,
        )
        said, people = await self._checked(tx, new, event)
        (happened,) = await self._enrolling.add(
            tx, [said], [event.event], people=people, by=by, entry=event.entry
        )
        return happened

    async def _checked(
        self, tx: Transaction, held: Subject, event: SubjectEvent
    ) -> tuple[Subject, dict[UUID, Recipient]]:
        """The subject as the event says that it is by now, and whom it concerns."""
        said = replace(
            held,
            timezone=event.timezone or held.timezone,
            starts_at=event.starts_at if "start" in event.named else held.starts_at,
            ends_at=event.ends_at if "end" in event.named else held.ends_at,
            subtype=event.subtype if "subtype" in event.named else held.subtype,
            status=event.status if "status" in event.named else held.status,
            people=held.people if event.people is None else event.people,
            facts={name: value for name, value in {**held.facts, **event.facts}.items() if value is not None},
        )
        check_dates(said)
        if len(orjson.dumps(said.facts)) > FACTS_BYTES_MAX:
            raise InvalidInput(
                f"are over {FACTS_BYTES_MAX} bytes with those that were said before; say less, or null for some",
                field="facts",
            )
        await self._enrolling.hold_people(tx, (id for id, _ in said.people))
        there = await self._enrolling.people(tx, [said])
        for place, (id, _) in enumerate(said.people):
            if id not in there:
                raise unknown_contact(f"facts/contacts/{place}", id)
        return said, there
