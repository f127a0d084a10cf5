"""Timebell beside the model: every verb is carried out in both, and they are compared."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from tests.engine.agenda_model import MAX_ATTEMPTS, RETRY_DELAYS, SNOOZE, Answer, Owed, SubjectModel
from timebell.clock import Chance
from timebell.config import Settings, Tuning
from timebell.db.pool import Database
from timebell.engine import Engine
from timebell.kernel import (
    Agenda,
    AgendaDiff,
    App,
    Cancel,
    Done,
    Handler,
    Job,
    Outcome,
    Registry,
    Retry,
    Snooze,
    Step,
    Timebell,
)
from timebell.rules.backoff import RetryPolicy
from timebell.testing import ManualClock
from timebell.testing.database import TestDatabase

SUBJECTS = ("meeting:1", "meeting:2")
# The clock rests a quarter past a minute and the step that sets agendas itself is due three quarters past one, so
# that at its instant nothing else runs.
START = datetime(2026, 1, 5, 9, 0, 15, tzinfo=UTC)
_PASSES_MAX = 5_000
_DAY = timedelta(hours=24)
_TABLES = ("jobs", "cancel_requests", "job_keys", "job_log", "dead_jobs", "agendas", "agenda_done", "nodes")

_COMPARED = (
    "id",
    "step",
    "due_at",
    "run_at",
    "attempt",
    "expires_at",
    "kind",
    "is_running",
    "is_flagged",
)

Plan = tuple[datetime | None, Sequence[Step]]


class Interruption:
    """A gate that lets something else happen once, in the middle of setting an agenda."""

    def __init__(self) -> None:
        self.happening: Callable[[], Awaitable[None]] | None = None

    async def before(self, name: str) -> None:
        return None

    async def after(self, name: str) -> None:
        if name == "read_agenda" and self.happening is not None:
            happening, self.happening = self.happening, None
            await happening()


class Ground:
    """What all examples share: the connections. Each example begins on cleared tables."""

    def __init__(self, database: Database, owner: Any, interruption: Interruption) -> None:
        self.database = database
        self.owner = owner
        self.interruption = interruption

    @classmethod
    async def open(cls, database: TestDatabase) -> Ground:
        interruption = Interruption()
        opened = await Database.open(database.url, gate=interruption)
        return cls(opened, await asyncpg.connect(database.admin_url, timeout=10), interruption)

    async def close(self) -> None:
        await self.owner.close(timeout=10)
        await self.database.close()

    async def clear(self) -> None:
        await self.owner.execute("; ".join(f"DELETE FROM timebell.{table}" for table in _TABLES))
        await self.owner.execute("UPDATE timebell.slots SET owner = NULL WHERE owner IS NOT NULL")


class World:
    """One example: a bell, a node that may be away, two subjects and their models."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.clock = ManualClock(START)
        self.models = {subject: SubjectModel() for subject in SUBJECTS}
        self.plans: dict[int, Plan] = {}
        self.hanging: dict[UUID, asyncio.Future[str]] = {}
        self.somebody_hangs = asyncio.Event()
        self.complaints: list[AssertionError] = []
        self.engine: Engine | None = None
        retry = RetryPolicy(delays=RETRY_DELAYS, max_attempts=MAX_ATTEMPTS)
        options: dict[str, Any] = {"retry": retry, "timeout": _DAY}
        self.bell = Timebell(
            ground.database,
            registry=Registry(
                [
                    App(
                        name="p",
                        handlers={
                            "p.plain": Handler(run=self._run, mode="plain", **options),
                            "p.external": Handler(run=self._run, mode="external", **options),
                            "p.inside": Handler(run=self._run, mode="transactional", **options),
                            "p.ladder": Handler(run=self._climb, mode="transactional", **options),
                        },
                    )
                ]
            ),
            settings=Settings(tuning=Tuning(read_ahead_seconds=60.0), stop_seconds=1.0),
            clock=self.clock,
            chance=Chance(1),
        )

    @property
    def now(self) -> datetime:
        return self.clock.now

    def is_due_by(self, instant: datetime, *kinds: str) -> bool:
        """Whether a job of one of these kinds becomes due until then."""
        jobs = [job for model in self.models.values() for job in model.jobs.values()]
        return any(job.kind in kinds and job.run_at <= instant for job in jobs)

    def is_overdue(self, subject: str, step: Step) -> bool:
        """Whether a job of this step waits although its time has passed. Stated otherwise, it runs at once."""
        jobs = self.models[subject].jobs.values()
        mine = [job for job in jobs if job.key == step.key and not job.is_running]
        return any(job.due_at == step.at and job.due_at <= self.now for job in mine)

    async def _run(self, job: Job) -> Outcome:
        with self._heard():
            owed = self._model(job).begin(job, self.now)
            word = job.payload["do"]
            if word == "hang" and owed.runs == 1 and owed.kind == "p.external":
                self.hanging[job.id] = asyncio.get_running_loop().create_future()
                self.somebody_hangs.set()
                word = await self.hanging[job.id]
                del self.hanging[job.id]
            return self._end(job, owed, word)
        return Done()

    async def _climb(self, job: Job) -> Outcome:
        """A step that states the agenda of its own subject anew, in its own transaction."""
        with self._heard():
            subject = job.subject or ""
            model = self._model(job)
            owed = model.begin(job, self.now)
            anchor, steps = self.plans[job.payload["plan"]]
            diff = await self.bell.set_agenda(job.tx, subject=subject, anchor=anchor, steps=steps)
            if job.payload["do"] == "fail_once" and owed.runs == 1:
                # Undone with everything else that its transaction did, so only a copy is told. The model itself stays,
                # since handlers that hang hold jobs of it.
                self._compare(copy.deepcopy(model), anchor, steps, diff)
                return self._end(job, owed, "fail")
            self._compare(model, anchor, steps, diff)
            return self._end(job, owed, "done")
        return Done()

    def _end(self, job: Job, owed: Owed, word: str) -> Outcome:
        if word in ("fail_once", "snooze_once"):
            word = word.removesuffix("_once") if owed.runs == 1 else "done"
        model = self._model(job)
        match word:
            case "fail":
                model.finish(owed, "fail", self.now)
                return Retry("it did not work")
            case "snooze":
                model.finish(owed, "snooze", self.now)
                return Snooze(delay=SNOOZE)
            case "cancel":
                model.finish(owed, "cancel", self.now)
                return Cancel("no longer wanted")
            case _:
                model.finish(owed, "done", self.now)
                return Done()

    def _model(self, job: Job) -> SubjectModel:
        return self.models[job.subject or ""]

    def _heard(self) -> _Heard:
        return _Heard(self.complaints)

    def _compare(
        self, model: SubjectModel, anchor: datetime | None, steps: Sequence[Step], diff: AgendaDiff
    ) -> None:
        expected = model.set_agenda(steps, anchor, self.now, diff)
        assert (diff.revision, Answer.of(diff)) == (model.revision, expected)

    async def set_agenda(self, subject: str, anchor: datetime | None, steps: Sequence[Step]) -> None:
        diff = await self._set(subject, anchor, steps)
        self._compare(self.models[subject], anchor, steps, diff)

    async def _set(self, subject: str, anchor: datetime | None, steps: Sequence[Step]) -> AgendaDiff:
        async with self.bell.transaction() as tx:
            if not steps:
                return await self.bell.clear_agenda(tx, subject=subject)
            return await self.bell.set_agenda(tx, subject=subject, anchor=anchor, steps=steps)

    async def set_agendas(self, plans: Mapping[str, Plan]) -> None:
        agendas = [
            Agenda(subject=name, anchor=anchor, steps=steps) for name, (anchor, steps) in plans.items()
        ]
        async with self.bell.transaction() as tx:
            diffs = await self.bell.set_agendas(tx, agendas)
        for (subject, plan), diff in zip(plans.items(), diffs, strict=True):
            self._compare(self.models[subject], *plan, diff)

    async def set_two_agendas_at_once(self, subject: str, plans: Sequence[Plan]) -> None:
        """Whoever was first, the answers must be those of one after the other."""
        diffs = await asyncio.gather(*(self._set(subject, *plan) for plan in plans))
        for diff, plan in sorted(zip(diffs, plans, strict=True), key=lambda pair: pair[0].revision):
            self._compare(self.models[subject], *plan, diff)

    async def set_agenda_while_the_engine_starts(
        self, subject: str, anchor: datetime | None, steps: Sequence[Step]
    ) -> None:
        self.ground.interruption.happening = self._come_to_rest
        await self.set_agenda(subject, anchor, steps)

    async def enqueue(self, subject: str, delay: timedelta, payload: dict[str, Any]) -> None:
        async with self.bell.transaction() as tx:
            job = await self.bell.enqueue(tx, "p.external", payload, subject=subject, delay=delay)
        due_at = self.now + delay
        self.models[subject].enqueue(
            Owed(id=job.id, key=None, due_at=due_at, run_at=due_at, kind="p.external", payload=payload)
        )

    async def cancel(self, subject: str, id: UUID | None = None) -> None:
        model = self.models[subject]
        async with self.bell.transaction() as tx:
            answers = await self.bell.cancel(tx, id=id, subject=subject if id is None else None)
        expected = model.cancel(model.jobs if id is None else [id])
        assert {(each.id, each.answer, each.state) for each in answers} == expected

    async def make_stale(self, id: UUID, subject: str) -> None:
        """As if a job had been written under an older revision of its agenda and nobody had withdrawn it."""
        await self.ground.owner.execute("UPDATE timebell.jobs SET revision = revision - 1 WHERE id = $1", id)
        self.models[subject].jobs[id].is_stale = True

    async def start_node(self) -> None:
        self.engine = Engine(self.bell)
        await self.engine.begin()
        for model in self.models.values():
            model.recover()
        await self.come_to_rest()

    async def crash(self) -> None:
        """The node is gone from one instant to the next, with whatever it had started."""
        assert self.engine is not None
        engine, self.engine = self.engine, None
        worker = engine.worker
        self.bell.wakeups.unsubscribe(worker.hint)
        worker.attempts._queued.clear()
        await _cut([*worker.attempts.going_on])
        await _cut([*worker.background.going_on])
        worker.close()
        if engine._lease_connection is not None:
            engine._lease_connection.terminate()
        self.hanging.clear()
        await self.ground.owner.execute(
            "UPDATE timebell.nodes SET lease_until = '-infinity' WHERE incarnation = $1",
            engine.node.incarnation,
        )

    async def release(self, id: UUID, word: str) -> None:
        """Let a handler that hangs go on."""
        self.hanging[id].set_result(word)
        await self.come_to_rest()

    async def advance(self, target: datetime) -> None:
        """Instant by instant, with the node at work."""
        assert self.engine is not None
        await self.come_to_rest()
        while (instant := await self._next_instant(self.engine)) is not None and instant <= target:
            self.clock.move_to(instant)
            await self.come_to_rest()
        self.clock.move_to(max(target, self.now))
        await self.come_to_rest()

    async def _next_instant(self, engine: Engine) -> datetime | None:
        """When the node has something to do, or something expires.

        What expires while it waits behind another step is ended whenever the node next comes by, which could be at the
        instant of a ladder.
        """
        jobs = [job for model in self.models.values() for job in model.jobs.values()]
        expiries = [job.expires_at for job in jobs if job.expires_at and job.expires_at > self.now]
        instant = await engine.next_instant()
        return min([*expiries, instant] if instant else expiries, default=None)

    async def come_to_rest(self) -> None:
        """Let the node do all that it can do at this instant, then ask what it has left undone."""
        await self._come_to_rest()
        if self.engine is not None:
            for model in self.models.values():
                model.settle(self.now)

    async def _come_to_rest(self) -> None:
        if self.engine is None:
            return
        for model in self.models.values():
            model.expect_alone("p.ladder", self.now)
        worker = self.engine.worker
        await self.engine.beat()
        await worker.look_around()
        worker.sweep()
        for _ in range(_PASSES_MAX):
            await worker.tick()
            hanging = {
                each.activity for each in worker.attempts.running.values() if each.entry.id in self.hanging
            }
            going = worker.attempts.going_on - hanging | worker.background.going_on
            if going:
                self.somebody_hangs.clear()
                hangs = asyncio.ensure_future(self.somebody_hangs.wait())
                await asyncio.wait({*going, hangs}, timeout=5, return_when=asyncio.FIRST_COMPLETED)
                hangs.cancel()
            elif not worker.has_work() and not self._may_start_more():
                break
        if self.complaints:
            raise self.complaints[0]

    def _may_start_more(self) -> bool:
        assert self.engine is not None
        earliest = self.engine.worker.next_instant()
        return earliest is not None and earliest <= self.now

    async def check(self) -> None:
        """The jobs that are there are the jobs that should be there, and what ended is remembered so."""
        for subject, model in self.models.items():
            rows = await self.ground.owner.fetch(
                "SELECT id, step, due_at, run_at, attempt, expires_at, kind, "
                "started_by IS NOT NULL AS is_running, cancel_requested_at IS NOT NULL AS is_flagged "
                "FROM timebell.jobs WHERE subject = $1",
                subject,
            )
            found = {tuple(row[name] for name in _COMPARED) for row in rows}
            assert found == {
                tuple(getattr(job, "key" if name == "step" else name) for name in _COMPARED)
                for job in model.jobs.values()
            }
            given_up = {job.id for job in model.jobs.values() if job.is_given_up}
            steps = [row for row in rows if row["step"] is not None and row["id"] not in given_up]
            assert {(row["step"], row["due_at"]) for row in steps} == model.plan()
            assert len(steps) == len(model.plan()), "a step is owed twice"
            ends = await self.ground.owner.fetch(
                "SELECT step, due_at, state FROM timebell.agenda_done WHERE subject = $1", subject
            )
            assert {(row["step"], row["due_at"]): row["state"] for row in ends} == model.ends

    async def end(self) -> None:
        if self.engine is not None:
            await self.crash()
        await self.bell.close()
        self.ground.interruption.happening = None


class _Heard:
    """Keeps a failed assertion of a handler for the test; the engine would take it for a failed attempt."""

    def __init__(self, complaints: list[AssertionError]) -> None:
        self._complaints = complaints

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, AssertionError):
            self._complaints.append(error)
            return True
        return False


async def _cut(loops: list[asyncio.Future[Any]]) -> None:
    for loop in loops:
        loop.cancel()
    await asyncio.gather(*loops, return_exceptions=True)
