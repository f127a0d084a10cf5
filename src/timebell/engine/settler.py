"""Writes settlements: many in one statement, and never held up by one caller's open transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from timebell.db.pool import Database, Session
from timebell.engine.held import Entry, Held
from timebell.engine.settling import (
    Settlement,
    cancelled_meanwhile,
    end_columns,
    retry_columns,
    unstorable,
)
from timebell.engine.store import EngineStore

_LOCK_TIMEOUT = "50ms"
_STUCK_SECONDS = 0.5
_PARTITION_MISSING = "23514"


def fence(entries: Iterable[Entry], incarnation: int, lock_timeout: str = _LOCK_TIMEOUT) -> dict[str, object]:
    """Who writes, and under which epochs: a slot that has moved on refuses its own rows and no others."""
    epochs = {entry.slot: entry.epoch for entry in entries}
    return {
        "slots": list(epochs.keys()),
        "epochs": list(epochs.values()),
        "incarnation": incarnation,
        "lock_timeout": lock_timeout,
    }


class Settler:
    """Gathers settlements and writes what has gathered. While one write is under way the next one fills."""

    def __init__(
        self,
        database: Database,
        store: EngineStore,
        held: Held,
        *,
        batch: int,
        log_days_ahead: int,
        monotonic: Callable[[], float],
        on_retry: Callable[[Settlement, int, datetime], None],
        on_settled: Callable[[Settlement], None],
    ) -> None:
        self._database = database
        self._store = store
        self._held = held
        self._batch = batch
        self._log_days_ahead = log_days_ahead
        self._monotonic = monotonic
        self._on_retry = on_retry
        self._on_settled = on_settled
        self._waiting: list[Settlement] = []
        self._stuck: list[tuple[float, Settlement]] = []
        self.refused_count = 0

    def add(self, settlement: Settlement) -> None:
        self._waiting.append(settlement)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._stuck)

    def is_ready(self) -> bool:
        """Whether there is something to write now."""
        if self._stuck and self._stuck[0][0] <= self._monotonic():
            return True
        return bool(self._waiting)

    def stuck_in(self) -> float | None:
        """Seconds until what another transaction held up is tried again."""
        return max(0.0, self._stuck[0][0] - self._monotonic()) if self._stuck else None

    def slots_in_use(self) -> set[int]:
        return {each.entry.slot for each in self._waiting} | {each.entry.slot for _, each in self._stuck}

    async def flush(self) -> None:
        """Write one batch. What could not be written, because the database is away, stays for the next try."""
        batch = self._take()
        try:
            async with self._database.connection() as session:
                while batch:
                    group = _same_statement(batch)
                    await self._write(session, group)
                    done = {id(each) for each in group}
                    batch = [each for each in batch if id(each) not in done]
        except asyncpg.CheckViolationError as error:
            self._waiting[:0] = batch
            if error.sqlstate != _PARTITION_MISSING:
                raise
            async with self._database.connection() as session:
                await self._store.ensure_log_partitions(session, days_ahead=self._log_days_ahead)
        except BaseException:
            self._waiting[:0] = batch
            raise

    def _take(self) -> list[Settlement]:
        now = self._monotonic()
        ripe = [each for at, each in self._stuck if at <= now]
        self._stuck = [(at, each) for at, each in self._stuck if at > now]
        batch = [*ripe, *self._waiting[: self._batch]]
        del self._waiting[: self._batch]
        return batch

    async def _write(self, session: Session, group: Sequence[Settlement]) -> None:
        try:
            await self._write_once(session, group)
        except asyncpg.LockNotAvailableError:
            await self._write_free(group)
        except (asyncpg.DataError, ValueError) as error:
            # One bad settlement must not hold up the others, nor come back for ever.
            if len(group) == 1:
                await self._write_once(session, [unstorable(group[0], error)])
            else:
                for each in group:
                    await self._write(session, [each])

    async def _write_free(self, group: Sequence[Settlement]) -> None:
        """One of the rows is held by somebody's open transaction: settle the others, and it later."""
        async with self._database.transaction() as session:
            free = await self._store.lock_free_jobs(session, ids=[each.entry.id for each in group])
            held = [each for each in group if each.entry.id not in free]
            ours = [each for each in group if each.entry.id in free]
            if ours:
                await self._write_once(session, ours)
        # A row that is gone is not free either; the next try, which waits for nobody then, finds out and lets it go.
        again_at = self._monotonic() + _STUCK_SECONDS
        self._stuck.extend((again_at, each) for each in held)

    async def _write_once(self, session: Session, group: Sequence[Settlement]) -> None:
        first = group[0]
        entries = [each.entry for each in group]
        guard = fence(entries, first.entry.incarnation)
        if first.verdict == "done":
            settled = await self._store.finish_jobs(
                session,
                ids=[entry.id for entry in entries],
                version=first.version,
                started_at=first.started_at,
                fence=guard,
            )
        elif first.verdict == "end":
            settled = await self._store.end_jobs(session, columns=end_columns(group), fence=guard)
        else:
            settled = await self._write_retries(session, group, guard)
        self._held.retire(entries)
        for each in group:
            if each.entry.id in settled:
                self._on_settled(each)
            else:
                self.refused_count += 1

    async def _write_retries(
        self, session: Session, group: Sequence[Settlement], guard: dict[str, object]
    ) -> set[UUID]:
        rows = {
            row["id"]: row
            for row in await self._store.retry_jobs(session, columns=retry_columns(group), fence=guard)
        }
        for each in group:
            row = rows.get(each.entry.id)
            if row is not None:
                self._on_retry(each, row["version"], row["run_at"])
        missing = cancelled_meanwhile(each for each in group if each.entry.id not in rows)
        ended: set[UUID] = set()
        if missing:
            ended = await self._store.end_jobs(session, columns=end_columns(missing), fence=guard)
        return rows.keys() | ended


def _same_statement(batch: Sequence[Settlement]) -> list[Settlement]:
    """The settlements that can go out together with the first: one verdict, one life of the node, and for done ones
    one version, because a list of ids with one version is many times cheaper than a join."""
    first = batch[0]
    return [
        each
        for each in batch
        if each.verdict == first.verdict
        and each.entry.incarnation == first.entry.incarnation
        and (first.verdict != "done" or each.version == first.version)
    ]
