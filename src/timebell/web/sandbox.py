"""The sandbox: the same engine and the same tables on a clock that stands still until somebody moves it.

The database of a sandbox is a sandbox for good. Its clock is kept in it, so that it goes on where it stood, and so that
nobody runs it in real time by mistake: everything that is owed in it would be long overdue, or far away.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from timebell.clock import Clock, ManualClock, SandboxClock, SystemClock
from timebell.db.failures import DATABASE_ERRORS
from timebell.db.pool import Session
from timebell.engine import Engine
from timebell.engine.advancing import Moved, advance
from timebell.errors import ConfigurationError, DatabaseUnavailable, InvalidInput
from timebell.kernel import Timebell
from timebell.kernel.store import Store
from timebell.logs import Logger
from timebell.notify.delivery.delivery_store import DeliveryStore
from timebell.web.operation.problems import Problem
from timebell.web.store import WebStore

log = Logger("timebell.sandbox")

LONGEST: Final = timedelta(days=3_660)
_SLOT_COUNT: Final = 256
_PRUNES_MAX: Final = 100
_PRUNE_EVERY: Final = timedelta(days=1)
_LOOK_EVERY: Final = timedelta(hours=6)
_SHORT_SECONDS: Final = 10.0
_LEAVE_SECONDS: Final = 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """What happened while the clock moved: jobs that came to their end, deliveries that reached somebody or would have,
    and deliveries that failed together with jobs that died."""

    now: datetime
    ran: int
    sent: int
    failed: int


@dataclass(frozen=True, slots=True)
class _Tally:
    ran: int
    dead: int
    told: int
    failed: int


async def clock_of(session: Session) -> Clock:
    """The clock that the database of a session lives by: the database's own, or that of a sandbox as it stands now."""
    system = SystemClock()
    now = await WebStore(system).read_sandbox(session)
    return system if now is None else ManualClock(now.astimezone(UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSandbox:
    """What a sandbox is asked to be: a new one begins at `start`, or else at this second."""

    start: datetime | None = None
    must_exist: bool = False

    async def clock(self, session: Session) -> SandboxClock:
        """The clock where it was left, or a new one where nothing was ever asked of the database."""
        store = WebStore(SystemClock())
        kept = await store.read_sandbox(session)
        if kept is not None:
            if self.start is not None and self.start != kept:
                log.info(
                    "the clock goes on where it stood; --start is for a new sandbox", now=kept.isoformat()
                )
            return SandboxClock(kept.astimezone(UTC))
        if self.must_exist:
            raise ConfigurationError(
                "sandbox: the time of this database is real; name the folder of a sandbox with --data, "
                "such as `timebell up --sandbox --data FOLDER` makes"
            )
        if await store.read_is_used(session):
            raise ConfigurationError(
                "sandbox: this database is in use, and its time is real; give the sandbox one of its own, "
                "with another --data or DATABASE_URL"
            )
        start = self.start or (await Store(SystemClock()).read_clock(session)).replace(microsecond=0)
        clock = SandboxClock(start.astimezone(UTC))
        await store.save_sandbox(session, now_at=clock.now)
        return clock


def refuse_sandbox(clock: Clock) -> None:
    """Real time is not for the database of a sandbox."""
    if isinstance(clock, ManualClock):
        raise ConfigurationError(
            f"sandbox: the time of this database is a sandbox's and stands at {clock.now.isoformat()}; run it with "
            "`timebell up --sandbox`, or use another --data or DATABASE_URL"
        )


@asynccontextmanager
async def sandboxed(bell: Timebell, *, is_alone: bool) -> AsyncIterator[Sandbox]:
    """The sandbox of a bell on a sandbox's clock, for as long as the block lasts."""
    assert isinstance(bell.clock, SandboxClock)
    sandbox = Sandbox(Engine(bell, is_alone=is_alone), bell.clock)
    try:
        await sandbox.start()
        yield sandbox
    finally:
        await sandbox.stop()


class Sandbox:
    """Moves the clock, one advance at a time, and tells what happened on the way."""

    def __init__(self, engine: Engine, clock: SandboxClock) -> None:
        self.engine = engine
        self._clock = clock
        self._database = engine.bell.database
        self._store = WebStore(clock)
        self._deliveries = DeliveryStore(clock)
        self._turn = asyncio.Lock()
        self._going_on: set[asyncio.Task[Advanced]] = set()
        self._is_stopping = False
        self._pruned_at: datetime | None = None
        self._looked_at: datetime | None = clock.now

    @property
    def now(self) -> datetime:
        return self._clock.now

    async def start(self) -> None:
        await self.engine.attend()

    def halt(self) -> None:
        """Leave an advance that is under way at the instant that it has reached."""
        self._is_stopping = True

    async def stop(self) -> None:
        self.halt()
        stop_seconds = self.engine.bell.settings.stop_seconds
        if self._going_on:
            _, late = await asyncio.wait(self._going_on, timeout=stop_seconds)
            for going in late:
                going.cancel()
            await asyncio.gather(*self._going_on, return_exceptions=True)
        try:
            async with asyncio.timeout(stop_seconds + _LEAVE_SECONDS):
                await self.engine.stop()
        except (TimeoutError, *DATABASE_ERRORS) as error:
            log.warning("the database is away", doing="stopping", error=str(error) or type(error).__name__)

    def complaints(self) -> list[str]:
        """What keeps the clock from being moved; nothing when all is well."""
        complaints = self.engine.complaints()
        if not complaints and len(self.engine.node.owned) < _SLOT_COUNT:
            complaints.append(
                "another node has jobs of this sandbox; stop it, or wait until its lease has run out"
            )
        return complaints

    async def advance(
        self, *, by: timedelta | None = None, to: datetime | None = None, moved: Moved | None = None
    ) -> Advanced:
        """Go forward by a time or to an instant, and run everything that is due on the way, in order.

        It goes on although whoever asked for it may be gone: half an advance is of no use to anybody.
        """
        if (by is None) == (to is None):
            raise InvalidInput("give by or to, one of them", field="by")
        # What handlers do must not count as done by, or for, whoever moved the clock.
        going = asyncio.get_running_loop().create_task(self._in_turn(by, to, moved), context=Context())
        self._going_on.add(going)
        going.add_done_callback(self._going_on.discard)
        return await asyncio.shield(going)

    async def _in_turn(self, by: timedelta | None, to: datetime | None, moved: Moved | None) -> Advanced:
        async with self._turn:
            target = self._target(by, to)
            complaints = self.complaints()
            if complaints or self._is_stopping:
                detail = "; ".join(complaints) or "stopping"
                raise Problem(
                    503, "unavailable", f"the clock cannot be moved: {detail}", headers={"retry-after": "2"}
                )
            began, start = self._clock.monotonic(), self._clock.now
            try:
                return await self._go(target, moved)
            except DATABASE_ERRORS as error:
                log.warning(
                    "the database is away", doing="advancing", error=str(error) or type(error).__name__
                )
                raise DatabaseUnavailable from error
            finally:
                seconds = round(self._clock.monotonic() - began, 3)
                log.info(
                    "the clock was moved", since=start.isoformat(), now=self.now.isoformat(), seconds=seconds
                )

    async def _go(self, target: datetime, moved: Moved | None) -> Advanced:
        before = await self._tally()

        async def noted(instant: datetime) -> None:
            if self._looked_at is not None and instant - self._looked_at >= _LOOK_EVERY:
                await self._look()
            await self._note(instant)
            if moved is not None:
                await moved(instant)

        await advance(self.engine, self._clock, target, moved=noted)
        await self._look()
        after = await self._tally()
        await self._prune()
        return Advanced(
            now=self._clock.now,
            ran=after.ran - before.ran,
            # What a person asked to have erased meanwhile is no longer there to be counted.
            sent=max(0, after.told - before.told),
            failed=max(0, after.failed - before.failed) + after.dead - before.dead,
        )

    def _target(self, by: timedelta | None, to: datetime | None) -> datetime:
        name = "by" if to is None else "to"
        try:
            target = to if to is not None else self._clock.now + (by or timedelta(0))
        except OverflowError:
            target = datetime.max.replace(tzinfo=UTC)
        self._clock.check_ahead(name, target)
        if target - self._clock.now > LONGEST:
            raise InvalidInput(f"is over {LONGEST.days} days away; go there in several steps", field=name)
        return target

    async def _note(self, instant: datetime) -> None:
        """Before anything happens at an instant it is kept, so that a new start cannot go back behind what happened."""
        if self._is_stopping:
            raise Problem(503, "unavailable", f"stopping; the clock stands at {self._clock.now.isoformat()}")
        async with self._database.connection() as session:
            await self._store.save_sandbox(session, now_at=instant)

    async def _look(self) -> None:
        """See what needs a person, and have operators told of it. In production somebody looks every few seconds."""
        await self.engine.watch.look()
        self._looked_at = self.now
        if self.engine.bell.settings.operations_recipients:
            await self.engine.run_due()

    async def _prune(self) -> None:
        """As in production, what has outlived its use goes, though not after every small step."""
        if self._pruned_at is not None and self.now - self._pruned_at < _PRUNE_EVERY:
            return
        for _ in range(_PRUNES_MAX):
            if await self.engine.pruner.tick() > _SHORT_SECONDS:
                break
        self._pruned_at = self.now

    async def _tally(self) -> _Tally:
        counters = self.engine.worker.counters
        async with self._database.connection() as session:
            row = await self._deliveries.count_deliveries(session)
        return _Tally(
            ran=counters.done + counters.ended,
            dead=counters.dead,
            told=row["told_count"],
            failed=row["failed_count"],
        )
