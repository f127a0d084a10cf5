from __future__ import annotations

import hashlib

import pytest

from tests.migration.made_up import FIRST, ONE, SECOND, THREE, MakeSlice
from timebell.db.migrate import Slice, migrations_of
from timebell.errors import InvalidInput, MigrationError

STATEMENT = "SELECT 1;\n"


def test_files_come_in_the_order_of_their_numbers(make_slice: MakeSlice) -> None:
    found = migrations_of(make_slice(dict(reversed(THREE.items()))))
    assert [(one.number, one.phase, one.name) for one in found] == [
        (1, "expand", "first"),
        (2, "expand", "note"),
        (3, "contract", "note"),
    ]
    assert [one.file for one in found] == sorted(THREE)
    assert str(found[2]) == "demo/0003_contract_note.sql"


def test_the_checksum_is_of_the_text_before_the_role_is_put_in(make_slice: MakeSlice) -> None:
    (only,) = migrations_of(make_slice(ONE))
    assert "{app_role}" in only.sql
    assert only.checksum == hashlib.sha256(FIRST.encode()).hexdigest()


def test_line_ends_and_the_last_newline_do_not_count_as_a_change(make_slice: MakeSlice) -> None:
    as_written = migrations_of(make_slice(ONE))
    as_checked_out = migrations_of(
        make_slice({"0001_expand_first.sql": FIRST.rstrip().replace("\n", "\r\n")})
    )
    assert as_written == as_checked_out


def test_other_files_of_the_package_are_no_migrations(make_slice: MakeSlice) -> None:
    assert len(migrations_of(make_slice({**ONE, "README.md": "Why."}))) == 1


@pytest.mark.parametrize(
    "name",
    [
        "1_expand_x.sql",
        "0001-expand-x.sql",
        "0001_x.sql",
        "0001_pre_x.sql",
        "0001_expand_.sql",
        "0001_expand_X.sql",
        "0000_expand_x.sql",
        "0001_expand_x.SQL",
        "0001_expand_x.down.sql",
        "expand_0001_x.sql",
        "0001_expand_x .sql",
    ],
)
def test_a_name_that_does_not_say_number_phase_and_purpose_is_refused(
    make_slice: MakeSlice, name: str
) -> None:
    with pytest.raises(MigrationError, match=r"name it like 0001_expand_some_words\.sql") as refused:
        migrations_of(make_slice({name: f"-- phase: expand\n{STATEMENT}"}))
    assert name in str(refused.value)


@pytest.mark.parametrize(
    "first_line", ["-- phase: contract", "", "-- Phase: expand", "-- phase:expand", "\ufeff-- phase: expand"]
)
def test_the_first_line_must_agree_with_the_name(make_slice: MakeSlice, first_line: str) -> None:
    with pytest.raises(MigrationError, match="first line must be `-- phase: expand`"):
        migrations_of(make_slice({"0001_expand_x.sql": f"{first_line}\n{STATEMENT}"}))


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["0001_expand_a.sql", "0001_expand_b.sql"], "0001 is used twice"),
        (["0001_expand_a.sql", "0002_expand_b.sql", "0002_contract_b.sql"], "0002 is used twice"),
        (["0001_expand_a.sql", "0003_expand_c.sql"], "0002 is missing"),
        (["0002_expand_b.sql"], "0001 is missing"),
    ],
)
def test_numbers_begin_at_one_without_gap_or_repetition(
    make_slice: MakeSlice, names: list[str], problem: str
) -> None:
    files = {name: f"-- phase: {name.split('_')[1]}\n{STATEMENT}" for name in names}
    with pytest.raises(MigrationError, match=problem):
        migrations_of(make_slice(files))


@pytest.mark.parametrize(
    "statement",
    [
        "BEGIN",
        "begin transaction",
        "START TRANSACTION",
        "COMMIT",
        "END",
        "ROLLBACK",
        "abort",
        "SAVEPOINT a",
        "/* a */ COMMIT",
        "-- a\n  COMMIT",
        "PREPARE TRANSACTION 'a'",
    ],
)
def test_a_file_may_not_end_its_transaction(make_slice: MakeSlice, statement: str) -> None:
    with pytest.raises(MigrationError, match="runs inside one transaction"):
        migrations_of(make_slice({"0001_expand_x.sql": f"-- phase: expand\nSELECT 1; {statement};\n"}))


