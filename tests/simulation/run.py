"""One run of one seed: a world for some days, calm until everything is settled, and what the checker says."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.history import Record, Violation, check, summarise
from tests.simulation.asking import Asking
from tests.simulation.callers import NEIGHBOUR, named
from tests.simulation.database import know_queries
from tests.simulation.ending import Ending, check_tenants
from tests.simulation.faults import Injector
from tests.simulation.gathering import Gathering
from tests.simulation.ground import Ground, ground_of, leave
from tests.simulation.handlers import Handlers
from tests.simulation.notes import Notes
from tests.simulation.operating import Operators
from tests.simulation.parts import parts
from tests.simulation.planting import Planting, several
from tests.simulation.post import Arrival, Post
from tests.simulation.process import LEASE_SECONDS, Bus, Process, stretched_loops
from tests.simulation.scene import Scene
from tests.simulation.scenes import scene_of
from tests.simulation.timetables import Timetables
from tests.simulation.told import check_told
from tests.simulation.trace import Trace
from tests.simulation.web import Clients
from tests.simulation.wire import Statement, Wire
from tests.simulation.world import World
from timebell.db.failures import DATABASE_ERRORS, PASSING_ERRORS, SLOW_ERRORS
from timebell.testing.database import TestDatabase

# Long enough for what is due last, its retries, and the leases of whoever died last.
_CALM = timedelta(hours=60)
_GRACE = timedelta(hours=6)
_LOOK_SECONDS = 3600.0
AFTER_SECONDS = LEASE_SECONDS * 1.5

_UNFINISHED = """
SELECT id, tenant, subject, step, correlation_id, due_at, NULL AS finished_at, NULL AS reason,
    CASE WHEN started_by IS NULL THEN 'pending' ELSE 'running' END AS state
FROM timebell.jobs ORDER BY id
"""
_FINISHED = """
SELECT DISTINCT ON (l.id) l.id, l.tenant, l.subject, l.step, l.correlation_id, l.due_at, l.finished_at, l.reason,
    CASE WHEN l.state = 'cancelled' AND l.step IS NOT NULL AND d.step IS NULL THEN 'withdrawn'
        WHEN l.state = 'done' AND l.reason = 'told in a digest' THEN 'gathered' ELSE l.state END AS state
