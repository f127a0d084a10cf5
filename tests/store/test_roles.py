"""The application's role owns nothing and may do no more than the verbs and the engine need."""

from __future__ import annotations

from collections import defaultdict

import asyncpg
import pytest

from tests.store.support import NOW, Tables
from timebell.kernel import Timebell

READ_AND_ADD = {"INSERT", "SELECT"}
EVERYTHING = {"DELETE", "INSERT", "SELECT", "UPDATE"}
GRANTED = {
    "agenda_done": EVERYTHING,
    "agendas": EVERYTHING,
    "alert_rounds": EVERYTHING,
    "alerts": EVERYTHING,
    "breakers": EVERYTHING,
    "dead_jobs": EVERYTHING,
    "events": READ_AND_ADD,
    "cancel_requests": EVERYTHING,
    "event_seals": READ_AND_ADD,
    "job_keys": EVERYTHING,
    "job_log": READ_AND_ADD,
    "jobs": EVERYTHING,
    "kinds": EVERYTHING,
    "node_deaths": EVERYTHING,
    "nodes": EVERYTHING,
    "occurrence_overrides": EVERYTHING,
    "occurrences": EVERYTHING,
    "permits": EVERYTHING,
    "queue_pauses": EVERYTHING,
    "queue_rates": EVERYTHING,
    "queues": EVERYTHING,
    "schedules": EVERYTHING,
    "slots": {"SELECT", "UPDATE"},
    "suspects": EVERYTHING,
    "timezones": EVERYTHING,
}


async def test_the_role_is_nobody_special(tables: Tables) -> None:
    (role,) = await tables.rows("SELECT * FROM pg_roles WHERE rolname = current_user")
    powers = ("rolsuper", "rolcreaterole", "rolcreatedb", "rolreplication", "rolbypassrls")
    assert {name: role[name] for name in powers} == dict.fromkeys(powers, False)
    memberships = "SELECT count(*) FROM pg_auth_members WHERE member = current_user::regrole"
    assert await tables.value(memberships) == 0


async def test_the_role_owns_nothing(tables: Tables) -> None:
    owned = """
        SELECT 'relation ' || relname AS what FROM pg_class WHERE relowner = current_user::regrole
        UNION ALL SELECT 'function ' || proname FROM pg_proc WHERE proowner = current_user::regrole
        UNION ALL SELECT 'schema ' || nspname FROM pg_namespace WHERE nspowner = current_user::regrole
        UNION ALL SELECT 'database ' || datname FROM pg_database WHERE datdba = current_user::regrole
    """
    assert await tables.rows(owned) == []


async def test_the_grants_are_these_and_no_others(tables: Tables) -> None:
    rows = await tables.rows(
        "SELECT c.relname, p.name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) "
        "AS p(name) WHERE n.nspname = 'timebell' AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
        "AND has_table_privilege(c.oid, p.name)"
    )
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        found[row["relname"]].add(row["name"])
    assert found == GRANTED


async def test_a_partition_of_the_log_is_reached_through_the_log_alone(tables: Tables) -> None:
    partitions = await tables.rows(
        "SELECT relname, has_table_privilege(oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE') AS is_open "
        "FROM pg_class WHERE relispartition AND relkind = 'r' AND relnamespace = 'timebell'::regnamespace"
    )
    assert len(partitions) >= 14
    assert not [row for row in partitions if row["is_open"]]


REFUSED = [
    "CREATE TABLE timebell.mine (id integer)",
    "CREATE TABLE public.mine (id integer)",
    "CREATE SCHEMA mine",
    "CREATE TEMPORARY TABLE mine (id integer)",
    "CREATE FUNCTION timebell.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "CREATE ROLE mine",
    "ALTER TABLE timebell.jobs ADD COLUMN mine integer",
    "CREATE INDEX ON timebell.jobs (kind)",
    "DROP TABLE timebell.jobs",
    "TRUNCATE timebell.jobs",
    "UPDATE timebell.job_log SET state = 'done'",
    "DELETE FROM timebell.job_log",
    "INSERT INTO timebell.slots (slot) VALUES (256)",
    "DELETE FROM timebell.slots",
    "SELECT setval('timebell.incarnations', 1)",
    "ALTER FUNCTION timebell.ensure_log_partitions(integer) SECURITY INVOKER",
    "SET ROLE timebell_owner",
]


async def test_what_the_role_may_not_do(tables: Tables, subtests: pytest.Subtests) -> None:
    for statement in REFUSED:
        with subtests.test(statement), pytest.raises(asyncpg.InsufficientPrivilegeError):
            await tables.rows(statement)


async def test_the_log_is_written_and_not_rewritten(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction() as tx:
        enqueued = await bell.enqueue(tx, "office.ring")
        await bell.cancel(tx, id=enqueued.id, reason="no", actor="maria")
    before = await tables.log(enqueued.id)
    for statement in (
        "UPDATE timebell.job_log SET actor = NULL",
        "DELETE FROM timebell.job_log",
        "INSERT INTO timebell.job_log SELECT * FROM timebell.job_log ON CONFLICT DO UPDATE SET state = ''",
    ):
        with pytest.raises(asyncpg.PostgresError):
            await tables.rows(statement)
    assert await tables.log(enqueued.id) == before
    assert [row["actor"] for row in before] == ["maria"]


async def test_the_partitions_are_made_and_dropped_by_functions_alone(tables: Tables) -> None:
    made = await tables.value("SELECT timebell.ensure_log_partitions(30)")
    assert made > 0
    assert await tables.value("SELECT timebell.ensure_log_partitions(30)") == 0
    with pytest.raises(asyncpg.RaiseError, match="days_ahead must be between 0 and 400, was 401"):
        await tables.value("SELECT timebell.ensure_log_partitions(401)")
    with pytest.raises(asyncpg.RaiseError, match="before_day must lie in the past"):
        await tables.value("SELECT timebell.drop_log_partition((now() + interval '1 day')::date)")
    assert await tables.value("SELECT timebell.drop_log_partition($1)", NOW.date().replace(year=2020)) is None


async def test_functions_find_only_what_they_mean(tables: Tables) -> None:
    """A function that runs with somebody's rights must not be led astray by that somebody's search path."""
    loose = await tables.rows(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'timebell'::regnamespace "
        "AND NOT coalesce(proconfig, '{}') @> ARRAY['search_path=pg_catalog, pg_temp']"
    )
    assert loose == []
