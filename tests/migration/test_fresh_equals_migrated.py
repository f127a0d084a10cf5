"""A database that grew release by release, with rows in it, ends up as one that was made today."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.migration.conftest import Connect
from tests.migration.made_up import MakeSlice
from timebell.db.migrate import Migration, check_schema, describe_schema, migrate, migrations_of
from timebell.db.provision import ROLES
from timebell.kernel.migrations import KERNEL
from timebell.testing.database import DatabaseFactory, TestDatabase

# The log has a partition for each day around today, and a test may run across midnight.
A_DAY = re.compile(r"\bjob_log_\d{8}")

# What stands in the database after the migration of this number, for the later ones to cope with.
ROWS = {
    1: """
        INSERT INTO timebell.queues (name) VALUES ('default');
        INSERT INTO timebell.kinds (kind, queue, mode, payload_bytes_max)
        VALUES ('demo', 'default', 'plain', 1000);
        INSERT INTO timebell.jobs
            (id, tenant, queue, kind, subject, key, run_at, due_at, payload, step, revision)
        SELECT gen_random_uuid(), 'acme', 'default', 'demo', 'booking:' || n, 'key-' || n,
            '2030-01-01', '2030-01-01', '{}', 'step', 1
        FROM generate_series(1, 50) n;
        INSERT INTO timebell.job_keys (tenant, kind, key, job_id, fingerprint)
        SELECT tenant, kind, key, id, 'print' FROM timebell.jobs;
        INSERT INTO timebell.agendas (tenant, subject, anchor)
        SELECT tenant, subject, due_at FROM timebell.jobs;
        INSERT INTO timebell.agenda_done (tenant, subject, step, due_at, state, finished_at)
        SELECT tenant, subject, 'earlier', '2020-01-01', 'done', '2020-01-01' FROM timebell.jobs;
        INSERT INTO timebell.events (id, tenant, name, data, occurred_at)
        VALUES (gen_random_uuid(), 'acme', 'booking.made', '{}', '2020-01-01');
        INSERT INTO timebell.nodes (incarnation, node, version, started_at, lease_until)
        VALUES (nextval('timebell.incarnations'), 'a', '1', '2020-01-01', '2020-01-01');
        UPDATE timebell.slots SET owner = 1, epoch = 1 WHERE slot < 128;
    """,
    2: """
        INSERT INTO timebell.job_log (id, tenant, queue, kind, version, attempt, state, due_at, finished_at)
        VALUES (gen_random_uuid(), 'acme', 'default', 'demo', 1, 1, 'done', '2020-01-01', '2020-01-01');
    """,
}


@pytest.fixture
async def second_database(databases: DatabaseFactory) -> AsyncIterator[TestDatabase]:
    database = await databases.create(template=None)
    yield database
    await databases.drop(database)


async def test_the_kernel_grown_step_by_step_equals_the_kernel_made_at_once(
    owner: asyncpg.Connection,
    empty_database: TestDatabase,
    second_database: TestDatabase,
    connect: Connect,
    make_slice: MakeSlice,
) -> None:
    fresh = await connect(second_database.owner_url)
    files = migrations_of(KERNEL)
    await migrate(fresh, [KERNEL])
    for length in range(1, len(files) + 1):
        release = make_slice(_texts(files[:length]), name=KERNEL.name, schema=KERNEL.schema)
        assert [one.number for one in await migrate(owner, [release])] == [length]
        await check_schema(owner, [release])
        await owner.execute(ROWS.get(length, "SELECT 1"))
    assert await _described(owner) == await _described(fresh)
    admin = await connect(empty_database.admin_url)
    assert await admin.fetchval("SELECT count(*) FROM timebell.jobs") == 50
    assert await admin.fetchval("SELECT count(*) FROM timebell.job_keys") == 50
    assert await admin.fetchval("SELECT count(*) FROM timebell.slots") == 256


async def test_the_kernel_expanded_and_then_contracted_equals_the_kernel_made_at_once(
    owner: asyncpg.Connection, second_database: TestDatabase, connect: Connect
) -> None:
    fresh = await connect(second_database.owner_url)
    await migrate(fresh, [KERNEL])
    await migrate(owner, [KERNEL], phase="expand")
    await migrate(owner, [KERNEL])
    assert await _described(owner) == await _described(fresh)


async def test_the_databases_of_the_tests_are_the_kernel_made_at_once(
    owner: asyncpg.Connection, database_url: TestDatabase, connect: Connect
) -> None:
    await migrate(owner, [KERNEL], api_role=ROLES["api"], read_role=ROLES["read"])
    assert await _described(await connect(database_url.owner_url)) == await _described(owner)


async def test_a_database_that_went_astray_is_noticed(
    owner: asyncpg.Connection, second_database: TestDatabase, connect: Connect
) -> None:
    astray = await connect(second_database.owner_url)
    await migrate(owner, [KERNEL])
    await migrate(astray, [KERNEL])
    await astray.execute("DROP INDEX timebell.jobs_due")
    difference = set(await _described(owner)) ^ set(await _described(astray))
    assert len(difference) == 1
    assert "jobs_due" in difference.pop()


async def test_the_application_owns_nothing_of_the_kernel(
    database_url: TestDatabase, connect: Connect
) -> None:
    described = await _described(await connect(database_url.url))
    assert any("owner timebell_owner" in entry for entry in described)
    assert not [entry for entry in described if re.search(r"\bowner timebell\b", entry)]


async def _described(connection: asyncpg.Connection) -> list[str]:
    entries = await describe_schema(connection, [KERNEL.schema, "timebell_meta"])
    return [entry for entry in entries if not A_DAY.search(entry)]


def _texts(files: list[Migration]) -> dict[str, str]:
    return {migration.file: migration.sql for migration in files}
