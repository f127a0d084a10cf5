"""The intake: what other services ask for becomes rows, many in one transaction, and is acknowledged after its commit.

Whatever was not acknowledged comes again, and finds itself known. While the database is away nothing is acknowledged
and nothing is taken; it goes on when the database is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import asyncpg

from timebell.apps.scheduler.letters import Letters
from timebell.apps.scheduler.messages import BODY_BYTES_MAX, in_words, read_message, whose
from timebell.apps.scheduler.models import Asked, Poison, ScheduleCancel, ScheduleRequest, Taken, Withdrawn
from timebell.apps.scheduler.rules import portions
from timebell.apps.scheduler.service import Scheduler
from timebell.apps.scheduler.store import SchedulerStore
from timebell.apps.scheduler.topology import CANCELS, REQUESTS
from timebell.brokers import Broker, Intake, Received
from timebell.errors import (
    ConfigurationError,
    InvalidInput,
    RevisionConflict,
    TimebellError,
    UnknownKind,
    UnknownQueue,
)
from timebell.kernel import DATABASE_ERRORS, Timebell, Transaction
from timebell.logs import Logger

log = Logger("timebell.scheduler")

BATCH: Final = 400
PREFETCH: Final = 1_500
# How many recurrences are planned in one transaction, and how many requests are cancelled.
RECURRENCES_MAX: Final = 20
CANCELS_MAX: Final = 50
# How long what was taken is kept while the database is away, before it is given back for others.
PATIENCE_SECONDS: Final = 60.0
_PAUSES: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_AT_ONCE_MAX: Final = 10
# What is wrong with one message, and not with the database.
_OF_A_MESSAGE: Final = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    InvalidInput,
)
# What passes, or is for an operator to mend; no message is to blame.
_NOT_NOW: Final = (*DATABASE_ERRORS, UnknownKind, UnknownQueue)
_LOG: Final = "job_log"


class _Stuck:
    """A message that cannot be kept for now, while others can: this process is too old for it, perhaps."""


_STUCK: Final = _Stuck()
Read = tuple[Received, Asked]
Answer = Taken | Withdrawn | Poison
# What cannot be read, and what can, tenant by tenant.
_TakenIn = tuple[list[tuple[Received, Poison]], dict[str, list[Read]]]


class _Writing(NamedTuple):
    """A batch that is being written, and the names in it. It comes to True, or False if the database was away."""

    names: set[tuple[str, str]]
    work: asyncio.Task[bool]


class _Away(Exception):
    """The database was away for longer than what was taken is kept."""


class Consuming:
    """What a process runs that takes requests in."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def __call__(self, bell: Timebell) -> None:
        async with asyncio.TaskGroup() as loops:
            for queue in (REQUESTS, CANCELS):
                loops.create_task(IntakeLoop(bell, self._broker, queue).run(), name=f"timebell {queue}")


