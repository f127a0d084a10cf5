"""Limits that hold over all nodes: starts leased from one row a queue, permits that outlive what runs under them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID
from zlib import crc32

from timebell.db.pool import Session
from timebell.engine.ledger.entry import JobEntry
from timebell.engine.limits.pace import TOLERANCE, Pace
from timebell.engine.worker.dependencies import Dependencies
from timebell.rules.sharing import share_permits

# Starts are leased this far ahead, by a node that went without a little further.
_WINDOW = timedelta(milliseconds=200)
# A job whose start has to be marked first is chosen so long before its instant.
_LEAD = timedelta(milliseconds=100)
# One that was chosen and finds no instant is looked at again later.
_PATIENCE_SECONDS = 1.0
# Where no answer of the database came quickly, its clock is known less well than an instant must be met. Half of what
# may be late is left for that, and no more, or nothing would ever begin.
_UNCERTAINTY_MAX = TOLERANCE / 2
_MISSES_MAX = 4
_PERMITS_EVERY_SECONDS = 0.05
_LIMITS_EVERY_SECONDS = 5.0
# What nobody ever wants, so that it is said anew.
_UNKNOWN = -1


@dataclass(slots=True)
class QueueLimit:
    """What this node may start in one queue right now.

    It runs `in_use` jobs and holds that many permits or more. Its `share` may be less than it holds: then it
    starts nothing, and gives permits back as its jobs end. `left` are those whose attempt is over while their function
    goes on in its thread.
    """

    has_rate: bool
    has_permits: bool
    pace: Pace = field(default_factory=Pace)
    ask_again_at: datetime | None = None
    misses: int = 0
    held: int = 0
    share: int = 0
    running: set[JobEntry] = field(default_factory=set)
    left: set[JobEntry] = field(default_factory=set)
    wanted: int = 0
    permits_asked_at: float = float("-inf")

    @property
    def in_use(self) -> int:
        return len(self.running) + len(self.left)

    @property
    def window(self) -> timedelta:
        return _WINDOW * (1 + self.misses)


class Limits:
    """Answers how many jobs of each limited queue may start, and keeps starts and permits in supply."""

    def __init__(self, shared: Dependencies) -> None:
        self._database = shared.database
        self._store = shared.store
        self._node = shared.node
        self._timekeeper = shared.timekeeper
        self._woken = shared.woken
        self._queues: dict[str, QueueLimit] = {}
        # The queues that have a limit, and those that have a rate. Each job is looked for here, so it is not asked for
        # but looked at.
        self.limited = self._queues.keys()
        self.paced: set[str] = set()
        self._read_at = float("-inf")
        self._in_threads: set[JobEntry] = set()
        self.is_stopping = False

    async def refresh(self, session: Session, running: Iterable[JobEntry] = ()) -> None:
        """Learn which queues are limited; asked now and then, for an operator may change a limit.

        What runs already when its queue is given one counts as well.
        """
        if self._timekeeper.monotonic() < self._read_at + _LIMITS_EVERY_SECONDS:
            return
        self._read_at = self._timekeeper.monotonic()
        rows = {row["name"]: row for row in await self._store.read_limits(session)}
        for name in self._queues.keys() - rows.keys():
            self._queues.pop(name).pace.wake_all()
        for name, row in rows.items():
            has_rate, has_permits = row["rate_per_second"] is not None, row["concurrency"] is not None
            known = self._queues.get(name)
            if known is None:
                limit = self._queues[name] = QueueLimit(has_rate, has_permits)
                limit.running.update(entry for entry in running if entry.pair[1] == name)
            else:
                known.has_rate, known.has_permits = has_rate, has_permits
        self.paced = {name for name, limit in self._queues.items() if limit.has_rate}

    def budgets(self, now: datetime) -> dict[str, int]:
        """How many jobs of each limited queue may start now."""
        budgets = {}
        lead = timedelta(0) if self._timekeeper.is_fixed else _LEAD
        for name, limit in self._queues.items():
            permits = starts = min(limit.held, limit.share) - limit.in_use
            if limit.has_rate:
                limit.pace.lapse(self._latest())
                limit.pace.ripe = limit.pace.count(now)
                starts = limit.pace.count(now + lead)
            budgets[name] = min(starts, permits) if limit.has_permits else starts
        return budgets

    def reserve(self, id: UUID, queue: str, *, is_marked: bool) -> bool:
        """Reserve one of the instants of a queue that has a rate; one that begins at once needs a ripe one."""
        limit = self._queues.get(queue)
        if limit is None or not limit.has_rate:
            return True
        if not is_marked and limit.pace.ripe <= 0:
            return False
        limit.pace.ripe -= 1
        limit.pace.reserved.add(id)
        return True

    def give_up(self, id: UUID, queue: str) -> None:
        """It does not begin after all."""
        limit = self._queues.get(queue)
        if limit is not None:
            limit.pace.reserved.discard(id)

    def started(self, entry: JobEntry) -> bool:
        """Answers whether it runs under a permit. One whose start was marked meanwhile says so again."""
        limit = self._queues.get(entry.pair[1])
        if limit is None:
            return False
        limit.running.add(entry)
        return limit.has_permits

    def ended(self, entry: JobEntry) -> None:
        """Its attempt is over. What goes on in a thread all the same keeps its permit."""
        limit = self._queues.get(entry.pair[1])
        if limit is not None:
            limit.pace.reserved.discard(entry.id)
            limit.running.discard(entry)
            if entry in self._in_threads:
                limit.left.add(entry)

    def thread_begins(self, entry: JobEntry) -> None:
        if entry.pair[1] in self._queues:
            self._in_threads.add(entry)

    def thread_ended(self, entry: JobEntry) -> None:
        if entry in self._in_threads:
            self._in_threads.discard(entry)
            limit = self._queues.get(entry.pair[1])
            if limit is not None:
                limit.left.discard(entry)
            self._woken.set()

    def permits_in_use(self) -> dict[str, int]:
        """How many permits of each queue something runs under here."""
        return {
            name: limit.in_use for name, limit in self._queues.items() if limit.has_permits and limit.in_use
        }

    async def instant(self, id: UUID, queue: str) -> bool:
        """Spend an instant on a job whose handler begins as soon as this answers; False where none comes soon."""
        until = self._timekeeper.monotonic() + _PATIENCE_SECONDS
        while (limit := self._queues.get(queue)) is not None and limit.has_rate:
            if limit.pace.spend(id, self._timekeeper.now(), self._latest()):
                return True
            if self.is_stopping or self._timekeeper.is_fixed or self._timekeeper.monotonic() >= until:
                return False
            waiter = asyncio.get_running_loop().create_future()
            limit.pace.waiters.append((until, waiter))
            self._woken.set()
            await waiter
        return True

    def wake(self) -> None:
        """Let those go on whose instant has come."""
        for limit in self._queues.values():
            if limit.pace.waiters:
                now, monotonic = self._timekeeper.now(), self._timekeeper.monotonic()
                limit.pace.wake(now, self._latest(), monotonic)

    def stop(self) -> None:
        """Nothing begins any more."""
        self.is_stopping = True
        for limit in self._queues.values():
            limit.pace.wake_all()

    def _latest(self) -> datetime:
        return min(self._timekeeper.latest(), self._timekeeper.now() + _UNCERTAINTY_MAX)

    def lost(self) -> None:
        """The life is over. The next has the permits that are in use, and nothing begins before it has more."""
        for limit in self._queues.values():
            limit.held = limit.share = 0
            limit.wanted = _UNKNOWN
            limit.pace.clear()

    def next_start(self, ready: Mapping[str, int], now: datetime) -> datetime | None:
        """The next instant at which a waiting job may start or more starts may be asked for."""
        instants: list[datetime] = []
        for name, limit in self._queues.items():
            if not limit.has_rate or not (ready.get(name) or limit.pace.waiters):
                continue
            instants += limit.pace.starts
            if not self._timekeeper.is_fixed:
                instants += (at - _LEAD for at in limit.pace.starts)
            instants += [limit.ask_again_at] if limit.ask_again_at is not None else []
        return min((instant for instant in instants if instant > now), default=None)

    def waits_for_permits(self, ready: Mapping[str, int]) -> bool:
        """Whether there are permits to get, or to give back, as soon as one may ask again."""
        return any(
            limit.has_permits and (ready.get(name) or limit.held > limit.in_use)
            for name, limit in self._queues.items()
        )

    def has_room(self, ready: Mapping[str, int], now: datetime) -> bool:
        """Whether one of the waiting jobs may start now."""
        budgets = self.budgets(now)
        return any(budgets.get(name, 1) > 0 for name in ready)

    def waits_for_instants(self) -> bool:
        """Whether something was chosen and waits for its instant, or would give up soon."""
        return any(limit.pace.waiters for limit in self._queues.values())

    def is_short(self, ready: Mapping[str, int], now: datetime) -> bool:
        """Whether `supply` has something to ask for."""
        return any(
            self._wants_starts(limit, ready.get(name, 0), now)
            or self._wants_permits(limit, ready.get(name, 0))
            for name, limit in self._queues.items()
        )

    def _wants_starts(self, limit: QueueLimit, ready: int, now: datetime) -> bool:
        if not limit.has_rate or ready + len(limit.pace.reserved) <= len(limit.pace.starts):
            return False
        return limit.ask_again_at is None or limit.ask_again_at <= now

    def _wants_permits(self, limit: QueueLimit, ready: int) -> bool:
        if not limit.has_permits:
            return False
        if self._timekeeper.monotonic() < limit.permits_asked_at + _PERMITS_EVERY_SECONDS:
            return False
        # More is wanted, or more is held than there is a use for, or a share may have to go to others.
        return (
            ready + limit.in_use != limit.wanted
            or limit.held > min(limit.share, limit.in_use + ready)
            or ready > limit.held - limit.in_use
        )

    async def supply(self, ready: Mapping[str, int]) -> None:
        """Ask for the starts and permits that waiting jobs need, and give back permits that none needs."""
        now = self._timekeeper.now()
        for name, limit in list(self._queues.items()):
            waiting = ready.get(name, 0)
            if self._wants_starts(limit, waiting, now):
                wanted = waiting + len(limit.pace.reserved) - len(limit.pace.starts)
                await self._lease_starts(name, limit, wanted)
            if self._wants_permits(limit, waiting):
                await self._share_permits(name, limit, waiting)

    async def _lease_starts(self, name: str, limit: QueueLimit, wanted: int) -> None:
        async with self._database.connection() as session:
            row = await self._store.lease_starts(
                session, queue=name, wanted=wanted, window_us=limit.window // timedelta(microseconds=1)
            )
        if row is None:
            limit.ask_again_at = self._timekeeper.now() + _WINDOW
            return
        first, spacing = row["first_at"], timedelta(microseconds=row["spacing_us"])
        limit.pace.take(first, spacing, row["granted"], row["told_at"])
        # Whoever got some asks again when half a window is left, whoever got nothing as soon as it may, and the
        # longer it went without, the further ahead it may look. So every node has its turn.
        limit.misses = 0 if row["granted"] else min(limit.misses + 1, _MISSES_MAX)
        next_free = first + spacing * row["granted"]
        early = _WINDOW / 2 if row["granted"] else limit.window
        limit.ask_again_at = next_free - early if row["granted"] < wanted else None

    async def _share_permits(self, name: str, limit: QueueLimit, waiting: int) -> None:
        limit.permits_asked_at = self._timekeeper.monotonic()
        me = self._node.incarnation
        wanted = limit.in_use + waiting
        # While the shares are settled nothing new may start: what is given back must not be in use. Where it is
        # not known what was written, the smaller number is the safe one.
        before, limit.held = limit.held, limit.in_use
        held = 0
        try:
            async with self._database.transaction() as session:
                concurrency = await self._store.lock_permits(session, queue=name)
                rows = await self._store.read_permits(session, queue=name)
                holdings = {
                    row["incarnation"]: (row["held"], row["wanted"]) for row in rows if row["is_alive"]
                }
                kept = sum(row["held"] for row in rows if not row["is_alive"])
                if concurrency is None or me not in holdings:
                    before = 0
                    return
                holdings[me] = (before, wanted)
                share = share_permits(concurrency, holdings, me, kept=kept, turn=self._turn())
                limit.share = min(share, wanted)
                held = max(limit.in_use, limit.share)
                await self._store.write_permits(session, queue=name, incarnation=me, held=held, wanted=wanted)
            limit.wanted, before = wanted if me == self._node.incarnation else _UNKNOWN, held
        finally:
            # Meanwhile the node may have begun another life, which holds only what is in use.
            limit.held = min(before, held) if me == self._node.incarnation else 0

    def _turn(self) -> int:
        """Whose turn it is to have an odd permit, the same for all nodes at one time.

        In no order that repeats: a node whose jobs take just one round would always be the next again.
        """
        return crc32(b"%d" % int(self._timekeeper.now().timestamp() * 2))
