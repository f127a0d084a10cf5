"""Instants are instants in the tables, and only wall times have none of an instant's certainty."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from timebell.db.pool import Database
from timebell.kernel import Step, Timebell
from timebell.kernel.insights.insights import Insights

_COLUMNS = """
SELECT c.relname AS table_name, a.attname AS column_name, format_type(a.atttypid, a.atttypmod) AS type
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = 'timebell'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND a.attnum > 0 AND NOT a.attisdropped AND format_type(a.atttypid, a.atttypmod) LIKE 'timestamp%'
"""


@pytest.mark.req("R-1.1")
async def test_only_wall_times_have_no_timezone(database: Database) -> None:
    async with database.connection() as session:
        columns = await session.connection.fetch(_COLUMNS)
    naive = {row["column_name"] for row in columns if "without time zone" in row["type"]}
    aware = {row["column_name"] for row in columns if "with time zone" in row["type"]}
    assert naive == {
        "exdates",
        "last_local",
        "local",
        "new_local",
        "original_local",
        "rdates",
        "start_local",
        "until_local",
    }
    assert {"due_at", "run_at", "occurs_at", "created_at", "planned_until", "plan_at"} <= aware
    assert not {name for name in aware if name.endswith("_local")}


@pytest.mark.req("R-1.1")
@pytest.mark.parametrize("timezone", ["UTC", "Europe/Berlin", "Asia/Kolkata"])
async def test_the_timezone_of_a_session_changes_nothing(bell: Timebell, timezone: str) -> None:
    """Timebell's own sessions are in UTC, but a caller may bring a transaction with another one."""
    async with bell.transaction() as tx:
        await tx.session.execute(f"SET LOCAL timezone TO '{timezone}'")
        change = await bell.schedules.create(
            tx,
            recurrence="FREQ=WEEKLY",
            timezone="Europe/Berlin",
            start_local=datetime(2027, 3, 22, 2, 30),
            until_local=datetime(2027, 4, 5, 2, 30),
            steps=[Step(key="eve", kind="office.ring", offset=timedelta(hours=-1))],
        )
        read = await bell.schedules.get(tx, change.schedule.id)
        page = await bell.schedules.occurrences(tx, read.id)
    assert read.start_local == datetime(2027, 3, 22, 2, 30)
    assert [line.occurs_at for line in page.lines] == [
        datetime(2027, 3, 22, 1, 30, tzinfo=UTC),
        datetime(2027, 3, 29, 0, 30, tzinfo=UTC),
        datetime(2027, 4, 5, 0, 30, tzinfo=UTC),
    ]
    assert [line.local.hour for line in page.lines] == [2, 2, 2]
    due = [line.due_at for line in (await Insights(bell.database, bell.clock).jobs(tx.tenant)).lines]
    assert sorted(due) == [line.occurs_at - timedelta(hours=1) for line in page.lines]
