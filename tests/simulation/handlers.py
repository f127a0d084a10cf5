"""What the jobs of a simulation do: take their time, fail, wait, kill their process, and write down that they ran."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tests.history import Mode, Record
from tests.simulation.callers import named
from tests.simulation.loop import LIFE, Life
from tests.simulation.operating import QUEUES
from tests.simulation.post import BEGUN, JOB, Post
from tests.simulation.scene import MODES, Scene
from timebell.kernel import App, Cancel, Dead, Handler, Job, Outcome, Retry, Snooze
from timebell.notify import notify_app

EFFECT = "/* effect */ INSERT INTO simulation.effects (job_id, name) VALUES ($1, $2)"
_SNOOZES = 0.92
Act = Callable[[Job], Awaitable[Outcome | None]]
Noted = Callable[[Job], Coroutine[Any, Any, Outcome | None]]


class Failure(Exception):
    """What a handler raises that has a bug."""


def name_of(job: Job) -> str:
    return (
        named(job.tenant, f"{job.subject}/{job.step}")
        if job.step is not None
        else str(job.correlation_id or job.id)
    )


class Handlers:
    """One set of handlers for all processes; what each run does depends on the seed, the job and the number of its
    starts, and on nothing else."""

    def __init__(
        self,
        seed: int,
        scene: Scene,
        now: Callable[[], datetime],
        record: Callable[[Record], None],
        kill: Callable[[Life], None],
        post: Post,
        others: Sequence[Callable[[], App]] = (),
    ) -> None:
        self._post = post
        self._others = others
        self._seed = seed
        self._long = scene.long
        self._now = now
        self._record = record
        self._kill = kill
        self._starts: Counter[str] = Counter()
        self.is_calm = False

    def apps(self) -> list[App]:
        """For one process; what they write down belongs to all."""
        handlers = {
            f"sim.{mode}": Handler(run=self._noted(mode, self._acts(mode)), mode=mode) for mode in MODES
        }
        notify = notify_app(self._post.providers)
        return [
            App(name="sim", handlers=handlers, queues=QUEUES),
            self._noted_app(notify),
            *(self._noted_app(made()) for made in self._others),
        ]

    def _noted_app(self, app: App) -> App:
        """An app of the package whose handlers are noted."""
        handlers = {
            kind: self._noting(handler)
            for kind, handler in app.handlers.items()
            if isinstance(handler, Handler)
        }
        return replace(app, handlers=handlers)

    def _noting(self, handler: Handler) -> Handler:
        """A handler of the package, each run of it written down, and known to whoever is called in it."""

        async def act(job: Job) -> Outcome | None:
            JOB.set(job)
            BEGUN[job.tenant, str(job.payload.get("id")), job.due_at] = str(job.id)
            outcome: Outcome | None = await run(job)
            return outcome

        run: Any = handler.run
        noted = self._noted(handler.mode, act)
        if handler.answers_later:
            return replace(handler, run=lambda job: asyncio.ensure_future(noted(job)))
        return replace(handler, run=noted)

    def _acts(self, mode: Mode) -> Act:
        async def act(job: Job) -> Outcome | None:
            name = name_of(job)
            self._starts[str(job.id)] += 1
            chance = random.Random(f"{self._seed}/{name}/{self._starts[str(job.id)]}")
            return await self._act(job, mode, chance)

        return act

    def _noted(self, mode: Mode, act: Act) -> Noted:
        async def run(job: Job) -> Outcome | None:
            return await self._run(job, mode, act)

        return run

    async def _run(self, job: Job, mode: Mode, act: Act) -> Outcome | None:
        life = LIFE.get()
        assert life is not None
        facts: dict[str, Any] = {"key": name_of(job), "node": life.name, "job_id": str(job.id)}
        began = self._now()
        self._write(
            life,
            Record(
                op="start",
                invoked_at=began,
                answered_at=began,
                mode=mode,
                due_at=job.due_at,
                attempt=job.attempt,
                **facts,
            ),
        )
        answer = "interrupted"
        try:
            outcome = await act(job)
            answer = "done" if outcome is None else type(outcome).__name__.lower()
            return outcome
        except Exception:
            answer = "raised"
            raise
        finally:
            ended = self._now()
            self._write(life, Record(op="end", invoked_at=ended, answered_at=ended, answer=answer, **facts))

    def _write(self, life: Life, record: Record) -> None:
        if not life.is_dead:
            self._record(record)

    async def _act(self, job: Job, mode: Mode, chance: random.Random) -> Outcome | None:
        await asyncio.sleep(0.2 if job.payload.get("is_brief") else self._duration(mode, chance))
        life = LIFE.get()
        if job.payload.get("is_poison") and not self.is_calm and life is not None:
            self._kill(life)
            await asyncio.sleep(3600)
        is_steady = bool(job.payload.get("is_steady")) or self.is_calm
        sort = 0.0 if is_steady else chance.random()
        if mode == "transactional" and sort < _SNOOZES:
            # What fails after this is undone with it; what snoozes would be committed, and is left for the next time.
            await job.tx.connection.execute(EFFECT, job.id, name_of(job))
        return _outcome(sort, chance)

    def _duration(self, mode: Mode, chance: random.Random) -> float:
        sort, share = chance.random(), chance.random()
        short = 0.6 - self._long / 2
        if self.is_calm or sort < short:
            return share * 0.2
        if sort < short + 0.25:
            return share * 40
        if sort < 1 - self._long or mode == "transactional":
            return share * (360 if mode == "transactional" else 3_000)
        return 3_600 + share * 18_000


def _outcome(sort: float, chance: random.Random) -> Outcome | None:
    if sort < 0.80:
        return None
    if sort < 0.88:
        return Retry("the other side did not answer")
    if sort < _SNOOZES:
        raise Failure("a bug in the handler")
    if sort < 0.97:
        return Snooze(delay=timedelta(seconds=chance.choice([0.5, 30, 1_200])))
    return Dead("it can never be done") if sort < 0.985 else Cancel("no longer wanted")
