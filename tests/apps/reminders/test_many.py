"""Many people's reminders are planned in time, however many there are, and again without any change."""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime

import pytest

from tests.apps.reminders.support import DAY, NOW, WEEK, Desk
from timebell.apps.reminders import APP
from timebell.config import Tuning
from timebell.notify import notify_app
from timebell.testing import ManualClock, harness

# As if nobody had planned it yet.
COPIES = """
INSERT INTO timebell.schedules
SELECT (jsonb_populate_record(s, jsonb_build_object(
    'id', gen_random_uuid(), 'planned_until', $1::timestamptz, 'plan_at', $1::timestamptz
))).*
FROM timebell.schedules s, generate_series(1, $2::integer)
"""
PLANNED = """
SELECT o.instants, j.instants AS owed, count(*)::integer AS count
FROM (SELECT schedule_id, array_agg(occurs_at ORDER BY occurs_at) AS instants FROM timebell.occurrences GROUP BY 1) o
JOIN (
    SELECT payload->>'schedule_id' AS schedule_id, array_agg(due_at ORDER BY due_at) AS instants
    FROM timebell.jobs GROUP BY 1
) j ON j.schedule_id = o.schedule_id::text
GROUP BY 1, 2
"""
BATCH = Tuning().plan_batch
ROWS = "SELECT (SELECT count(*) FROM timebell.occurrences) AS occurrences, (SELECT count(*) FROM timebell.jobs) AS jobs"
FRIDAY = datetime.fromisoformat("2026-03-06T17:00:00Z")
FRIDAYS = [FRIDAY + number * WEEK for number in range(9) if FRIDAY + number * WEEK < NOW + 60 * DAY]


class Statements:
    """Counts what the node asks of the database, by name."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    async def before(self, name: str) -> None:
        self.counts[name] += 1

    async def after(self, name: str) -> None:
        """Nothing is stopped here."""


@pytest.mark.req("R-9.3")
@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_many_schedules_are_planned_within_the_minute(ada: Desk, count: int) -> None:
    """As many statements as there are batches, not as schedules: that is what makes it quick."""
    await ada.create(
        kind="reminder",
        timezone="UTC",
        start_local=FRIDAY.replace(tzinfo=None),
        recurrence="FREQ=WEEKLY",
        offsets=(0,),
    )
    await ada.harness.engine.stop()
    await ada.rows(COPIES, NOW, count)
    statements, clock = Statements(), ManualClock(NOW)
    async with harness(
        ada.database.url, [notify_app([]), APP], clock=clock, node_name="planner", gate=statements
    ) as node:
        statements.counts.clear()
        begun = time.monotonic()
        await node.engine.planner.run_due(NOW)
        seconds = time.monotonic() - begun
        planning = statements.counts.total()
        assert [tuple(row) for row in await ada.rows(PLANNED)] == [(FRIDAYS, FRIDAYS, count + 1)]
        (before,) = await ada.rows(ROWS)
        await ada.rows("UPDATE timebell.schedules SET plan_at = $1", NOW)
        await node.engine.planner.run_due(NOW)
        assert await ada.rows(ROWS) == [before], "it is always safe to plan again"
    assert planning < 40 + 20 * (count // BATCH), statements.counts
    if count >= 10_000:
        assert seconds < 60
