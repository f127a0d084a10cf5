"""S19: what each role may do is written down beside this test, and the catalogue says the same."""

from __future__ import annotations

from pathlib import Path

import asyncpg

from timebell.testing.database import TestDatabase

LIST = Path(__file__).with_name("grants.txt")

# Rights on databases, schemas, tables, single columns, sequences and functions. What the owner has needs no grant.
_GRANTED = """
    WITH ours AS (SELECT oid, nspname, nspacl, nspowner FROM pg_namespace WHERE nspname LIKE 'timebell%'),
    acls AS (
        SELECT 'database' AS what, datacl AS acl, datdba AS owner FROM pg_database WHERE datname = current_database()
        UNION ALL
        SELECT 'schema ' || nspname, nspacl, nspowner FROM ours
        UNION ALL
        SELECT 'schema public', nspacl, nspowner FROM pg_namespace WHERE nspname = 'public'
        UNION ALL
        SELECT CASE c.relkind WHEN 'S' THEN 'sequence ' WHEN 'v' THEN 'view ' ELSE 'table ' END || n.nspname || '.'
                || CASE WHEN c.relispartition THEN 'job_log_DAY' ELSE c.relname END, c.relacl, c.relowner
        FROM pg_class c JOIN ours n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S')
        UNION ALL
        SELECT 'column ' || n.nspname || '.' || c.relname || '.' || a.attname, a.attacl, c.relowner
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN ours n ON n.oid = c.relnamespace
        WHERE a.attacl IS NOT NULL
        UNION ALL
        SELECT 'function ' || p.oid::regprocedure, coalesce(p.proacl, acldefault('f', p.proowner)), p.proowner
        FROM pg_proc p JOIN ours n ON n.oid = p.pronamespace
    )
    SELECT DISTINCT CASE e.grantee WHEN 0 THEN 'PUBLIC' ELSE e.grantee::regrole::text END AS role, a.what,
        (SELECT string_agg(DISTINCT x.privilege_type, ' ' ORDER BY x.privilege_type)
            FROM aclexplode(a.acl) x WHERE x.grantee = e.grantee) AS rights,
        bool_or(e.is_grantable) OVER (PARTITION BY e.grantee, a.what) AS is_grantable
    FROM acls a CROSS JOIN LATERAL aclexplode(a.acl) e
    WHERE e.grantee <> a.owner
"""


async def granted(database: TestDatabase) -> list[str]:
    connection = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        rows = await connection.fetch(_GRANTED)
    finally:
        await connection.close(timeout=10)
    assert not [row for row in rows if row["is_grantable"]], "nobody may hand on what they were given"
    return sorted(f"{row['role']}: {row['what']}: {row['rights']}" for row in rows)


async def test_the_grants_are_those_of_the_list(database_url: TestDatabase) -> None:
    """A line more is a right that somebody got; a line less may be a process that fails tomorrow."""
    listed = LIST.read_text(encoding="utf-8").splitlines()
    found = await granted(database_url)
    assert found == listed, f"compare with {LIST.name}, and change it only on purpose"


async def test_a_right_too_many_is_noticed(database_url: TestDatabase) -> None:
    connection = await asyncpg.connect(database_url.owner_url, timeout=10)
    await connection.execute("GRANT UPDATE ON timebell.events TO timebell_api")
    await connection.close(timeout=10)
    more = set(await granted(database_url)) - set(LIST.read_text(encoding="utf-8").splitlines())
    assert more == {"timebell_api: table timebell.events: INSERT SELECT UPDATE"}
