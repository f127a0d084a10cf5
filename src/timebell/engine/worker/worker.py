"""The worker: reads what is due in the node's slots, begins it in time and in turn, and settles what came of it.

`tick` is one bounded pass that never waits for a handler or a statement. What it began goes on beside it, listed
in `attempts` and `background`; nothing else goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from timebell.db.pool import Session
from timebell.db.wakeup import Hints
from timebell.engine.ledger.entry import JobEntry
from timebell.engine.limits.admission import Admission
from timebell.engine.limits.breakers import BreakerDestinations, Breakers
from timebell.engine.limits.limits import Limits
from timebell.engine.limits.parking import Parking
from timebell.engine.node.node import Node
from timebell.engine.node.timekeeper import Timekeeper
from timebell.engine.store import EngineStore
from timebell.engine.worker.attempts import Attempts
from timebell.engine.worker.dependencies import Dependencies
from timebell.engine.worker.executor import Executor
from timebell.engine.worker.marks import LOOK_AGAIN_SECONDS, LostMarks
from timebell.engine.worker.reader import Reader
from timebell.engine.worker.recovery import recover
from timebell.engine.worker.returns import Returns
from timebell.engine.worker.settler import Settler
from timebell.engine.worker.stall import Stall
from timebell.engine.worker.starter import Starter
from timebell.kernel.bell import Timebell

_EVERY_SLOT = set(range(256))
_CANCELS_MAX = 1_000
_FLUSHES_MAX = 2
_PARKS_MAX = 4


@dataclass(slots=True)
class Only:
    """Nothing may start but jobs of one tenant in one queue, and so many of them."""

    pair: tuple[str, str]
    left: int


class Worker:
    """One node's worker."""

    only: Only | None = None

    def __init__(self, bell: Timebell, node: Node, store: EngineStore, timekeeper: Timekeeper) -> None:
        shared = Dependencies.of(bell, node, store, timekeeper)
        self.ledger = shared.ledger
        self.counters = shared.counters
        self.background = shared.background
        self.woken = shared.woken
        self._bell, self._database = bell, bell.database
        self._node = node
        self._store = store
        self._timekeeper = timekeeper
        self._concurrency = bell.settings.concurrency
        self._batch = bell.settings.batch
        self._reader = Reader(store, node, self.ledger, timekeeper, bell.settings)
        self.read_on = self._reader.read_on
        self._limits = Limits(shared)
        self.permits_in_use = self._limits.permits_in_use
        self._breakers = Breakers(bell.database, store, bell.chance)
        destinations = BreakerDestinations(self._breakers, node, timekeeper)
        self._executor = Executor(shared, destinations, self._limits)
        self._admission = Admission(shared, self._limits, self._executor)
        self._marks = LostMarks(shared, self._reader)
        self._returns = Returns(shared, self._reader, self._marks)
        self._settler = Settler(shared, self._admission, self._returns)
        self.attempts = Attempts(shared, self._executor, self._admission, self._settler, self._returns)
        self._starter = Starter(
            shared, self._executor, self._admission, self._settler, self.attempts, self._returns
        )
        self._parking = Parking(shared, self._reader)
        self._stall = Stall(timekeeper.monotonic)
        node.serve(self)
        bell.wakeups.subscribe(self.hint)
        bell.holds.watch(self._holds_changed)

    async def tick(self) -> float:
        """One pass. Answers in how many seconds the next is due, if nothing wakes it before."""
        self.attempts.watch()
        self._limits.wake()
        if self._settler.is_ready():
            self.background.begin("settle", self._settler.flush, most=_FLUSHES_MAX)
        if self._marks.is_ready():
            self.background.begin("give back", self._marks.give_back)
        if not self._timekeeper.is_anchored or self._starter.is_stopping or not self._node.may_start():
            return 0.05
        self._returns.pass_begins()
        self._reader.plan()
        now = self._timekeeper.now()
        self.ledger.promote(now)
        ready = self.ledger.ready_counts()
        if self._reader.is_wanted(self._in_hand(ready)):
            self.background.begin("read", self._read)
        if self._limits.is_short(ready, now):
            self.background.begin("limits", lambda: self._limits.supply(ready))
        if ready and (self._reader.is_in_order() or self.background.is_free("read")):
            self._begin_jobs(now)
        return self._next_tick_in(now)

    def _in_hand(self, ready: dict[str, int]) -> int:
        """How many jobs there are to go on with; none where those that are ready must wait for something else."""
        if self._stall.is_one:
            return 0
        return sum(ready.values()) + self.ledger.under_way_count

    def _begin_jobs(self, now: datetime) -> None:
        room = min(self._concurrency - self.ledger.under_way_count, self._batch)
        if self.only is not None:
            room = min(room, self.only.left)
        if room <= 0 or len(self._settler) > 4 * self._batch:
            return
        parking = self._parking
        admit = self._admit if parking or self.only is not None else self._admission.admit
        chosen = self.ledger.choose(room, self._limits.budgets(now), admit, self._admission.places)
        if self.only is not None:
            self.only.left -= len(chosen)
        self._stall.note(has_begun=bool(chosen), is_busy=self.ledger.under_way_count > 0)
        parked = [entry for entry in chosen if parking.is_for(entry)] if parking else []
        if parked:
            self._admission.places.leave_all(entry.pair[0] for entry in parked)
            self.ledger.parking(parked)
            self.background.begin("park", lambda: parking.park(parked), most=_PARKS_MAX)
            waiting = set(parked)
            chosen = [entry for entry in chosen if entry not in waiting]
        self._starter.begin(chosen, now)

    def _admit(self, entry: JobEntry) -> bool:
        """What must wait needs no place to run: it is chosen to be parked."""
        if self.only is not None and entry.pair != self.only.pair:
            return False
        if self._parking.is_for(entry):
            return self.background.is_free("park", _PARKS_MAX)
        return self._admission.admit(entry)

    def _holds_changed(self) -> None:
        self._parking.look()
        self.woken.set()

    def _next_tick_in(self, now: datetime) -> float:
        waits = [self._reader.next_plan_in()]
        earliest = self.ledger.earliest_run_at()
        if earliest is not None:
            waits.append((earliest - now).total_seconds())
        # Where no write can begin, the end of one wakes the loop.
        can_settle = self.background.is_free("settle", _FLUSHES_MAX)
        others = (self._settler.stuck_in() if can_settle else None, self.attempts.next_watch_in())
        waits += [seconds for seconds in others if seconds is not None]
        ready = self.ledger.ready_counts()
        start = self._limits.next_start(ready, now)
        if start is not None:
            waits.append((start - now).total_seconds())
        if self._limits.waits_for_permits(ready) or self._limits.waits_for_instants():
            waits.append(0.05)
        return max(0.0, min(waits))

    async def look_around(self) -> None:
        """Learn the time, the pauses, the limits and the open breakers. Done every sweep."""
        async with self._database.connection() as session:
            await self._timekeeper.anchor(session)
            await self._limits.refresh(session, self.attempts.running)
            await self._breakers.refresh(session, self._timekeeper.now())
            await self._carry_out_cancels(session)
            await self._parking.look_around(session)
        self._executor.failures.remind()
        self.woken.set()

    async def _carry_out_cancels(self, session: Session) -> None:
        """Those that were asked for while another transaction held the job, and could not be answered then."""
        rows = await self._store.carry_out_cancels(session, limit=_CANCELS_MAX)
        self._bell.tallies.cancelled += len(rows)

    async def _read(self) -> None:
        async with self._database.connection() as session:
            await self._reader.read(session)
            self._note_strays()
            orphans, self._reader.orphans = self._reader.orphans, []
            if not orphans:
                return
            rows = await recover(session, self._store, self._node, self._bell.registry, orphans)
        self.counters.recovered += len(rows)
        self._bell.wakeups.hint((row["slot"], row["run_at"]) for row in rows)
        recovered = {row["id"] for row in rows}
        for row in orphans:
            if row["id"] not in recovered:
                self._reader.revisit(row["slot"], row["run_at"], LOOK_AGAIN_SECONDS)

    def _note_strays(self) -> None:
        strays, self._reader.strays = self._reader.strays, []
        for row in strays:
            self._marks.add_stray(row)

    def slots_taken(self, slots: set[int]) -> None:
        if slots:
            epochs = {slot: self._node.owned[slot].epoch for slot in slots}
            self.attempts.adopt(epochs, self._node.incarnation)
            self._settler.adopt(epochs, self._node.incarnation)
            self._reader.take(slots)
            self._parking.look()
            self.woken.set()

    def slots_leaving(self, slots: set[int]) -> None:
        if slots:
            self._reader.drop(slots)
            self.ledger.drop_slots(slots)

    def slots_visited(self, visits: Mapping[int, frozenset[str]]) -> None:
        self.ledger.drop_slots(self._reader.visit(visits))
        self._parking.visit(visits)
        self.woken.set()

    def slots_lost(self) -> None:
        # Before the next life begins, in which it might go on.
        self.attempts.call_off()
        self.slots_leaving(_EVERY_SLOT)
        self._limits.lost()

    def idle_slots(self, slots: set[int]) -> set[int]:
        return slots - self.attempts.unmarked_slots() - self._settler.slots_in_use()

    def slots_in_long_use(self) -> set[int]:
        return self.attempts.unmarked_slots(running_for=1.0) | self._settler.stuck_slots()

    def nodes_died(self) -> None:
        self._reader.sweep_everything()
        self.woken.set()

    def hint(self, hints: Hints) -> Hints:
        rest = self._reader.hint(hints)
        self.woken.set()
        return rest

    def next_instant(self) -> datetime | None:
        """The next instant at which a job in memory may begin."""
        ready = self.ledger.ready_counts()
        instants = [self.ledger.earliest_run_at(), self._limits.next_start(ready, self._timekeeper.now())]
        return min((instant for instant in instants if instant is not None), default=None)

    def sweep(self) -> None:
        """Look for what is due now instead of at the next sweep."""
        self._reader.sweep_now()

    def is_reading(self) -> bool:
        """Whether another pass would look for what is due."""
        return self._reader.has_work()

    def has_work(self) -> bool:
        """Whether another pass would read, begin or write something now."""
        if self._reader.has_work() or self._settler.is_ready() or self._marks.is_ready():
            return True
        ready, now = self.ledger.ready_counts(), self._timekeeper.now()
        return self._limits.is_short(ready, now) or self._limits.has_room(ready, now)

    def is_idle(self) -> bool:
        """Whether nothing goes on and nothing waits to be written."""
        return not (
            self.attempts.running or self.background.going_on or len(self._settler) or len(self._marks)
        )

    def stop_starting(self) -> None:
        """Begin nothing more; what runs goes on and is settled."""
        self._starter.stop()
        self._bell.wakeups.unsubscribe(self.hint)
        self.slots_leaving(_EVERY_SLOT)

    def close(self) -> None:
        self._executor.close()
