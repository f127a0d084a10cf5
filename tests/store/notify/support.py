"""What the tests of notify's stores share: notifications as the delivery leaves them, without delivering any."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from tests.store.support import HOUR, NOW, Tables
from timebell.kernel import Timebell

SCHEMA = "timebell_notify"


async def insert(tables: Tables, table: str, **values: Any) -> None:
    places = ", ".join(f"${number}" for number in range(1, len(values) + 1))
    names = ", ".join(values)
    await tables.rows(f"INSERT INTO {SCHEMA}.{table} ({names}) VALUES ({places})", *values.values())


async def acquaint(bell: Timebell, *ids: UUID, tenant: str = "default") -> None:
    """Recipients of whom nothing is known but that they are there."""
    async with bell.database.connection() as session:
        await session.connection.executemany(
            f"INSERT INTO {SCHEMA}.recipients (tenant, id, name, created_at, updated_at) "
            "VALUES ($1, $2, 'Ana', $3, $3) ON CONFLICT DO NOTHING",
            [(tenant, id, NOW) for id in sorted(set(ids))],
        )


async def begin(bell: Timebell, *ids: UUID, tenant: str = "default") -> None:
    """Jobs under way, in their first version, of which nothing else is known."""
    async with bell.database.connection() as session:
        await session.connection.executemany(
            "INSERT INTO timebell.jobs (tenant, id, queue, kind, run_at, due_at, started_by, payload) "
            "VALUES ($1, $2, 'notify', 'notify.deliver', $3, $3, 1, '{}') ON CONFLICT DO NOTHING",
            [(tenant, id, NOW) for id in ids],
        )


async def held(
    bell: Timebell,
    tables: Tables,
    recipient: UUID,
    waits_for: str | None,
    *,
    tenant: str = "default",
    **values: Any,
) -> UUID:
    """A notification whose job was snoozed for an hour, for a reason; without one it waits for its time."""
    async with bell.transaction(tenant=tenant) as tx:
        job = await bell.enqueue(tx, "office.post", {"secret": "of Ana"})
    until = None if waits_for is None else NOW + HOUR
    if until is not None:
        await tables.rows("UPDATE timebell.jobs SET run_at = $2 WHERE id = $1", job.id, until)
    await insert(
        tables,
        "notifications",
        **{
            "tenant": tenant,
            "id": job.id,
            "recipient_id": recipient,
            "template": "hello",
            "topic": "news",
            "class": "transactional",
            "urgency": "normal",
            "route": '{"first": "preferred"}',
            "context": '{"name": "Ana"}',
            "due_at": NOW,
            "state": "pending" if waits_for is None else "held",
            "reason": waits_for,
            "held_until": until,
            "decisions": '[{"name": "address", "detail": {"to": "ana@example.org"}}]',
            "created_at": NOW,
            **values,
        },
    )
    return job.id


async def run_at(tables: Tables, id: UUID) -> datetime:
    at: datetime = (await tables.job(id))["run_at"]
    return at
