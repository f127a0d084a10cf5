"""The rows of bookings that are enrolled, written by a bare insert into each table.

Nothing is checked or decided, and every value is ready before it is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg
import orjson

from timebell.bench.cost import Cost, Meter
from timebell.bench.ground import Ground
from timebell.clock import Chance, Ids

_SUBJECTS: Final = """
    INSERT INTO sequences.subjects (tenant, subject, id, is_booking, status, subtype, starts_at, ends_at, timezone,
        facts, dates_at, created_at, updated_at)
    SELECT 'raw', subject, id, true, 'created', 'stay', starts_at, starts_at + interval '3 days', 'Europe/Berlin',
        '{"eventName": "Stay", "location": "By the lake"}', now(), now(), now()
    FROM unnest($1::text[], $2::uuid[], $3::timestamptz[]) AS n(subject, id, starts_at)
"""
_PEOPLE: Final = """
    INSERT INTO sequences.subject_people (tenant, subject, recipient_id, role, ordinal)
    SELECT 'raw', subject, recipient_id, 'guest', 0 FROM unnest($1::text[], $2::uuid[]) AS n(subject, recipient_id)
"""
_ENROLMENTS: Final = """
    INSERT INTO sequences.enrolments (tenant, subject, sequence_id, version, event_at, created_at)
    SELECT 'raw', subject, $2, 1, now(), now() FROM unnest($1::text[]) AS n(subject)
"""
_AGENDAS: Final = """
    INSERT INTO timebell.agendas (tenant, subject, anchor)
    SELECT 'raw', subject, anchor FROM unnest($1::text[], $2::timestamptz[]) AS n(subject, anchor)
"""
_JOBS: Final = """
    INSERT INTO timebell.jobs (id, tenant, queue, kind, subject, run_at, due_at, step, revision, payload)
    SELECT id, 'raw', 'notify', 'notify.deliver', subject, due_at, due_at, step, 1, payload::jsonb
    FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::text[], $5::text[])
        AS n(id, subject, due_at, step, payload)
"""
_MESSAGES: Final = """
    INSERT INTO sequences.messages (tenant, id, subject, sequence_id, entry, step, recipient_id, channel, template,
        due_at, status, job_id, created_at)
    SELECT 'raw', id, subject, $7, 1, step, recipient_id, 'preferred', 'bench.stay', due_at, 'scheduled', job_id, now()
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::timestamptz[], $6::uuid[])
        AS n(id, subject, step, recipient_id, due_at, job_id)
"""
_EVENTS: Final = """
    INSERT INTO timebell.events (id, tenant, name, subject, actor, data, occurred_at)
    SELECT id, 'raw', 'booking.created', subject, 'bench', '{"status": "created", "enrolled": 8}', now()
    FROM unnest($1::uuid[], $2::text[]) AS n(id, subject)
"""
_SEQUENCE: Final = """
    WITH one AS (
        INSERT INTO sequences.sequences (tenant, id, name, trigger_event, is_active, created_at, updated_at)
        VALUES ('raw', $1, 'Before the stay', 'booking_created', true, now(), now())
    )
    INSERT INTO sequences.sequence_versions (tenant, sequence_id, version, steps, created_at)
    VALUES ('raw', $1, 1, '[]', now())
"""

Written = tuple[str, Sequence[Any]]


async def raw_enrol(ground: Ground, people: Sequence[UUID], bookings: int, steps: int, batch: int) -> Cost:
    ids = Ids(Chance())
    connection = await asyncpg.connect(ground.url)
    try:
        sequence_id = ids.new()
        begins = await connection.fetchval("SELECT now() + interval '30 days'")
        await connection.execute(_SEQUENCE, sequence_id)
        chunks = [
            _chunk(ids, people, sequence_id, range(begin, min(begin + batch, bookings)), steps, begins)
            for begin in range(0, bookings, batch)
        ]
        meter = Meter(ground.server_pid)
        for chunk in chunks:
            async with connection.transaction():
                for sql, values in chunk:
                    await connection.execute(sql, *values)
        return meter.read()
    finally:
        await connection.close()


def _chunk(
    ids: Ids, people: Sequence[UUID], sequence_id: UUID, numbers: range, steps: int, begins: datetime
) -> list[Written]:
    booked = ids.many(len(numbers))
    names = [f"booking:{id}" for id in booked]
    guests = [people[number % len(people)] for number in numbers]
    starts = [begins + timedelta(minutes=number % 10_000) for number in numbers]
    jobs, messages = ids.many(len(numbers) * steps), ids.many(len(numbers) * steps)
    each = [(place, step) for place in range(len(numbers)) for step in range(1, steps + 1)]
    due_ats = [starts[place] - timedelta(days=step) for place, step in each]
    subjects = [names[place] for place, _ in each]
    told = [guests[place] for place, _ in each]
    payloads = [_payload(guest, starts[place]) for guest, (place, _) in zip(told, each, strict=True)]
    keys = [f"day_{step}" for _, step in each]
    return [
        (_SUBJECTS, (names, booked, starts)),
        (_PEOPLE, (names, guests)),
        (_ENROLMENTS, (names, sequence_id)),
        (_AGENDAS, (names, starts)),
        (_JOBS, (jobs, subjects, due_ats, [str(id) for id in messages], payloads)),
        (_MESSAGES, (messages, subjects, keys, told, due_ats, jobs, sequence_id)),
        (_EVENTS, (ids.many(len(numbers)), names)),
    ]


def _payload(guest: UUID, expires_at: datetime) -> str:
    said = {
        "recipient": str(guest),
        "template": "bench.stay",
        "template_version": 1,
        "topic": "general",
        "class": "transactional",
        "first": "preferred",
        "context_from": "sequences.context",
        "guard": "sequences.is_wanted",
        "expires_at": expires_at.isoformat(),
    }
    return orjson.dumps(said).decode()
