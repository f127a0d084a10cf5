"""Parking of jobs whose queue is paused, or held by this process: they are put out of the way of the reader, and are
brought back in the order of their time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from uuid import UUID

from timebell.db.pool import Session
from timebell.engine.ledger.entry import JobEntry
from timebell.engine.store import kinds_as_text
from timebell.engine.worker.dependencies import Dependencies
from timebell.engine.worker.marks import LOOK_AGAIN_SECONDS
from timebell.engine.worker.reader import Reader

_UNPARK_MAX = 1_024
_UNPARK_ROUNDS = 5
# So many of each slot are looked at to begin with, and more where a few slots have most of the oldest, up to so many in
# all.
_LOOK_PER_SLOT = 16
_LOOK_MAX = 65_536


class Parking:
    """Knows what must wait, parks it and brings it back."""

    def __init__(self, shared: Dependencies, reader: Reader) -> None:
        self._database = shared.database
        self._holds = shared.bell.holds
        self._wakeups = shared.bell.wakeups
        self._store = shared.store
        self._node = shared.node
        self._ledger = shared.ledger
        self._reader = reader
        self._pauses: set[tuple[str, str]] = set()
        self._has_parked = True
        self._visits: Mapping[int, frozenset[str]] = {}

    def __bool__(self) -> bool:
        """Whether anything may have to wait at all."""
        return bool(self._pauses or self._holds)

    def is_for(self, entry: JobEntry) -> bool:
        tenant, queue = entry.pair
        return queue in self._holds or (queue, tenant) in self._pauses or (queue, "") in self._pauses

    def look(self) -> None:
        """Look at the next occasion whether something can be brought back: slots or holds have changed."""
        self._has_parked = True

    def visit(self, visits: Mapping[int, frozenset[str]]) -> None:
        """The kinds that we come for to slots of others. It is told with every beat, and seldom of anything new."""
        if visits != self._visits:
            self._visits = visits
            self.look()

    async def look_around(self, session: Session) -> None:
        """Learn the pauses, and bring back what waits for nothing any more."""
        pauses = await self._store.read_pauses(session)
        self._has_parked = self._has_parked or bool(self._pauses - pauses)
        self._pauses = pauses
        if self._has_parked and self._node.slots():
            await self._bring_back(session)

    async def _bring_back(self, session: Session) -> None:
        """Take parked jobs up again. Whoever asks for it meanwhile is not answered by these statements."""
        self._has_parked, is_over = False, False
        slots, held = self._node.slots(), list(self._holds.reasons)
        visited = [
            kinds_as_text(self._visits[slot])
            if slot in self._visits and slot not in self._node.owned
            else None
            for slot in slots
        ]
        per_slot, per_slot_max = _LOOK_PER_SLOT, min(_UNPARK_MAX, _LOOK_MAX // len(slots))
        try:
            for _ in range(_UNPARK_ROUNDS):
                rows = await self._store.unpark_jobs(
                    session,
                    slots=slots,
                    held=held,
                    visited_kinds=visited,
                    left_kinds=sorted(self._node.left_kinds),
                    per_slot=per_slot,
                    limit=_UNPARK_MAX,
                )
                self._wakeups.hint((row["slot"], row["run_at"]) for row in rows if row["is_back"])
                if not all(row["is_back"] for row in rows):
                    break
                counts = Counter(row["slot"] for row in rows)
                if len(rows) < _UNPARK_MAX and per_slot not in counts.values():
                    is_over = True
                    break
                if len(rows) < _UNPARK_MAX // 2:
                    per_slot = min(4 * per_slot, per_slot_max)
        finally:
            self._has_parked = self._has_parked or not is_over

    async def park(self, entries: Iterable[JobEntry]) -> None:
        entries = list(entries)
        parked: set[UUID] = set()
        try:
            async with self._database.connection() as session:
                # Not before: the slots may move while a connection is waited for.
                parked = await self._store.park_jobs(
                    session,
                    ids=[entry.id for entry in entries],
                    fence=self._node.fence((entry.slot, entry.row["kind"]) for entry in entries),
                )
        finally:
            for entry in entries:
                self._ledger.forget(entry)
                if entry.id not in parked:
                    self._reader.revisit(entry.slot, entry.run_at, LOOK_AGAIN_SECONDS)
            # The queue may go on by now, and its parked jobs have been brought back before these came to it.
            self._has_parked = self._has_parked or not all(self.is_for(entry) for entry in entries)
