"""The worker: reads what is due in the node's slots, begins it in time and in turn, and settles what came of it.

`tick` is one bounded pass that never waits for a handler or a statement. What it began goes on beside it, listed
in `attempts` and `background`; nothing else goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from timebell.db.pool import Session
from timebell.db.wakeup import Hints
from timebell.engine.attempts import Attempts
from timebell.engine.background import Background
from timebell.engine.behind import Behind
from timebell.engine.breakers import Breakers
from timebell.engine.counters import Counters, tally
from timebell.engine.destinations import BreakerDestinations
from timebell.engine.executor import Executor
from timebell.engine.held import Entry, Held
from timebell.engine.limits import Limits
from timebell.engine.marks import LOOK_AGAIN_SECONDS, LostMarks
from timebell.engine.node import Node
from timebell.engine.parking import Parking
from timebell.engine.places import Places
from timebell.engine.reader import Reader
from timebell.engine.recovery import recover
from timebell.engine.settler import Settler
from timebell.engine.settling import Settlement
from timebell.engine.stall import Stall
from timebell.engine.starter import Starter
from timebell.engine.store import EngineStore
from timebell.engine.timekeeper import Timekeeper
from timebell.kernel.bell import Timebell
from timebell.kernel.transaction import Transaction

_EVERY_SLOT = set(range(256))
_BEHIND_AN_EARLIER_STEP_SECONDS = 5.0
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
        settings = bell.settings
        self.counters = Counters()
        self.woken = asyncio.Event()
        self.held = Held.within(settings)
        self._places = Places(settings.concurrency, settings.tenant_share)
        self.background = Background(bell.clock, self.woken)
        self._bell, self._database = bell, bell.database
        self._node = node
        self._store = store
        self._timekeeper = timekeeper
        self._concurrency = settings.concurrency
        self._batch = settings.batch
        self._reader = Reader(store, node, self.held, timekeeper, settings)
        self.read_on = self._reader.read_on
        self._limits = Limits(bell.database, store, node, timekeeper, on_wait=self.woken.set)
        self.permits_in_use = self._limits.permits_in_use
        self._breakers = Breakers(bell.database, store, bell.chance)
        destinations = BreakerDestinations(self._breakers, node, timekeeper)
        self._executor = Executor(bell, store, node, timekeeper, destinations, self._limits)
        self._settler = Settler(
            bell.database,
            store,
            self.held,
            batch=settings.batch,
            log_days_ahead=settings.tuning.log_partitions_ahead_days,
            monotonic=timekeeper.monotonic,
            on_retry=self._retried,
            on_settled=self._settled,
            on_refused=self._refused,
            on_suspect_over=self._suspect_over,
        )
        self.attempts = Attempts(
            self._executor,
            self._settler,
            timekeeper,
            bell.tallies,
            may_run_on=node.may_run_on,
            on_end=self._ended,
            on_not_begun=self._not_begun,
            on_committed=self._committed,
        )
        self._starter = Starter(
            database=bell.database,
            store=store,
            registry=bell.registry,
            kinds_alive=bell.kinds_alive,
            node=node,
            held=self.held,
            limits=self._limits,
            destinations=destinations,
            executor=self._executor,
            settler=self._settler,
            attempts=self.attempts,
            background=self.background,
            timekeeper=timekeeper,
            chance=bell.chance,
            places=self._places,
            transactional_max=max(1, settings.pool_size - 4),
            on_not_begun=self._not_begun,
        )
        self._marks = LostMarks(
            bell.database, store, node, self.held, monotonic=timekeeper.monotonic, on_back=self._mark_is_back
        )
        self._parking = Parking(bell, store, node, self.held, on_left=self._left)
        self._stall = Stall(timekeeper.monotonic)
        self._behind = Behind()
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
        if not self._is_starting():
            self._behind.nothing_is_starting()
        self._reader.plan()
        now = self._timekeeper.now()
        self.held.promote(now)
        ready = self.held.ready_counts()
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
        return sum(ready.values()) + len(self.attempts) + self._starter.marking_count

    def _begin_jobs(self, now: datetime) -> None:
        room = min(self._concurrency - len(self.attempts) - self._starter.marking_count, self._batch)
        if self.only is not None:
            room = min(room, self.only.left)
        if room <= 0 or len(self._settler) > 4 * self._batch:
            return
        parking = self._parking
        admit = self._admit if parking or self.only is not None else self._starter.admit
        chosen = self.held.choose(room, self._limits.budgets(now), admit, self._places)
        if self.only is not None:
            self.only.left -= len(chosen)
        self._stall.note(has_begun=bool(chosen), is_busy=self._is_starting())
        parked = [entry for entry in chosen if parking.is_for(entry)] if parking else []
        if parked:
            self._places.leave_all(entry.pair[0] for entry in parked)
            self.background.begin("park", lambda: parking.park(parked), most=_PARKS_MAX)
            waiting = set(parked)
            chosen = [entry for entry in chosen if entry not in waiting]
        self._starter.begin(chosen, now)

    def _admit(self, entry: Entry) -> bool:
        """What must wait needs no place to run: it is chosen to be parked."""
        if self.only is not None and entry.pair != self.only.pair:
            return False
        if self._parking.is_for(entry):
            return self.background.is_free("park", _PARKS_MAX)
        return self._starter.admit(entry)

    def _left(self, entry: Entry) -> None:
        self._reader.revisit(entry.slot, entry.run_at, LOOK_AGAIN_SECONDS)

    def _holds_changed(self) -> None:
        self._parking.look()
        self.woken.set()

    def _next_tick_in(self, now: datetime) -> float:
        waits = [self._reader.next_plan_in()]
        earliest = self.held.earliest_run_at()
        if earliest is not None:
            waits.append((earliest - now).total_seconds())
        # Where no write can begin, the end of one wakes the loop.
        can_settle = self.background.is_free("settle", _FLUSHES_MAX)
        others = (self._settler.stuck_in() if can_settle else None, self.attempts.next_watch_in())
        waits += [seconds for seconds in others if seconds is not None]
        ready = self.held.ready_counts()
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
            self.held.drop_slots(slots)

    def slots_visited(self, visits: Mapping[int, frozenset[str]]) -> None:
        self.held.drop_slots(self._reader.visit(visits))
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

    def _ended(self, entry: Entry) -> None:
        self._starter.ended(entry)
        self.woken.set()

    def _suspect_over(self, entry: Entry) -> None:
        self._starter.vacate(entry)
        self.woken.set()

    def _refused(self, entry: Entry) -> None:
        """It may still be owed, begun in an earlier life of the node. Where the slot seems ours, a beat may be due."""
        ours = self._node.owned.get(entry.slot)
        is_ours = ours is not None and entry.epoch == ours.epoch
        self._reader.revisit(entry.slot, entry.run_at, LOOK_AGAIN_SECONDS if is_ours else 0.0)
        self.woken.set()

    def _not_begun(self, entry: Entry) -> None:
        """The row was not to be had: moved, cancelled, locked, or behind an earlier step."""
        self.counters.not_begun += 1
        if entry.may_be_marked:
            self._marks.add(entry)
            return
        self.held.forget(entry)
        row = entry.row
        seconds = LOOK_AGAIN_SECONDS
        if row["step_order"] is not None:
            if not self._behind.wait(entry):
                self._reader.hint({entry.slot: row["run_at"]})
                return
            seconds = _BEHIND_AN_EARLIER_STEP_SECONDS
        self._reader.revisit(entry.slot, row["run_at"], seconds)

    def _mark_is_back(self, slot: int, run_at: datetime) -> None:
        """Its slot may have a new owner by now. Ours is not read at once: what kept the job from beginning may last."""
        if slot in self._node.owned:
            self._reader.revisit(slot, run_at, LOOK_AGAIN_SECONDS)
        else:
            self._bell.wakeups.hint([(slot, run_at)])

    def _committed(self, settlement: Settlement, tx: Transaction) -> None:
        """A transactional handler committed its own completion."""
        self.held.retire([settlement.entry])
        self._settled([settlement])
        self._bell.wake(tx)
        if settlement.verdict == "retry":
            assert settlement.run_at is not None
            self._retried(settlement, settlement.version + 1, settlement.run_at)

    def _settled(self, settlements: Sequence[Settlement]) -> None:
        self.counters.settle(settlements)
        tally(self._bell.tallies, settlements)
        for settlement in settlements:
            if settlement.entry.row["step_order"] is None or settlement.verdict == "retry":
                continue
            behind = self._behind.ended(settlement.entry, is_starting=self._is_starting())
            if behind is not None:
                slot, run_at = behind
                self._reader.hint({slot: run_at})

    def _is_starting(self) -> bool:
        """Whether a start may be under way whose answer has not come back."""
        return bool(self._starter.marking_count or self.attempts.running)

    def _retried(self, settlement: Settlement, version: int, run_at: datetime) -> None:
        """A retry that lands behind the cursor would not be read before the next sweep; it is read at once."""
        if self._reader.has_read(run_at):
            self._reader.hint({settlement.entry.slot: run_at})

    def next_instant(self) -> datetime | None:
        """The next instant at which a job in memory may begin."""
        ready = self.held.ready_counts()
        instants = [self.held.earliest_run_at(), self._limits.next_start(ready, self._timekeeper.now())]
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
        ready, now = self.held.ready_counts(), self._timekeeper.now()
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
