"""What is asked of Timebell while things go wrong: jobs and cancels by the public verbs, each written down.

An answer that did not come is an unknown outcome. It is asked again with the same key, as a careful caller does.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from tests.acceptance.faults.node import MIGRATIONS
from tests.history import HistoryFile, Mode, Op, Record
from timebell import App, Enqueue, Handler, Job, Queue, Timebell, running
from timebell.config import Settings
from timebell.db.failures import DATABASE_ERRORS
from timebell.errors import DatabaseUnavailable

MODES: tuple[Mode, ...] = ("plain", "external", "transactional")
QUEUES = (Queue(name="faults"), Queue(name="paced", rate=200), Queue(name="narrow", concurrency=5))
CALLER = "caller"
_UNKNOWN = (*DATABASE_ERRORS, DatabaseUnavailable)
_ASK_AGAIN_SECONDS = 60.0
_PAUSE_SECONDS = 0.05
# Longer than any test: asked again after its job has ended, a key must still stand for that job.
_KEY_LIFETIME = timedelta(hours=1)

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """One job to ask for; its name is its key."""

    name: str
    mode: Mode
    due_at: datetime
    payload: dict[str, Any] = field(default_factory=dict)
    tenant: str = "default"
    queue: str | None = None
    in_thread: bool = False

    @property
    def kind(self) -> str:
        return "faults.thread" if self.in_thread else f"faults.{self.mode}"

    def enqueue(self) -> Enqueue:
        return Enqueue(
            kind=self.kind,
            payload=self.payload,
            due_at=self.due_at,
            queue=self.queue,
            key=self.name,
            key_lifetime=_KEY_LIFETIME,
        )


class Load:
    """Asks, and writes down what was answered and when."""

    def __init__(self, bell: Timebell, history: HistoryFile) -> None:
        self.bell = bell
        self._history = history

    async def enqueue(self, jobs: Sequence[Owed], *, is_one_by_one: bool = False) -> None:
        """All in one transaction, in one statement or one by one; they must be of one tenant."""
        if not jobs:
            return

        async def ask() -> list[tuple[str, str]]:
            async with self.bell.transaction(tenant=jobs[0].tenant) as tx:
                wanted = [job.enqueue() for job in jobs]
                if is_one_by_one:
                    answers = [(await self.bell.enqueue_many(tx, [each]))[0] for each in wanted]
                else:
                    answers = await self.bell.enqueue_many(tx, wanted)
            return [(str(each.id), "new" if each.created else "existing") for each in answers]

        def write(began: datetime, answers: list[tuple[str, str]] | None) -> None:
            ended = None if answers is None else datetime.now(UTC)
            unknown: list[tuple[str | None, str | None]] = [(None, None)] * len(jobs)
            for job, (job_id, answer) in zip(jobs, answers or unknown, strict=True):
                facts = {"mode": job.mode, "due_at": job.due_at, "job_id": job_id, "answer": answer}
                self._write("enqueue", job.name, began, ended, **facts)

        await self._asked(ask, write)

    async def cancel(self, job: Owed) -> str:
        """Cancel by kind and key."""

        async def ask() -> tuple[str, str | None]:
            async with self.bell.transaction(tenant=job.tenant) as tx:
                answers = await self.bell.cancel(tx, kind=job.kind, key=job.name)
            return (answers[0].answer, str(answers[0].id)) if answers else ("not_found", None)

        def write(began: datetime, told: tuple[str, str | None] | None) -> None:
            answer, job_id = told or (None, None)
            ended = None if told is None else datetime.now(UTC)
            self._write("cancel", job.name, began, ended, answer=answer, job_id=job_id)

        return (await self._asked(ask, write))[0]

    async def _asked(
        self, ask: Callable[[], Awaitable[Answer]], write: Callable[[datetime, Answer | None], None]
    ) -> Answer:
        deadline = time.monotonic() + _ASK_AGAIN_SECONDS
        while True:
            began = datetime.now(UTC)
            try:
                answer = await ask()
            except _UNKNOWN:
                write(began, None)
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            write(began, answer)
            return answer

    def _write(self, op: Op, name: str, began: datetime, ended: datetime | None, **facts: Any) -> None:
        record = Record(op=op, key=name, node=CALLER, invoked_at=began, answered_at=ended, **facts)
        self._history.append(record)


async def _elsewhere(_: Job) -> None:
    raise AssertionError("the process that asks has no engine")


@asynccontextmanager
async def asking(url: str, owner_url: str, history: HistoryFile, **settings: Any) -> AsyncIterator[Load]:
    """The verbs in this process, without an engine. The schema is brought up to date."""
    handlers = {f"faults.{mode}": Handler(run=_elsewhere, mode=mode) for mode in MODES}
    handlers["faults.thread"] = Handler(run=_elsewhere, mode="external")
    app = App(name="faults", handlers=handlers, queues=QUEUES, migrations=MIGRATIONS)
    chosen = Settings(database_url=url, owner_url=owner_url, **settings)
    async with running(app, settings=chosen, engine=False) as bell:
        yield Load(bell, history)


def mixed(chance: random.Random, count: int, *, prefix: str, within: timedelta) -> list[Owed]:
    """Jobs of all three modes, due at any instant from now on. Some take a while, a few fail once."""
    now = datetime.now(UTC)
    return [
        Owed(
            name=f"{prefix}-{number}",
            mode=chance.choice(MODES),
            due_at=now + within * chance.random(),
            payload={
                "takes_ms": chance.randrange(600 if chance.random() < 0.2 else 20),
                "failures": int(chance.random() < 0.02),
            },
        )
        for number in range(count)
    ]


async def feed(
    load: Load, chance: random.Random, count: int, *, seconds: float, batch: int = 50, prefix: str = "job"
) -> None:
    """So many mixed jobs, evenly over so many seconds, as fast as it goes where that is too fast."""
    began = time.monotonic()
    for first in range(0, count, batch):
        ahead = began + seconds * first / count - time.monotonic()
        if ahead > 0:
            await asyncio.sleep(ahead)
        some = mixed(
            chance, min(batch, count - first), prefix=f"{prefix}-{first}", within=timedelta(seconds=2)
        )
        await load.enqueue(some)
