"""The wall between tenants, second line: what each role sees and may write, whatever a query forgets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from tests.store.walls_support import as_tenant, connected, fill, insertion, tables_of
from timebell.db.provision import ROLES
from timebell.testing.database import TestDatabase

# What belongs to the installation and not to a tenant. A table that is added without one is added here with thought.
SHARED = {
    "timebell.alert_rounds",
    "timebell.breakers",
    "timebell.kinds",
    "timebell.node_deaths",
    "timebell.nodes",
    "timebell.permits",
    "timebell.queue_rates",
    "timebell.queues",
    "timebell.slots",
    "timebell.suspects",
    "timebell.timezones",
    "timebell_meta.migrations",
    "timebell_notify.provider_rates",
    "timebell_web.sandbox",
}
# Whose they are is said by what they point at.
WALLED_WITHOUT_TENANT = {"timebell.occurrence_overrides"}
# A tenant sees itself here and changes nothing, so there is no row that it could give away.
UNSEEN = {("UPDATE", "timebell_web.tenants")}
DEFINED_BY_OWNER = {"drop_log_partition", "ensure_log_partitions"}


@pytest_asyncio.fixture
async def admin(database_url: TestDatabase) -> AsyncIterator[Any]:
    async with connected(database_url.admin_url) as connection:
        yield connection


@pytest_asyncio.fixture
async def api(database_url: TestDatabase) -> AsyncIterator[Any]:
    async with connected(database_url.api_url) as connection:
        yield connection


async def count(connection: Any, table: str, where: str = "true") -> int:
    found: int = await connection.fetchval(f"SELECT count(*) FROM {table} WHERE {where}")
    return found


class TestTheCatalogue:
    """S2, as PostgreSQL itself tells it."""

    async def test_every_table_with_a_tenant_is_walled_and_forced(self, admin: Any) -> None:
        tables = await tables_of(admin)
        assert len([table for table in tables if table.is_partition]) >= 14
        walled = {table.name for table in tables if table.is_walled}
        assert {table.name for table in tables if table.has_tenant} | WALLED_WITHOUT_TENANT == walled
        assert {table.name for table in tables} - walled == SHARED

    async def test_every_view_asks_with_the_rights_of_who_looks(self, admin: Any) -> None:
        views = await admin.fetch(
            "SELECT c.oid::regclass::text AS name, coalesce(c.reloptions, '{}') AS options FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname LIKE 'timebell%' AND c.relkind IN ('v', 'm')"
        )
        assert views
        assert [view["name"] for view in views if "security_invoker=true" not in view["options"]] == []

    async def test_what_runs_with_the_owners_rights_is_known_and_pinned(self, admin: Any) -> None:
        functions = await admin.fetch(
            "SELECT p.proname, coalesce(p.proconfig, '{}') AS settings FROM pg_proc p JOIN pg_namespace n "
            "ON n.oid = p.pronamespace WHERE n.nspname LIKE 'timebell%' AND p.prosecdef"
        )
        assert {row["proname"] for row in functions} == DEFINED_BY_OWNER
        assert all("search_path=pg_catalog, pg_temp" in row["settings"] for row in functions)

    async def test_no_role_is_above_the_wall(self, admin: Any) -> None:
        working = [name for role, name in ROLES.items() if role != "admin"]
        powers = "rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication"
        rows = await admin.fetch(
            f"SELECT rolname, {powers} AS is_above FROM pg_roles WHERE rolname = ANY($1)", working
        )
        assert {row["rolname"]: row["is_above"] for row in rows} == dict.fromkeys(working, False)
        members = "SELECT count(*) FROM pg_auth_members m WHERE m.member = ANY($1::text[]::regrole[])"
        assert await admin.fetchval(members, working) == 0
        owners = await admin.fetch(
            "SELECT DISTINCT c.relowner::regrole::text AS name FROM pg_class c JOIN pg_namespace n "
            "ON n.oid = c.relnamespace WHERE n.nspname LIKE 'timebell%'"
        )
        assert [row["name"] for row in owners] == [ROLES["owner"]]


class TestEveryTable:
    """S1, generated: whatever table there is, one tenant finds nothing of another's."""

    async def test_without_a_tenant_nothing_is_seen(self, admin: Any, api: Any) -> None:
        names = await fill(admin, "acme", "zeta", "")
        assert {name: await count(api, name) for name in names} == dict.fromkeys(names, 0)
        async with as_tenant(api, "acme"):
            pass
        # The setting is empty now and no longer missing, and a tenant with an empty name is none.
        assert await api.fetchval("SELECT current_setting('timebell.tenant')") == ""
        assert {name: await count(api, name) for name in names} == dict.fromkeys(names, 0)

    async def test_a_tenant_sees_its_own_rows_alone(self, admin: Any, api: Any) -> None:
        names = await fill(admin, "acme", "zeta")
        async with as_tenant(api, "acme"):
            assert {name: await count(api, name) for name in names} == dict.fromkeys(names, 1)
            others = {name: await count(api, name, "tenant <> 'acme'") for name in names}
        assert others == dict.fromkeys(names, 0)

    async def test_a_row_of_another_tenant_is_neither_added_nor_changed_nor_removed(
        self, admin: Any, api: Any, subtests: pytest.Subtests
    ) -> None:
        names = await fill(admin, "acme", "zeta")
        before = {name: await admin.fetch(f"SELECT * FROM {name} ORDER BY tenant") for name in names}
        for name in names:
            statements = {
                "INSERT": await insertion(admin, name, "zeta"),
                "UPDATE": f"UPDATE {name} SET tenant = 'zeta'",
                "DELETE": f"DELETE FROM {name} WHERE tenant = 'zeta'",
            }
            for right, statement in statements.items():
                granted = await api.fetchval("SELECT has_table_privilege($1::text, $2::text)", name, right)
                with subtests.test(statement):
                    async with as_tenant(api, "acme"):
                        if granted and (right == "DELETE" or (right, name) in UNSEEN):
                            assert await api.execute(statement) == f"{right} 0"
                            continue
                        with pytest.raises(asyncpg.InsufficientPrivilegeError) as refused:
                            await api.execute(statement)
                        assert ("row-level security" in str(refused.value)) == granted
        assert {name: await admin.fetch(f"SELECT * FROM {name} ORDER BY tenant") for name in names} == before

    async def test_each_role_sees_what_it_is_for(self, admin: Any, database_url: TestDatabase) -> None:
        """S3: the nodes and the reader see every tenant, and the owner, who could tear the wall down, sees none."""
        names = await fill(admin, "acme", "zeta")
        for url, seen in (
            (database_url.url, 2),
            (database_url.read_url, 2),
            (database_url.owner_url, 0),
        ):
            async with connected(url) as connection:
                found = {name: await count(connection, name) for name in names}
            assert found == dict.fromkeys(names, seen)

    async def test_the_reader_changes_nothing(
        self, admin: Any, database_url: TestDatabase, subtests: pytest.Subtests
    ) -> None:
        names = await fill(admin, "acme")
        async with connected(database_url.read_url) as reader:
            # Read-only by a setting of the role, which whoever has the role may change; the rights remain.
            await reader.execute("SET default_transaction_read_only = off")
            for name in names:
                for statement in (
                    await insertion(admin, name, "acme"),
                    f"UPDATE {name} SET tenant = 'zeta'",
                    f"DELETE FROM {name}",
                    f"TRUNCATE {name}",
                ):
                    with subtests.test(statement), pytest.raises(asyncpg.InsufficientPrivilegeError):
                        await reader.execute(statement)


