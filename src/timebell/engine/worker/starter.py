"""Beginning jobs that were chosen and admitted: routed by their handler's mode, their start marked where it must be."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

import asyncpg

from timebell.engine.ledger.entry import STARTING, JobEntry
from timebell.engine.limits.admission import Admission
from timebell.engine.worker.attempts import Attempts
from timebell.engine.worker.dependencies import Dependencies
from timebell.engine.worker.executor import Executor
from timebell.engine.worker.fencing import fence, visits
from timebell.engine.worker.returns import Returns
from timebell.engine.worker.settler import Settler
from timebell.engine.worker.settling import Settlement, end_unstarted, snooze_unstarted
from timebell.kernel.app import Handler
from timebell.rules.suspicion import is_cause

# While so many statements mark starts, what else is to be marked gathers for the next one. One for each job would cost
# many times what the job does, and jobs that end one by one let others begin one by one.
_MARKS_MAX = 2


class Starter:
    """Begins due jobs within every limit. Whatever cannot begin goes back to where it will be found again."""

    def __init__(
        self,
        shared: Dependencies,
        executor: Executor,
        admission: Admission,
        settler: Settler,
        attempts: Attempts,
        returns: Returns,
    ) -> None:
        bell = shared.bell
        self._database = shared.database
        self._store = shared.store
        self._registry = bell.registry
        self._kinds_alive = bell.kinds_alive
        self._chance = bell.chance
        self._node = shared.node
        self._ledger = shared.ledger
        self._background = shared.background
        self._timekeeper = shared.timekeeper
        self._executor = executor
        self._admission = admission
        self._settler = settler
        self._attempts = attempts
        self._returns = returns
        self._unmarked: list[JobEntry] = []
        self._held_up_count = 0
        self.is_stopping = False

    def stop(self) -> None:
        """Begin nothing more."""
        self.is_stopping = True
        self._admission.stop()

    def begin(self, entries: list[JobEntry], now: datetime) -> None:
        """Begin these, which were admitted, each in its own way."""
        self._admission.round_ends()
        marked: list[JobEntry] = []
        for entry in entries:
            self._route(entry, now, marked)
        if marked:
            self._ledger.starting(marked)
            self._unmarked += marked
            self._mark_gathered()

    def _route(self, entry: JobEntry, now: datetime, marked: list[JobEntry]) -> None:
        handler = entry.handler
        if handler is None:
            self._admission.let_go(entry)
            self._let_go(entry)
            return
        ending = _ending(entry, handler, now)
        if ending is not None:
            self._admission.never_begins(entry)
            self._settler.add(ending)
            return
        is_permitted = self._admission.begins(entry)
        if self._admission.must_mark(entry, handler):
            marked.append(entry)
        else:
            self._attempts.launch(entry, handler, now, is_permitted=is_permitted)

    def _let_go(self, entry: JobEntry) -> None:
        """Its slot is not ours, or its kind is unknown here: in memory it would take the place of one that can run."""
        kind = entry.row["kind"]
        if kind not in self._registry.handlers and kind not in self._node.left_kinds:
            self._kinds_alive.ask(kind)
        self._ledger.forget(entry)

    def _mark_gathered(self) -> None:
        if self._unmarked:
            most = _MARKS_MAX + self._held_up_count
            self._background.begin("start", self._start_unmarked, most=most)

    async def _start_unmarked(self) -> None:
        """Mark what has gathered, until nothing has."""
        try:
            while self._unmarked:
                entries, self._unmarked = self._unmarked, []
                await self._start(entries)
        except Exception:
            # Nobody would come for these before more are to be marked.
            entries, self._unmarked = self._unmarked, []
            for entry in entries:
                self._give_up(entry)
            raise

    async def _start(self, entries: list[JobEntry]) -> None:
        """Mark the starts, one statement for each version; what does not come back is looked at again."""
        # Most name nothing that has to be asked for first.
        is_asking = any(entry.handler is None or entry.handler.destination is not None for entry in entries)
        unasked, passed = deque(entries if is_asking else ()), list[JobEntry](() if is_asking else entries)
        try:
            while unasked:
                entry = unasked[0]
                destination = self._executor.destination(self._registry.handler(entry.row["kind"]), entry)
                if destination is None or await self._passes(entry, destination):
                    passed.append(entry)
                unasked.popleft()
            while passed:
                group = _same_start(passed)
                begun = await self._mark(group)
                now = self._timekeeper.now()
                for entry in begun:
                    self._begin_marked(entry, now)
                for entry in group if len(begun) < len(group) else ():
                    if not entry.may_be_marked:
                        self._give_up(entry)
                asked = set(group)
                passed = [entry for entry in passed if entry not in asked]
        except Exception:
            # A mark whose answer was lost is taken back.
            for entry in (*unasked, *passed):
                if entry.stage is STARTING:
                    self._give_up(entry)
            raise

    def _begin_marked(self, entry: JobEntry, now: datetime) -> None:
        if self.is_stopping or entry.handler is None:
            self._give_up(entry)
        else:
            self._admission.marked(entry)
            is_permitted = self._admission.begins(entry)
            self._attempts.launch(entry, entry.handler, now, is_marked=True, is_permitted=is_permitted)

    def _give_up(self, entry: JobEntry) -> None:
        self._admission.ended(entry)
        self._returns.not_begun(entry)

    async def _mark(self, group: list[JobEntry]) -> list[JobEntry]:
        """Answers with those that are marked, whose rows are one version further now."""
        for entry in group:
            entry.may_be_marked = True
        try:
            async with self._database.connection() as session:
                started = await self._store.start_jobs(
                    session,
                    ids=[entry.id for entry in group],
                    version=group[0].version,
                    fence=fence(group, group[0].incarnation) | visits(group),
                )
        except asyncpg.LockNotAvailableError:
            if len(group) == 1:
                group[0].may_be_marked = False
                return []
            # Somebody's open transaction holds one of the rows; halve until only that one is left out. That takes its
            # time, and nobody else is to wait for it.
            half = len(group) // 2
            self._held_up_count += 1
            self._mark_gathered()
            try:
                return await self._mark(group[:half]) + await self._mark(group[half:])
            finally:
                self._held_up_count -= 1
        if len(started) == len(group):
            return group
        begun = set(started)
        for entry in group:
            entry.may_be_marked = entry.id in begun
        return [entry for entry in group if entry.may_be_marked]

    async def _passes(self, entry: JobEntry, destination: str) -> bool:
        """Ask the breaker of what the job depends on; a job that is held waits without an attempt."""
        entry.call = await self._executor.destinations.ask(destination)
        if entry.call.held_until is None:
            return True
        # Spread over a second, so that what waited together does not come back together.
        until = entry.call.held_until + timedelta(seconds=self._chance.fraction())
        self._admission.ended(entry)
        self._settler.add(snooze_unstarted(entry, until, f"breaker open: {destination}"))
        return False


def _ending(entry: JobEntry, handler: Handler, now: datetime) -> Settlement | None:
    """Why a due job does not begin at all."""
    row = entry.row
    if not row["crash_count"] and row["expires_at"] is None and row["cancel_requested_at"] is None:
        return None
    if row["cancel_requested_at"] is not None:
        return end_unstarted(entry, "cancelled", "cancelled while it ran")
    if row["expires_at"] is not None and row["expires_at"] <= now:
        return end_unstarted(entry, "expired", "expired")
    if is_cause(row["crash_count"]):
        return end_unstarted(entry, "dead", f"its node died {row['crash_count']} times while it ran")
    if row["crash_count"] > 0 and handler.on_uncertain == "dead":
        return end_unstarted(entry, "dead", "uncertain: its node died while it ran")
    return None


def _same_start(waiting: list[JobEntry]) -> list[JobEntry]:
    """Those that can be marked in one statement with the first: the same version and life."""
    first = waiting[0]
    facts = (first.version, first.incarnation)
    return [entry for entry in waiting if (entry.version, entry.incarnation) == facts]
