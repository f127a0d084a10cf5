"""Jobs that leave the memory of a node while they are still owed: where and when each is looked for again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from timebell.engine.ledger.entry import JobEntry
from timebell.engine.ledger.waitlist import Waitlist
from timebell.engine.worker.counters import tally
from timebell.engine.worker.dependencies import Dependencies
from timebell.engine.worker.marks import LOOK_AGAIN_SECONDS, LostMarks
from timebell.engine.worker.reader import Reader
from timebell.engine.worker.settling import Settlement

_BEHIND_AN_EARLIER_STEP_SECONDS = 5.0


class Returns:
    """Counts what came of each job, and has the reader look where one may be owed again."""

    def __init__(self, shared: Dependencies, reader: Reader, marks: LostMarks) -> None:
        self._ledger = shared.ledger
        self._counters = shared.counters
        self._tallies = shared.bell.tallies
        self._node = shared.node
        self._woken = shared.woken
        self._reader = reader
        self._marks = marks
        self._steps = Waitlist()

    def pass_begins(self) -> None:
        """Where no start is under way, none can have missed the end of an earlier step."""
        if not self._ledger.under_way_count:
            self._steps.nothing_is_starting()

    def not_begun(self, entry: JobEntry) -> None:
        """The row was not to be had: moved, cancelled, locked, or behind an earlier step."""
        self._counters.not_begun += 1
        if entry.may_be_marked:
            self._marks.add(entry)
            return
        self._ledger.forget(entry)
        row = entry.row
        seconds = LOOK_AGAIN_SECONDS
        if row["step_order"] is not None:
            if not self._steps.wait(entry):
                self._reader.hint({entry.slot: row["run_at"]})
                return
            seconds = _BEHIND_AN_EARLIER_STEP_SECONDS
        self._reader.revisit(entry.slot, row["run_at"], seconds)

    def refused(self, entry: JobEntry) -> None:
        """It may still be owed, begun in an earlier life of the node. Where the slot seems ours, a beat may be due."""
        ours = self._node.owned.get(entry.slot)
        is_ours = ours is not None and entry.epoch == ours.epoch
        self._reader.revisit(entry.slot, entry.run_at, LOOK_AGAIN_SECONDS if is_ours else 0.0)
        self._woken.set()

    def retried(self, settlement: Settlement, run_at: datetime) -> None:
        """A retry that lands behind the cursor would not be read before the next sweep; it is read at once."""
        if self._reader.has_read(run_at):
            self._reader.hint({settlement.entry.slot: run_at})

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """They are written. Whoever waits for the end of a step may begin."""
        self._counters.settle(settlements)
        tally(self._tallies, settlements)
        for settlement in settlements:
            if settlement.entry.row["step_order"] is None or settlement.verdict == "retry":
                continue
            is_starting = self._ledger.under_way_count > 0
            next_step = self._steps.ended(settlement.entry, is_starting=is_starting)
            if next_step is not None:
                slot, run_at = next_step
                self._reader.hint({slot: run_at})
