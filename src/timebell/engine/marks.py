"""Starts that were marked, or may have been, and then not begun. Whoever marked them takes the mark back, wherever the
slot is by then: a new owner leaves a started job alone for as long as the node that started it lives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from timebell.db.pool import Database, Row
from timebell.engine.held import Entry, Held
from timebell.engine.node import Node
from timebell.engine.store import EngineStore

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
    entry: Entry | None = None


class LostMarks:
    """Takes marks back. Until one is known to be gone its job stays seen, so that it is not begun again beside it."""

    def __init__(
        self,
        database: Database,
        store: EngineStore,
        node: Node,
        held: Held,
        *,
        monotonic: Callable[[], float],
        on_back: Callable[[int, datetime], None],
    ) -> None:
        self._database = database
        self._store = store
        self._node = node
        self._held = held
        self._monotonic = monotonic
        self._on_back = on_back
        self._lost: dict[UUID, Mark] = {}
        self._again_at = float("-inf")

    def __len__(self) -> int:
        return len(self._lost)

    def add(self, entry: Entry) -> None:
        """A start that was asked for and whose job did not begin."""
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
            self._lost.pop(mark.id, None)
            if mark.entry is not None:
                # Not forgotten: a read that began before the mark may still bring the row as it was then.
                self._held.retire([mark.entry])
            self._on_back(mark.slot, mark.run_at)
