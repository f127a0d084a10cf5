"""One job through its named steps: resolve, guard, run, decide. Finishing and reporting are done for many at once."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import asyncpg
import orjson

from timebell.db.failures import DATABASE_ERRORS
from timebell.db.pool import Row
from timebell.engine.ledger.entry import JobEntry
from timebell.engine.limits.limits import Limits
from timebell.engine.worker.dependencies import Dependencies
from timebell.engine.worker.failure_log import FailureLog, describe
from timebell.engine.worker.fencing import fence
from timebell.engine.worker.gate import Gate, NotToBeHad
from timebell.engine.worker.running import Running
from timebell.engine.worker.settling import (
    Attempt,
    Settlement,
    acquits,
    cancelled_meanwhile,
    decide,
    end_columns,
    retry_columns,
)
from timebell.engine.worker.threads import Threads
from timebell.kernel.app import Handler
from timebell.kernel.destinations import Call, Destinations
from timebell.kernel.guards import Unwanted, ask_guard
from timebell.kernel.jobs import Cancel, Done, Job, Outcome, Retry, Snooze, encode_payload
from timebell.kernel.tracing import is_traced, traced
from timebell.kernel.transaction import Transaction
from timebell.rules.backoff import RetryPolicy

# Were this not a failed attempt, it would be made again for ever. The driver does not say why the server hung up.
_IDLE_TOO_LONG = (
    "its transaction was idle for too long, or lost its connection; do what takes long before or after it"
)


class _Undo(Exception):
    """Leaves a transaction without committing it."""


class Executor:
    """Runs one attempt and answers with the decision about it."""

    def __init__(self, shared: Dependencies, destinations: Destinations, limits: Limits) -> None:
        bell, node, timekeeper, settings = shared.bell, shared.node, shared.timekeeper, shared.settings
        self._bell = bell
        self._database = bell.database
        self._store = shared.store
        self._registry = bell.registry
        self._settings = settings
        self._node = node
        self._timekeeper = timekeeper
        self._chance = bell.chance
        self.destinations = destinations
        self.failures = FailureLog(timekeeper.monotonic)
        self._policy = RetryPolicy.of_delays(
            settings.retry_delays_seconds, max_attempts=settings.max_attempts
        )
        # Asked once: it stands in the way of every job.
        self._run = self._traced if is_traced() else self._call
        self.thread_count = settings.threads
        self._threads = Threads(settings.threads)
        self._limits = limits
        self.gate = Gate(node, limits, self._threads, timekeeper)

    def close(self) -> None:
        self.failures.close()
        self._threads.close()

    @property
    def is_out_of_threads(self) -> bool:
        return self._threads.is_full

    async def run(self, running: Running) -> Settlement:
        """A plain or external attempt."""
        row = running.entry.row
        job = self.job(running, await self._read_payload(running) if running.entry.is_left_behind else row)
        refusal = None if row["guard"] is None else await self._refuse(running, job, row["guard"])
        outcome = refusal or await self._run(running, job)
        running.has_answered = True
        if running.entry.call is not None and refusal is None:
            # What the breaker learns must not change what became of the job.
            with suppress(*DATABASE_ERRORS, asyncio.CancelledError):
                await self._report(running.entry.call, outcome)
        return self.decide(running, outcome)

    async def run_transactional(self, running: Running) -> tuple[Settlement, Transaction | None]:
        """An attempt whose effect and completion are one transaction.

        Answers with the decision and, where it was committed with the effect, the transaction; a failed attempt
        is undone and its decision still to be written.
        """
        entry = running.entry
        settlement: Settlement | None = None
        try:
            async with self._database.transaction() as session:
                tx = Transaction(session, entry.pair[0], running_job=entry.id)
                running.is_lost = session.is_lost
                # Before the last answer that the server gave: it counts from there, and answers may be read late.
                began = asyncio.get_running_loop().time()
                try:
                    job = await self._lock(running, tx)
                    guard = entry.row["guard"]
                    refusal = None if guard is None else await self._refuse(running, job, guard)
                    if session.is_lost() or not self._node.may_begin(entry.incarnation):
                        # It stood still and held the row no longer: a cancel may have been answered meanwhile.
                        raise NotToBeHad
                    outcome = refusal or await self._run(running, job)
                    running.has_answered = True
                finally:
                    tx.close()
                if session.is_lost():
                    if asyncio.get_running_loop().time() - began < self._database.idle_seconds:
                        raise NotToBeHad
                    outcome = Retry(_IDLE_TOO_LONG)
                settlement = self.decide(running, outcome)
                if isinstance(outcome, Retry):
                    raise _Undo
                if not await self._settle_inside(session, settlement):
                    raise NotToBeHad
                if acquits(settlement):
                    await self._store.acquit(session, ids=[entry.id])
        except _Undo:
            assert settlement is not None
            return settlement, None
        except asyncpg.CheckViolationError as error:
            if error.table_name != "job_log":
                raise
            # The log has no partition for today. The attempt is undone, and made again as if it had not been.
            async with self._database.connection() as session:
                days_ahead = self._settings.tuning.log_partitions_ahead_days
                await self._store.ensure_log_partitions(session, days_ahead=days_ahead)
            raise NotToBeHad from None
        return settlement, tx

    async def _lock(self, running: Running, tx: Transaction) -> Job:
        """Lock the agenda before the job, as everyone does, and build the job from what the lock shows."""
        entry = running.entry
        if entry.row["step"] is not None:
            try:
                await self._store.lock_agenda_row(tx.session, tenant=tx.tenant, subject=entry.row["subject"])
            except asyncpg.LockNotAvailableError:
                raise NotToBeHad from None
        row = await self._store.lock_job(
            tx.session,
            id=entry.id,
            version=running.version,
            epoch=entry.epoch,
            incarnation=entry.incarnation,
        )
        if row is None:
            raise NotToBeHad
        job = self.job(running, row)
        job.transaction = tx
        job.is_cancel_requested = row["is_cancel_requested"]
        return job

    async def _settle_inside(self, session: Any, settlement: Settlement) -> bool:
        """Write the completion in the handler's own transaction; False where the job is no longer ours."""
        entry = settlement.entry
        guard = fence([entry], entry.incarnation, lock_timeout="5s")
        if settlement.verdict == "done":
            return bool(
                await self._store.finish_jobs(
                    session,
                    ids=[entry.id],
                    version=settlement.version,
                    started_ats=[settlement.started_at],
                    fence=guard,
                )
            )
        if settlement.verdict == "end":
            return bool(await self._store.end_jobs(session, columns=end_columns([settlement]), fence=guard))
        # For the database it is still the moment at which the transaction began; a delay counts from the answer.
        settlement.run_at = settlement.run_at or self._timekeeper.now() + timedelta(seconds=settlement.delay)
        if await self._store.retry_jobs(session, columns=retry_columns([settlement]), fence=guard):
            return True
        # Cancelled while it ran: what it did stays, and it is not tried again.
        ending = cancelled_meanwhile([settlement])
        if not await self._store.end_jobs(session, columns=end_columns(ending), fence=guard):
            return False
        settlement.verdict, settlement.state, settlement.reason = "end", "cancelled", ending[0].reason
        return True

    async def _read_payload(self, running: Running) -> Row:
        """What was too large to be read ahead."""
        async with self._database.connection() as session:
            row = await self._store.read_payload(session, id=running.entry.id, version=running.version)
        if row is None:
            raise NotToBeHad
        return row

    def job(self, running: Running, contents: Row) -> Job:
        """`contents` has the payload and the cursor."""
        row = running.entry.row
        cursor = contents["cursor"]
        # In the order of the fields: to pass them by their names takes longer than all the rest.
        return Job(
            running.entry.id,
            row["tenant"],
            row["kind"],
            row["queue"],
            orjson.loads(contents["payload"]),
            running.entry.due_at,
            running.number,
            running.started_at,
            self._bell,
            self.destinations,
            row["subject"],
            row["key"],
            row["step"],
            row["expires_at"],
            row["correlation_id"],
            None if cursor is None else orjson.loads(cursor),
            running.version,
            lambda job, cursor: self._beat(running, job, cursor),
        )

    async def _refuse(self, running: Running, job: Job, name: str) -> Outcome | None:
        """Ask the job's guard, just before acting, whether it is still wanted."""
        try:
            async with asyncio.timeout(running.timeout_seconds):
                answer = await ask_guard(job, name)
        except Exception as error:
            running.error = error
            return Retry(f"guard {name}: {describe(error)}")
        if not isinstance(answer, Unwanted):
            return answer
        return Cancel(f"the guard {name} said no" + (f": {answer.why}" if answer.why else ""))

    async def _traced(self, running: Running, job: Job) -> Outcome | None:
        about: dict[str, str | int] = {"timebell.job_id": str(job.id), "timebell.queue": job.queue}
        about["timebell.attempt"] = job.attempt
        if job.correlation_id is not None:
            about["timebell.correlation_id"] = job.correlation_id
        with traced(f"timebell.run {job.kind}", about):
            return await self._call(running, job)

    async def _call(self, running: Running, job: Job) -> Outcome | None:
        handler = running.handler
        if not self.gate.lets_through(running):
            await self.gate.wait(running)
        running.has_begun = True
        try:
            if handler.is_async:
                return await handler.run(job)  # type: ignore[misc, no-any-return]
            entry = running.entry
            self._limits.thread_begins(entry)
            answer = await self._threads.run(lambda: self._limits.thread_ended(entry), _answer, handler, job)
            if isinstance(answer, _Raised):
                raise answer.error
            # A function that only hands an awaitable on, as a lambda may, is awaited after all.
            return await answer if inspect.isawaitable(answer) else answer
        except asyncio.CancelledError as error:
            # It says where the handler stood.
            running.error = error
            if running.has_timed_out:
                return _timed_out(running)
            this = asyncio.current_task()
            if running.interruption or (this is not None and this.cancelling()):
                raise
            # Nobody cancelled the attempt: the handler waited for something that was.
            return Retry(describe(error))
        except BaseException as error:
            # SystemExit and KeyboardInterrupt are a handler's bug too; let through, they would end the whole node.
            running.error = error
            return Retry(describe(error))

    def decide(self, running: Running, outcome: Outcome | None) -> Settlement:
        entry = running.entry
        if outcome is None or type(outcome) is Done:
            # The common end, without the facts that only a failure needs.
            return Settlement(
                entry=entry, verdict="done", version=running.version, started_at=running.started_at
            )
        policy = running.handler.retry or self._policy
        attempts = entry.row["max_attempts"]
        if attempts is not None and attempts != policy.max_attempts:
            policy = replace(policy, max_attempts=attempts)
        settlement = decide(
            Attempt(
                entry=entry,
                version=running.version,
                number=running.number,
                started_at=running.started_at,
                now=self._timekeeper.now(),
                policy=policy,
                fraction=self._chance.fraction(),
            ),
            outcome,
        )
        if settlement.error is not None:
            settlement.is_given_back = running.interruption is not None
        self.failures.note(settlement, running.error)
        # With it go the variables of everything that it came through.
        running.error = None
        return settlement

    def interrupted(self, running: Running) -> Settlement:
        """The node gives the job back before the attempt is over: at once, and the attempt is not counted."""
        return self.decide(running, Snooze(delay=timedelta(0), reason=running.interruption or "interrupted"))

    def timed_out(self, running: Running) -> Settlement:
        """The time was over while something other than the handler was waited for: its guard, or a lock."""
        return self.decide(running, _timed_out(running))

    async def _report(self, call: Call, outcome: Outcome | None) -> None:
        if isinstance(outcome, Retry):
            await self.destinations.answered(call, outcome.error_class, outcome.after)
        elif not isinstance(outcome, Snooze):
            await self.destinations.answered(call, None)

    async def _beat(self, running: Running, job: Job, cursor: dict[str, Any] | None) -> bool:
        """The handler is alive: its time starts anew, its cursor is kept, and it hears of a cancel."""
        running.deadline = self._timekeeper.monotonic() + running.timeout_seconds
        if job.transaction is not None:
            return await self._beat_inside(running, job)
        async with self._database.connection() as session:
            row = await self._store.beat_job(
                session,
                id=running.entry.id,
                version=running.version,
                incarnation=running.entry.incarnation,
                cursor=None
                if cursor is None
                else encode_payload(cursor, self._settings.payload_bytes_max, field="cursor"),
            )
        job.is_cancel_requested = row is None or row["is_cancel_requested"]
        return not job.is_cancel_requested

    async def _beat_inside(self, running: Running, job: Job) -> bool:
        """Asked on another connection: the handler may be using its own just now."""
        async with self._database.connection() as session:
            is_asked = await self._store.read_cancel_request(session, id=running.entry.id)
        job.is_cancel_requested = job.is_cancel_requested or is_asked
        return not job.is_cancel_requested

    def timeout_seconds(self, handler: Handler) -> float:
        default = self._settings.job_timeout_seconds
        return default if handler.timeout is None else handler.timeout.total_seconds()

    def destination(self, handler: Handler, entry: JobEntry) -> str | None:
        """What an external handler depends on; None where it names nothing or cannot be asked yet."""
        named = handler.destination
        if named is None or isinstance(named, str):
            return named
        if entry.is_left_behind:
            return None
        probe = Running(
            entry, handler, entry.version, entry.row["attempt"] + 1, self._timekeeper.now(), 0.0, 0.0
        )
        try:
            destination = named(self.job(probe, entry.row))
        except Exception:
            return None
        return destination if isinstance(destination, str) else None


class _Raised:
    """What a handler raised in its thread; as an exception not all of it would find its way out of there."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _answer(handler: Handler, job: Job) -> Awaitable[Outcome | None] | Outcome | _Raised | None:
    try:
        return handler.run(job)
    except BaseException as error:
        return _Raised(error)


def _timed_out(running: Running) -> Retry:
    return Retry(f"timed out after {running.timeout_seconds:g} s")
