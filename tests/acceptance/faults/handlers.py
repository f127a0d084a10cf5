"""The app of the nodes under test: a handler of each mode that writes down what it does, and some that misbehave.

What a job is to do stands in its payload. Where the records go, and under which name, is said by the environment.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import asyncpg

from tests.acceptance.faults.load import QUEUES
from tests.acceptance.faults.node import CLOCK, HISTORY, MIGRATIONS, NODE
from tests.history import HistoryFile, Mode, Op, Record
from timebell import App, Handler, Job, Outcome, Retry, Timebell

Handling = Callable[[Job], Awaitable[Outcome | None]]

# Set by a program that runs Timebell inside itself, whose handlers may use its connections.
bell: Timebell | None = None
_connection: asyncpg.Connection | None = None
_asking = asyncio.Lock()


async def instant() -> datetime:
    """The database's clock. It is this machine's, unless the test has moved one of them and so has us ask."""
    global _connection
    if os.environ.get(CLOCK) != "database":
        return datetime.now(UTC)
    async with _asking:
        if _connection is None or _connection.is_closed():
            _connection = await asyncpg.connect(os.environ["DATABASE_URL"], timeout=10, command_timeout=10)
        answer: datetime = await _connection.fetchval("SELECT clock_timestamp()")
    return answer


class Scribe:
    """Writes a record when a handler begins, and one when it ends in whatever way."""

    def __init__(self) -> None:
        self._history = HistoryFile(os.environ[HISTORY])
        self._node = os.environ[NODE]

    async def run(self, job: Job, mode: Mode, handling: Handling) -> Outcome | None:
        self._write("start", job, await instant(), due_at=job.due_at, attempt=job.attempt, mode=mode)
        answer = "raised"
        try:
            await self._step(job)
            outcome = await handling(job)
            answer = "done" if outcome is None else type(outcome).__name__.lower()
            return outcome
        except asyncio.CancelledError:
            answer = "interrupted"
            raise
        finally:
            self._write("end", job, await instant(), answer=answer)

    async def _step(self, job: Job) -> None:
        """Go on in small steps, with a sign of each: whoever gives one runs."""
        for _ in range(job.payload.get("steps", 0)):
            await asyncio.sleep(job.payload["step_ms"] / 1000)
            self._write("sign", job, await instant())

    def run_in_thread(self, job: Job, mode: Mode) -> None:
        self._write("start", job, datetime.now(UTC), due_at=job.due_at, attempt=job.attempt, mode=mode)
        time.sleep(job.payload.get("takes_ms", 0) / 1000)
        self._write("end", job, datetime.now(UTC), answer="done")

    def _write(self, op: Op, job: Job, at: datetime, **facts: Any) -> None:
        record = Record(
            op=op,
            key=job.key or str(job.id),
            node=self._node,
            invoked_at=at,
            answered_at=at,
            job_id=str(job.id),
            **facts,
        )
        self._history.append(record)


async def act(job: Job) -> Outcome | None:
    """Take as long as the payload says, then fail or misbehave as it says."""
    await asyncio.sleep(job.payload.get("takes_ms", 0) / 1000)
    if job.attempt <= job.payload.get("failures", 0):
        return Retry("as the payload says")
    match job.payload.get("misdeed"):
        case "block":
            time.sleep(job.payload["block_ms"] / 1000)  # noqa: ASYNC251 - this is the misdeed
        case "exit":
            raise SystemExit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hold":
            assert bell is not None
            async with bell.transaction() as tx:
                await tx.connection.execute("SELECT pg_sleep($1)", job.payload["hold_ms"] / 1000)
    return None


async def write_effect(job: Job) -> Outcome | None:
    await job.tx.connection.execute(
        "INSERT INTO faults.effects (name, job_id, node) VALUES ($1, $2, $3)",
        job.key,
        job.id,
        os.environ[NODE],
    )
    return await act(job)


def handlers() -> dict[str, Handler]:
    scribe = Scribe()

    def told(mode: Mode, handling: Handling) -> Handling:
        async def run(job: Job) -> Outcome | None:
            return await scribe.run(job, mode, handling)

        return run

    def told_in_thread(job: Job) -> None:
        scribe.run_in_thread(job, "external")

    return {
        "faults.plain": Handler(run=told("plain", act), mode="plain"),
        "faults.external": Handler(run=told("external", act), mode="external"),
        "faults.thread": Handler(run=told_in_thread, mode="external"),
        "faults.transactional": Handler(run=told("transactional", write_effect), mode="transactional"),
    }


app = App(name="faults", handlers=handlers(), queues=QUEUES, migrations=MIGRATIONS)
