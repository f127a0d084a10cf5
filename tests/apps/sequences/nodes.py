"""Nodes that can be killed, on a database with the tables of this app."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from tests.apps.sequences.support import END, NOW, START, draft
from tests.engine.support import Cluster, Owner, connect
from timebell.apps.sequences.bookings import NewBooking
from timebell.apps.sequences.models import By, NewSequence, Offset, SequenceStep, Terms
from timebell.apps.sequences.service import Sequences
from timebell.kernel import Timebell
from timebell.notify import Notify
from timebell.testing.database import TestDatabase

BY = By(name="somebody")


@asynccontextmanager
async def open_cluster(database: TestDatabase) -> AsyncIterator[Cluster]:
    admin, connection = await connect(database.admin_url), await connect(database.admin_url)
    cluster = Cluster(database, Owner(connection), admin)
    cluster.clock.move(NOW - cluster.clock.now)
    try:
        yield cluster
    finally:
        await cluster.close()
        await admin.close(timeout=10)
        await connection.close(timeout=10)


def steps_of(*days: int) -> tuple[SequenceStep, ...]:
    """One for each of so many days before the start."""
    return tuple(SequenceStep(key=f"day_{day}", template="note", offset=Offset(days=-day)) for day in days)


async def furnish(bell: Timebell, steps: Sequence[SequenceStep]) -> tuple[UUID, UUID]:
    """A guest and a sequence, in this order."""
    notify = Notify(bell)
    async with bell.transaction() as tx:
        ada = await notify.recipients.add(tx, name="Ada", email="ada@example.org")
        await notify.templates.save(tx, draft("note"))
    async with bell.transaction() as tx:
        new = NewSequence(name="Stay", trigger_event="booking_created", terms=Terms(steps=tuple(steps)))
        sequence = await Sequences(bell, notify).save(tx, new, by=BY)
    return ada.id, sequence.id


def stay_of(person: UUID) -> NewBooking:
    return NewBooking(
        people=[(person, "guest")],
        subtype="stay",
        event_name="A stay by the lake",
        starts_at=START,
        ends_at=END,
        timezone="Europe/Berlin",
    )