async def test_the_reader_can_copy_the_log_day_by_day(admin: Any, database_url: TestDatabase) -> None:
    """A dump reads each partition by itself, and must not come back without its rows."""
    await fill(admin, "acme", "zeta")
    async with connected(database_url.read_url) as reader, connected(database_url.url) as worker:
        assert await worker.fetchval("SELECT timebell.ensure_log_partitions(20)") == 6
        partitions = [table.name for table in await tables_of(admin) if table.is_partition]
        assert sum([await count(reader, name) for name in partitions]) == 2


async def test_a_function_of_the_owner_is_no_way_around(admin: Any, api: Any) -> None:
    await fill(admin, "acme", "zeta")
    await admin.execute(
        "CREATE FUNCTION timebell.peek() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS "
        f"'SELECT count(*) FROM timebell.jobs'; ALTER FUNCTION timebell.peek() OWNER TO {ROLES['owner']}"
    )
    async with as_tenant(api, "acme"):
        assert await api.fetchval("SELECT timebell.peek()") == 0


class TestExceptions:
    async def test_a_pause_for_everybody_is_seen_by_all_and_made_by_the_default_tenant(
        self, admin: Any, api: Any
    ) -> None:
        await admin.execute("INSERT INTO timebell.queue_pauses (queue) VALUES ('mail')")
        paused = "INSERT INTO timebell.queue_pauses (queue, tenant) VALUES ('slow', '')"
        async with as_tenant(api, "acme"):
            assert await count(api, "timebell.queue_pauses") == 1
            assert await api.execute("DELETE FROM timebell.queue_pauses") == "DELETE 0"
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await api.execute(paused)
        async with as_tenant(api, "default"):
            await api.execute(paused)
            assert await api.execute("DELETE FROM timebell.queue_pauses") == "DELETE 2"

    @pytest.mark.parametrize("table", ["templates", "template_texts"])
    async def test_what_is_shipped_is_read_by_all_and_written_by_none(
        self, admin: Any, api: Any, table: str
    ) -> None:
        await fill(admin, "")
        name = f"timebell_notify.{table}"
        shipped = await insertion(admin, name, "")
        for tenant in ("acme", "default"):
            async with as_tenant(api, tenant):
                assert await count(api, name) == 1
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await api.execute(shipped)
        async with as_tenant(api, "acme"):
            assert await api.execute("UPDATE timebell_notify.templates SET topic = 'mine'") == "UPDATE 0"

    async def test_a_report_comes_in_without_a_tenant_and_is_seen_by_none(self, admin: Any, api: Any) -> None:
        report = (
            "INSERT INTO timebell_notify.provider_reports (provider, report_id, kind, received_at, body) "
            "VALUES ('resend', 'r1', 'bounced', now(), '{}') ON CONFLICT DO NOTHING"
        )
        assert await api.execute(report) == "INSERT 0 1"
        assert await api.execute(report) == "INSERT 0 0"
        async with as_tenant(api, "acme"):
            assert await count(api, "timebell_notify.provider_reports") == 0
        assert await count(admin, "timebell_notify.provider_reports") == 1

    async def test_a_key_is_shown_to_who_names_its_digest(self, admin: Any, api: Any) -> None:
        await fill(admin, "acme", "zeta")
        digest = await admin.fetchval(
            "SELECT encode(digest, 'hex') FROM timebell_web.api_keys WHERE tenant = 'zeta'"
        )
        async with api.transaction():
            await api.execute("SELECT set_config('timebell.key_digest', $1, true)", digest)
            shown = await api.fetch("SELECT tenant FROM timebell_web.api_keys")
            assert [row["tenant"] for row in shown] == ["zeta"]
            assert await api.execute("UPDATE timebell_web.api_keys SET revoked_at = now()") == "UPDATE 0"
        assert await count(api, "timebell_web.api_keys") == 0

    async def test_tenants_are_administered_by_the_default_tenant(self, admin: Any, api: Any) -> None:
        await fill(admin, "acme", "zeta")
        made = "INSERT INTO timebell_web.tenants (tenant, name, created_at) VALUES ('new', 'New', now())"
        async with as_tenant(api, "acme"):
            assert await api.fetchval("SELECT array_agg(tenant) FROM timebell_web.tenants") == ["acme"]
            assert await api.execute("UPDATE timebell_web.tenants SET name = 'mine'") == "UPDATE 0"
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await api.execute(made)
        async with as_tenant(api, "default"):
            await api.execute(made)
            assert await count(api, "timebell_web.tenants") == 3

    async def test_an_override_is_its_schedules(self, admin: Any, api: Any) -> None:
        await fill(admin, "acme", "zeta")
        await admin.execute(
            "INSERT INTO timebell.occurrence_overrides (schedule_id, original_local, created_at) "
            "SELECT id, '2027-03-01', now() FROM timebell.schedules"
        )
        theirs = await admin.fetchval("SELECT id FROM timebell.schedules WHERE tenant = 'zeta'")
        assert await count(api, "timebell.occurrence_overrides") == 0
        async with as_tenant(api, "acme"):
            assert await count(api, "timebell.occurrence_overrides") == 1
            assert await api.execute("DELETE FROM timebell.occurrence_overrides") == "DELETE 1"
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
                await api.execute(
                    "INSERT INTO timebell.occurrence_overrides (schedule_id, original_local, created_at) "
                    "VALUES ($1, '2027-03-02', now())",
                    theirs,
                )


class TestTheAuditTrail:
    """S20: events and the log are added to and read, and what stands there stays."""

    @pytest.mark.parametrize("table", ["timebell.events", "timebell.job_log"])
    async def test_no_role_that_works_rewrites_it(
        self, admin: Any, database_url: TestDatabase, table: str, subtests: pytest.Subtests
    ) -> None:
        await fill(admin, "acme")
        before = await admin.fetch(f"SELECT * FROM {table}")
        for url in (database_url.url, database_url.api_url, database_url.read_url):
            async with connected(url) as connection:
                await connection.execute("SET default_transaction_read_only = off")
                for statement in (
                    f"UPDATE {table} SET tenant = 'acme'",
                    f"DELETE FROM {table}",
                    f"TRUNCATE {table}",
                    f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY",
                    f"DROP TABLE {table}",
                ):
                    with subtests.test(f"{url.partition(':')[0]} {statement}"):
                        async with as_tenant(connection, "acme"):
                            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                                await connection.execute(statement)
        assert await admin.fetch(f"SELECT * FROM {table}") == before
