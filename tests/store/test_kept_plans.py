"""A plan that was made while a table was small does not walk through it for ever."""

from __future__ import annotations

from timebell.db.pool import Database, Limits
from timebell.testing.database import TestDatabase

# Of a table that has one page a plan reads that page; with an array of ids as it comes, the plan is kept.
FIND = "SELECT id FROM timebell.jobs WHERE id = ANY ($1)"
GROW = """
    INSERT INTO timebell.jobs (id, tenant, queue, kind, run_at, due_at, payload)
    SELECT gen_random_uuid(), 'default', 'default', 't.act', now(), now(), '{}' FROM generate_series(1, 20000)
"""


async def plan_after_growth(database: Database) -> str:
    """What is kept for a statement that was prepared before the table grew, on the one connection that there is."""
    async with database.connection() as session:
        await session.execute("ANALYZE timebell.jobs")
        await session.execute(f"PREPARE find (uuid[]) AS {FIND}")
        for _ in range(10):
            await session.connection.fetch("EXECUTE find ('{}')")
    async with database.transaction() as session:
        await session.execute(GROW)
    async with database.connection() as session:
        plan = await session.connection.fetch("EXPLAIN EXECUTE find ('{}')")
        return str(plan[0][0])


async def test_plans_are_made_again_when_they_are_old(database_url: TestDatabase) -> None:
    seen = {}
    for seconds in (0.0, 3600.0):
        database = await Database.open(database_url.admin_url, size=1, limits=Limits(plans=seconds))
        try:
            async with database.connection() as session:
                await session.execute("TRUNCATE timebell.jobs CASCADE")
                await session.execute(
                    "INSERT INTO timebell.jobs (id, tenant, queue, kind, run_at, due_at, payload) "
                    "VALUES (gen_random_uuid(), 'default', 'default', 't.act', now(), now(), '{}')"
                )
            seen[seconds] = await plan_after_growth(database)
        finally:
            await database.close()
    assert "Seq Scan" in seen[3600.0], "else this test shows nothing"
    assert "Seq Scan" not in seen[0.0]
