"""Bringing a schedule to newer timezone data: its occurrences stay the same ones and are due at other instants."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from timebell.kernel.schedules.models import Schedule
from timebell.kernel.schedules.owing import id_of
from timebell.kernel.schedules.planning import Writing
from timebell.kernel.schedules.rows import facts_of, updated_columns
from timebell.kernel.schedules.schedules import Schedules
from timebell.kernel.transaction import Transaction
from timebell.rules.localtime import NEAR
from timebell.rules.planned import Override
from timebell.rules.planning import plan

_REASON = "timezone data"
_NEAR_MAX = 10_000


class ScheduleMover:
    """Plans a schedule anew that was planned with older timezone data."""

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules
        self._plans = schedules.plans
        self._store = schedules.plans.store

    async def move(
        self, tx: Transaction, schedule: Schedule, overrides: Sequence[Override], *, now: datetime
    ) -> tuple[Schedule, int]:
        """The schedule must be locked. Answers with how many occurrences are due at another instant than before."""
        overtaken_count = await self._move_into_past(tx, schedule, overrides, now)
        change = await self._schedules.replan(tx, schedule.id, reason=_REASON)
        return change.schedule, overtaken_count + len(change.diff.moved)

    async def _move_into_past(
        self, tx: Transaction, schedule: Schedule, overrides: Sequence[Override], now: datetime
    ) -> int:
        """What was to come by the old data and is past by the new is caught up, or missed, but never merely gone."""
        rows = await self._store.list_occurrences(
            tx.session,
            tenant=schedule.tenant,
            schedule_id=schedule.id,
            from_at=now,
            before=now + NEAR,
            after_at=None,
            after=None,
            limit=_NEAR_MAX,
        )
        waiting: set[UUID] = {row["id"] for row in rows if row["state"] == "planned"}
        if not waiting:
            return 0
        near = plan(
            facts_of(schedule), overrides, cursor=now - NEAR, now=now, horizon=timedelta(0), limit=_NEAR_MAX
        ).occurrences
        overtaken = [one for one in near if one.occurs_at < now and id_of(schedule, one) in waiting]
        if not overtaken:
            return 0
        columns = updated_columns([(schedule, one) for one in overtaken])
        await self._store.update_occurrences(tx.session, columns=columns)
        await self._plans.set(Writing.by(tx, now=now, reason=_REASON), schedule, overtaken)
        return len(overtaken)
