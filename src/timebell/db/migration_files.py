"""The migration files of a slice, read from its package and checked before anything reaches the database."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from timebell.errors import InvalidInput, MigrationError

Phase = Literal["expand", "contract"]

FILE_BYTES_MAX = 1_000_000
LEDGER_SCHEMA = "timebell_meta"

_FILE = re.compile(r"(?P<number>(?!0000)[0-9]{4})_(?P<phase>expand|contract)_(?P<name>[a-z0-9_]+)\.sql")
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,47}")

# What must be blanked before the words of a file can be read as SQL: comments and anything quoted.
QUOTED = re.compile(
    r"--[^\n]*"
    r"|/\*.*?\*/"
    r"|\$(?P<tag>[A-Za-z_][A-Za-z0-9_]*|)\$.*?\$(?P=tag)\$"
    r"|\b[eE]'(?:[^'\\]|\\.|'')*'"
    r"|'(?:[^']|'')*'"
    r'|"(?:[^"]|"")*"',
    re.DOTALL,
)
_ENDS_TRANSACTION = re.compile(
    r"(?:begin|start|commit|end|rollback|abort|savepoint|release|prepare)\b", re.IGNORECASE
)
_SET_FOR_SESSION = re.compile(r"(?:set\s+(?!local\b|constraints\b)|reset\b|discard\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A part of Timebell, or an app, that owns one PostgreSQL schema and the migrations that shape it."""

    name: str
    schema: str
    package: str

    def __post_init__(self) -> None:
        for field, value in (("name", self.name), ("schema", self.schema)):
            if not _IDENTIFIER.fullmatch(value):
                raise InvalidInput(
                    f"{value!r} must be 1 to 48 lower-case letters, digits or underscores, a letter first",
                    field=f"Slice.{field}",
                )
        if self.schema in (LEDGER_SCHEMA, "public", "information_schema") or self.schema.startswith("pg_"):
            raise InvalidInput(
                f"{self.schema!r} is not the slice's own; choose another", field="Slice.schema"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One file. The checksum is of its text before the application's role is put in."""

    slice: str
    number: int
    phase: Phase
    name: str
    sql: str
    checksum: str

    @property
    def file(self) -> str:
        return f"{self.number:04}_{self.phase}_{self.name}.sql"

    def __str__(self) -> str:
        return f"{self.slice}/{self.file}"


def migrations_of(slice: Slice) -> list[Migration]:
    """The slice's files in order, each checked before anything reaches the database."""
    try:
        files = list(resources.files(slice.package).iterdir())
    except (ModuleNotFoundError, TypeError, ValueError, OSError) as error:
        raise MigrationError(
            f"The slice {slice.name!r} keeps its migrations in {slice.package!r}, and there is no such "
            "package; correct the name or install the package."
        ) from error
    sql_files = [file for file in files if file.name.lower().endswith(".sql")]
    if not sql_files:
        raise MigrationError(
            f"The package {slice.package!r} of the slice {slice.name!r} holds no .sql file; the wheel may "
            "have been built without them."
        )
    found = [_read(slice, file.name, file.read_bytes()) for file in sql_files]
    found.sort(key=lambda migration: (migration.number, migration.file))
    for expected, migration in enumerate(found, start=1):
        if migration.number == expected:
            continue
        twice = migration.number < expected
        problem = f"{migration.number:04} is used twice" if twice else f"{expected:04} is missing"
        raise MigrationError(
            f"{migration}: {problem}; number the files of a slice 0001, 0002, … without a gap."
        )
    return found


def _read(slice: Slice, file_name: str, content: bytes) -> Migration:
    where = f"{slice.name}/{file_name}"
    match = _FILE.fullmatch(file_name)
    if match is None:
        raise MigrationError(
            f"{where}: name it like 0001_expand_some_words.sql or 0002_contract_some_words.sql."
        )
    if len(content) > FILE_BYTES_MAX:
        raise MigrationError(f"{where} is over {FILE_BYTES_MAX} bytes; split it.")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MigrationError(f"{where} is not UTF-8; save it as UTF-8.") from error
    # A checkout may rewrite line ends, and that must not look like a change.
    text = text.replace("\r\n", "\n").rstrip() + "\n"
    phase: Phase = "expand" if match["phase"] == "expand" else "contract"
    if text.split("\n", 1)[0] != f"-- phase: {phase}":
        raise MigrationError(f"{where}: its first line must be `-- phase: {phase}`, as its name says.")
    _refuse_transaction_control(where, text)
    return Migration(
        slice=slice.name,
        number=int(match["number"]),
        phase=phase,
        name=match["name"],
        sql=text,
        checksum=hashlib.sha256(text.encode()).hexdigest(),
    )


def _refuse_transaction_control(where: str, text: str) -> None:
    """A file that ended the transaction would leave half of itself behind, and the ledger would not know."""
    blanked = QUOTED.sub(lambda quoted: "\n" * quoted[0].count("\n") + " ", text)
    statements = [statement.strip() for statement in blanked.split(";")]
    if not any(statements):
        raise MigrationError(f"{where} holds no statement; delete it if it was never released.")
    for statement in statements:
        first_line = statement.split("\n", 1)[0]
        if _ENDS_TRANSACTION.match(statement):
            raise MigrationError(
                f"{where}: `{first_line}` is refused, because a migration runs inside one transaction; "
                "remove it, and write the bodies of functions between $$ and $$."
            )
        if _SET_FOR_SESSION.match(statement):
            raise MigrationError(f"{where}: `{first_line}` would outlive the migration; use SET LOCAL.")
