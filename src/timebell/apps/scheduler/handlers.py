"""`scheduler.fire`: what is due is published, and is done once the broker has confirmed that a queue has it.

Nothing is written before that. A node that dies in between leaves a job that is tried again, and a second message that
is known by its id.

Jobs that are due together are read together and handed to the broker together. Each is answered as soon as the broker
has spoken of it, so that nobody waits for a queue of somebody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from timebell.apps.scheduler.dues import Due, again_after, message_of, occurrence_of
from timebell.apps.scheduler.store import Columns, Row, SchedulerStore
from timebell.brokers import Away, Broker, Confirmed, Published, Returned
from timebell.kernel import (
    DATABASE_ERRORS,
    Cancel,
    Dead,
    Done,
    Gathering,
    Job,
    Outcome,
    Snooze,
    Timebell,
    Together,
)
from timebell.logs import Logger

log = Logger("timebell.scheduler")

DUE: Final = "jobs_due"
FAILURES: Final = "publish_failures"
LAG: Final = "fire_lag_seconds"
_TELL_SECONDS: Final = 10.0
# How many bytes of payloads are read in one statement, and how many are read and not yet answered for, about: each is
# in memory several times while it is written to the broker.
READ_BYTES_MAX: Final = 8 * 1024 * 1024
UNDER_WAY_BYTES_MAX: Final = 16 * 1024 * 1024
# Of what is less, nobody counts when each message is answered for; all of it counts until the last is.
_LARGE_BYTES: Final = 1024 * 1024
# Until then its queue is held, if the broker is not back: nothing is tried in vain.
_AWAY: Final = timedelta(seconds=1)
# Between tries to count what was published while somebody holds its request; after five seconds its job is done, and so
# many at most are still to be counted then.
_COUNT_PAUSES: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 1.0, 1.0, 1.0)
_LATE_MAX: Final = 10_000
# A job is started once for each version of its row, and the first one is the second: it was written with the first.
_FIRST_VERSION: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """One occurrence that was published. `is_repeated`: it may have been before."""

    tenant: str
    id: str
    due_at: datetime
    is_repeated: bool


class _Attempt(NamedTuple):
    """A job that is to be fired, and what came of it, once that is known."""

    job: Job
    outcome: asyncio.Future[Outcome | None]


class _Load:
    """How much is under way to the broker. While it is much, nothing more is read."""

    def __init__(self) -> None:
        self._bytes = 0
        self._room = asyncio.Event()
        self._room.set()

    def add(self, size: int) -> None:
        self._bytes += size
        if self._bytes < UNDER_WAY_BYTES_MAX:
            self._room.set()
        else:
            self._room.clear()

    async def room(self) -> None:
        await self._room.wait()


class Firing:
    """The handler. It holds the broker, and for each bell what its jobs share."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._rooms: dict[Timebell, _Room] = {}

    def __call__(self, job: Job) -> asyncio.Future[Outcome | None]:
        room = self._rooms.get(job.bell)
        if room is None:
            room = self._rooms[job.bell] = _Room(job.bell, self._broker)
        return room.fire(job)


