"""Backup and restore: everything that Timebell keeps, in one file, out of one database and into another.

What was sent is known to the rows that come back, and is not sent again. What became of the jobs that were due since
the file was written nobody can know, so they are held until an operator has looked at them.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Final, Literal
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

import orjson

from timebell.clock import Chance, Ids, SystemClock
from timebell.config import Settings
from timebell.db.connecting import connect
from timebell.db.copying import Copied, copy_in, copy_out, unwall, wall
from timebell.db.failures import DATABASE_ERRORS
from timebell.db.joined import session_on
from timebell.db.migrate import check_schema
from timebell.db.pool import Observer, Session
from timebell.errors import ConfigurationError, DatabaseUnavailable, InvalidInput
from timebell.kernel.bell import DEFAULT_TENANT
from timebell.kernel.insights import InsightsStore
from timebell.kernel.restore_store import RestoreStore
from timebell.kernel.store import Store
from timebell.loading import apps_of, registry_of, slices_of
from timebell.server import apply_migrations, database_place
from timebell.version import __version__
from timebell.web.sandbox import clock_of
from timebell.web.store import WebStore

FORM: Final = 1
_MANIFEST: Final = "manifest.json"
_MANIFEST_BYTES_MAX: Final = 16 * 1024 * 1024
_LEDGER: Final = "SELECT slice, number, checksum FROM timebell_meta.migrations ORDER BY slice, number"
Due = Literal["hold", "run"]
Keys = Literal["revoke", "keep"]
_SYSTEM: Final = SystemClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """What a file says of itself."""

    taken_at: datetime
    version: str
    row_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was put back, and what is held: the jobs that were due by now, of each queue, and those of them that had
    begun. So many API keys open nothing any more."""

    backup: Backup
    due: Mapping[str, int]
    started: Mapping[str, int]
    held_queues: Sequence[str]
    revoked_key_count: int = 0


async def back_up(settings: Settings, path: Path) -> Backup:
    """Write the file, of one snapshot, beside whatever runs. It appears under its name when it is whole."""
    slices = slices_of(registry_of(apps_of(settings)))
    draft = path.with_name(f".{path.name}.partial")
    async with database_place(settings, "either") as place:
        try:
            async with _transaction(place.read_url or place.url, settings, is_read=True) as connection:
                await check_schema(connection, slices)
                ledger = await _ledger(connection)
                _check_apps(ledger, {slice.name for slice in slices})
                with _private(draft) as file:
                    with ZipFile(file, "w", ZIP_DEFLATED, compresslevel=1) as archive:
                        copied = await copy_out(connection, [slice.schema for slice in slices], archive)
                        manifest = await _manifest(connection, ledger, copied)
                        archive.writestr(_MANIFEST, orjson.dumps(manifest, option=orjson.OPT_INDENT_2))
                    file.flush()
                    os.fsync(file.fileno())
            draft.rename(path)
        finally:
            draft.unlink(missing_ok=True)
    return _backup_of(manifest, copied)


async def restore(
    settings: Settings, path: Path, *, due: Due = "hold", keys: Keys | None = None, actor: str | None = None
) -> Restored:
    """Put the rows of the file into a database that has none, wholly or not at all.

    A key that was revoked since the backup would open again, so all are revoked, unless nothing has happened since.
    """
    keys = keys or ("keep" if due == "run" else "revoke")
    registry = registry_of(apps_of(settings))
    slices = slices_of(registry)
    with _opened(path) as archive:
        manifest, copied = _read_manifest(archive, path)
        async with database_place(settings, "either") as place:
            await apply_migrations(place, settings, registry)
            async with _transaction(place.owner_url, settings) as connection:
                _check_ledger(manifest, await _ledger(connection))
                forced = await unwall(connection, [slice.schema for slice in slices])
                await _check_unused(connection)
                days = [date.fromisoformat(each) for each in manifest["log_days"]]
                await _prepare_log(connection, days)
                await copy_in(connection, copied, archive)
                backup = _backup_of(manifest, copied)
                revoked_count = 0 if keys == "keep" else await _revoke_keys(connection, settings)
                restored = await _settle(connection, backup, due, revoked_count, actor)
                await wall(connection, forced)
    return restored


async def _revoke_keys(connection: Any, settings: Settings) -> int:
    """All but the one that the settings name, whose owner has just said that it is good."""
    chosen = settings.api_key
    kept = None if chosen is None else hashlib.sha256(chosen.encode()).digest()
    return await WebStore(_SYSTEM).revoke_restored_keys(_session(connection), kept=kept)


async def _settle(
    connection: Any, backup: Backup, due: Due, revoked_count: int, actor: str | None
) -> Restored:
    """Nobody owns anything in the new place, and nothing begins that may have been done in the old one."""
    session = _session(connection)
    clock = await clock_of(session)
    store = RestoreStore(clock)
    await store.release_everything(session)
    overdue = await store.count_overdue(session)
    held: list[str] = []
    if due == "hold":
        reason = f"restored from a backup of {backup.taken_at:%Y-%m-%d %H:%M:%S} UTC"
        held = await store.hold_queues(session, reason=reason, actor=actor)
    await Store(clock).insert_event(
        session,
        id=Ids(Chance()).new(),
        tenant=DEFAULT_TENANT,
        name="database.restored",
        subject=None,
        actor=actor,
        data=orjson.dumps(
            {"taken_at": backup.taken_at.isoformat(), "held": held, "revoked_key_count": revoked_count}
        ).decode(),
        correlation_id=None,
        occurred_at=None,
    )
    return Restored(
        backup=backup,
        due={row["queue"]: row["due_count"] for row in overdue},
        started={row["queue"]: row["started_count"] for row in overdue},
        held_queues=held,
        revoked_key_count=revoked_count,
    )


