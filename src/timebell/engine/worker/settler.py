"""Writes settlements: many in one statement, and never held up by one caller's open transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from uuid import UUID

import asyncpg

from timebell.db.pool import Row, Session
from timebell.engine.limits.admission import Admission
from timebell.engine.worker.dependencies import Dependencies
from timebell.engine.worker.fencing import fence, visits
from timebell.engine.worker.returns import Returns
from timebell.engine.worker.settling import (
    Settlement,
    acquits,
    cancelled_meanwhile,
    end_columns,
    retry_columns,
    unstorable,
)
from timebell.kernel.transaction import Transaction

_STUCK_SECONDS = 0.5
_PARTITION_MISSING = "23514"


class Settler:
    """Gathers settlements and writes what has gathered. While one write is under way the next one fills."""

    def __init__(self, shared: Dependencies, admission: Admission, returns: Returns) -> None:
        self._bell = shared.bell
        self._database = shared.database
        self._store = shared.store
        self._ledger = shared.ledger
        self._batch = shared.settings.batch
        self._log_days_ahead = shared.settings.tuning.log_partitions_ahead_days
        self._monotonic = shared.timekeeper.monotonic
        self._woken = shared.woken
        self._admission = admission
        self._returns = returns
        # How many of those that are not written yet may have been what a node died of.
        self._suspect_count = 0
        self._waiting: list[Settlement] = []
        self._stuck: list[tuple[float, Settlement]] = []
        self._writing: list[list[Settlement]] = []
        self._acquitted: list[UUID] = []
        self.refused_count = 0

    def add(self, settlement: Settlement) -> None:
        entry = settlement.entry
        self._ledger.settling(entry)
        if entry.row["crash_count"]:
            self._suspect_count += 1
        self._waiting.append(settlement)

    def committed(self, settlement: Settlement, tx: Transaction) -> None:
        """A transactional handler committed its own completion."""
        self._returns.settled([settlement])
        self._ledger.retire([settlement.entry])
        self._bell.wake(tx)
        if settlement.verdict == "retry":
            assert settlement.run_at is not None
            self._returns.retried(settlement, settlement.run_at)

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
        """The slots that must not move yet, or what is still to be written there would be refused."""
        stuck = [each for _, each in self._stuck]
        return {each.entry.slot for some in (self._waiting, stuck, *self._writing) for each in some}

    def adopt(self, epochs: Mapping[int, int], incarnation: int) -> None:
        """What ended and is not written yet belongs to this life of the node, where the slots are its own again."""
        for each in (*self._waiting, *(stuck for _, stuck in self._stuck)):
            each.entry.adopt(epochs, incarnation)

    def stuck_slots(self) -> set[int]:
        """The slots with something to write that another transaction holds up, nobody knows for how long."""
        return {each.entry.slot for _, each in self._stuck}

    async def flush(self) -> None:
        """Write one batch. What could not be written, because the database is away, stays for the next try."""
        taken = self._take()
        self._writing.append(taken)
        groups = _same_statement(taken)
        try:
            async with self._database.connection() as session:
                while groups:
                    await self._write(session, groups)
                if self._acquitted:
                    acquitted, self._acquitted = self._acquitted, []
                    await self._store.acquit(session, ids=acquitted)
        except asyncpg.CheckViolationError as error:
            self._waiting[:0] = chain.from_iterable(groups)
            if error.sqlstate != _PARTITION_MISSING:
                raise
            async with self._database.connection() as session:
                await self._store.ensure_log_partitions(session, days_ahead=self._log_days_ahead)
        except BaseException:
            self._waiting[:0] = chain.from_iterable(groups)
            raise
        finally:
            self._writing = [each for each in self._writing if each is not taken]

    def _take(self) -> list[Settlement]:
        now = self._monotonic()
        ripe = [each for at, each in self._stuck if at <= now]
        self._stuck = [(at, each) for at, each in self._stuck if at > now]
        batch = [*ripe, *self._waiting[: self._batch]]
        del self._waiting[: self._batch]
        return batch

    async def _write(self, session: Session, groups: list[list[Settlement]]) -> None:
        """Write the first of the groups and take it off, or split it: what is left is what is still to be written."""
        group = groups[0]
        try:
            self._note(group, await self._apply(session, group))
        except asyncpg.LockNotAvailableError:
            await self._write_free(groups)
            return
        except (asyncpg.DataError, ValueError) as error:
            # One bad settlement must not hold up the others, nor come back for ever.
            if len(group) > 1:
                groups[:1] = [[each] for each in group]
                return
            ending = [unstorable(group[0], error)]
            self._note(ending, await self._apply(session, ending))
        del groups[0]

    async def _write_free(self, groups: list[list[Settlement]]) -> None:
        """One of the rows is held by somebody's open transaction: settle the others, and it later."""
        group = groups[0]
        ours: list[Settlement] = []
        settled: Mapping[UUID, Row | None] = {}
        try:
            async with self._database.transaction() as session:
                free = await self._store.lock_free_jobs(session, ids=[each.entry.id for each in group])
                ours = [each for each in group if each.entry.id in free]
                if ours:
                    settled = await self._apply(session, ours)
        except asyncpg.LockNotAvailableError:
            # Not the job but what belongs to it is held, such as its key; halve until only that one is left out.
            if len(group) > 1:
                half = len(group) // 2
                groups[:1] = [group[:half], group[half:]]
                await self._write_free(groups)
                await self._write_free(groups)
                return
            ours = []
        # Only what is committed counts as settled: a read that begins before would still find the row.
        self._note(ours, settled)
        # A row that is gone is not free either; the next try, which waits for nobody then, finds out and lets it go.
        again_at = self._monotonic() + _STUCK_SECONDS
        written = {each.entry.id for each in ours}
        self._stuck.extend((again_at, each) for each in group if each.entry.id not in written)
        del groups[0]

    async def _apply(self, session: Session, group: Sequence[Settlement]) -> Mapping[UUID, Row | None]:
        """One statement for the group. Answers with what it settled, and with the new row of what is tried again."""
        first = group[0]
        entries = [each.entry for each in group]
        guard = fence(entries, first.entry.incarnation)
        if first.verdict != "done":
            guard |= visits(entries)
        if first.verdict == "retry":
            return await self._apply_retries(session, group, guard)
        if first.verdict == "end":
            return dict.fromkeys(await self._store.end_jobs(session, columns=end_columns(group), fence=guard))
        finished = await self._store.finish_jobs(
            session,
            ids=[entry.id for entry in entries],
            version=first.version,
            started_ats=[each.started_at for each in group],
            fence=guard,
        )
        return dict.fromkeys(finished)

    async def _apply_retries(
        self, session: Session, group: Sequence[Settlement], guard: dict[str, object]
    ) -> Mapping[UUID, Row | None]:
        rows = await self._store.retry_jobs(session, columns=retry_columns(group), fence=guard)
        settled: dict[UUID, Row | None] = {row["id"]: row for row in rows}
        missing = cancelled_meanwhile(each for each in group if each.entry.id not in settled)
        if missing:
            settled |= dict.fromkeys(
                await self._store.end_jobs(session, columns=end_columns(missing), fence=guard)
            )
        return settled

    def _note(self, group: Sequence[Settlement], settled: Mapping[UUID, Row | None]) -> None:
        """Tell whoever waits for it. What is not among the settled was moved, cancelled or taken over, or was begun in
        an earlier life of the node; nobody may have looked at it since, because it was being settled here."""
        ours = [each for each in group if each.entry.id in settled]
        self.refused_count += len(group) - len(ours)
        for each in ours:
            row = settled[each.entry.id] if each.verdict == "retry" else None
            if row is not None:
                self._returns.retried(each, row["run_at"])
        self._returns.settled(ours)
        for each in group if self._suspect_count else ():
            if each.entry.row["crash_count"]:
                self._suspect_count -= 1
                self._admission.vacate(each.entry)
                self._woken.set()
                if each.entry.id in settled and acquits(each):
                    self._acquitted.append(each.entry.id)
        self._ledger.retire(each.entry for each in group)
        for each in group if len(ours) < len(group) else ():
            if each.entry.id not in settled:
                self._returns.refused(each.entry)


def _same_statement(batch: Sequence[Settlement]) -> list[list[Settlement]]:
    """The settlements that can go out together: of one verdict, one life of the node, and for done ones one version,
    because a list of ids with one version is many times cheaper than a join."""
    groups: dict[tuple[str, int, int], list[Settlement]] = {}
    for each in batch:
        version = each.version if each.verdict == "done" else 0
        groups.setdefault((each.verdict, each.entry.incarnation, version), []).append(each)
    return list(groups.values())
