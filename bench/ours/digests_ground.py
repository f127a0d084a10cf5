"""Whom the bench of digests tells something: people who look for the same, those whom they find, and meetings of others
of whom somebody is reminded in each second."""

from __future__ import annotations

from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, Final

import asyncpg

from timebell.bench.ground import Ground
from timebell.kernel import Timebell
from timebell.notify import Notify

APPS: Final = ("timebell.apps.marketplace", "timebell.apps.meetings")
# The kind of job by which a schedule asks for the digests of its zone, and what counts those that were composed.
ENQUEUE: Final = "marketplace.enqueue_digests"
COMPOSED: Final = "marketplace_search_alerts"
OTHERS: Final = "others"
WORKERS: Final = 5
# Reminders are due so long before the slot; there is so much time to accept each.
_LEAD: Final = timedelta(minutes=15)
_EACH: Final = timedelta(milliseconds=50)
_SOON: Final = timedelta(seconds=5)
_MEETINGS_AT_ONCE: Final = 50
_PEOPLE: Final = """
    WITH people AS (
        INSERT INTO timebell_notify.recipients
        SELECT (jsonb_populate_record(r, jsonb_build_object('id', timebell.new_id()))).*
        FROM timebell_notify.recipients r, generate_series(2, $2::integer) WHERE r.id = $1
        RETURNING tenant, id
    ), addresses AS (
        INSERT INTO timebell_notify.addresses
        SELECT (jsonb_populate_record(a, jsonb_build_object('id', timebell.new_id(), 'recipient_id', p.id,
            'value', p.id || '@example.org'))).*
        FROM people p JOIN timebell_notify.addresses a ON a.tenant = p.tenant AND a.recipient_id = $1
    )
    INSERT INTO marketplace.saved_searches
    SELECT (jsonb_populate_record(s, jsonb_build_object('id', timebell.new_id(), 'user_id', p.id))).*
    FROM people p JOIN marketplace.saved_searches s ON s.tenant = p.tenant AND s.user_id = $1
"""
_WORKERS: Final = """
    INSERT INTO marketplace.workers (tenant, id, recipient_id, company_id, state, trade, zip, skills, hourly_rate,
        listed_at, created_at, updated_at)
    SELECT 'default', timebell.new_id(), timebell.new_id(), timebell.new_id(), 'Listed', 'carpenter', '10115',
        '{roofs}', 2500, $2, $2, $2
    FROM generate_series(1, $1::integer)
"""


async def add_people(bell: Timebell, ground: Ground, people: int) -> None:
    """One saves a search, and the others have the same one each."""
    asked = Notify(bell)
    service, bodies = _of("searches.service"), _of("staffing.bodies")
    searches = service.Searches(bell, asked)
    terms = {"instant": False, "digest": True, "channels": ["email"], "send_empty_digest": True}
    async with bell.transaction() as tx:
        first = await asked.recipients.add(tx, name="Bea", email="bea@example.org", timezone="UTC")
        by = _of("models").By()
        await searches.add(tx, first.id, bodies.Criteria(trade="carpenter"), terms, by=by)
    await _as_admin(ground, _PEOPLE, first.id, people)


async def add_workers(ground: Ground, at: datetime) -> None:
    """They were listed an hour before the digests."""
    await _as_admin(ground, _WORKERS, WORKERS, at - timedelta(hours=1))


async def add_meetings(bell: Timebell, count: int) -> datetime:
    """One begins each second, so that two are reminded in each second. Answers from when on."""
    models, service = import_module(f"{APPS[1]}.models"), import_module(f"{APPS[1]}.service")
    meetings = service.Meetings(bell, Notify(bell))
    async with bell.database.connection() as session:
        soon = await bell.store.read_clock(session) + _SOON + count * _EACH
    for begin in range(0, count, _MEETINGS_AT_ONCE):
        async with bell.transaction(tenant=OTHERS) as tx:
            for number in range(begin, min(count, begin + _MEETINGS_AT_ONCE)):
                await _meet(tx, bell, models, meetings, soon + _LEAD + timedelta(seconds=number), number)
    return soon


async def _meet(tx: Any, bell: Timebell, models: Any, meetings: Any, start: datetime, number: int) -> None:
    add = Notify(bell).recipients.add
    ann, ben = [
        await add(tx, name=name, email=f"{name}{number}@example.org", timezone="UTC")
        for name in ("Ann", "Ben")
    ]
    slot = models.Slot(start, start + timedelta(minutes=5))
    new = models.NewMeeting(
        title=f"Meeting {number}", timezone="UTC", participants=[ben.id], proposed_slots=[slot]
    )
    meeting = await meetings.propose(tx, ann.id, new, by=models.By(person=ann.id, name="bench"))
    await meetings.accept(tx, meeting, slot, by=models.By(person=ben.id, name="bench"))


def _of(module: str) -> Any:
    return import_module(f"{APPS[0]}.{module}")


async def _as_admin(ground: Ground, statement: str, *arguments: Any) -> None:
    connection: Any = await asyncpg.connect(ground.admin_url)
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute(statement, *arguments, timeout=600)
        await connection.execute("VACUUM (ANALYZE)", timeout=600)
    finally:
        await connection.close()