async def _prepare_log(connection: Any, days: Sequence[date]) -> None:
    """The log takes an entry only into the partition of its day."""
    known = set(await RestoreStore(_SYSTEM).read_log_partitions(_session(connection)))
    for day in days:
        if day in known:
            continue
        name, next_day = f"job_log_{day:%Y%m%d}", day + timedelta(days=1)
        bounds = f"FROM ('{day}') TO ('{next_day}')"
        await connection.execute(f"CREATE TABLE timebell.{name} (LIKE timebell.job_log INCLUDING ALL)")
        await connection.execute("SELECT timebell.wall_log_partition($1)", name)
        await connection.execute(
            f"ALTER TABLE timebell.job_log ATTACH PARTITION timebell.{name} FOR VALUES {bounds}"
        )


async def _check_unused(connection: Any) -> None:
    session = _session(connection)
    if await WebStore(_SYSTEM).read_is_used(session):
        raise ConfigurationError(
            "data: there are jobs, schedules or recipients in this database; restore into one that is empty, "
            "with another --data DIR or another DATABASE_URL"
        )
    upkeep = await InsightsStore(_SYSTEM).read_upkeep(session)
    if upkeep["node_count"]:
        raise ConfigurationError("data: a node is at work on this database; stop it first")


@asynccontextmanager
async def _transaction(url: str, settings: Settings, *, is_read: bool = False) -> AsyncIterator[Any]:
    """On a connection of its own, without the deadlines that are right for everything else."""
    try:
        connection = await connect(url, timeout=settings.connect_seconds, statement_cache_size=0)
    except DATABASE_ERRORS as error:
        raise DatabaseUnavailable(
            f"cannot connect to PostgreSQL: {str(error) or type(error).__name__}"
        ) from error
    try:
        isolation = "repeatable_read" if is_read else "read_committed"
        async with connection.transaction(isolation=isolation, readonly=is_read):
            # Instants are written and read as text on the way, and days begin where the log says.
            await connection.execute("SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO, YMD'")
            yield connection
    finally:
        await connection.close(timeout=settings.connect_seconds)


def _session(connection: Any) -> Session:
    return session_on(connection, Observer())


async def _ledger(connection: Any) -> list[list[Any]]:
    return [list(row) for row in await connection.fetch(_LEDGER)]


def _check_apps(ledger: list[list[Any]], loaded: set[str]) -> None:
    """Tables of an app that the settings do not name would be left out without a word."""
    unknown = sorted({slice for slice, _, _ in ledger} - loaded)
    if unknown:
        raise ConfigurationError(
            f"apps: the database has tables of {', '.join(unknown)}; name that app in the settings, "
            "so that they are part of the backup"
        )


def _check_ledger(manifest: dict[str, Any], ledger: list[list[Any]]) -> None:
    if manifest["migrations"] != ledger:
        raise InvalidInput(
            f"the file was written by Timebell {manifest['version']}, whose tables are not those of {__version__} with "
            "the apps in the settings; restore it with that version and those apps, and upgrade afterwards",
            field="file",
        )


async def _manifest(connection: Any, ledger: list[list[Any]], copied: Copied) -> dict[str, Any]:
    days = await RestoreStore(_SYSTEM).read_log_partitions(_session(connection))
    return {
        "form": FORM,
        "version": __version__,
        "taken_at": await connection.fetchval("SELECT transaction_timestamp()"),
        "migrations": ledger,
        "log_days": [day.isoformat() for day in days],
        **copied.as_json(),
    }


def _backup_of(manifest: dict[str, Any], copied: Copied) -> Backup:
    taken_at = manifest["taken_at"]
    return Backup(
        taken_at=taken_at if isinstance(taken_at, datetime) else datetime.fromisoformat(taken_at),
        version=manifest["version"],
        row_count=sum(table.row_count for table in copied.tables),
    )


def _private(path: Path) -> IO[bytes]:
    """A new file that only its owner reads: it holds what tenants keep, and digests of keys."""
    try:
        return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "w+b")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written ({error.strerror})", field="file") from error


def _opened(path: Path) -> ZipFile:
    try:
        return ZipFile(path)
    except (OSError, BadZipFile) as error:
        raise InvalidInput(f"{path} is no backup that can be read ({error})", field="file") from error


def _read_manifest(archive: ZipFile, path: Path) -> tuple[dict[str, Any], Copied]:
    try:
        if archive.getinfo(_MANIFEST).file_size > _MANIFEST_BYTES_MAX:
            raise ValueError("its manifest is too large")
        found = orjson.loads(archive.read(_MANIFEST))
        if found["form"] != FORM:
            raise ValueError(f"its form is {found['form']}, and this version reads {FORM}")
        return dict(found), Copied.of_json(found)
    except (KeyError, TypeError, ValueError, BadZipFile, zlib.error) as error:
        raise InvalidInput(f"{path} is no backup of Timebell ({error})", field="file") from error
