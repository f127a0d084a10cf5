"""Numbered SQL files, applied once each and remembered in a ledger.

Every slice keeps its own files and its own numbers. A file has a phase: *expand* runs before new code starts
and leaves the old code working, *contract* runs once no old code is left. A file runs in one transaction
together with its ledger row, so it happened wholly or not at all, and a migrator that was interrupted is
simply run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import asyncpg

from timebell.clock import Clock, SystemClock
from timebell.db.admitting import admission, are_strangers
from timebell.db.describe import describe_schema
from timebell.db.migration_files import LEDGER_SCHEMA, Migration, Phase, Slice, migrations_of
from timebell.errors import DatabaseError, DatabaseUnavailable, InvalidInput, MigrationError, SchemaMismatch

__all__ = ["Migration", "Patience", "Slice", "check_schema", "describe_schema", "migrate", "migrations_of"]

SERVER_MAJOR_MIN = 15

# The letters "timebell": any number does, as long as every version of Timebell uses the same one.
MIGRATORS_LOCK = int.from_bytes(b"timebell", "big")

_CREATE_LEDGER = """
    CREATE TABLE IF NOT EXISTS timebell_meta.migrations (
        slice      text             NOT NULL,
        number     integer          NOT NULL CHECK (number > 0),
        name       text             NOT NULL,
        phase      text             NOT NULL CHECK (phase IN ('expand', 'contract')),
        checksum   text             NOT NULL,
        applied_at timestamptz      NOT NULL,
        seconds    double precision NOT NULL,
        PRIMARY KEY (slice, number)
    )
"""

_RECORD = """
    INSERT INTO timebell_meta.migrations (slice, number, name, phase, checksum, seconds, applied_at)
    VALUES ($1, $2, $3, $4, $5, $6, coalesce($7::timestamptz, now()))
