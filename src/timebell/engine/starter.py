"""Beginning jobs: chosen in turn, routed by their handler's mode, their start marked where it must be."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

import asyncpg

from timebell.clock import Chance
from timebell.db.pool import Database
from timebell.engine.attempts import Attempts
from timebell.engine.background import Background
from timebell.engine.executor import Executor
from timebell.engine.gate import FRESH_SECONDS
from timebell.engine.held import Entry, Held
from timebell.engine.limits import Limits
from timebell.engine.node import Node
from timebell.engine.places import Places
from timebell.engine.settler import Settler, fence, visits
from timebell.engine.settling import Settlement, end_unstarted, snooze_unstarted
from timebell.engine.store import EngineStore
from timebell.engine.timekeeper import Timekeeper
from timebell.engine.turnstiles import Probation, Solitude, Turnstile
from timebell.kernel.app import Handler, Registry
from timebell.kernel.destinations import Destinations
from timebell.kernel.kinds_alive import KindsAlive
from timebell.rules.suspicion import is_cause, must_be_alone

# While so many statements mark starts, what else is to be marked gathers for the next one. One for each job would cost
# many times what the job does, and jobs that end one by one let others begin one by one.
_MARKS_MAX = 2
_CAUTIOUS_MAX = 16
_SUSPECTS_MAX = 4


class Starter:
    """Begins due jobs within every limit. Whatever cannot begin goes back to where it will be found again."""

    def __init__(
        self,
        *,
        database: Database,
        store: EngineStore,
        registry: Registry,
        kinds_alive: KindsAlive,
        node: Node,
        held: Held,
        limits: Limits,
        destinations: Destinations,
        executor: Executor,
        settler: Settler,
        attempts: Attempts,
        background: Background,
        timekeeper: Timekeeper,
        chance: Chance,
        places: Places,
        transactional_max: int,
        on_not_begun: Callable[[Entry], None],
    ) -> None:
        self._database = database
        self._store = store
        self._registry = registry
        self._kinds_alive = kinds_alive
        self._node = node
        self._held = held
        self._limits = limits
        self._destinations = destinations
        self._executor = executor
        self._settler = settler
        self._attempts = attempts
        self._background = background
        self._timekeeper = timekeeper
        self._chance = chance
        self._places = places
        self._on_not_begun = on_not_begun
        # After a crash nobody knows which job it was: those that had been started begin one after another, those that
        # may have run in a slot whose owner died run a few at a time.
        self._suspects = Probation(_SUSPECTS_MAX, timekeeper.monotonic, places.share)
        self._cautious = Turnstile(_CAUTIOUS_MAX, places.share)
        self._transactional = Turnstile(transactional_max, places.share)
        self._threads = Turnstile(executor.thread_count, places.share)
        # Who crashed twice runs alone: from then on it counts, and a neighbour must not be the cause of it.
        self._solitude = Solitude(timekeeper.monotonic, held.is_waiting)
        self._admitted_count = 0
        self._fresh_since = 0.0
        self._unmarked: list[Entry] = []
        self._held_up_count = 0
        self.marking_count = 0
        self.is_stopping = False

    def stop(self) -> None:
        """Begin nothing more."""
        self.is_stopping = True
        self._limits.stop()

    def admit(self, entry: Entry) -> bool:
        """Whether there is room for one more job of this sort; if so, it is taken.

        One that cannot begin here at all needs no room: it is chosen to be let go of.
        """
        entry.handler = None
        kind = entry.row["kind"]
        ownership = self._node.ownership(entry.slot)
        entry.is_visited = ownership is None
        if ownership is None:
            ownership = self._node.visit(entry.slot, kind)
            if ownership is None:
                return True
        entry.incarnation, entry.epoch = self._node.incarnation, ownership.epoch
        handler = entry.handler = self._registry.handlers.get(kind)
        if handler is None:
            return True
        until = ownership.suspect_until
        entry.is_cautious = until is not None and _is_cautious(entry, handler, until)
        queue = entry.pair[1]
        is_paced = queue in self._limits.paced
        if is_paced and not self._limits.reserve(entry.id, queue, is_marked=self._must_mark(entry, handler)):
            return False
        is_admitted = self._has_place(entry, handler)
        if is_paced and not is_admitted:
            self._limits.give_up(entry.id, queue)
        self._admitted_count += is_admitted
        return is_admitted

    def _has_place(self, entry: Entry, handler: Handler) -> bool:
        crash_count = entry.row["crash_count"]
        is_simple = handler.is_async and handler.mode != "transactional"
        if not crash_count and not entry.is_cautious and is_simple:
            return not self._solitude.holds_back()
        if must_be_alone(crash_count):
            is_quiet = not (self._admitted_count or self.marking_count or len(self._attempts))
            return self._solitude.enter(entry, is_quiet=is_quiet)
        if self._solitude.holds_back():
            return False
        # One that takes a connection for as long as it runs needs a place among those too, however careful the start.
        if handler.mode == "transactional" and not self._transactional.enter(entry):
            return False
        care = self._suspects if crash_count > 0 else self._cautious if entry.is_cautious else None
        if care is not None and not care.enter(entry):
            self._transactional.leave(entry)
            return False
        # Its start is not marked before there is a thread for it: what is marked counts as running.
        if not handler.is_async and (self._executor.is_out_of_threads or not self._threads.enter(entry)):
            self._transactional.leave(entry)
            if care is not None:
                care.leave(entry)
            return False
        if care is not None:
            entry.enclosure = care
        return True

    def begin(self, entries: list[Entry], now: datetime) -> None:
        """Begin these, which were admitted, each in its own way."""
        self._admitted_count = 0
        self._fresh_since = self._timekeeper.monotonic() - FRESH_SECONDS
        self._solitude.round_ends()
        marked: list[Entry] = []
        for entry in entries:
            self._route(entry, now, marked)
        if marked:
            self.marking_count += len(marked)
            self._unmarked += marked
            self._mark_gathered()

    def _route(self, entry: Entry, now: datetime, marked: list[Entry]) -> None:
        handler = entry.handler
        if handler is None:
            self._places.leave(entry.pair[0])
            self._let_go(entry)
            return
        ending = _ending(entry, handler, now)
        if ending is not None:
            self._places.leave(entry.pair[0])
            self._limits.give_up(entry.id, entry.pair[1])
            self._leave(entry)
            self._settler.add(ending)
            return
        is_permitted = entry.pair[1] in self._limits.limited and self._limits.started(entry)
        if self._must_mark(entry, handler):
            marked.append(entry)
        else:
            self._attempts.launch(entry, handler, now, is_permitted=is_permitted)

    def _let_go(self, entry: Entry) -> None:
        """Its slot is not ours, or its kind is unknown here: in memory it would take the place of one that can run."""
        kind = entry.row["kind"]
        if kind not in self._registry.handlers and kind not in self._node.left_kinds:
            self._kinds_alive.ask(kind)
        self._held.forget(entry)

    def _must_mark(self, entry: Entry, handler: Handler) -> bool:
        """A step is never plain: its agenda may have moved on, and the mark asks. So it does after a long wait, and
        in the slot of another, where nothing but the mark says that the job is ours."""
        if (
            handler.mode == "external"
            or entry.row["crash_count"] > 0
            or entry.is_cautious
            or entry.is_visited
        ):
            return True
        if handler.mode != "plain":
            return False
        return entry.row["step"] is not None or entry.read_at < self._fresh_since

    def ended(self, entry: Entry) -> None:
        """The attempt is over, or never began: its limits and its place are free again."""
        tenant, queue = entry.pair
        if queue in self._limits.limited:
            self._limits.ended(entry)
        self._places.leave(tenant)
        if entry.enclosure is not None:
            self._leave(entry)

    def _leave(self, entry: Entry) -> None:
        """A suspect keeps its place until its end is written: the next one may be what the node dies of."""
        # A suspect that is transactional, or needs a thread, had a place there as well.
        self._transactional.leave(entry)
        self._threads.leave(entry)
        if not self._settler.is_settling(entry):
            self.vacate(entry)

    def vacate(self, entry: Entry) -> None:
        """Whatever place it took up is free for the next one."""
        if entry.enclosure is not None:
            entry.enclosure.leave(entry)
            entry.enclosure = None

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
            self.marking_count -= len(entries)
            for entry in entries:
                self._give_up(entry)
            raise

    async def _start(self, entries: list[Entry]) -> None:
        """Mark the starts, one statement for each version; what does not come back is looked at again."""
        # Most name nothing that has to be asked for first.
        is_asking = any(entry.handler is None or entry.handler.destination is not None for entry in entries)
        unasked, passed = deque(entries if is_asking else ()), list[Entry](() if is_asking else entries)
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
                if entry not in self._attempts.running:
                    self._give_up(entry)
            raise
        finally:
            self.marking_count -= len(entries)

    def _begin_marked(self, entry: Entry, now: datetime) -> None:
        if self.is_stopping or entry.handler is None:
            self._give_up(entry)
        else:
            if entry.enclosure is self._suspects:
                self._suspects.begins(entry)
            is_permitted = entry.pair[1] in self._limits.limited and self._limits.started(entry)
            self._attempts.launch(entry, entry.handler, now, is_marked=True, is_permitted=is_permitted)

    def _give_up(self, entry: Entry) -> None:
        self.ended(entry)
        self._on_not_begun(entry)

    async def _mark(self, group: list[Entry]) -> list[Entry]:
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

    async def _passes(self, entry: Entry, destination: str) -> bool:
        """Ask the breaker of what the job depends on; a job that is held waits without an attempt."""
        entry.call = await self._destinations.ask(destination)
        if entry.call.held_until is None:
            return True
        # Spread over a second, so that what waited together does not come back together.
        until = entry.call.held_until + timedelta(seconds=self._chance.fraction())
        self.ended(entry)
        self._settler.add(snooze_unstarted(entry, until, f"breaker open: {destination}"))
        return False


def _ending(entry: Entry, handler: Handler, now: datetime) -> Settlement | None:
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


def _is_cautious(entry: Entry, handler: Handler, until: datetime) -> bool:
    """Whether the job was due in this slot when the slot's owner died, and may be what it died of.

    An external one would bear the mark of its start.
    """
    return handler.mode != "external" and entry.run_at <= until


def _same_start(waiting: list[Entry]) -> list[Entry]:
    """Those that can be marked in one statement with the first: the same version and life."""
    first = waiting[0]
    facts = (first.version, first.incarnation)
    return [entry for entry in waiting if (entry.version, entry.incarnation) == facts]
