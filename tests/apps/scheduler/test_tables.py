"""The tables of the app: what they refuse, who sees what in them, and how they come and go."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from tests.apps.scheduler.support import DAY, HOUR, MINUTE, NOW, Desk, desk, message
from tests.docs.markdown import blocks
from tests.shape.tree import PACKAGE
from timebell.apps.scheduler import with_broker
from timebell.config import Settings
from timebell.db.migrate import describe_schema, migrate
from timebell.db.provision import ROLES
from timebell.kernel import Registry
from timebell.loading import apps_of, slices_of
from timebell.testing.database import TestDatabase

README = PACKAGE / "apps" / "scheduler" / "README.md"
AT = NOW + HOUR
JOBS = "SELECT * FROM scheduler.scheduler_jobs ORDER BY id"


async def schema_of(database: TestDatabase) -> object:
    connection = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        return await describe_schema(connection, ["scheduler", "timebell"])
    finally:
        await connection.close(timeout=10)


async def migrated(database: TestDatabase, *apps: object) -> None:
    connection = await asyncpg.connect(database.owner_url, timeout=10)
    try:
        slices = slices_of(Registry(apps))  # type: ignore[arg-type]
        await migrate(connection, slices, api_role=ROLES["api"], read_role=ROLES["read"])
    finally:
        await connection.close(timeout=10)


async def test_the_app_comes_and_goes_and_leaves_nothing(empty_database: TestDatabase) -> None:
    (away,) = [block.code for block in blocks(README.read_text(encoding="utf-8")) if block.language == "sql"]
    app = with_broker(None)
    await migrated(empty_database)
    before = await schema_of(empty_database)
    await migrated(empty_database, app)
    there = await schema_of(empty_database)
    assert there != before
    owner = await asyncpg.connect(empty_database.owner_url, timeout=10)
    try:
        await owner.execute(away)
        assert await schema_of(empty_database) == before
        await migrated(empty_database, app)
        assert await schema_of(empty_database) == there
    finally:
        await owner.close(timeout=10)


def test_it_is_loaded_unless_the_settings_name_others() -> None:
    assert "scheduler" in [app.name for app in apps_of(Settings())]
    assert with_broker(None).handlers == {}


@pytest.mark.req("S-2.1", "S-3.1")
async def test_the_view_has_the_names_of_the_source(post: Desk) -> None:
    await post.send(
        message(
            "ScheduleRequest", "again", rrule="FREQ=HOURLY", tz="Europe/Berlin", misfire="skip", dtstart=AT
        ),
        message("ScheduleRequest", "once", at=AT, payload={"x": [1]}),
        message("ScheduleCancel", "unknown"),
    )
    again, once = await post.rows(JOBS)
    assert dict(again) == {
        "id": "again",
        "tenant_id": "default",
        "at": None,
        "rrule": "FREQ=HOURLY",
        "dtstart": AT,
        "tz": "Europe/Berlin",
        "payload": None,
        "next_run_at": AT,
        "fire_count": 0,
        "misfire": "skip",
        "status": "pending",
    }
    assert dict(once) == {
        "id": "once",
        "tenant_id": "default",
        "at": AT,
        "rrule": None,
        "dtstart": None,
        "tz": None,
        "payload": '{"x":[1]}',
        "next_run_at": AT,
        "fire_count": 0,
        "misfire": None,
        "status": "pending",
    }
    await post.run_to(AT)
    again, once = await post.rows(JOBS)
    assert [again[name] for name in ("status", "next_run_at", "fire_count")] == ["pending", AT + HOUR, 1]
    assert [once[name] for name in ("status", "next_run_at", "fire_count")] == ["done", None, 1]


async def test_what_waits_late_is_next(post: Desk) -> None:
    await post.ask("a", rrule="FREQ=HOURLY", misfire="fire_all")
    post.server.block()
    await post.run_to(NOW + 3 * HOUR)
    assert (await post.get("a")).upcoming_at == NOW
    post.server.unblock()
    await post.run_to(NOW + 3 * HOUR + MINUTE)
    assert (await post.get("a")).upcoming_at == NOW + 4 * HOUR


async def test_what_is_dead_is_pending_also_at_the_end_of_what_recurs(post: Desk) -> None:
    await post.ask("a", rrule="FREQ=HOURLY;COUNT=2")
    await post.run_to(NOW)
    await post.rows("UPDATE timebell.jobs SET payload = payload - 'id'")
    await post.run_to(NOW + 2 * DAY)
    (row,) = await post.rows("SELECT state FROM timebell.schedules")
    assert row["state"] == "ended"
    one = await post.get("a")
    assert (one.status, one.fired_count) == ("pending", 1)
    async with post.bell.transaction() as tx:
        await post.bell.discard(tx, kind="scheduler.fire")
    assert await post.status("a") == "done"


async def test_the_log_may_forget(post: Desk) -> None:
    await post.ask("a", at=AT)
    await post.run_to(AT)
    await post.rows("DELETE FROM timebell.job_log")
    assert await post.status("a") == "done"


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ("id", "''"),
        ("id", "repeat('ä', 101)"),
        ("id, due_at, recurrence", "'a', now(), 'FREQ=DAILY'"),
        ("id", "'a'"),
        ("id, due_at, misfire", "'a', now(), 'never'"),
    ],
)
async def test_rows_that_cannot_be_are_refused(post: Desk, columns: str, values: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await post.rows(
            f"INSERT INTO scheduler.requests (tenant, number, created_at, updated_at, {columns}) "
            f"VALUES ('default', gen_random_uuid(), now(), now(), {values})"
        )


async def test_the_role_of_the_api_sees_one_tenant(scheduler_database: TestDatabase) -> None:
    async with desk(scheduler_database, broker_trusts_tenant=True) as post:
        await post.ask("a", at=AT)
        await post.ask("a", at=AT, tenant="acme")
        await post.ask("b", rrule="FREQ=DAILY", tenant="acme")
    api = await asyncpg.connect(scheduler_database.api_url, timeout=10)
    try:
        for table in ("requests", "standings", "scheduler_jobs"):
            assert await api.fetchval(f"SELECT count(*) FROM scheduler.{table}") == 0
        async with api.transaction():
            await api.execute("SET LOCAL timebell.tenant = 'acme'")
            rows = await api.fetch("SELECT id, status FROM scheduler.scheduler_jobs ORDER BY id")
            assert [tuple(row) for row in rows] == [("a", "pending"), ("b", "pending")]
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await api.execute("UPDATE scheduler.requests SET tenant = 'default'")
    finally:
        await api.close(timeout=10)


async def test_a_tenant_changes_its_own_alone(scheduler_database: TestDatabase) -> None:
    """Without a wall in the database too."""
    async with desk(scheduler_database, broker_trusts_tenant=True) as post:
        for tenant in ("acme", "beta"):
            await post.ask("once", at=AT, tenant=tenant, payload=1)
            await post.ask("again", rrule="FREQ=HOURLY", tenant=tenant, dtstart=AT)
            await post.ask("gone", at=AT, tenant=tenant)
        beta = "SELECT * FROM scheduler.requests WHERE tenant = 'beta' ORDER BY id"
        before = await post.rows(beta)
        await post.ask("once", at=AT + HOUR, tenant="acme", payload=2)
        await post.ask("again", rrule="FREQ=DAILY", tenant="acme", dtstart=AT)
        await post.cancel("gone", "unknown", tenant="acme")
        await post.cancel("unknown", tenant="acme")
        assert await post.rows(beta) == before
        await post.run_to(AT)
        fired = sorted((due["tenant"], due["id"], due["payload"]) for due in post.dues())
        assert fired == [
            ("acme", "again", None),
            ("beta", "again", None),
            ("beta", "gone", None),
            ("beta", "once", 1),
        ]
        assert (
            (await post.get("again", "beta")).fired_count
            == (await post.get("again", "acme")).fired_count
            == 1
        )
        async with post.bell.transaction(tenant="acme") as tx:
            page = await post.scheduler.list(tx, limit=10, cursor=None)
        assert [(one.id, one.tenant) for one in page.lines] == [
            ("once", "acme"),
            ("again", "acme"),
            ("gone", "acme"),
        ]


async def test_every_instant_is_one(post: Desk) -> None:
    rows = await post.rows(
        "SELECT column_name, data_type FROM information_schema.columns "
        "WHERE table_schema = 'scheduler' AND table_name = 'requests'"
    )
    kinds = {row["column_name"]: row["data_type"] for row in rows}
    for name, kind in kinds.items():
        if name.endswith(("_at", "_for")):
            assert kind == "timestamp with time zone", name
    assert kinds["payload"] == "json"
    assert timedelta(0) < HOUR