"""

_MAY_READ_LEDGER = """
    SELECT has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'timebell_meta' AND c.relname = 'migrations'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a migrator waits, and for what.

    Whoever waits for a lock on a table makes everyone who comes later wait too. So each try is short, and the
    pause between two tries lets the others through.
    """

    turn_seconds: float = 60.0
    lock_seconds: float = 2.0
    pause_seconds: float = 1.0
    attempts: int = 10
    statement_seconds: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Applied:
    """One row of the ledger, which may speak of a file that this code does not have."""

    slice: str
    number: int
    name: str
    phase: Phase
    checksum: str

    def __str__(self) -> str:
        return f"{self.slice}/{self.number:04}_{self.phase}_{self.name}.sql"


_Ledger = Mapping[tuple[str, int], _Applied]

_PATIENCE = Patience()
_CLOCK = SystemClock()


async def migrate(
    connection: asyncpg.Connection,
    slices: Sequence[Slice],
    *,
    phase: Literal["expand", "all"] = "all",
    dry_run: bool = False,
    app_role: str | None = "timebell",
    api_role: str | None = None,
    read_role: str | None = None,
    patience: Patience = _PATIENCE,
    clock: Clock = _CLOCK,
) -> list[Migration]:
    """Apply what is pending, slice by slice, and return it; a dry run returns it and writes nothing.

    `app_role` is the role that the application connects as, written `{app_role}` in the files' grants. None
    means that the application connects as the migrating role itself. `{api_role}` and `{read_role}` are those
    that see one tenant at a time and that change nothing; without one, the application's role stands for it.
    """
    if phase not in ("expand", "all"):
        raise InvalidInput(f"{phase!r} is neither 'expand' nor 'all'", field="phase")
    if connection.is_in_transaction():
        raise MigrationError("The connection is inside a transaction; give migrate() one that is not.")
    _require_server(connection.get_server_version().major)
    known = _known(slices)
    roles = {"app_role": await _grantee(connection, app_role)}
    for name, given in (("api_role", api_role), ("read_role", read_role)):
        roles[name] = roles["app_role"] if given is None else await _grantee(connection, given)
    ledger = await _read_ledger(connection)
    _compare(known, ledger)
    pending = [migration for files in known.values() for migration in _pending(files, ledger, phase)]
    named = [role for role in (app_role, api_role, read_role) if role is not None]
    for slice in slices:
        # Asked before anything is applied, because whoever a new file speaks of is no stranger any more.
        applied = [one for one in known[slice.name] if (one.slice, one.number) in ledger]
        if applied and await are_strangers(connection, slice, named):
            pending.append(
                admission(slice, [one for one in known[slice.name] if one in applied or one in pending])
            )
    if dry_run:
        return pending
    schema_of = {slice.name: slice.schema for slice in slices}
    migrator = _Migrator(connection=connection, roles=roles, patience=patience, clock=clock)
    return [one for one in pending if await migrator.apply(one, schema=schema_of[one.slice])]


async def check_schema(connection: asyncpg.Connection, slices: Sequence[Slice]) -> None:
    """Refuse a database that this code cannot work on, saying what to do about it.

    A pending contract migration is no reason to refuse, and neither is an expand migration that only newer
    code knows: this is how a rolling upgrade looks from either of its two sides.
    """
    _require_server(connection.get_server_version().major)
    known = _known(slices)
    ledger = await _read_ledger(connection)
    _compare(known, ledger)
    unapplied = [one for files in known.values() for one in files if (one.slice, one.number) not in ledger]
    missing = [migration for migration in unapplied if migration.phase == "expand"]
    if missing:
        shown = ", ".join(str(migration) for migration in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise SchemaMismatch(
            f"The database is older than this version of Timebell: it lacks {shown}{more}. "
            "Run `timebell migrate` as the role that owns the schema, then start again."
        )


def _require_server(major: int) -> None:
    if major < SERVER_MAJOR_MIN:
        raise DatabaseError(
            f"This server is PostgreSQL {major}, and Timebell needs {SERVER_MAJOR_MIN} or newer; "
            "upgrade the server, or leave `database_url` unset to use the embedded one."
        )


def _known(slices: Sequence[Slice]) -> dict[str, list[Migration]]:
    for field in ("name", "schema"):
        values = [getattr(slice, field) for slice in slices]
        for value in values:
            if values.count(value) > 1:
                raise InvalidInput(f"two slices use {value!r}; rename one", field=f"Slice.{field}")
    return {slice.name: migrations_of(slice) for slice in slices}


async def _grantee(connection: asyncpg.Connection, app_role: str | None) -> str:
    if app_role is None:
        return "CURRENT_USER"
    exists = "SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1)"
    quoted = '"' + app_role.replace('"', '""') + '"'
    if not await connection.fetchval(exists, app_role):
        raise MigrationError(
            f"The migrations grant to the role {quoted}, and there is no such role; "
            f"an administrator makes it with: CREATE ROLE {quoted} LOGIN PASSWORD '…';"
        )
    return quoted


async def _read_ledger(connection: asyncpg.Connection) -> _Ledger:
    may_read = await connection.fetchval(_MAY_READ_LEDGER)
    if may_read is None:
        return {}
    if not may_read:
        raise SchemaMismatch(
            "This role may not read timebell_meta.migrations; connect as the application's role, or as the "
            "role that ran `timebell migrate`."
        )
    rows = await connection.fetch("SELECT slice, number, name, phase, checksum FROM timebell_meta.migrations")
    return {(row["slice"], row["number"]): _Applied(**dict(row)) for row in rows}


def _compare(known: Mapping[str, list[Migration]], ledger: _Ledger) -> None:
    """Find what neither an upgrade nor a start can bear: a past rewritten, or contracted by newer code."""
    for name, files in known.items():
        past = {number: row for (slice, number), row in sorted(ledger.items()) if slice == name}
        for migration in files:
            if migration.number in past:
                _refuse_change(migration, past.pop(migration.number))
        for row in past.values():
            if row.phase == "contract":
                raise SchemaMismatch(
                    f"The database is newer than this version of Timebell: {row} took away what this version "
                    "may still use. Install the version that brought it, or a newer one."
                )
        last = max((number for slice, number in ledger if slice == name), default=0)
        for migration in files[:last]:
            if (name, migration.number) not in ledger:
                raise MigrationError(
                    f"The ledger knows a later migration than {migration} but not that one; restore the "
                    "rows of timebell_meta.migrations from a backup."
                )


def _refuse_change(migration: Migration, row: _Applied) -> None:
    if (migration.checksum, migration.phase) != (row.checksum, row.phase):
        raise MigrationError(
            f"{migration} was changed after it had been applied as {row}; restore the file as it was "
            "released, and put the change in a new migration."
        )


def _pending(files: list[Migration], ledger: _Ledger, phase: str) -> list[Migration]:
    pending = [migration for migration in files if (migration.slice, migration.number) not in ledger]
    if phase == "all":
        return pending
    expand = [migration for migration in pending if migration.phase == "expand"]
    # Numbers are the order in which the files were tried; to skip one is to run the next where it never ran.
    if expand != pending[: len(expand)]:
        contract = next(migration for migration in pending if migration.phase == "contract")
        raise MigrationError(
            f"{expand[-1]} comes after {contract}, which is pending and not of the expand phase. Upgrade one "
            "version at a time, or stop every process of the old version and run `timebell migrate` for all "
            "phases."
        )
    return expand


@dataclass(frozen=True, slots=True, kw_only=True)
class _Migrator:
    """Applies migrations, one at a time, over one connection."""

    connection: asyncpg.Connection
    roles: Mapping[str, str]
    patience: Patience
    clock: Clock

    async def apply(self, migration: Migration, *, schema: str) -> bool:
        """Whether it was applied here; False means that another migrator was quicker."""
        tries = self.patience.attempts
        for attempt in range(1, tries + 1):
            try:
                return await self._apply_once(migration, schema)
            except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
                if attempt == tries:
                    raise MigrationError(self._busy(migration, error)) from error
            except TimeoutError as error:
                raise MigrationError(
                    f"{migration} took longer than {self.patience.statement_seconds:g} s and nothing of it "
                    "was applied; split it, or run it when the server is less busy."
                ) from error
            except (
                asyncpg.PostgresConnectionError,
                asyncpg.AdminShutdownError,
                asyncpg.CrashShutdownError,
                asyncpg.InterfaceError,
                OSError,
            ) as error:
                # The rollback fails in turn on a connection that is gone; the reason is the error before it.
                raise DatabaseUnavailable(
                    f"The connection broke during {migration} ({error.__context__ or error}). It was applied "
                    "wholly or not at all; run `timebell migrate` again."
                ) from error
            except asyncpg.PostgresError as error:
                raise MigrationError(_failure(migration, error)) from error
            await self.clock.sleep(self.patience.pause_seconds)
        raise InvalidInput(f"{tries} tries are none; use 1 or more", field="Patience.attempts")

    async def _apply_once(self, migration: Migration, schema: str) -> bool:
        # Read committed, because what another migrator did must be seen once it has let go of the lock.
        async with self.connection.transaction(isolation="read_committed"):
            # Migrations name every schema themselves, and an instant without an offset means UTC everywhere. A file
            # that reads rows which the wall between tenants hides from the owner is refused, not silently led astray.
            await self._set_local(search_path="pg_catalog, pg_temp", timezone="UTC", row_security="off")
            await self._take_turn(migration)
            ledger = await _read_ledger(self.connection)
            applied = ledger.get((migration.slice, migration.number))
            if applied is not None:
                _refuse_change(migration, applied)
                return False
            await self._prepare(schema)
            started = self.clock.monotonic()
            sql = migration.sql
            for name, role in self.roles.items():
                sql = sql.replace(f"{{{name}}}", role)
            await self.connection.execute(sql, timeout=self.patience.statement_seconds)
            if migration.number == 0:
                return True
            await self.connection.execute(
                _RECORD,
                migration.slice,
                migration.number,
                migration.name,
                migration.phase,
                migration.checksum,
                self.clock.monotonic() - started,
                self.clock.sql_now(),
            )
            return True

    async def _set_local(self, **settings: str) -> None:
        for name, value in settings.items():
            await self.connection.execute("SELECT pg_catalog.set_config($1, $2, true)", name, value)

    async def _take_turn(self, migration: Migration) -> None:
        turn_seconds = self.patience.turn_seconds
        await self._set_local(lock_timeout=_milliseconds(turn_seconds), statement_timeout="0")
        try:
            # The server ends the wait, not the connection's own limit for a command, which may be shorter.
            await self.connection.execute(
                "SELECT pg_catalog.pg_advisory_xact_lock($1)", MIGRATORS_LOCK, timeout=turn_seconds + 10
            )
        except asyncpg.LockNotAvailableError as error:
            raise MigrationError(
                f"Another migrator was still at work after {turn_seconds:g} s, so {migration} "
                "was not applied; wait for it to end and run `timebell migrate` again."
            ) from error
        await self._set_local(
            lock_timeout=_milliseconds(self.patience.lock_seconds),
            statement_timeout=_milliseconds(self.patience.statement_seconds),
        )

    async def _prepare(self, schema: str) -> None:
        """Make the ledger and the slice's schema, in the transaction of the first file that needs them."""
        grantees = ", ".join(dict.fromkeys(self.roles.values()))
        exists = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)"
        for name in (LEDGER_SCHEMA, schema):
            # Looked for first: CREATE SCHEMA IF NOT EXISTS asks for a right that a later run may lack.
            if not await self.connection.fetchval(exists, name):
                await self.connection.execute(f"CREATE SCHEMA {name}")
            await self.connection.execute(f"GRANT USAGE ON SCHEMA {name} TO {grantees}")
        await self.connection.execute(_CREATE_LEDGER)
        await self.connection.execute(f"GRANT SELECT ON timebell_meta.migrations TO {grantees}")

    def _busy(self, migration: Migration, error: asyncpg.PostgresError) -> str:
        return (
            f"{migration} did not get its locks in {self.patience.attempts} tries of "
            f"{self.patience.lock_seconds:g} s ({error.sqlstate}: {error}), and nothing of it was applied. "
            "Look in pg_stat_activity for the transaction with the oldest xact_start, end it, and run "
            "`timebell migrate` again."
        )


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"


def _failure(migration: Migration, error: asyncpg.PostgresError) -> str:
    position = int(getattr(error, "position", None) or 0)
    line = f" at line {migration.sql.count(chr(10), 0, position - 1) + 1}" if position else ""
    return (
        f"{migration} failed{line}: {error.sqlstate} {error}. Nothing of it was applied, and everything "
        "before it was. Correct the cause and run `timebell migrate` again."
    )
