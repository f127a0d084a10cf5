"""Starts that were marked, or may have been, and then not begun. Whoever marked them takes the mark back, wherever the
slot is by then: a new owner leaves a started job alone for as long as the node that started it lives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from timebell.db.pool import Row
from timebell.engine.ledger.entry import JobEntry
from timebell.engine.worker.dependencies import Dependencies
from timebell.engine.worker.reader import Reader

# What somebody else has just now is looked at again after so long.
LOOK_AGAIN_SECONDS = 0.25
_GIVE_BACK_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """`version` is what the row has since it was marked, if it was."""

    id: UUID
    version: int
    incarnation: int
    slot: int
    run_at: datetime
    entry: JobEntry | None = None


class LostMarks:
    """Takes marks back. Until one is known to be gone its job stays seen, so that it is not begun again beside it."""

    def __init__(self, shared: Dependencies, reader: Reader) -> None:
        self._database = shared.database
        self._store = shared.store
        self._node = shared.node
        self._ledger = shared.ledger
        self._wakeups = shared.bell.wakeups
        self._monotonic = shared.timekeeper.monotonic
        self._reader = reader
        self._lost: dict[UUID, Mark] = {}
        self._again_at = float("-inf")

    def __len__(self) -> int:
        return len(self._lost)

    def add(self, entry: JobEntry) -> None:
        """A start that was asked for and whose job did not begin."""
        self._ledger.returning(entry)
        earlier = self._lost.get(entry.id)
        if earlier is not None and earlier.entry is not None:
            # The mark of an earlier version is gone, or this one could not have been read.
            self._ledger.retire([earlier.entry])
        self._lost[entry.id] = Mark(
            id=entry.id,
            version=entry.version + 1,
            incarnation=entry.incarnation,
            slot=entry.slot,
            run_at=entry.run_at,
            entry=entry,
        )

    def add_stray(self, row: Row) -> None:
        """A row that says that we started it, and we know nothing of it."""
        self._lost.setdefault(
            row["id"],
            Mark(
                id=row["id"],
                version=row["version"],
                incarnation=row["started_by"],
                slot=row["slot"],
                run_at=row["run_at"],
            ),
        )

    def is_ready(self) -> bool:
        return bool(self._lost) and self._monotonic() >= self._again_at

    async def give_back(self) -> None:
        """What a caller's transaction holds is tried again; what an earlier life marked, others recover."""
        me = self._node.incarnation
        self._resolved([mark for mark in self._lost.values() if mark.incarnation != me])
        asked = list(self._lost.values())[:_GIVE_BACK_MAX]
        if not asked:
            return
        async with self._database.connection() as session:
            still_marked = await self._store.give_back_jobs(
                session,
                ids=[mark.id for mark in asked],
                versions=[mark.version for mark in asked],
                incarnation=me,
            )
        if still_marked:
            self._again_at = self._monotonic() + LOOK_AGAIN_SECONDS
        # To the end of the line: those behind them may be free.
        for mark in asked:
            if mark.id in still_marked:
                self._lost[mark.id] = self._lost.pop(mark.id)
        self._resolved([mark for mark in asked if mark.id not in still_marked])

    def _resolved(self, marks: list[Mark]) -> None:
        for mark in marks:
            if self._lost.get(mark.id) is not mark:
                # The job was read, begun and lost once more meanwhile: that mark is still to be taken back.
                continue
            del self._lost[mark.id]
            if mark.entry is not None:
                # Not forgotten: a read that began before the mark may still bring the row as it was then.
                self._ledger.retire([mark.entry])
            self._look_again(mark.slot, mark.run_at)

    def _look_again(self, slot: int, run_at: datetime) -> None:
        """Its slot may have a new owner by now. Ours is not read at once: what kept the job from beginning may last."""
        if slot in self._node.owned:
            self._reader.revisit(slot, run_at, LOOK_AGAIN_SECONDS)
        else:
            self._wakeups.hint([(slot, run_at)])