FROM timebell.job_log l LEFT JOIN timebell.agenda_done d USING (tenant, subject, step, due_at)
WHERE l.state <> 'pending' AND NOT EXISTS (SELECT FROM timebell.jobs j WHERE j.id = l.id)
ORDER BY l.id, l.logged_at DESC, l.version DESC
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a run."""

    seed: int
    violations: list[Violation]
    hash: str
    trace: list[str]
    history: list[Record]
    counts: Counter[str]
    seconds: float
    # Where a bug was planted, and what of it was never come by.
    unreached: list[str]

    def figures(self) -> dict[str, Any]:
        return {**summarise(self.history, self.violations), **self.counts}


class _Run:
    """The parts of one run, put together."""

    def __init__(
        self,
        seed: int,
        scene: Scene,
        database: TestDatabase,
        monitor: psycopg.Connection[Any],
        trace: Trace,
        ground: Ground,
    ) -> None:
        self.history: list[Record] = []
        self.loop = ground.loop
        self.wire = Wire(self.loop, monitor, seed, trace, ground.lines)
        self.injector = Injector(seed, scene, self.wire, self._start, self._record)
        present = [part for part in parts() if part.is_in(scene)]
        know_queries(*(package for part in present for package in part.queries))
        users = [part.make(seed, scene, self._record, monitor) for part in present]
        self.askers: list[Asking] = [
            World(seed, scene, self._record),
            Notes(seed, scene, self._record),
            *([World(seed, scene.beside, self._record, NEIGHBOUR)] if scene.neighbours else []),
            Operators(seed, scene, self._record, monitor),
            Timetables(seed, scene, self._record, monitor),
            Clients(seed, scene, self._record, monitor),
            Gathering(seed, scene, self._record, monitor),
            *users,
        ]
        self.post = Post(seed, self.wire.now, monitor, self.injector.kill)
        others = [partial(user.app, part.app) for part, user in zip(present, users, strict=True)]
        self.handlers = Handlers(
            seed, scene, self.wire.now, self._record, self.injector.kill, self.post, others
        )
        self._monitor = monitor
        self._seed = seed
        self._bus = Bus(self.wire, seed)
        self._database = database
        self._lives = 0
        self.wire.on_arrival = self._rush
        self.post.on_arrival = self._note_arrival

    def _record(self, record: Record) -> None:
        self.history.append(record)
        facts = f"{record.key} {record.answer or record.attempt or ''}"
        self.wire.trace.add(self.loop.now_us, record.node, record.op, facts)

    def _rush(self, statement: Statement) -> None:
        for each in self.askers:
            each.rush(statement)

    def _note_arrival(self, arrival: Arrival) -> None:
        self.wire.counts["arrivals"] += 1
        self.wire.trace.add(self.loop.now_us, arrival.node, "arrival", f"{arrival.name} {arrival.provider}")

    def _start(self, name: str) -> Process:
        self._lives += 1
        process = Process(
            name,
            self.wire,
            self._bus,
            self._database,
            self.handlers.apps(),
            f"{self._seed}/{name}/{self._lives}",
        )
        process.run(self._begin(process, with_engine=name.startswith("node")))
        if not name.startswith("node"):
            alive = [each for each in [*self._callers(), process] if not each.life.is_dead]
            for asker in self.askers:
                asker.serve(alive)
        return process

    async def _begin(self, process: Process, *, with_engine: bool) -> None:
        try:
            await process.begin(with_engine=with_engine)
        except DATABASE_ERRORS:
            # Whoever keeps the processes starts it again.
            self.loop.call_soon(self.injector.kill, process.life, context=self.wire.nobody)
            return
        if process.engine is not None:
            await process.engine.wait()

    def _callers(self) -> list[Process]:
        return [each for name, each in self.injector.processes.items() if name.startswith("web")]

    async def live(self, days: float, node_count: int) -> None:
        for name in [*(f"node{number}" for number in range(node_count)), "web0", "web1"]:
            self.injector.processes[name] = self._start(name)
        await asyncio.sleep(1)
        for each in self.askers:
            await each.settle_in()
        faults = asyncio.create_task(self.injector.live())
        await asyncio.gather(*(each.live(days) for each in self.askers))
        self.injector.calm()
        self.handlers.is_calm = self.post.is_calm = True
        # Whoever died is known to be dead by then, and nothing explains a silence any more.
        await asyncio.sleep(AFTER_SECONDS)
        await asyncio.gather(*(each.afterwards() for each in self.askers))
        until = self.wire.now() + _CALM
        while self.wire.now() < until and not (faults.done() and self._is_settled()):
            await asyncio.sleep(_LOOK_SECONDS)
        faults.cancel()
        with suppress(asyncio.CancelledError):
            await faults
        for each in self.askers:
            await each.in_the_end()
        self.until = until

    def _is_settled(self) -> bool:
        """Whether nothing is left that should be over by the end."""
        left = "SELECT count(*) AS count FROM timebell.jobs WHERE run_at < %s"
        row = self._monitor.execute(left, [self.wire.now() + _CALM]).fetchone()
        return row is not None and row["count"] == 0

    def read_ends(self) -> None:
        """What the database says in the end, into the history."""
        for row in [
            *self._monitor.execute(_UNFINISHED).fetchall(),
            *self._monitor.execute(_FINISHED).fetchall(),
        ]:
            step = named(row["tenant"], f"{row['subject']}/{row['step']}")
            key = step if row["step"] else row["correlation_id"] or str(row["id"])
            facts = {"job_id": str(row["id"]), "due_at": row["due_at"], "state": row["state"]}
            at = row["finished_at"]
            self.history.append(
                Record(
                    op="final", key=key, node="database", invoked_at=at or self.until, answered_at=at, **facts
                )
            )
        effects = "SELECT job_id, name, count(*) AS count FROM simulation.effects GROUP BY 1, 2 ORDER BY 1, 2"
        for row in self._monitor.execute(effects).fetchall():
            self.history.append(
                Record(
                    op="effect",
                    key=row["name"],
                    node="database",
                    invoked_at=self.until,
                    answered_at=self.until,
                    job_id=str(row["job_id"]),
                    count=row["count"],
                )
            )

    def check(self) -> list[Violation]:
        """What is broken, by whoever knows of it."""
        ending = Ending(
            history=self.history,
            post=self.post,
            monitor=self._monitor,
            until=self.until,
            grace=_GRACE,
            changes=[change for each in self.askers for change in each.changes()],
            lost_hints=self._bus.lost_ats,
        )
        lease = timedelta(seconds=LEASE_SECONDS * 5 / 6)
        return [
            *check(self.history, until=self.until, grace=_GRACE, lease=lease),
            *check_told(ending),
            *check_tenants(ending),
            *(violation for each in self.askers for violation in each.check(ending)),
        ]

    def close(self) -> None:
        for asker in self.askers:
            asker.leave()
        for process in self.injector.processes.values():
            self.wire.kill(process.life)
        self.loop.run_until_complete(self._until_dead())
        self.loop.begin_again()

    async def _until_dead(self) -> None:
        while any(process.life.loops for process in self.injector.processes.values()):
            await asyncio.sleep(0.001)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        # Virtual time passes only when nothing is left to do.
        await asyncio.sleep(0.001)


def run_seed(
    seed: int,
    *,
    database: TestDatabase,
    days: float = 2,
    scene: Scene | None = None,
    planted: Planting = several,
    is_traced: bool = False,
) -> Result:
    began = time.perf_counter()
    scene = scene or scene_of(seed)
    trace = Trace(is_kept=is_traced)
    bugs: list[BaseException] = []
    ground = ground_of(database)
    with ExitStack() as stack:
        stack.enter_context(_logging_bugs(bugs))
        stack.enter_context(stretched_loops())
        for part in parts():
            stack.enter_context(part.stretched())
        spots = stack.enter_context(planted())
        monitor = stack.enter_context(_monitor(database))
        ground.clear(monitor)
        run = _Run(seed, scene, database, monitor, trace, ground)
        try:
            run.loop.run_until_complete(run.live(max(days, scene.days_min), 2 + seed % 3))
            run.read_ends()
            found = run.check()
            run.wire.counts["arrived_again"] = len(run.post.arrivals) - len(
                {arrival.job_id for arrival in run.post.arrivals}
            )
            loop_bugs = run.loop.bugs
            run.close()
        except BaseException:
            # Whatever broke may break this as well, and is what has to be told.
            with suppress(Exception):
                run.close()
            leave(database)
            raise
    return Result(
        seed=seed,
        violations=[
            *found,
            *(_bug(error) for error in [*bugs, *loop_bugs]),
        ],
        hash=trace.hash(),
        trace=trace.lines,
        history=run.history,
        counts=run.wire.counts,
        seconds=time.perf_counter() - began,
        unreached=[spot.name for spot in spots if not spot.count],
    )


def _monitor(database: TestDatabase) -> psycopg.Connection[dict[str, Any]]:
    """The database as its administrator sees it."""
    return psycopg.connect(database.admin_url, autocommit=True, row_factory=dict_row)


def _bug(error: BaseException) -> Violation:
    return Violation(
        invariant="bug", key=type(error).__name__, text="".join(traceback.format_exception(error)).rstrip()
    )


@contextmanager
def _logging_bugs(bugs: list[BaseException]) -> Iterator[None]:
    """What the engine logs about all these faults is of no interest, but for what it did not expect itself."""
    # A job that dies is what the scenes are full of, and so are alerts.
    expected = {"timebell.attempts", "timebell.worker", "timebell.alerts"}
    # What apps tell of a connection that was cut under them, of a lock, and of nothing else.
    cut_off, passing = {name for part in parts() for name in part.logs}, (*PASSING_ERRORS, *SLOW_ERRORS)

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else sys.exception()
            if record.name in expected or (record.name in cut_off and isinstance(error, passing)):
                return
            bugs.append(error or RuntimeError(record.getMessage()))

    ours, keep = logging.getLogger("timebell"), Keep(logging.ERROR)
    level, propagate = ours.level, ours.propagate
    ours.addHandler(keep)
    ours.setLevel(logging.ERROR)
    ours.propagate = False
    try:
        yield
    finally:
        ours.removeHandler(keep)
        ours.setLevel(level)
        ours.propagate = propagate
