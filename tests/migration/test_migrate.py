from __future__ import annotations

from datetime import UTC, datetime

import asyncpg
import pytest

from tests.migration.conftest import Connect
from tests.migration.made_up import EVERYTHING_MADE, FIRST, FOURTH, LEDGER_ROWS, ONE, THREE, TWO, MakeSlice
from timebell.db.migrate import Slice, describe_schema, migrate, migrations_of
from timebell.errors import DatabaseError, InvalidInput, MigrationError
from timebell.testing.database import TestDatabase


async def test_what_is_pending_is_applied_in_order_and_recorded(
    owner: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    demo = make_slice(THREE)
    assert await migrate(owner, [demo]) == migrations_of(demo)
    rows = await owner.fetch("SELECT * FROM timebell_meta.migrations ORDER BY number")
    assert [(row["slice"], row["number"], row["phase"], row["name"]) for row in rows] == [
        ("demo", 1, "expand", "first"),
        ("demo", 2, "expand", "note"),
        ("demo", 3, "contract", "note"),
    ]
    assert [row["checksum"] for row in rows] == [one.checksum for one in migrations_of(demo)]
    assert all(row["seconds"] >= 0 for row in rows)
    assert await owner.fetchval("SELECT max(applied_at) <= clock_timestamp() FROM timebell_meta.migrations")


async def test_applying_again_does_nothing(owner: asyncpg.Connection, make_slice: MakeSlice) -> None:
    demo = make_slice(THREE)
    await migrate(owner, [demo])
    before = await owner.fetch("SELECT *, xmin FROM timebell_meta.migrations")
    assert await migrate(owner, [demo]) == []
    assert await owner.fetch("SELECT *, xmin FROM timebell_meta.migrations") == before


async def test_only_what_is_new_is_applied(owner: asyncpg.Connection, make_slice: MakeSlice) -> None:
    await migrate(owner, [make_slice(TWO)])
    assert [one.number for one in await migrate(owner, [make_slice(THREE)])] == [3]


async def test_each_slice_has_its_own_numbers_and_schema(
    owner: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    other_file = {"0001_expand_other.sql": "-- phase: expand\nCREATE TABLE other.thing (id integer);\n"}
    other = make_slice(other_file, name="other", schema="other")
    applied = await migrate(owner, [other, make_slice(TWO)])
    assert [str(one) for one in applied] == [
        "other/0001_expand_other.sql",
        "demo/0001_expand_first.sql",
        "demo/0002_expand_note.sql",
    ]
    assert await owner.fetchval(EVERYTHING_MADE) == ["demo", "other", "timebell_meta"]


async def test_a_dry_run_tells_and_writes_nothing_at_all(
    owner: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    demo = make_slice(THREE)
    assert await migrate(owner, [demo], dry_run=True) == migrations_of(demo)
    assert await owner.fetchval(EVERYTHING_MADE) == []
    await migrate(owner, [make_slice(ONE)])
    before = await describe_schema(owner, ["demo", "timebell_meta"])
    assert [one.number for one in await migrate(owner, [demo], dry_run=True)] == [2, 3]
    assert await describe_schema(owner, ["demo", "timebell_meta"]) == before
    assert [row["number"] for row in await owner.fetch(LEDGER_ROWS)] == [1]


async def test_the_expand_phase_leaves_the_contract_for_later(
    owner: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    demo = make_slice(THREE)
    assert [one.number for one in await migrate(owner, [demo], phase="expand")] == [1, 2]
    assert await migrate(owner, [demo], phase="expand") == []
    assert [one.number for one in await migrate(owner, [demo])] == [3]


@pytest.mark.parametrize("dry_run", [True, False])
async def test_the_expand_phase_does_not_jump_over_a_contract(
    owner: asyncpg.Connection, make_slice: MakeSlice, dry_run: bool
) -> None:
    demo = make_slice({**THREE, "0004_expand_again.sql": FOURTH})
    with pytest.raises(MigrationError, match="one version at a time") as refused:
        await migrate(owner, [demo], phase="expand", dry_run=dry_run)
    assert "demo/0004_expand_again.sql comes after demo/0003_contract_note.sql" in str(refused.value)
    assert await owner.fetchval(EVERYTHING_MADE) == []


async def test_the_application_may_use_the_schema_and_read_the_ledger_but_not_write_it(
    owner: asyncpg.Connection, empty_database: TestDatabase, connect: Connect, make_slice: MakeSlice
) -> None:
    await migrate(owner, [make_slice(ONE)])
    app = await connect(empty_database.url)
    assert await app.fetch("SELECT * FROM demo.first") == []
    assert await app.fetchval("SELECT count(*) FROM timebell_meta.migrations") == 1
    for forbidden in (
        "DELETE FROM timebell_meta.migrations",
        "CREATE TABLE demo.mine (id integer)",
        "CREATE TABLE timebell_meta.mine (id integer)",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await app.execute(forbidden)


async def test_the_application_may_use_a_schema_that_was_there_before(
    owner: asyncpg.Connection, empty_database: TestDatabase, connect: Connect, make_slice: MakeSlice
) -> None:
    await owner.execute("CREATE SCHEMA demo")
    await migrate(owner, [make_slice(ONE)])
    app = await connect(empty_database.url)
    assert await app.fetch("SELECT * FROM demo.first") == []


async def test_one_role_for_everything_needs_no_other(
    owner: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    await migrate(owner, [make_slice(THREE)], app_role=None)
    assert not await owner.fetchval("SELECT has_table_privilege('timebell', 'demo.first', 'SELECT')")


async def test_each_role_is_put_in_by_its_name(
    owner: asyncpg.Connection, empty_database: TestDatabase, connect: Connect, make_slice: MakeSlice
) -> None:
    grants = "".join(f"GRANT SELECT (id) ON demo.first TO {{{name}}};" for name in ("api_role", "read_role"))
    files = {"0001_expand_first.sql": f"{FIRST}{grants}"}
    await migrate(owner, [make_slice(files)], api_role="timebell_api", read_role="timebell_read")
    for url in (empty_database.url, empty_database.api_url, empty_database.read_url):
        role = await connect(url)
        assert await role.fetch("SELECT id FROM demo.first") == []
        assert await role.fetchval("SELECT count(*) FROM timebell_meta.migrations") == 1


async def test_the_applications_role_stands_for_those_that_are_not_named(
    owner: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    grants = "GRANT INSERT ON demo.first TO {api_role}; GRANT UPDATE ON demo.first TO {read_role};"
    await migrate(owner, [make_slice({"0001_expand_first.sql": f"{FIRST}{grants}"})])
    for right in ("INSERT", "UPDATE"):
        assert await owner.fetchval("SELECT has_table_privilege('timebell', 'demo.first', $1)", right)
    assert not await owner.fetchval("SELECT has_schema_privilege('timebell_api', 'demo', 'USAGE')")


async def test_a_file_that_reads_behind_the_wall_is_refused(
    owner: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    """The owner sees no rows there; a file that went on without them would have changed nothing, and said it did."""
    walled = f"{FIRST}ALTER TABLE demo.first ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;"
    changed = "-- phase: expand\nUPDATE demo.first SET id = id + 1;"
    files = {"0001_expand_first.sql": walled, "0002_expand_change.sql": changed}
    with pytest.raises(MigrationError, match=r"0002_expand_change\.sql failed.*row-level security"):
        await migrate(owner, [make_slice(files)])
    lifted = (
        "-- phase: expand\nALTER TABLE demo.first NO FORCE ROW LEVEL SECURITY;\nUPDATE demo.first SET id = id + 1;\n"
        "ALTER TABLE demo.first FORCE ROW LEVEL SECURITY;"
    )
    assert len(await migrate(owner, [make_slice({**files, "0002_expand_change.sql": lifted})])) == 1


async def test_the_role_is_quoted(
    owner: asyncpg.Connection, empty_database: TestDatabase, connect: Connect, make_slice: MakeSlice
) -> None:
    admin = await connect(empty_database.admin_url)
    role = f'it\'s "{empty_database.name}"; DROP SCHEMA demo'
    quoted = await admin.fetchval("SELECT quote_ident($1)", role)
    await admin.execute(f"CREATE ROLE {quoted}")
    try:
        await migrate(owner, [make_slice(ONE)], app_role=role)
        assert await owner.fetchval("SELECT has_table_privilege($1, 'demo.first', 'SELECT')", role)
    finally:
        await admin.execute(f"DROP OWNED BY {quoted}")
        await admin.execute(f"DROP ROLE {quoted}")


async def test_a_role_that_does_not_exist_is_named_with_the_remedy(
    owner: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    with pytest.raises(MigrationError, match='CREATE ROLE "nobody at home" LOGIN'):
        await migrate(owner, [make_slice(ONE)], app_role="nobody at home")
    assert await owner.fetchval(EVERYTHING_MADE) == []


async def test_a_changed_file_is_refused(owner: asyncpg.Connection, make_slice: MakeSlice) -> None:
    await migrate(owner, [make_slice(ONE)])
    changed = make_slice({**THREE, "0001_expand_first.sql": FIRST.replace("integer", "bigint")})
    with pytest.raises(MigrationError, match=r"demo/0001_expand_first\.sql was changed after") as refused:
        await migrate(owner, [changed])
    assert "new migration" in str(refused.value)
    assert [row["number"] for row in await owner.fetch(LEDGER_ROWS)] == [1]


async def test_a_changed_phase_is_refused(owner: asyncpg.Connection, make_slice: MakeSlice) -> None:
    await migrate(owner, [make_slice(ONE)])
    changed = make_slice({"0001_contract_first.sql": FIRST.replace("expand", "contract")})
    with pytest.raises(MigrationError, match="was changed after"):
        await migrate(owner, [changed])


async def test_a_file_may_get_a_better_name(owner: asyncpg.Connection, make_slice: MakeSlice) -> None:
    await migrate(owner, [make_slice(ONE)])
    assert await migrate(owner, [make_slice({"0001_expand_the_first_table.sql": FIRST})]) == []


async def test_a_ledger_with_a_hole_is_refused(owner: asyncpg.Connection, make_slice: MakeSlice) -> None:
    demo = make_slice(THREE)
    await migrate(owner, [demo])
    await owner.execute("DELETE FROM timebell_meta.migrations WHERE number = 2")
    with pytest.raises(MigrationError, match=r"later migration than demo/0002_expand_note\.sql"):
        await migrate(owner, [demo])


async def test_a_failing_file_leaves_nothing_of_itself_behind(
    owner: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    broken = (
        "-- phase: expand\nCREATE TABLE demo.second (id integer);\n\nALTER TABLE demo.nowhere ADD a text;\n"
    )
    demo = make_slice({**ONE, "0002_expand_second.sql": broken})
    with pytest.raises(MigrationError, match=r"demo/0002_expand_second\.sql failed: 42P01 .*nowhere"):
        await migrate(owner, [demo])
    assert [row["number"] for row in await owner.fetch(LEDGER_ROWS)] == [1]
    assert await owner.fetchval("SELECT to_regclass('demo.second')") is None
    assert not owner.is_in_transaction()
    repaired = broken.replace("nowhere", "first")
    assert len(await migrate(owner, [make_slice({**ONE, "0002_expand_second.sql": repaired})])) == 1


async def test_the_first_file_failing_leaves_not_even_a_schema(
    owner: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    with pytest.raises(MigrationError):
        await migrate(owner, [make_slice({"0001_expand_x.sql": "-- phase: expand\nSELECT 1 / 0;\n"})])
    assert await owner.fetchval(EVERYTHING_MADE) == []


@pytest.mark.parametrize(
    ("sql", "line", "sqlstate"),
    [
        ("SELECT 1;\n\nSELEKT 2;\n", 4, "42601"),
        ("SELECT 1;\nSELECT\n    nothing\n;", 4, "42703"),
        ("SELECT 'é', '{app_role}';\nSELECT nothing;", 3, "42703"),
    ],
)
async def test_a_failure_names_the_line(
    owner: asyncpg.Connection, make_slice: MakeSlice, sql: str, line: int, sqlstate: str
) -> None:
    with pytest.raises(MigrationError, match=f"failed at line {line}: {sqlstate} "):
        await migrate(owner, [make_slice({"0001_expand_x.sql": f"-- phase: expand\n{sql}"})])


@pytest.mark.parametrize(
    "statement", ["CREATE INDEX CONCURRENTLY later ON demo.first (id)", "VACUUM demo.first"]
)
async def test_what_cannot_run_in_a_transaction_is_refused(
    owner: asyncpg.Connection, make_slice: MakeSlice, statement: str
) -> None:
    demo = make_slice({**ONE, "0002_expand_x.sql": f"-- phase: expand\n{statement};\n"})
    with pytest.raises(MigrationError, match="25001"):
        await migrate(owner, [demo])


async def test_files_name_their_schema_and_read_instants_as_utc(
    owner: asyncpg.Connection, make_slice: MakeSlice
) -> None:
    await owner.execute("CREATE SCHEMA demo")
    await owner.execute("SET search_path = demo")
    await owner.execute("SET timezone = 'Pacific/Auckland'")
    with pytest.raises(MigrationError, match=r"42501 .*pg_catalog"):
        await migrate(
            owner, [make_slice({"0001_expand_x.sql": "-- phase: expand\nCREATE TABLE x (id int);\n"})]
        )
    default = "-- phase: expand\nCREATE TABLE demo.x (at timestamptz DEFAULT '2030-01-01 00:00');\n"
    await migrate(owner, [make_slice({"0001_expand_x.sql": default})])
    await owner.execute("INSERT INTO demo.x DEFAULT VALUES")
    assert await owner.fetchval("SELECT at FROM demo.x") == datetime(2030, 1, 1, tzinfo=UTC)
    assert await owner.fetchval("SHOW search_path") == "demo"
    assert await owner.fetchval("SHOW timezone") == "Pacific/Auckland"


async def test_an_open_transaction_is_refused(owner: asyncpg.Connection, make_slice: MakeSlice) -> None:
    async with owner.transaction():
        with pytest.raises(MigrationError, match="inside a transaction"):
            await migrate(owner, [make_slice(ONE)])


async def test_an_old_server_is_refused(
    owner: asyncpg.Connection, make_slice: MakeSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timebell.db.migrate.SERVER_MAJOR_MIN", owner.get_server_version().major + 1)
    with pytest.raises(DatabaseError, match="upgrade the server"):
        await migrate(owner, [make_slice(ONE)])


async def test_a_role_without_the_right_is_told_so(
    empty_database: TestDatabase, connect: Connect, make_slice: MakeSlice
) -> None:
    app = await connect(empty_database.url)
    with pytest.raises(MigrationError, match="42501"):
        await migrate(app, [make_slice(ONE)])


async def test_an_unknown_phase_is_refused(owner: asyncpg.Connection, make_slice: MakeSlice) -> None:
    with pytest.raises(InvalidInput, match="phase"):
        await migrate(owner, [make_slice(ONE)], phase="contract")  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "schema"), [("demo", "other"), ("other", "demo")])
async def test_two_slices_share_neither_name_nor_schema(
    owner: asyncpg.Connection, make_slice: MakeSlice, name: str, schema: str
) -> None:
    twin: Slice = make_slice(ONE, name=name, schema=schema)
    with pytest.raises(InvalidInput, match="two slices use 'demo'"):
        await migrate(owner, [make_slice(ONE), twin])