class _Room:
    """What the jobs on one bell share."""

    def __init__(self, bell: Timebell, broker: Broker) -> None:
        self._bell = bell
        self._broker = broker
        self._store = SchedulerStore(bell.clock)
        self._told_at = float("-inf")
        # Asked once: it asks the system each time whether this is still the same process.
        self._loop = asyncio.get_running_loop()
        self._waiting = Gathering(self._fire, _end)
        self._load = _Load()
        self._count = Together(self._count_fired)
        self._going_on: set[asyncio.Task[None]] = set()
        self._late_count = 0

    def fire(self, job: Job) -> asyncio.Future[Outcome | None]:
        outcome: asyncio.Future[Outcome | None] = self._loop.create_future()
        if isinstance(job.payload.get("id"), str):
            self._waiting.add(_Attempt(job, outcome))
        else:
            outcome.set_result(Dead("its payload has no id; nobody can say what it is for"))
        return outcome

    async def _fire(self, attempts: Sequence[_Attempt]) -> None:
        """Hand these to the broker; whoever comes next does not wait for its answers, unless much is under way."""
        left, most = list(attempts), len(attempts)
        try:
            while left:
                await self._load.room()
                some, left = left[:most], left[most:]
                behind = await self._fire_some(some)
                if behind:
                    # These were measured in vain. About as many as went before will go the next time.
                    most = 2 * (len(some) - len(behind))
                    left = [*behind, *left]
        except BaseException:
            _end(left)
            raise

    async def _fire_some(self, attempts: Sequence[_Attempt]) -> Sequence[_Attempt]:
        """Hand these to the broker, up to what may be read at once; answers with the others."""
        attempts = [attempt for attempt in attempts if not attempt.outcome.done()]
        try:
            rows = await self._read([attempt.job for attempt in attempts])
        except Exception as error:
            if len(attempts) > 1:
                for attempt in attempts:
                    await self._fire([attempt])
            elif isinstance(error, DATABASE_ERRORS):
                # Nothing was done, and the message is not to blame.
                _answer(attempts[0], Snooze(delay=_AWAY, reason=f"{type(error).__name__}: {error}"[:500]))
            else:
                _fail(attempts, error)
            return ()
        except BaseException:
            _end(attempts)
            raise
        wanted: list[_Attempt] = []
        dues: list[Due] = []
        behind: list[_Attempt] = []
        for attempt, row in zip(attempts, rows, strict=True):
            if row["is_left"]:
                behind.append(attempt)
            elif row["unwanted"] is not None:
                _answer(attempt, Cancel(row["unwanted"]))
            elif not attempt.outcome.done():
                try:
                    dues.append(_due(attempt.job, row))
                except (LookupError, ValueError, TypeError) as error:
                    _answer(
                        attempt, Dead(f"its payload does not say which occurrence it is: {error!r}"[:500])
                    )
                else:
                    wanted.append(attempt)
        if wanted:
            sizes = [len(due.payload or "") for due in dues]
            self._load.add(sum(sizes))
            self._go_on(self._publish(wanted, dues, sizes))
        return behind

    async def _publish(self, attempts: Sequence[_Attempt], dues: Sequence[Due], sizes: list[int]) -> None:
        # The common answer is told here: a call more for each message would show.
        confirmed, lag = self._bell.tallies.counted[DUE], self._bell.tallies.spreads[LAG]
        is_large = sum(sizes) >= _LARGE_BYTES

        def heard(place: int, published: Published) -> None:
            attempt, due = attempts[place], dues[place]
            if is_large:
                self._load.add(-sizes[place])
                sizes[place] = 0
            if type(published) is not Confirmed:
                _answer(attempt, self._not_published(due, published))
                return
            confirmed[()] += 1
            late = (due.fired_at - due.due_at).total_seconds()
            lag.note(late if late > 0.0 else 0.0)
            if due.occurrence is not None:
                self._go_on(self._note(attempt, due))
            elif not attempt.outcome.done():
                attempt.outcome.set_result(_DONE)

        try:
            await self._broker.publish([message_of(due) for due in dues], heard)
        except Exception as error:
            _fail(attempts, error)
        except BaseException:
            _end(attempts)
            raise
        finally:
            self._load.add(-sum(sizes))

    def _not_published(self, due: Due, published: Published) -> Outcome:
        """It stays owed. What the broker is to blame for passes; what it will not have must wait for its operator."""
        reason = type(published).__name__.lower()
        self._bell.tallies.add(FAILURES, reason)
        told = getattr(published, "reason", "")
        if isinstance(published, Away):
            return Snooze(delay=_AWAY, reason=told)
        now = self._bell.clock.monotonic()
        if now - self._told_at >= _TELL_SECONDS:
            self._told_at = now
            remedy = "bind a queue for it" if isinstance(published, Returned) else "see what the broker says"
            log.warning(
                "what is due cannot be published",
                tenant=due.tenant,
                id=due.id,
                failure=reason,
                reason=told,
                remedy=remedy,
            )
        return Snooze(delay=again_after(due.fired_at - due.due_at), reason=f"{reason}: {told}"[:500])

    async def _note(self, attempt: _Attempt, due: Due) -> None:
        """It is published and cannot be taken back: that it is not counted must not have it published again. Where
        somebody holds its request for long, its job does not wait for that."""
        job = attempt.job
        is_repeated = job.attempt > 1 or job.version > _FIRST_VERSION
        fired = Fired(tenant=due.tenant, id=due.id, due_at=due.due_at, is_repeated=is_repeated)
        at, is_late = 0, False
        try:
            while not await self._count(fired):
                if at == len(_COUNT_PAUSES):
                    if self._late_count >= _LATE_MAX:
                        log.warning("what was published is not counted", tenant=fired.tenant, id=fired.id)
                        break
                    is_late = True
                    self._late_count += 1
                    _answer(attempt, _DONE)
                await self._bell.clock.sleep(_COUNT_PAUSES[min(at, len(_COUNT_PAUSES) - 1)])
                at += 1
        except DATABASE_ERRORS as error:
            log.warning("what was published could not be counted", tenant=fired.tenant, error=str(error))
        except BaseException:
            _end([attempt])
            raise
        finally:
            self._late_count -= is_late
        _answer(attempt, _DONE)

    async def _read(self, jobs: Sequence[Job]) -> Sequence[Row]:
        schedule_ids = [job.payload.get("schedule_id") for job in jobs]
        columns: Columns = {
            "tenants": [job.tenant for job in jobs],
            "ids": [job.payload["id"] for job in jobs],
            "job_ids": [job.id for job in jobs],
            # unnest fills up what is not there, and every member of an array costs the driver.
            "schedule_ids": [] if schedule_ids.count(None) == len(jobs) else schedule_ids,
        }
        async with self._bell.database.connection() as session:
            return await self._store.read_fired(session, columns=columns, bytes_max=READ_BYTES_MAX)

    async def _count_fired(self, fired: Sequence[Fired]) -> Sequence[bool]:
        """Whether each was, or can be no more. What is not now, since its request is held, is tried again."""
        columns: Columns = {
            "tenants": [one.tenant for one in fired],
            "ids": [one.id for one in fired],
            "due_ats": [one.due_at for one in fired],
            "repeated": [one.is_repeated for one in fired],
        }
        async with self._bell.database.connection() as session:
            rows = await self._store.count_fired(session, columns=columns)
        held = {(row["tenant"], row["id"]) for row in rows}
        return [(one.tenant, one.id) not in held for one in fired]

    def _go_on(self, work: Coroutine[Any, Any, None]) -> None:
        going_on = asyncio.create_task(work)
        self._going_on.add(going_on)
        going_on.add_done_callback(self._going_on.discard)


_DONE: Final = Done()


def _due(job: Job, row: Row) -> Due:
    payload = job.payload
    return Due(
        payload["id"],
        job.tenant,
        job.due_at,
        job.started_at,
        occurrence_of(payload) if "occurrence_id" in payload else None,
        row["payload"],
        row["correlation_id"],
    )


def _answer(attempt: _Attempt, outcome: Outcome) -> None:
    """Whoever gave up waiting, because the time was over, is answered no more."""
    if not attempt.outcome.done():
        attempt.outcome.set_result(outcome)


def _fail(attempts: Iterable[_Attempt], error: Exception) -> None:
    for attempt in attempts:
        if not attempt.outcome.done():
            attempt.outcome.set_exception(error)


def _end(attempts: Iterable[_Attempt]) -> None:
    """The process ends."""
    for attempt in attempts:
        attempt.outcome.cancel()
