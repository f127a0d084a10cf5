"""What operators do in a world: queues that are narrow or slow, pauses, and dead jobs that are brought back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from tests.history import Record, Violation
from tests.simulation.asking import Unhurried
from tests.simulation.callers import LOSSES, Caller, Wanted
from tests.simulation.ending import Ending
from tests.simulation.process import SEEN_SECONDS
from timebell.kernel import Queue

NARROW = Queue(name="narrow", concurrency=2)
SLOW = Queue(name="slow", rate=1 / 300, burst=1)
QUEUES = (NARROW, SLOW)
_DEAD = """
SELECT id FROM timebell.dead_jobs WHERE tenant = 'default' AND correlation_id LIKE 'job%' ORDER BY died_at, id
"""
_SEEN = timedelta(seconds=SEEN_SECONDS)


@dataclass(slots=True, kw_only=True)
class Pause:
    """A queue was paused, which counts once it was answered, until somebody asked that it goes on."""

    queue: str
    since: datetime
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revival:
    job_id: UUID
    invoked_at: datetime


class Operators(Unhurried):
    """Those who look after queues."""

    name = "operators"

    def _begin(self) -> None:
        self._queue_of: dict[str, str] = {}
        self._pauses: list[Pause] = []
        # Who died as they paused a queue, or let it go on, does not know whether they did.
        self._perhaps_paused: set[str] = set()
        self._revivals: list[Revival] = []

    def _caller(self) -> Caller:
        return Caller(self._process(), self._record)

    async def live(self, days: float) -> None:
        scene = self._scene
        a_day = {
            self._crowd: scene.crowds_a_day,
            self._pause: scene.queue_pauses_a_day,
            self._revive: scene.revivals_a_day,
        }
        await self._live(days, a_day)

    async def afterwards(self) -> None:
        """Whatever is paused goes on, whatever died and is wanted comes back, and some come at once."""
        scene = self._scene
        for queue in sorted(self._perhaps_paused):
            caller = self._caller()
            await caller.process.run(self._go_on(caller, queue))
        if scene.revivals_a_day:
            caller = self._caller()
            await caller.process.run(self._bring_back(caller))
        if scene.crowds_a_day:
            self._crowd()

    def _crowd(self) -> None:
        """Several jobs in one of the queues, due at one instant."""
        queue = self._chance.choice(QUEUES).name
        due_at = self._now() + timedelta(milliseconds=self._chance.randint(0, 2 * 3_600_000))
        for _ in range(self._chance.randint(3, 5)):
            wanted = Wanted(
                name=self._name("crowd"),
                mode=self._chance.choice(self._scene.modes),
                due_at=due_at,
                queue=queue,
                payload={"is_steady": True, "is_brief": True},
            )
            caller = self._caller()
            self._let(caller.process, self._ask(caller, wanted))

    async def _ask(self, caller: Caller, wanted: Wanted) -> None:
        id = await caller.enqueue(wanted)
        if id is not None and wanted.queue is not None:
            self._queue_of[str(id)] = wanted.queue

    def _pause(self) -> None:
        queue = self._chance.choice(QUEUES).name
        caller = self._caller()
        hours = self._chance.choice([1, 9, 12])
        self._let(caller.process, self._stop_for(caller, queue, timedelta(hours=hours)))

    async def _stop_for(self, caller: Caller, queue: str, duration: timedelta) -> None:
        self._perhaps_paused.add(queue)
        async with caller.process.bell.transaction() as tx:
            await caller.process.bell.pause(tx, queue)
        # Somebody who let it go on meanwhile may have been before this.
        self._perhaps_paused.add(queue)
        if not any(each.queue == queue and each.until is None for each in self._pauses):
            self._pauses.append(Pause(queue=queue, since=self._now()))
        caller.process.wire.counts["pauses"] += 1
        await asyncio.sleep(duration.total_seconds())
        if not self.is_over:
            other = self._caller()
            self._let(other.process, self._go_on(other, queue))

    async def _go_on(self, caller: Caller, queue: str) -> None:
        for pause in self._pauses:
            if pause.queue == queue and pause.until is None:
                pause.until = self._now()
        async with caller.process.bell.transaction() as tx:
            await caller.process.bell.resume(tx, queue)
        self._perhaps_paused.discard(queue)

    def _revive(self) -> None:
        caller = self._caller()
        self._let(caller.process, self._bring_back(caller))

    async def _bring_back(self, caller: Caller) -> None:
        ids = [row["id"] for row in self._monitor.execute(_DEAD).fetchall()]
        if not ids:
            return
        invoked_at = self._now()
        try:
            async with caller.process.bell.transaction() as tx:
                revived = await caller.process.bell.revive(tx, ids=ids)
        except (*LOSSES, asyncio.CancelledError):
            for id in ids:
                caller.note("revive", str(id), invoked_at, job_id=str(id))
            raise
        caller.process.wire.counts["revived"] += len(revived)
        for id in revived:
            caller.note("revive", str(id), invoked_at, is_known=True, job_id=str(id))
            self._revivals.append(Revival(job_id=id, invoked_at=invoked_at))

    def _regret(self, id: UUID) -> None:
        raise NotImplementedError

    def check(self, ending: Ending) -> Sequence[Violation]:
        starts = [
            (self._queue_of[start.job_id], start)
            for starts in ending.starts.values()
            for start in starts
            if start.job_id in self._queue_of
        ]
        found = [*self._paused(starts), *self._unrevived(ending)]
        found += _crowded([start for queue, start in starts if queue == NARROW.name], ending)
        found += _hasty(sorted(start.invoked_at for queue, start in starts if queue == SLOW.name))
        return found

    def _paused(self, starts: Sequence[tuple[str, Record]]) -> Iterator[Violation]:
        for queue, start in starts:
            for pause in self._pauses:
                until = pause.until or start.invoked_at
                if queue == pause.queue and pause.since + _SEEN < start.invoked_at < until:
                    text = f"began at {start.invoked_at.isoformat()}, paused since {pause.since.isoformat()}"
                    yield Violation(invariant="paused", key=start.key, text=text)

    def _unrevived(self, ending: Ending) -> Iterator[Violation]:
        """What came back begins again. That it comes to an end, whatever that is, all jobs must."""
        over = {final.job_id: final for finals in ending.finals.values() for final in finals}
        for revival in self._revivals:
            final = over.get(str(revival.job_id))
            begun = any(
                start.invoked_at > revival.invoked_at for start in ending.starts.get(str(revival.job_id), ())
            )
            if not begun and (final is None or final.state in ("done", "dead", "pending")):
                text = f"brought back at {revival.invoked_at.isoformat()}, and it never began again"
                yield Violation(
                    invariant="revived", key=final.key if final else str(revival.job_id), text=text
                )


def _crowded(starts: Sequence[Record], ending: Ending) -> Iterator[Violation]:
    """How many ran at once. A node that is hit may have stopped at that moment, and no longer counts."""
    ends: dict[tuple[str, str], list[datetime]] = {}
    for record in ending.history:
        if record.op == "end" and record.job_id is not None:
            ends.setdefault((record.job_id, record.node), []).append(record.invoked_at)
    spans = []
    for start in starts:
        hits = [each.invoked_at for each in ending.faults if each.node == start.node]
        stops = [*ends.get((start.job_id or "", start.node), ()), *hits, ending.until]
        spans.append((start.invoked_at, min(at for at in stops if at >= start.invoked_at)))
    for start, (began, _) in zip(starts, spans, strict=True):
        count = sum(since <= began < until for since, until in spans)
        if count > (NARROW.concurrency or 0):
            yield Violation(
                invariant="crowded", key=start.key, text=f"began at {began.isoformat()} as one of {count}"
            )


def _hasty(instants: Sequence[datetime]) -> Iterator[Violation]:
    """Starts of a queue with a rate, of which no two are nearer than it allows, but for what the burst does."""
    assert SLOW.rate is not None
    for number, at in enumerate(instants[SLOW.burst :]):
        apart = (at - instants[number]).total_seconds()
        # The instants are leased to nodes, whose clocks are a little uncertain.
        if apart < SLOW.burst / SLOW.rate * 0.9:
            yield Violation(
                invariant="hasty",
                key=SLOW.name,
                text=f"began at {at.isoformat()}, {apart:.1f} s after another",
            )
