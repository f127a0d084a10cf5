"""The attempts under way: one asyncio task each, watched for its time, settled when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

import structlog
from structlog.contextvars import bind_contextvars

from timebell.engine.background import CONNECTION_ERRORS
from timebell.engine.executor import Executor, NotToBeHad, Running, describe
from timebell.engine.held import Entry
from timebell.engine.settler import Settler
from timebell.engine.settling import Settlement
from timebell.engine.timekeeper import Timekeeper
from timebell.kernel.app import Handler
from timebell.kernel.outcomes import Retry
from timebell.kernel.transaction import Transaction

log = structlog.get_logger("timebell.attempts")

_WATCH_SECONDS = 0.1


class Attempts:
    """Launches attempts and hands what came of them to the settler."""

    def __init__(
        self,
        executor: Executor,
        settler: Settler,
        timekeeper: Timekeeper,
        *,
        on_end: Callable[[Entry], None],
        on_not_begun: Callable[[Entry], None],
        on_committed: Callable[[Settlement, Transaction], None],
    ) -> None:
        self._executor = executor
        self._settler = settler
        self._timekeeper = timekeeper
        self._on_end = on_end
        self._on_not_begun = on_not_begun
        self._on_committed = on_committed
        self._next_watch = 0.0
        self.running: dict[Entry, Running] = {}

    def __len__(self) -> int:
        return len(self.running)

    def launch(
        self,
        entry: Entry,
        handler: Handler,
        now: datetime,
        *,
        marked_version: int | None = None,
        destination: str | None = None,
        is_probe: bool = False,
    ) -> None:
        timeout = self._executor.timeout_seconds(handler)
        running = Running(
            entry=entry,
            handler=handler,
            version=entry.version if marked_version is None else marked_version,
            number=entry.row["attempt"] + 1,
            started_at=now,
            deadline=self._timekeeper.monotonic() + timeout,
            timeout_seconds=timeout,
            is_marked=marked_version is not None,
            destination=destination,
            is_probe=is_probe,
        )
        self.running[entry] = running
        running.activity = asyncio.create_task(self._attempt(running))

    async def _attempt(self, running: Running) -> None:
        entry = running.entry
        # This context ends with the attempt: whatever is logged in it says which job it belongs to.
        bind_contextvars(
            job_id=str(entry.id), kind=entry.row["kind"], correlation_id=entry.row["correlation_id"]
        )
        try:
            if running.handler.mode == "transactional":
                settlement, tx = await self._executor.run_transactional(running)
                if tx is not None:
                    self._on_committed(settlement, tx)
                    return
            else:
                settlement = await self._executor.run(running)
            self._settler.add(settlement)
        except NotToBeHad:
            self._on_not_begun(entry)
        except asyncio.CancelledError:
            if running.is_interrupted:
                self._settler.add(self._executor.interrupted(running))
            elif running.has_timed_out:
                self._settler.add(self._executor.timed_out(running))
            else:
                raise
        except CONNECTION_ERRORS as error:
            # Not the handler's doing, and whether its commit was heard is unknown: the row will tell.
            log.warning(
                "an attempt lost its database", id=str(entry.id), error=str(error) or type(error).__name__
            )
            self._on_not_begun(entry)
        except Exception as error:
            self._settler.add(self._executor.decide(running, Retry(describe(error))))
        finally:
            del self.running[entry]
            self._on_end(entry)

    def watch(self) -> None:
        """Stop the attempts whose time is over; their handlers see a cancellation.

        One that has answered is only being written down, and what it answered must not be lost.
        """
        now = self._timekeeper.monotonic()
        if now < self._next_watch:
            return
        self._next_watch = now + _WATCH_SECONDS
        for running in list(self.running.values()):
            if running.deadline <= now and not running.has_timed_out and not running.has_answered:
                running.has_timed_out = True
                assert running.activity is not None
                running.activity.cancel()

    def next_watch_in(self) -> float | None:
        return max(0.0, self._next_watch - self._timekeeper.monotonic()) if self.running else None

    def interrupt(self) -> None:
        """The node stops and will not wait any longer: what still runs is given back."""
        for running in [each for each in self.running.values() if not each.has_answered]:
            running.is_interrupted = True
            assert running.activity is not None
            running.activity.cancel()

    def unmarked_slots(self) -> set[int]:
        """The slots in which something runs that only the slot's epoch protects."""
        return {running.entry.slot for running in self.running.values() if not running.is_marked}
