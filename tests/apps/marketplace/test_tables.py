"""The tables of the app: what they refuse, who sees what in them, and how they come and go."""

from __future__ import annotations

from itertools import product
from typing import get_args

import asyncpg
import pytest

from tests.apps.marketplace.support import Market
from tests.docs.markdown import blocks
from tests.shape.tree import PACKAGE
from timebell.apps.marketplace import APP
from timebell.apps.marketplace.shifts.models import ShiftStatus
from timebell.apps.marketplace.staffing.models import BookingStatus
from timebell.apps.marketplace.staffing.rules import EDGES
from timebell.config import Settings
from timebell.db.migrate import describe_schema, migrate
from timebell.db.provision import ROLES
from timebell.kernel import Registry
from timebell.loading import apps_of, slices_of
from timebell.testing.database import TestDatabase

README = PACKAGE / "apps" / "marketplace" / "README.md"
(AWAY,) = [block.code for block in blocks(README.read_text(encoding="utf-8")) if block.language == "sql"]


async def columns(market: Market, table: str) -> dict[str, str]:
    rows = await market.rows(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'marketplace' "
        "AND table_name = $1",
        table,
    )
    return {row["column_name"]: row["data_type"] for row in rows}


async def moves(market: Market, table: str, before: str, after: str) -> bool:
    """Whether the database takes that edge; nothing is kept of it."""
    owner = await asyncpg.connect(market.database.admin_url, timeout=10)
    try:
        transaction = owner.transaction()
        await transaction.start()
        await owner.execute("SET LOCAL session_replication_role = replica")
        await owner.execute(f"UPDATE marketplace.{table} SET status = $1", before)
        await owner.execute("SET LOCAL session_replication_role = origin")
        try:
            await owner.execute(f"UPDATE marketplace.{table} SET status = $1", after)
        except asyncpg.CheckViolationError:
            return False
        finally:
            await transaction.rollback()
        return True
    finally:
        await owner.close(timeout=10)


@pytest.mark.req("J-15.1")
async def test_the_database_itself_refuses_every_other_edge_of_a_booking(market: Market) -> None:
    await market.book()
    statuses = get_args(BookingStatus)
    found = {(before, after) for before, after in product(statuses, repeat=2) if before != after}
    taken = {edge for edge in found if await moves(market, "staffing_bookings", *edge)}
    assert taken == EDGES
    with pytest.raises(asyncpg.CheckViolationError):
        await market.rows("UPDATE marketplace.staffing_bookings SET status = 'Disputed'")


@pytest.mark.req("D-6.1", "D-6.2")
async def test_the_tables_have_the_words_of_the_source(market: Market) -> None:
    assert (await columns(market, "companies")).keys() >= {"name", "type"}
    assert (await columns(market, "company_members")).keys() >= {"company_id", "recipient_id", "role"}
    assert (await columns(market, "projects")).keys() >= {"company_id", "timezone"}
    assert (await columns(market, "staffing_bookings")).keys() >= {
        *("project_id", "borrower_company_id", "lender_company_id", "worker_id", "supervisor_id"),
        *("payment_type", "status", "start_date", "end_date", "funded_period_end", "clock_in_hold"),
        *("scheduled_end_time", "release_reason", "rate"),
    }
    assert set(get_args(ShiftStatus)) >= {"Scheduled", "Cancelled"}


async def test_every_instant_knows_its_zone(market: Market) -> None:
    tables = await market.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'marketplace'")
    assert len(tables) >= 20
    for (table,) in tables:
        for name, kind in (await columns(market, table)).items():
            if name.endswith("_at") or name == "at":
                assert kind == "timestamp with time zone", f"{table}.{name}"


async def test_the_role_of_the_api_sees_one_tenant(market: Market) -> None:
    await market.book()
    api = await asyncpg.connect(market.database.api_url, timeout=10)
    try:
        tables = await market.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'marketplace'")
        for (table,) in (*tables, ("audit_log",)):
            count = f"SELECT count(*) FROM marketplace.{table}"
            assert await api.fetchval(count) == 0, table
            async with api.transaction():
                await api.execute("SET LOCAL timebell.tenant = 'other'")
                assert await api.fetchval(count) == 0, table
                await api.execute("SET LOCAL timebell.tenant = 'default'")
                there = await market.value(count)
                assert await api.fetchval(count) == there, table
        written = "INSERT INTO marketplace.marketplace_settings VALUES ('other', 'webhook', 1, now())"
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await api.execute(f"BEGIN; SET LOCAL timebell.tenant = 'default'; {written}")
    finally:
        await api.close(timeout=10)


async def schema_of(database: TestDatabase) -> object:
    connection = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        return await describe_schema(connection, ["marketplace", "timebell_notify", "timebell"])
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
    finally:
        await owner.close(timeout=10)


def test_it_is_loaded_unless_the_settings_name_others() -> None:
    assert APP in apps_of(Settings())
