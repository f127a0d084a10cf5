"""The tables and views of the app: what they refuse, who sees what in them, and how they come and go."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import get_args
from uuid import UUID

import asyncpg
import pytest

from tests.apps.meetings.support import START, Office
from tests.docs.markdown import blocks
from tests.shape.tree import PACKAGE
from timebell.apps.meetings import APP
from timebell.apps.meetings.models import Status
from timebell.backups import back_up, restore
from timebell.config import Settings
from timebell.db.migrate import describe_schema, migrate
from timebell.db.provision import ROLES
from timebell.kernel import Registry
from timebell.loading import apps_of, slices_of
from timebell.testing.database import TestDatabase

README = PACKAGE / "apps" / "meetings" / "README.md"
(AWAY,) = [block.code for block in blocks(README.read_text(encoding="utf-8")) if block.language == "sql"]
EDGES = {
    ("pending", "accepted"),
    ("pending", "denied"),
    ("pending", "rescheduled"),
    ("pending", "cancelled"),
    ("accepted", "completed"),
    ("accepted", "cancelled"),
    ("accepted", "rescheduled"),
}
TABLES = (
    "meeting_requests",
    "meeting_participants",
    "meeting_status_events",
    "meeting_reschedule_events",
    "meeting_settings",
    "people",
    "busy",
)


MADE = (
    "INSERT INTO meetings.meeting_requests (tenant, id, requester_id, title, timezone, proposed_slots, status, "
    "root_id, parent_meeting_id, created_at, updated_at) "
    "VALUES ('default', gen_random_uuid(), $1, 'x', 'UTC', '[]', $2, $1, $3, now(), now())"
)


def moved_to(status: str) -> str:
    """As whoever forgets the rules would write it, with a slot where the state needs one."""
    slot = ", accepted_start = now(), accepted_end = now() + interval '1 hour'"
    needed = slot if status in ("accepted", "completed") else ""
    return f"UPDATE meetings.meeting_requests SET status = '{status}'{needed}"


@pytest.mark.req("M-1.1", "M-1.2", "D-3.1")
async def test_the_database_itself_refuses_every_other_edge(office: Office) -> None:
    """Seven of the thirty-six are taken, and no word is that it does not know."""
    await office.propose()
    owner = await asyncpg.connect(office.database.admin_url, timeout=10)
    try:
        for before, after in product(get_args(Status), repeat=2):
            transaction = owner.transaction()
            await transaction.start()
            await owner.execute("SET LOCAL session_replication_role = replica")
            await owner.execute(moved_to(before))
            await owner.execute("SET LOCAL session_replication_role = origin")
            if (before, after) in EDGES:
                await owner.execute(moved_to(after))
            else:
                with pytest.raises(asyncpg.CheckViolationError, match="does not become"):
                    await owner.execute(moved_to(after))
            await transaction.rollback()
        with pytest.raises(asyncpg.CheckViolationError):
            await owner.execute(moved_to("postponed"))
        with pytest.raises(asyncpg.CheckViolationError):
            await owner.execute(MADE, UUID(int=1), "postponed", None)
    finally:
        await owner.close(timeout=10)


@pytest.mark.req("M-1.4", "D-3.2")
async def test_what_happened_can_be_neither_changed_nor_removed(office: Office) -> None:
    old = await office.accepted()
    await office.reschedule(old["id"], START)
    for url in (office.database.url, office.database.api_url):
        role = await asyncpg.connect(url, timeout=10)
        try:
            for table in ("meeting_status_events", "meeting_reschedule_events"):
                for statement in (
                    f"DELETE FROM meetings.{table}",
                    f"UPDATE meetings.{table} SET reason = 'x'",
                ):
                    with pytest.raises(asyncpg.InsufficientPrivilegeError):
                        await role.execute(statement)
        finally:
            await role.close(timeout=10)


@pytest.mark.req("M-1.3")
async def test_no_parent_has_two_children(office: Office) -> None:
    old = await office.propose()
    await office.reschedule(old["id"], START)
    with pytest.raises(asyncpg.UniqueViolationError):
        await office.rows(MADE, UUID(old["id"]), "pending", UUID(old["id"]))


@pytest.mark.req("M-5.1", "D-3.3")
async def test_the_views_have_the_words_of_the_source(office: Office) -> None:
    async def columns(view: str) -> dict[str, str]:
        rows = await office.rows(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'meetings' "
            "AND table_name = $1",
            view,
        )
        return {row["column_name"]: row["data_type"] for row in rows}

    reminders = await columns("reminder_jobs")
    assert reminders.keys() >= {
        *("id", "meeting_id", "organization_id", "recipient_id", "reminder_type", "scheduled_at", "status"),
        *("attempts", "last_attempt_at", "created_at", "updated_at", "next_attempt_at", "notification_id"),
    }
    for view in ("reminder_jobs", "audit_events", *TABLES):
        for name, kind in (await columns(view)).items():
            if name.endswith("_at") or name in ("accepted_start", "accepted_end"):
                assert kind == "timestamp with time zone", f"{view}.{name}"
    await office.accepted()
    rows = await office.rows("SELECT DISTINCT organization_id, status, attempts FROM meetings.reminder_jobs")
    assert [tuple(row) for row in rows] == [("default", "pending", 0)]


async def test_the_role_of_the_api_sees_one_tenant(office: Office) -> None:
    old = await office.accepted()
    await office.reschedule(old["id"], START)
    await office.accepted()
    await office.site.ask("PATCH", "/api/meeting-settings", key="admin", json={})
    api = await asyncpg.connect(office.database.api_url, timeout=10)
    try:
        for table in (*TABLES, "reminder_jobs", "audit_events"):
            assert await api.fetchval(f"SELECT count(*) FROM meetings.{table}") == 0
            async with api.transaction():
                await api.execute("SET LOCAL timebell.tenant = 'default'")
                assert await api.fetchval(f"SELECT count(*) FROM meetings.{table}") > 0
        written = "INSERT INTO meetings.people (tenant, recipient_id) VALUES ('other', gen_random_uuid())"
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await api.execute(f"BEGIN; SET LOCAL timebell.tenant = 'default'; {written}")
    finally:
        await api.close(timeout=10)


async def test_a_restore_brings_everything_back(
    office: Office, empty_database: TestDatabase, tmp_path: Path
) -> None:
    """Meetings in any state, and numbers that go on where they were."""
    old = await office.accepted()
    child = await office.reschedule(old["id"], START)
    await office.accept(child["id"], office.ada)
    file = tmp_path / "all.zip"
    await back_up(settings_of(office.database), file)
    await restore(settings_of(empty_database), file)
    found = []
    for database in (office.database, empty_database):
        connection = await asyncpg.connect(database.admin_url, timeout=10)
        try:
            rows = {}
            for table in TABLES:
                kept = await connection.fetch(f"SELECT t::text AS r FROM meetings.{table} t ORDER BY 1")
                rows[table] = [row["r"] for row in kept]
            found.append(
                (rows, await connection.fetchval("SELECT last_value FROM meetings.people_number_seq"))
            )
        finally:
            await connection.close(timeout=10)
    assert found[0] == found[1]
    assert len(found[0][0]["busy"]) == 3


def settings_of(database: TestDatabase) -> Settings:
    return Settings(
        database_url=database.url,
        owner_url=database.owner_url,
        api_url=database.api_url,
        read_url=database.read_url,
        apps=("timebell.apps.meetings",),
    )


async def schema_of(database: TestDatabase) -> object:
    connection = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        return await describe_schema(connection, ["meetings", "timebell_notify", "timebell"])
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
        assert await owner.fetch("SELECT extname FROM pg_extension WHERE extname <> 'plpgsql'") == []
    finally:
        await owner.close(timeout=10)


def test_it_is_loaded_unless_the_settings_name_others() -> None:
    assert APP in apps_of(Settings())
