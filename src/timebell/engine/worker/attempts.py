"""The attempts under way, watched for their time, settled when they end.

They are run one after the other in one asyncio task, until one of them has to wait: it keeps that task for itself, and
those behind it go on in another. So a slow handler has a task of its own, and a quick one costs none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextvars import Context, ContextVar
from datetime import datetime
from functools import partial
from typing import Any

from structlog.contextvars import bind_contextvars

from timebell.db.failures import CONNECTION_ERRORS
from timebell.engine.ledger.entry import JobEntry
from timebell.engine.limits.admission import Admission
from timebell.engine.worker.dependencies import Dependencies
from timebell.engine.worker.executor import Executor
from timebell.engine.worker.failure_log import describe
from timebell.engine.worker.gate import NotToBeHad
from timebell.engine.worker.own_context import in_own_context
from timebell.engine.worker.returns import Returns
from timebell.engine.worker.running import Running
from timebell.engine.worker.settler import Settler
from timebell.kernel.app import Handler
from timebell.kernel.jobs import Outcome, Retry
from timebell.kernel.tracing import is_traced
from timebell.logs import Logger

log = Logger("timebell.attempts")

_WATCH_SECONDS = 0.1
# After so many quick attempts everything else has its turn.
_TURN = 256
_NO_PERMIT = "interrupted: its node lost its lease, and with it the permit to run it"


def _bound(name: str) -> ContextVar[Any]:
    """The variable behind a name that structlog binds; binding by name looks it up for every job anew."""
    context = Context()
    context.run(bind_contextvars, **{name: None})
    (variable,) = context
    return variable


_JOB_ID, _KIND, _CORRELATION_ID = _bound("job_id"), _bound("kind"), _bound("correlation_id")


class Attempts:
    """Launches attempts and hands what came of them to the settler."""

    def __init__(
        self,
        shared: Dependencies,
        executor: Executor,
        admission: Admission,
        settler: Settler,
        returns: Returns,
    ) -> None:
        self._node = shared.node
        self._ledger = shared.ledger
        self._timekeeper = shared.timekeeper
        self._tallies = shared.bell.tallies
        self._woken = shared.woken
        self._executor = executor
        self._admission = admission
        self._settler = settler
        self._returns = returns
        self._is_traced = is_traced()
        self._next_watch = 0.0
        self._queued: deque[Running] = deque()
        self._current: asyncio.Task[None] | None = None
        self.running: dict[JobEntry, Running] = {}
        self.going_on: set[asyncio.Future[Any]] = set()

    def __len__(self) -> int:
        return len(self.running)

    def launch(
        self,
        entry: JobEntry,
        handler: Handler,
        now: datetime,
        *,
        is_marked: bool = False,
        is_permitted: bool = False,
    ) -> None:
        timeout, monotonic = self._executor.timeout_seconds(handler), self._timekeeper.monotonic()
        running = Running(
            entry,
            handler,
            entry.version + is_marked,
            entry.row["attempt"] + 1,
            now,
            monotonic + timeout,
            timeout,
            is_marked,
            monotonic,
            is_permitted,
        )
        self._ledger.running(entry)
        self.running[entry] = running
        self._queued.append(running)
        if self._current is None:
            self._go_on()

    def _go_on(self) -> None:
        """Run what is queued, in a task that nobody waits in."""
        self._current = asyncio.create_task(self._run_queued()) if self._queued else None
        if self._current is not None:
            self.going_on.add(self._current)
            self._current.add_done_callback(self.going_on.discard)

    async def _run_queued(self) -> None:
        this = asyncio.current_task()
        assert this is not None
        count = 0
        try:
            # A handler may have cancelled the task that it ran in, and the next one must not hear of it.
            while self._queued and self._current is this and not this.cancelling():
                running = self._queued.popleft()
                if not (running.handler.answers_later and self._hands_over(running)):
                    running.activity = this
                    objection = partial(self._objection, running) if running.is_permitted else None
                    await in_own_context(self._attempt(running), self._go_on, objection)
                count += 1
                if count % _TURN == 0 and self._current is this:
                    await asyncio.sleep(0)
        finally:
            if self._current is this:
                self._go_on()

    def _hands_over(self, running: Running) -> bool:
        """Whether the attempt could be handed to a handler that answers later; whoever waits for it is not a task."""
        began = self._timekeeper.monotonic()
        try:
            is_quick = running.interruption is None and not self._is_traced
            if not is_quick or not self._executor.gate.lets_through_at_once(running):
                return False
            running.has_begun = True
            answer = running.handler.run(self._executor.job(running, running.entry.row))
            if not asyncio.isfuture(answer):
                raise TypeError(f"run: whoever answers later returns a future, was {type(answer).__name__}")
        except NotToBeHad:
            self._returns.not_begun(running.entry)
            self._over(running, None)
            return True
        except BaseException as error:
            # SystemExit and KeyboardInterrupt are a handler's bug too; let through, they would end the whole node.
            running.error = error
            self._settler.add(self._executor.decide(running, Retry(describe(error))))
            self._over(running, began)
            return True
        running.activity = answer
        self.going_on.add(answer)
        answer.add_done_callback(partial(self._answered, running, began))
        return True

    def _answered(self, running: Running, began: float, answer: asyncio.Future[Outcome | None]) -> None:
        self.going_on.discard(answer)
        running.has_answered = True
        try:
            settlement = self._executor.decide(running, answer.result())
        except asyncio.CancelledError as error:
            running.error = error
            if running.interruption:
                settlement = self._executor.interrupted(running)
            elif running.has_timed_out:
                settlement = self._executor.timed_out(running)
            else:
                settlement = self._executor.decide(running, Retry(describe(error)))
        except BaseException as error:
            running.error = error
            settlement = self._executor.decide(running, Retry(describe(error)))
        self._settler.add(settlement)
        self._over(running, began)

    def _over(self, running: Running, began: float | None) -> None:
        """`began`: when it did, where that is to be counted."""
        entry = running.entry
        del self.running[entry]
        self._admission.ended(entry)
        self._woken.set()
        if began is not None:
            duration = self._tallies.queues[entry.pair[1]].duration
            duration.note(self._timekeeper.monotonic() - began)

    async def _attempt(self, running: Running) -> None:
        entry = running.entry
        # This context ends with the attempt: whatever is logged in it says which job it belongs to.
        _JOB_ID.set(str(entry.id))
        _KIND.set(entry.row["kind"])
        _CORRELATION_ID.set(entry.row["correlation_id"])
        began: float | None = self._timekeeper.monotonic()
        try:
            if running.interruption is not None:
                raise NotToBeHad
            if running.handler.mode == "transactional":
                settlement, tx = await self._executor.run_transactional(running)
                if tx is not None:
                    self._settler.committed(settlement, tx)
                    return
            else:
                settlement = await self._executor.run(running)
            self._settler.add(settlement)
        except NotToBeHad:
            began = None
            self._returns.not_begun(entry)
        except asyncio.CancelledError:
            if running.interruption:
                self._settler.add(self._executor.interrupted(running))
            elif running.has_timed_out:
                self._settler.add(self._executor.timed_out(running))
            else:
                # The handler cancelled the task that it ran in. That fails the attempt; the job is not lost with it.
                self._settler.add(self._executor.decide(running, Retry("its task was cancelled")))
                raise
        except CONNECTION_ERRORS as error:
            # Not the handler's doing, and whether its commit was heard is unknown: the row will tell.
            began = None
            log.warning(
                "an attempt lost its database", id=str(entry.id), error=str(error) or type(error).__name__
            )
            self._returns.not_begun(entry)
        except Exception as error:
            running.error = error
            self._settler.add(self._executor.decide(running, Retry(describe(error))))
        finally:
            self._over(running, began)

    def watch(self) -> None:
        """Stop the attempts whose time is over; their handlers see a cancellation.

        One that has answered is only being written down, and what it answered must not be lost.
        """
        now = self._timekeeper.monotonic()
        if now < self._next_watch:
            return
        self._next_watch = now + _WATCH_SECONDS
        self.call_off()
        for running in list(self.running.values()):
            activity = running.activity
            if activity is None or running.has_timed_out or running.has_answered:
                continue
            if running.deadline <= now:
                running.has_timed_out = True
                activity.cancel()

    def call_off(self) -> None:
        """Interrupt what runs under a permit that others may have by now."""
        if self._node.may_run_on():
            return
        for running in list(self.running.values()):
            is_over = running.interruption or running.has_timed_out or running.has_answered
            if running.is_permitted and running.activity is not None and not is_over:
                running.interruption = _NO_PERMIT
                running.activity.cancel()

    def _objection(self, running: Running) -> asyncio.CancelledError | None:
        """Why what runs under a permit must not take another step, if so; told once, and what it does then is its end.

        A process that stood still goes on where it was, and others may have its permits by then.
        """
        if running.interruption or running.has_answered or running.has_timed_out or self._node.may_run_on():
            return None
        running.interruption = _NO_PERMIT
        return asyncio.CancelledError(_NO_PERMIT)

    def next_watch_in(self) -> float | None:
        return max(0.0, self._next_watch - self._timekeeper.monotonic()) if self.running else None

    def interrupt(self) -> None:
        """The node stops and will not wait any longer: what still runs is given back."""
        for running in [each for each in self.running.values() if not each.has_answered]:
            running.interruption = running.interruption or "interrupted"
            if running.activity is not None:
                running.activity.cancel()

    def adopt(self, epochs: Mapping[int, int], incarnation: int) -> None:
        """Let what has begun and bears no mark go on under this life of the node, where its slot is ours again.

        Begun anew it would run a second time beside itself, and the end of the first be refused. What holds its row
        in a transaction needs none of this.
        """
        for running in self.running.values():
            if running.has_begun and running.handler.mode == "plain":
                running.entry.adopt(epochs, incarnation)

    def unmarked_slots(self, *, running_for: float = 0.0) -> set[int]:
        """The slots in which something runs, for so many seconds already, that only the slot's epoch protects."""
        since = self._timekeeper.monotonic() - running_for
        return {
            running.entry.slot
            for running in self.running.values()
            if not running.is_marked and running.launched_at <= since
        }
