"""Backup and restore: everything comes back, behind the same wall, and nothing is sent a second time."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import asyncpg
import orjson
import pytest

from tests.engine.notify.stage import Stage, stage
from timebell.backups import back_up, restore
from timebell.config import Settings
from timebell.errors import ConfigurationError, InvalidInput
from timebell.kernel import App, Done, Handler, Job, Outcome
from timebell.kernel.events.audit import Audit
from timebell.notify import notify_app
from timebell.providers.log import captured_providers
from timebell.testing import Harness, ManualClock, RecordingProvider, harness
from timebell.testing.database import TestDatabase
from timebell.web.access.keys import ApiKeys

HOUR = timedelta(hours=1)
# Who is alive, and who may do what just now, is another matter in another place.
NOT_KEPT = {"nodes", "node_deaths", "suspects", "slots", "permits", "breakers", "queue_pauses", "events"}


async def act(job: Job) -> Outcome:
    return Done()


OFFICE = App(name="office", handlers={"office.act": Handler(run=act)})


def settings_of(database: TestDatabase) -> Settings:
    return Settings(
        database_url=database.url,
        owner_url=database.owner_url,
        api_url=database.api_url,
        read_url=database.read_url,
        apps=(),
    )


@asynccontextmanager
async def as_admin(database: TestDatabase) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        yield connection
    finally:
        await connection.close(timeout=10)


async def everything(database: TestDatabase) -> dict[str, list[str]]:
    """Every row of every table as text."""
    async with as_admin(database) as admin:
        tables = await admin.fetch(
            "SELECT table_schema || '.' || table_name AS name, table_name FROM information_schema.tables t "
            "JOIN pg_class c ON c.oid = (table_schema || '.' || table_name)::regclass AND NOT c.relispartition "
            "WHERE table_schema LIKE 'timebell%' AND table_schema <> 'timebell_meta' AND table_type = 'BASE TABLE'"
        )
        return {
            row["name"]: [
                each["r"]
                for each in await admin.fetch(f"SELECT t::text AS r FROM {row['name']} t ORDER BY 1")
            ]
            for row in tables
            if row["table_name"] not in NOT_KEPT
        }


def recent() -> ManualClock:
    return ManualClock(datetime.now(UTC).replace(microsecond=0) - 2 * HOUR)


@asynccontextmanager
async def staged(database: TestDatabase, provider: RecordingProvider) -> AsyncIterator[Stage]:
    """As of two hours ago."""
    async with stage(database.url, [provider], apps=[OFFICE], clock=recent()) as opened:
        yield opened


async def owe(h: Harness, *due_ats: datetime) -> None:
    async with h.bell.transaction() as tx:
        for due_at in due_ats:
            await h.bell.enqueue(tx, "office.act", due_at=due_at, subject="a:1")


@pytest.fixture
def provider() -> RecordingProvider:
    return RecordingProvider("mail", channels=["email", "sms"])


async def test_every_row_comes_back_behind_the_same_wall(
    database_url: TestDatabase, empty_database: TestDatabase, provider: RecordingProvider, tmp_path: Path
) -> None:
    async with staged(database_url, provider) as on:
        await on.told()
        await owe(on.harness, on.clock.now + HOUR, on.clock.now + 9 * HOUR)
        async with as_admin(database_url) as admin:
            await _log_of_long_ago(admin)
            # As on a server that has seen more transactions than the other ever will.
            await admin.execute("UPDATE timebell.events SET written_in = '9000000000000000'")
        written = await back_up(settings_of(database_url), tmp_path / "all.zip")
        before = await everything(database_url)
    restored = await restore(settings_of(empty_database), tmp_path / "all.zip")
    assert await everything(empty_database) == before
    assert restored.backup == written
    assert written.row_count >= sum(map(len, before.values())) > 20
    assert stat.S_IMODE((tmp_path / "all.zip").stat().st_mode) == 0o600
    async with as_admin(empty_database) as admin:
        unforced = await admin.fetch(
            "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' "
            "WHERE c.relnamespace::regnamespace::text LIKE 'timebell%' AND c.relkind IN ('r', 'p') "
            "AND NOT (c.relrowsecurity AND c.relforcerowsecurity)"
        )
        assert unforced == []
        to_come = "written_in >= pg_snapshot_xmax(pg_current_snapshot())"
        assert await admin.fetchval(f"SELECT count(*) FROM timebell.events WHERE {to_come}") == 0
        assert await admin.fetchval("SELECT count(*) FROM timebell.nodes") == 0


async def _log_of_long_ago(admin: Any) -> None:
    await admin.execute("CREATE TABLE timebell.job_log_20200229 (LIKE timebell.job_log INCLUDING ALL)")
    await admin.execute("SELECT timebell.wall_log_partition('job_log_20200229')")
    await admin.execute(
        "ALTER TABLE timebell.job_log ATTACH PARTITION timebell.job_log_20200229 "
        "FOR VALUES FROM ('2020-02-29') TO ('2020-03-01')"
    )
    await admin.execute(
        "INSERT INTO timebell.job_log (logged_at, id, tenant, queue, kind, version, attempt, state, due_at, "
        "finished_at) VALUES ('2020-02-29 12:00Z', gen_random_uuid(), 'default', 'default', 'office.act', 1, 1, "
        "'done', '2020-02-29 12:00Z', '2020-02-29 12:00Z')"
    )


async def test_what_was_sent_is_not_sent_again(
    database_url: TestDatabase, empty_database: TestDatabase, provider: RecordingProvider, tmp_path: Path
) -> None:
    async with staged(database_url, provider) as on:
        await on.told()
        await on.tell(due_at=on.clock.now + HOUR)
        await back_up(settings_of(database_url), tmp_path / "all.zip")
        await on.harness.advance(2 * HOUR)
    assert len(provider.parcels) == 2
    restored = await restore(settings_of(empty_database), tmp_path / "all.zip", actor="cli:ada")
    assert restored.due == {"notify": 1}
    assert "notify" in restored.held_queues
    async with harness(empty_database.url, [notify_app([provider]), OFFICE], clock=recent()) as h:
        await h.advance(3 * HOUR)
        assert len(provider.parcels) == 2
        async with h.bell.transaction() as tx:
            await h.bell.resume(tx, "notify", everyone=True)
        await h.advance(timedelta(minutes=5))
        # That is what the operator was asked about.
        assert len(provider.parcels) == 3


async def test_nothing_is_held_where_nothing_has_run_since(
    database_url: TestDatabase, empty_database: TestDatabase, provider: RecordingProvider, tmp_path: Path
) -> None:
    async with staged(database_url, provider) as on:
        await on.tell(due_at=on.clock.now + HOUR)
        await back_up(settings_of(database_url), tmp_path / "all.zip")
    restored = await restore(settings_of(empty_database), tmp_path / "all.zip", due="run")
    assert (restored.due, restored.held_queues) == ({"notify": 1}, [])
    async with harness(empty_database.url, [notify_app([provider]), OFFICE], clock=recent()) as h:
        await h.advance(2 * HOUR)
    assert len(provider.parcels) == 1


@pytest.mark.req("U-20")
async def test_the_restore_stands_in_the_audit_trail_which_still_holds(
    database_url: TestDatabase, empty_database: TestDatabase, provider: RecordingProvider, tmp_path: Path
) -> None:
    async with staged(database_url, provider) as on:
        async with on.harness.bell.transaction() as tx:
            await on.harness.bell.record(tx, "meeting.moved", {"to": "noon"})
        await Audit(on.harness.bell.database, on.clock).seal()
        await back_up(settings_of(database_url), tmp_path / "all.zip")
    await restore(settings_of(empty_database), tmp_path / "all.zip", actor="cli:ada")
    async with as_admin(empty_database) as admin:
        names = await admin.fetch("SELECT name, actor FROM timebell.events ORDER BY recorded_at")
        assert [row["name"] for row in names][-1:] == ["database.restored"]
        assert await admin.fetchval("SELECT count(*) FROM timebell.event_seals") == len(names) - 1


async def test_a_file_has_its_name_once_it_is_on_the_disk(
    database_url: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.append((tmp_path / "all.zip").exists()))
    await back_up(settings_of(database_url), tmp_path / "all.zip")
    assert seen == [False]


class TestRefusals:
    async def test_a_database_that_is_in_use_is_left_as_it_is(
        self, database_url: TestDatabase, provider: RecordingProvider, tmp_path: Path
    ) -> None:
        async with staged(database_url, provider) as on:
            await on.told()
            await back_up(settings_of(database_url), tmp_path / "all.zip")
        before = await everything(database_url)
        with pytest.raises(ConfigurationError, match="restore into one that is empty"):
            await restore(settings_of(database_url), tmp_path / "all.zip")
        assert await everything(database_url) == before

    async def test_a_node_that_is_at_work_is_in_the_way(
        self, database_url: TestDatabase, empty_database: TestDatabase, tmp_path: Path
    ) -> None:
        await back_up(settings_of(database_url), tmp_path / "all.zip")
        async with harness(database_url.url, [OFFICE]):
            with pytest.raises(ConfigurationError, match="a node is at work"):
                await restore(settings_of(database_url), tmp_path / "all.zip")

    async def test_a_file_that_is_not_whole_changes_nothing(
        self,
        database_url: TestDatabase,
        empty_database: TestDatabase,
        provider: RecordingProvider,
        tmp_path: Path,
    ) -> None:
        whole, spoilt = tmp_path / "all.zip", tmp_path / "spoilt.zip"
        async with staged(database_url, provider) as on:
            await on.told()
            await back_up(settings_of(database_url), whole)
        for damage in ("cut", "other", "rows", "older", "fields", "bytes"):
            _spoil(whole, spoilt, damage)
            with pytest.raises(InvalidInput):
                await restore(settings_of(empty_database), spoilt)
        await restore(settings_of(empty_database), whole)

    async def test_a_role_that_sees_one_tenant_makes_no_copy(
        self, database_url: TestDatabase, tmp_path: Path
    ) -> None:
        settings = Settings(
            database_url=database_url.url,
            owner_url=database_url.owner_url,
            read_url=database_url.owner_url,
            apps=(),
        )
        with pytest.raises(Exception, match="shows its rows only in part"):
            await back_up(settings, tmp_path / "all.zip")
        assert list(tmp_path.iterdir()) == []


def _with_a_wrong_byte(whole: Path) -> bytes:
    """The first of the rows of a table, which then cannot be unpacked."""
    content = bytearray(whole.read_bytes())
    with ZipFile(whole) as archive:
        header = archive.getinfo("timebell.job_log.copy").header_offset
    name_length, extra_length = struct.unpack_from("<HH", content, header + 26)
    content[header + 30 + name_length + extra_length] = 0xFF
    return bytes(content)


def _spoil(whole: Path, spoilt: Path, damage: str) -> None:
    if damage == "cut":
        spoilt.write_bytes(whole.read_bytes()[:-200])
        return
    if damage == "other":
        spoilt.write_bytes(b"not a backup")
        return
    if damage == "bytes":
        spoilt.write_bytes(_with_a_wrong_byte(whole))
        return
    with ZipFile(whole) as read, ZipFile(spoilt, "w", ZIP_DEFLATED) as write:
        for name in read.namelist():
            content = read.read(name)
            if name == "manifest.json" and damage == "older":
                manifest = orjson.loads(content)
                manifest["migrations"].pop()
                content = orjson.dumps(manifest)
            if name == "manifest.json" and damage == "fields":
                manifest = orjson.loads(content)
                del manifest["tables"][0]["columns"]
                content = orjson.dumps(manifest)
            if name == "timebell.job_log.copy" and damage == "rows":
                content = b"".join(content.splitlines(keepends=True)[1:])
            write.writestr(name, content)


async def test_a_sandbox_comes_back_with_its_clock(
    database_url: TestDatabase, empty_database: TestDatabase, tmp_path: Path
) -> None:
    async with as_admin(database_url) as admin:
        await admin.execute("INSERT INTO timebell_web.sandbox (now_at) VALUES ('2020-01-01T00:00:00Z')")
    async with harness(database_url.url, [OFFICE, notify_app(captured_providers())]) as h:
        await owe(h, datetime(2020, 1, 2, tzinfo=UTC))
    await back_up(settings_of(database_url), tmp_path / "all.zip")
    restored = await restore(settings_of(empty_database), tmp_path / "all.zip")
    assert restored.due == {}


async def keys_of(database: TestDatabase) -> dict[str, bool]:
    """By name, whether each may be used."""
    async with as_admin(database) as admin:
        rows = await admin.fetch("SELECT name, revoked_at IS NULL AS is_good FROM timebell_web.api_keys")
    return {row["name"]: row["is_good"] for row in rows}


@pytest.mark.parametrize(
    ("options", "good"),
    [
        ({}, {"chosen"}),
        ({"keys": "keep"}, {"chosen", "kept", "revoked after"}),
        ({"due": "run"}, {"chosen", "kept", "revoked after"}),
        ({"due": "run", "keys": "revoke"}, {"chosen"}),
    ],
)
async def test_a_key_that_was_revoked_since_opens_nothing(
    database_url: TestDatabase, empty_database: TestDatabase, tmp_path: Path, options: Any, good: set[str]
) -> None:
    chosen = "a key that the settings name".replace(" ", "-")
    async with harness(database_url.url, [OFFICE]) as bench:
        keys = ApiKeys(bench.bell)
        await keys.ensure(chosen, name="chosen")
        async with bench.bell.transaction() as tx:
            for name in ("kept", "revoked before", "revoked after"):
                made = await keys.create(tx, name=name, scope="write")
                if name == "revoked before":
                    await keys.revoke(tx, made.key.id)
        await back_up(settings_of(database_url), tmp_path / "all.zip")
        async with bench.bell.transaction() as tx:
            await keys.revoke(tx, made.key.id)
    wanted = replace(settings_of(empty_database), api_key=chosen)
    restored = await restore(wanted, tmp_path / "all.zip", **options)
    found = await keys_of(empty_database)
    assert {name for name, is_good in found.items() if is_good} == good
    assert restored.revoked_key_count == 3 - len(good)
