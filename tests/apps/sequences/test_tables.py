"""The tables and views of the app: what they refuse, who sees what in them, and how they come and go."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import get_args
from uuid import UUID

import asyncpg
import pytest

from tests.apps.sequences.support import DAY, END, MINUTE, NOW, START, House, step
from tests.docs.markdown import blocks
from tests.shape.tree import PACKAGE
from timebell.apps.sequences import APP
from timebell.apps.sequences.models import BookingStatus
from timebell.apps.sequences.rules import FROM, TO
from timebell.backups import back_up, restore
from timebell.config import Settings
from timebell.db.migrate import describe_schema, migrate
from timebell.db.provision import ROLES
from timebell.kernel import Registry
from timebell.loading import apps_of, slices_of
from timebell.testing.database import TestDatabase

README = PACKAGE / "apps" / "sequences" / "README.md"
(AWAY,) = [block.code for block in blocks(README.read_text(encoding="utf-8")) if block.language == "sql"]
TABLES = (
    "sequences",
    "sequence_versions",
    "subjects",
    "subject_people",
    "enrolments",
    "messages",
    "applications",
    "booking_settings",
)
VIEWS = ("guest_bookings", "booking_contacts", "message_queue", "sequence_steps", "standings")
EDGES = {(before, TO[transition]) for transition, befores in FROM.items() for before in befores}


async def columns(house: House, view: str) -> dict[str, str]:
    rows = await house.rows(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'sequences' "
        "AND table_name = $1",
        view,
    )
    return {row["column_name"]: row["data_type"] for row in rows}


async def filled(house: House) -> dict[str, str]:
    """A booking of two people with a message that was sent, one to come and one that is skipped; and a row in every
    other table."""
    saved = await house.save(
        step("now", anchor="event_time", contacts="all"),
        step("day-before", "-P1D", channel="email"),
        step("far", "-P1D", conditions={"minDaysOut": 300}),
    )
    booking = await house.book(
        contacts=[{"contactId": str(house.bob), "role": "companion"}], location="By the lake"
    )
    await house.pass_until(NOW + MINUTE)
    await house.ask("PATCH", f"/api/sequences/{saved['id']}", {}, params={"apply": "true"})
    await house.ask("PATCH", "/api/booking-settings", {"checkInAtStart": False}, key="admin")
    return {"booking": booking["id"], "sequence": saved["id"]}


@pytest.mark.req("A-2.2", "D-7.1")
async def test_the_database_itself_refuses_every_other_edge(house: House) -> None:
    """Six of the twenty are taken, and no word is that it does not know."""
    await house.book()
    assert len(EDGES) == 6
    moved = "UPDATE sequences.subjects SET status = $1"
    owner = await asyncpg.connect(house.database.admin_url, timeout=10)
    try:
        for before, after in product(get_args(BookingStatus), repeat=2):
            transaction = owner.transaction()
            await transaction.start()
            await owner.execute("SET LOCAL session_replication_role = replica")
            await owner.execute(moved, before)
            await owner.execute("SET LOCAL session_replication_role = origin")
            if before == after or (before, after) in EDGES:
                await owner.execute(moved, after)
            else:
                with pytest.raises(asyncpg.CheckViolationError, match="does not become"):
                    await owner.execute(moved, after)
            await transaction.rollback()
        with pytest.raises(asyncpg.CheckViolationError):
            await owner.execute(moved, "postponed")
        with pytest.raises(asyncpg.CheckViolationError):
            await owner.execute("UPDATE sequences.subjects SET ends_at = starts_at - interval '1 second'")
    finally:
        await owner.close(timeout=10)


@pytest.mark.req("D-7.1")
async def test_bookings_and_their_contacts_have_the_words_of_the_source(house: House) -> None:
    assert (await columns(house, "guest_bookings")).keys() >= {
        *("id", "subtype", "status", "event_name", "start_at", "end_at", "tz", "location"),
    }
    assert (await columns(house, "booking_contacts")).keys() >= {"booking_id", "contact_id", "role"}
    made = await filled(house)
    event = {"event": "visit_planned", "subject": "visit:1", "facts": {"contacts": [str(house.bob)]}}
    await house.ask("POST", "/api/sequences/events", event)
    [booking] = await house.rows("SELECT * FROM sequences.guest_bookings")
    assert dict(booking) == {
        "tenant": "default",
        "id": UUID(made["booking"]),
        "subtype": "stay",
        "status": "created",
        "event_name": "A stay by the lake",
        "location": "By the lake",
        "start_at": START,
        "end_at": END,
        "tz": "Europe/Berlin",
        "created_at": NOW,
        "updated_at": NOW,
    }
    contacts = await house.rows(
        "SELECT booking_id, contact_id, role, is_primary FROM sequences.booking_contacts ORDER BY role"
    )
    assert [tuple(row) for row in contacts] == [
        (UUID(made["booking"]), house.bob, "companion", False),
        (UUID(made["booking"]), house.ada, "guest", True),
    ]


@pytest.mark.req("D-7.3")
async def test_the_queue_of_messages_has_the_words_of_the_source(house: House) -> None:
    named = await columns(house, "message_queue")
    kinds = {
        "id": "uuid",
        "scheduledFor": "timestamp with time zone",
        "channel": "text",
        "status": "text",
        "organizationId": "text",
    }
    assert kinds.items() <= named.items()
    made = await filled(house)
    rows = await house.rows(
        'SELECT "stepKey", "bookingId", "contactId", "organizationId", channel, status, reason, "scheduledFor", '
        '"sentAt" FROM sequences.message_queue ORDER BY id'
    )
    about = (UUID(made["booking"]),)
    day_before = START - DAY
    assert [tuple(row) for row in rows] == [
        ("now", *about, house.ada, "default", "email", "sent", None, NOW, NOW),
        ("now", *about, house.bob, "default", "email", "sent", None, NOW, NOW),
        ("day-before", *about, house.ada, "default", "email", "scheduled", None, day_before, None),
        ("far", *about, house.ada, "default", "preferred", "skipped", "min_days_out", day_before, None),
    ]
    [index] = await house.rows(
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'sequences' AND indexname = 'by_status_scheduled'"
    )
    assert "(tenant, status, due_at, id)" in index["indexdef"]


async def test_every_instant_knows_its_zone(house: House) -> None:
    for place in (*TABLES, *VIEWS):
        for name, kind in (await columns(house, place)).items():
            if name.endswith(("_at", "At", "scheduledFor")):
                assert kind == "timestamp with time zone", f"{place}.{name}"


async def test_the_role_of_the_api_sees_one_tenant(house: House) -> None:
    await filled(house)
    api = await asyncpg.connect(house.database.api_url, timeout=10)
    try:
        for place in (*TABLES, *VIEWS):
            assert await api.fetchval(f"SELECT count(*) FROM sequences.{place}") == 0
            async with api.transaction():
                await api.execute("SET LOCAL timebell.tenant = 'other'")
                assert await api.fetchval(f"SELECT count(*) FROM sequences.{place}") == 0
                await api.execute("SET LOCAL timebell.tenant = 'default'")
                assert await api.fetchval(f"SELECT count(*) FROM sequences.{place}") > 0, place
        written = "INSERT INTO sequences.booking_settings VALUES ('other', true, true)"
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await api.execute(f"BEGIN; SET LOCAL timebell.tenant = 'default'; {written}")
    finally:
        await api.close(timeout=10)


async def test_a_restore_brings_everything_back(
    house: House, empty_database: TestDatabase, tmp_path: Path
) -> None:
    await filled(house)
    file = tmp_path / "all.zip"
    await back_up(settings_of(house.database), file)
    await restore(settings_of(empty_database), file)
    before, after = [await everything(database) for database in (house.database, empty_database)]
    assert before == after
    assert all(before.values())


async def everything(database: TestDatabase) -> dict[str, list[str]]:
    connection = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        return {
            table: [
                row["r"]
                for row in await connection.fetch(f"SELECT t::text AS r FROM sequences.{table} t ORDER BY 1")
            ]
            for table in TABLES
        }
    finally:
        await connection.close(timeout=10)


def settings_of(database: TestDatabase) -> Settings:
    return Settings(
        database_url=database.url,
        owner_url=database.owner_url,
        api_url=database.api_url,
        read_url=database.read_url,
        apps=("timebell.apps.sequences",),
    )


async def schema_of(database: TestDatabase) -> object:
    connection = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        return await describe_schema(connection, ["sequences", "timebell_notify", "timebell"])
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
