"""The tables of the app: what they refuse, who sees what in them, and how they come and go."""

from __future__ import annotations

from datetime import datetime

import asyncpg
import pytest

from tests.apps.reminders.support import Desk
from tests.docs.markdown import blocks
from tests.shape.tree import PACKAGE
from timebell.apps.reminders import APP
from timebell.config import Settings
from timebell.db.migrate import describe_schema, migrate
from timebell.db.provision import ROLES
from timebell.errors import ConfigurationError
from timebell.kernel import Registry
from timebell.loading import apps_of, slices_of
from timebell.testing.database import TestDatabase

README = PACKAGE / "apps" / "reminders" / "README.md"
FORTH, BACK, AWAY = [
    block.code for block in blocks(README.read_text(encoding="utf-8")) if block.language == "sql"
]


async def schema_of(database: TestDatabase) -> object:
    connection = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        return await describe_schema(connection, ["reminders", "timebell_notify", "timebell"])
    finally:
        await connection.close(timeout=10)


async def migrated(database: TestDatabase, *apps: object) -> None:
    connection = await asyncpg.connect(database.owner_url, timeout=10)
    try:
        slices = slices_of(Registry(apps))  # type: ignore[arg-type]
        await migrate(connection, slices, api_role=ROLES["api"], read_role=ROLES["read"])
    finally:
        await connection.close(timeout=10)


@pytest.mark.req("R-2.7", "X-R11")
async def test_the_app_comes_and_goes_and_leaves_nothing(empty_database: TestDatabase) -> None:
    await migrated(empty_database)
    before = await schema_of(empty_database)
    await migrated(empty_database, APP)
    there = await schema_of(empty_database)
    assert there != before
    owner = await asyncpg.connect(empty_database.owner_url, timeout=10)
    try:
        await owner.execute(AWAY)
        assert await schema_of(empty_database) == before
        await migrated(empty_database, APP)
        assert await schema_of(empty_database) == there
        assert await owner.fetch("SELECT extname FROM pg_extension WHERE extname <> 'plpgsql'") == []
    finally:
        await owner.close(timeout=10)


@pytest.mark.req("R-1.2")
async def test_columns_without_an_offset_become_instants_and_back(empty_database: TestDatabase) -> None:
    owner = await asyncpg.connect(empty_database.admin_url, timeout=10)
    noon = datetime(2026, 3, 29, 2, 30)
    try:
        await owner.execute(
            "SET LOCAL timezone = 'UTC'; CREATE TABLE public.tasks (id integer, due_at timestamp)"
        )
        await owner.execute("INSERT INTO public.tasks VALUES (1, $1)", noon)
        for zone in ("Europe/Berlin", "Asia/Kolkata"):
            await owner.execute(f"SET timezone = '{zone}'")
            for _ in range(2):
                await owner.execute(FORTH)
            assert (await owner.fetchval("SELECT due_at FROM public.tasks")).timestamp() == 1774751400.0
            for _ in range(2):
                await owner.execute(BACK)
            assert await owner.fetchval("SELECT due_at FROM public.tasks") == noon
    finally:
        await owner.close(timeout=10)


@pytest.mark.req("R-1.1")
async def test_every_instant_is_one(ada: Desk) -> None:
    rows = await ada.rows(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'reminders'"
    )
    kinds = {row["column_name"]: row["data_type"] for row in rows}
    for name, kind in kinds.items():
        if name.endswith(("_at", "_from")):
            assert kind == "timestamp with time zone", name
        if name.endswith("_local"):
            assert kind == "timestamp without time zone", name


async def test_the_role_of_the_api_sees_one_tenant(ada: Desk) -> None:
    await ada.create()
    api = await asyncpg.connect(ada.database.api_url, timeout=10)
    try:
        for table in ("tasks", "task_links"):
            assert await api.fetchval(f"SELECT count(*) FROM reminders.{table}") == 0
        async with api.transaction():
            await api.execute("SET LOCAL timebell.tenant = 'default'")
            assert await api.fetchval("SELECT count(*) FROM reminders.tasks") == 1
        written = (
            "INSERT INTO reminders.tasks (tenant, id, user_id, title, created_at, updated_at) "
            "VALUES ('other', gen_random_uuid(), gen_random_uuid(), 'x', now(), now())"
        )
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await api.execute(f"BEGIN; SET LOCAL timebell.tenant = 'default'; {written}")
    finally:
        await api.close(timeout=10)


@pytest.mark.req("R-9.3")
@pytest.mark.parametrize("days", [29, 91])
def test_a_horizon_that_is_not_modest_is_refused(days: int) -> None:
    with pytest.raises(ConfigurationError, match="horizon_days"):
        Settings(horizon_days=days)


def test_it_is_loaded_unless_the_settings_name_others() -> None:
    assert APP in apps_of(Settings())
