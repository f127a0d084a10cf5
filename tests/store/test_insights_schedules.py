"""What an operator is told about schedules as a whole: what could not be planned, and on which data plans stand."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.store.support import NOW
from timebell.db.pool import Database
from timebell.kernel import Step, Timebell
from timebell.kernel.insights.insights import Insights
from timebell.kernel.insights.store import InsightsStore
from timebell.rules.localtime import TIMEZONE_VERSION

STEP = Step(key="eve", kind="office.ring", offset=timedelta(hours=-1))


async def created(bell: Timebell, *, tenant: str = "default", **terms: Any) -> UUID:
    async with bell.transaction(tenant=tenant) as tx:
        stated = {"start_local": datetime(2027, 4, 1, 9, 0), "timezone": "Europe/Berlin", "steps": [STEP]}
        change = await bell.schedules.create(tx, **{**stated, **terms})
    return change.schedule.id


async def parked(database: Database, id: UUID, reason: str, minutes: int) -> None:
    async with database.connection() as session:
        await session.connection.execute(
            "UPDATE timebell.schedules SET state = 'parked', state_reason = $2, updated_at = $3, plan_at = NULL "
            "WHERE id = $1",
            id,
            reason,
            NOW + timedelta(minutes=minutes),
        )


async def test_the_timezones_that_plans_stand_on(bell: Timebell, database: Database) -> None:
    insights = Insights(database, bell.clock)
    assert await insights.timezones() == []
    for timezone in ("Europe/Berlin", "Asia/Kolkata", "Europe/Berlin"):
        await created(bell, timezone=timezone)
    lines = await insights.timezones()
    assert [line.timezone for line in lines] == ["Asia/Kolkata", "Europe/Berlin"]
    assert {line.version for line in lines} == {TIMEZONE_VERSION}


async def test_what_is_parked_is_told_the_last_first(bell: Timebell, database: Database) -> None:
    insights = Insights(database, bell.clock)
    ids = [await created(bell, tenant=tenant) for tenant in ("a", "b", "a")]
    assert await insights.parked_schedules() == []
    await parked(database, ids[0], "no such kind", 1)
    await parked(database, ids[1], "no such timezone", 2)
    lines = await insights.parked_schedules()
    assert [(line.id, line.tenant, line.reason) for line in lines] == [
        (ids[1], "b", "no such timezone"),
        (ids[0], "a", "no such kind"),
    ]
    assert lines[0].parked_at == NOW + timedelta(minutes=2)


async def test_the_parked_ones_are_not_looked_for_among_all(database: Database) -> None:
    query = InsightsStore.queries["list_parked_schedules"]
    async with database.connection() as session:
        plan = await session.connection.fetch(f"EXPLAIN {query.text}", 10)
    assert any("schedules_parked" in row[0] for row in plan), plan
