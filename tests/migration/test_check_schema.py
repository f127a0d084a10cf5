from __future__ import annotations

import asyncpg
import pytest

from tests.migration.conftest import Connect
from tests.migration.made_up import FIRST, FOURTH, ONE, THREE, TWO, MakeSlice
from timebell.db.migrate import check_schema, migrate
from timebell.errors import DatabaseError, MigrationError, SchemaMismatch
from timebell.testing.database import TestDatabase


@pytest.fixture
async def app(empty_database: TestDatabase, connect: Connect) -> asyncpg.Connection:
    return await connect(empty_database.url)


async def test_the_application_accepts_its_own_schema(
    owner: asyncpg.Connection, app: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    demo = make_slice(THREE)
    await migrate(owner, [demo])
    await check_schema(app, [demo])
    async with app.transaction():
        await check_schema(app, [demo])


async def test_an_empty_database_is_refused(app: asyncpg.Connection, make_slice: MakeSlice) -> None:
    with pytest.raises(SchemaMismatch, match=r"lacks demo/0001_expand_first\.sql") as refused:
        await check_schema(app, [make_slice(ONE)])
    assert "`timebell migrate`" in str(refused.value)


async def test_new_code_refuses_an_old_schema(
    owner: asyncpg.Connection, app: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    await migrate(owner, [make_slice(ONE)])
    with pytest.raises(
        SchemaMismatch, match=r"older than this version .* lacks demo/0002_expand_note\.sql\."
    ):
        await check_schema(app, [make_slice(TWO)])


async def test_much_that_is_missing_is_told_in_short(app: asyncpg.Connection, make_slice: MakeSlice) -> None:
    files = {f"{number:04}_expand_x.sql": "-- phase: expand\nSELECT 1;\n" for number in range(1, 8)}
    with pytest.raises(SchemaMismatch, match=r"demo/0005_expand_x\.sql and 2 more\."):
        await check_schema(app, [make_slice(files)])


async def test_new_code_runs_before_its_contract(
    owner: asyncpg.Connection, app: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    demo = make_slice(THREE)
    await migrate(owner, [demo], phase="expand")
    await check_schema(app, [demo])


async def test_old_code_runs_on_a_schema_that_newer_code_expanded(
    owner: asyncpg.Connection, app: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    await migrate(owner, [make_slice(TWO)])
    old = make_slice(ONE)
    await check_schema(app, [old])
    assert await migrate(owner, [old]) == []


async def test_old_code_refuses_a_schema_that_newer_code_contracted(
    owner: asyncpg.Connection, app: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    await migrate(owner, [make_slice({**THREE, "0004_expand_again.sql": FOURTH})])
    old = make_slice(TWO)
    with pytest.raises(
        SchemaMismatch, match=r"newer than this version .* demo/0003_contract_note\.sql"
    ) as refused:
        await check_schema(app, [old])
    assert not isinstance(refused.value, MigrationError)
    with pytest.raises(SchemaMismatch, match="Install the version that brought it"):
        await migrate(owner, [old])


async def test_a_changed_file_is_refused(
    owner: asyncpg.Connection, app: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    await migrate(owner, [make_slice(ONE)])
    with pytest.raises(MigrationError, match="was changed after it had been applied"):
        await check_schema(app, [make_slice({"0001_expand_first.sql": FIRST + "SELECT 1;\n"})])


async def test_a_slice_that_is_not_loaded_is_nobodys_business(
    owner: asyncpg.Connection, app: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    thing = {"0001_contract_x.sql": "-- phase: contract\nCREATE TABLE other.thing (id integer);\n"}
    demo = make_slice(ONE)
    await migrate(owner, [demo, make_slice(thing, name="other", schema="other")])
    await check_schema(app, [demo])


async def test_every_slice_is_checked(
    owner: asyncpg.Connection, app: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    demo = make_slice(ONE)
    other = make_slice(ONE, name="other", schema="other")
    await migrate(owner, [demo])
    with pytest.raises(SchemaMismatch, match="lacks other/0001"):
        await check_schema(app, [demo, other])


async def test_a_role_that_may_not_read_the_ledger_is_told_so(
    owner: asyncpg.Connection, app: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    demo = make_slice(ONE)
    await migrate(owner, [demo], app_role=None)
    with pytest.raises(SchemaMismatch, match=r"may not read timebell_meta\.migrations"):
        await check_schema(app, [demo])


async def test_an_old_server_is_refused(
    owner: asyncpg.Connection, make_slice: MakeSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timebell.db.migrate.SERVER_MAJOR_MIN", owner.get_server_version().major + 1)
    with pytest.raises(DatabaseError, match=r"needs \d+ or newer"):
        await check_schema(owner, [make_slice(ONE)])