class IntakeLoop:
    """Takes from one queue until it is cancelled."""

    def __init__(self, bell: Timebell, broker: Broker, queue: str) -> None:
        self._bell = bell
        self._broker = broker
        self._queue = queue
        self._scheduler = Scheduler(bell)
        self._store = SchedulerStore(bell.clock)
        self._own = bell.settings.broker_tenant
        self._is_trusted = bell.settings.broker_trusts_tenant
        self._reading: asyncio.Task[_TakenIn] | None = None
        self._writing: _Writing | None = None
        self._aside: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        has_begun = False
        while True:
            try:
                async with self._broker.intake(
                    self._queue, prefetch=PREFETCH, body_bytes_max=BODY_BYTES_MAX
                ) as intake:
                    has_begun = True
                    await self._take_in(intake)
            except ConfigurationError as refusal:
                if not has_begun:
                    raise
                log.warning("nothing can be taken; it is tried again", queue=self._queue, reason=str(refusal))
            await self._wait_for_database()

    async def _take_in(self, intake: Intake) -> None:
        letters = Letters(self._bell, self._broker, intake)
        posting = asyncio.create_task(letters.run(), name=f"timebell letters {self._queue}")
        try:
            while await self.tick(intake, letters):
                pass
        finally:
            posting.cancel()
            await asyncio.wait({posting})
            await self.rest()

    async def tick(self, intake: Intake, letters: Letters) -> bool:
        """Begin to write one batch, once the one before the last is written; False if the database was away for too
        long, and what was taken is to be given back. While the database writes, the next one is read.

        Two are written at once, unless they have a name in common: what was said of it first counts first.
        """
        poisoned, batches = await self._read_next(intake)
        names = {(tenant, asked.id) for tenant, batch in batches.items() for _, asked in batch}
        before = self._writing
        if before is not None and not before.names.isdisjoint(names) and not await self.settled():
            return False
        writing = asyncio.create_task(
            self._settle_all(intake, letters, poisoned, batches), name=f"timebell writing {self._queue}"
        )
        self._writing = _Writing(names, writing)
        return before is None or await before.work

    async def settled(self) -> bool:
        """Wait until all that was taken is written; False if it cannot be."""
        return self._writing is None or await self._writing.work

    async def rest(self) -> None:
        """Take no more. What was taken and is not written comes again."""
        works = [self._reading, None if self._writing is None else self._writing.work, *self._aside]
        self._reading = self._writing = None
        for work in works:
            if work is not None:
                work.cancel()
                await asyncio.wait({work})

    async def _read_next(self, intake: Intake) -> _TakenIn:
        """Nothing may come for long; what is being written is not waited for meanwhile, unless it fails."""
        reading = self._reading or asyncio.create_task(self._take(intake))
        self._reading = reading
        if self._writing is not None:
            await asyncio.wait({reading, self._writing.work}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done() and not await self._writing.work:
                return [], {}
        taken = await reading
        self._reading = asyncio.create_task(self._take(intake), name=f"timebell reading {self._queue}")
        return taken

    async def _settle_all(
        self,
        intake: Intake,
        letters: Letters,
        poisoned: list[tuple[Received, Poison]],
        batches: Mapping[str, Sequence[Read]],
    ) -> bool:
        is_well = True
        try:
            for tenant, batch in batches.items():
                asked = [one for _, one in batch]
                for portion in portions(asked, recurrences=RECURRENCES_MAX, cancels=CANCELS_MAX):
                    poisoned += await self._settle(intake, tenant, batch[portion])
        except _Away:
            is_well = False
        await letters.add(poisoned)
        return is_well

    async def _take(self, intake: Intake) -> _TakenIn:
        received = await intake.take(BATCH)
        poisoned: list[tuple[Received, Poison]] = []
        batches: dict[str, list[Read]] = {}
        for one in received:
            tenant, asked = self._read(one)
            if isinstance(asked, Poison):
                poisoned.append((one, asked))
            else:
                batches.setdefault(tenant, []).append((one, asked))
        return poisoned, batches

    async def _settle(
        self, intake: Intake, tenant: str, batch: Sequence[Read]
    ) -> Sequence[tuple[Received, Poison]]:
        """Keep what can be kept and acknowledge it; answers with what never can be."""
        answers = await self._keep(tenant, batch)
        settled = [(one, answer) for (one, _), answer in zip(batch, answers, strict=True)]
        await intake.acknowledge([one for one, answer in settled if isinstance(answer, Taken | Withdrawn)])
        if stuck := [one for one, answer in settled if answer is _STUCK]:
            aside = asyncio.create_task(self._give_back_later(intake, stuck), name="timebell aside")
            self._aside.add(aside)
            aside.add_done_callback(self._aside.discard)
        return [(one, answer) for one, answer in settled if isinstance(answer, Poison)]

    async def _give_back_later(self, intake: Intake, stuck: Sequence[Received]) -> None:
        """Another process may be able to keep them, or this one by then. Nobody waits for that."""
        await self._bell.clock.sleep(PATIENCE_SECONDS)
        await intake.give_back(stuck)

    def _read(self, one: Received) -> tuple[str, Asked | Poison]:
        asked = read_message(
            one.body,
            body_bytes=one.body_bytes,
            type=one.type,
            headers=one.headers,
            correlation_id=one.correlation_id,
        )
        if isinstance(asked, Poison):
            return "", asked
        tenant = whose(asked, own=self._own, is_trusted=self._is_trusted)
        return ("", tenant) if isinstance(tenant, Poison) else (tenant, asked)

    async def _keep(self, tenant: str, batch: Sequence[Read]) -> Sequence[Answer | _Stuck]:
        """Write one tenant's batch, however often it takes. Where one message is to blame the others go without it."""
        asked = [one for _, one in batch]
        waited, at, at_once = 0.0, 0, 0
        while True:
            try:
                return await self._commit(tenant, asked)
            except (UnknownKind, UnknownQueue) as error:
                reason: Exception = error
            except _OF_A_MESSAGE as error:
                # Where no node runs that sees to the log, what is cancelled cannot be written down for now.
                if not isinstance(error, asyncpg.CheckViolationError) or error.table_name != _LOG:
                    return await self._one_by_one(tenant, batch, error)
                reason = error
            except RevisionConflict as error:
                reason = error
                at_once += 1
                if at_once < _AT_ONCE_MAX:
                    continue
            except _NOT_NOW as error:
                reason = error
            except TimebellError as error:
                if len(batch) > 1:
                    return await self._one_by_one(tenant, batch, error)
                log.warning("a request cannot be kept for now", queue=self._queue, error=_words(error))
                return [_STUCK]
            except Exception as error:
                log.exception("a message could not be taken in")
                return await self._one_by_one(tenant, batch, error)
            if waited >= PATIENCE_SECONDS:
                log.warning("what was taken is given back", queue=self._queue, count=len(batch))
                raise _Away
            if at == 0:
                log.warning("requests cannot be kept for now", queue=self._queue, error=_words(reason))
            pause = _PAUSES[min(at, len(_PAUSES) - 1)]
            await self._bell.clock.sleep(pause)
            waited += pause
            at += 1

    async def _one_by_one(
        self, tenant: str, batch: Sequence[Read], error: Exception
    ) -> Sequence[Answer | _Stuck]:
        if len(batch) == 1:
            detail = in_words(error) if isinstance(error, InvalidInput) else _words(error)
            return [Poison(reason="cannot_be_stored", detail=detail)]
        return [answer for one in batch for answer in await self._keep(tenant, [one])]

    async def _commit(self, tenant: str, asked: Sequence[Asked]) -> Sequence[Answer]:
        answers: list[Answer] = []
        async with self._bell.transaction(tenant=tenant) as tx:
            for _, alike in groupby(asked, type):
                answers += await self._write(tx, list(alike))
        self._scheduler.tell(tenant, answers)
        return answers

    async def _write(self, tx: Transaction, asked: Sequence[Asked]) -> Sequence[Answer]:
        requests = [one for one in asked if isinstance(one, ScheduleRequest)]
        if requests:
            return await self._scheduler.request_many(tx, requests)
        return await self._scheduler.cancel_many(
            tx, [one.id for one in asked if isinstance(one, ScheduleCancel)]
        )

    async def _wait_for_database(self) -> None:
        at = 0
        while True:
            await self._bell.clock.sleep(_PAUSES[min(at, len(_PAUSES) - 1)])
            at += 1
            try:
                async with self._bell.database.connection() as session:
                    await self._store.read_clock(session)
            except _NOT_NOW:
                continue
            log.info("requests are taken in again", queue=self._queue)
            return


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