@pytest.mark.parametrize(
    "statement", ["SET search_path = demo", "set role nobody", "RESET ALL", "DISCARD ALL"]
)
def test_a_file_may_not_change_the_session(make_slice: MakeSlice, statement: str) -> None:
    with pytest.raises(MigrationError, match="use SET LOCAL"):
        migrations_of(make_slice({"0001_expand_x.sql": f"-- phase: expand\nSELECT 1; {statement};\n"}))


@pytest.mark.parametrize(
    "harmless",
    [
        "DO $$ BEGIN PERFORM 1; END $$",
        "DO $body$ BEGIN PERFORM $$;COMMIT;$$; END $body$",
        "SELECT ';COMMIT;', E'\\';COMMIT;', 'it''s;COMMIT;'",
        'SELECT 1 AS ";COMMIT;"',
        "-- ;COMMIT;\nSELECT 1",
        "/* ;\nCOMMIT; */ SELECT 1",
        "SET LOCAL work_mem = '1MB'",
        "SET CONSTRAINTS ALL DEFERRED",
        "CREATE TABLE demo.x (committed_at timestamptz, started_by integer)",
    ],
)
def test_quoted_words_and_look_alikes_are_no_transaction_control(
    make_slice: MakeSlice, harmless: str
) -> None:
    assert migrations_of(make_slice({"0001_expand_x.sql": f"-- phase: expand\n{harmless};\n"}))


def test_a_file_without_a_statement_is_refused(make_slice: MakeSlice) -> None:
    with pytest.raises(MigrationError, match="holds no statement"):
        migrations_of(make_slice({"0001_expand_x.sql": "-- phase: expand\n-- Nothing to do; not yet.\n"}))


def test_a_file_that_is_not_utf_8_is_refused(make_slice: MakeSlice) -> None:
    with pytest.raises(MigrationError, match="not UTF-8"):
        migrations_of(make_slice({"0001_expand_x.sql": b"-- phase: expand\nSELECT '\xe9';\n"}))


def test_a_file_over_the_limit_is_refused(make_slice: MakeSlice) -> None:
    with pytest.raises(MigrationError, match="split it"):
        migrations_of(make_slice({"0001_expand_x.sql": "-- phase: expand\n" + STATEMENT * 100_001}))


@pytest.mark.parametrize(
    "package", ["no_such_package_anywhere", "", "timebell.errors", ".relative", "timebell.nope"]
)
def test_a_package_that_is_not_there_is_refused(package: str) -> None:
    with pytest.raises(MigrationError, match=r"there is no such package|holds no \.sql file"):
        migrations_of(Slice(name="demo", schema="demo", package=package))


def test_a_package_without_files_is_refused(make_slice: MakeSlice) -> None:
    with pytest.raises(MigrationError, match=r"holds no \.sql file"):
        migrations_of(make_slice({}))


@pytest.mark.parametrize(
    "name", ["", "Demo", "1st", "de-mo", "demo; DROP SCHEMA public", "x" * 49, "démo", "demo\n"]
)
@pytest.mark.parametrize("field", ["name", "schema"])
def test_a_slice_is_named_in_plain_identifiers(field: str, name: str) -> None:
    names = {"name": "demo", "schema": "demo", field: name}
    with pytest.raises(InvalidInput, match=rf"Slice\.{field}"):
        Slice(package="demo", **names)


@pytest.mark.parametrize("schema", ["timebell_meta", "public", "pg_catalog", "pg_demo", "information_schema"])
def test_a_slice_owns_its_schema_alone(schema: str) -> None:
    with pytest.raises(InvalidInput, match="not the slice's own"):
        Slice(name="demo", schema=schema, package="demo")


def test_the_same_text_twice_is_two_migrations(make_slice: MakeSlice) -> None:
    first, second = migrations_of(make_slice({"0001_expand_a.sql": SECOND, "0002_expand_b.sql": SECOND}))
    assert first.checksum == second.checksum
    assert first != second
