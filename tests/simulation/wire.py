"""The wire between simulated processes and the real database: every statement and every connect passes here.

A statement travels for a seeded while, waits until the loop is quiet, and is let through alone, chosen by the seed.
One that waits for a lock is found by asking the server who blocks it, and is then no reason for the others to wait.
Whoever holds a process up, cuts it off or kills it does it at these moments.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import Context
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, LiteralString

import asyncpg
import psycopg

from tests.simulation.loop import Life, Stuck, VirtualLoop
from tests.simulation.trace import Trace

START = datetime(2030, 1, 7, tzinfo=UTC)
LOCK_SECONDS = 5.0
IDLE_SECONDS = 300.0
_ROUNDS_TO_DIE = 1_000
_GIVING_UP_SECONDS = 0.3
_END_SECONDS = 10.0

Moment = Literal["before", "after"]
Fault = Callable[["Statement", Moment], None]


class Statement:
    """One statement under way, or a connect."""

    def __init__(
        self,
        number: int,
        name: str,
        life: Life,
        perform: Callable[[], Awaitable[Any]],
        answer: asyncio.Future[Any],
    ) -> None:
        self.number = number
        self.name = name
        self.life = life
        self.perform = perform
        self.answer = answer
        self.connection: Any = None
        self.arguments: tuple[Any, ...] = ()
        self.lock_seconds: float | None = LOCK_SECONDS
        self.io: asyncio.Task[Any] | None = None
        self.blockers: frozenset[int] = frozenset()
        self.has_timed_out = False
        self.sent_at = 0.0

    def is_giving_up(self) -> bool:
        """Whether the server itself ends the wait within moments."""
        return self.lock_seconds == 0 and time.monotonic() < self.sent_at + _GIVING_UP_SECONDS


class Wire:
    """Lets one statement through at a time."""

    def __init__(
        self, loop: VirtualLoop, monitor: psycopg.Connection[Any], seed: int, trace: Trace, lines: list[Any]
    ) -> None:
        self.loop = loop
        self._lines = lines
        self.trace = trace
        self.counts: Counter[str] = Counter()
        self.on_statement: Fault = lambda statement, moment: None
        self.on_arrival: Callable[[Statement], None] = lambda statement: None
        self._monitor = monitor
        self._choice = random.Random(f"{seed}/choice")
        self._delay = random.Random(f"{seed}/delay")
        # Whatever carries out real work belongs to nobody, so that no frozen process holds it up.
        self.nobody = Context()
        self._waiting: list[Statement] = []
        self._under_way: list[Statement] = []
        self._blocked: list[Statement] = []
        self._answered: list[Statement] = []
        self._closing: list[Any] = []
        self._dying: list[Life] = []
        # In the order of their opening.
        self._connections: dict[Life, dict[Any, None]] = {}
        self._is_stale = False
        loop.on_quiet = self._on_quiet
        loop.on_silence = self._on_silence

    def now(self) -> datetime:
        return START + timedelta(microseconds=self.loop.now_us)

    def is_impatient(self) -> bool:
        """Whether a cancel that meets a lock gives up at once, or waits for as long as it takes."""
        return self._choice.random() < 0.5

    def connections(self, life: Life) -> list[Any]:
        return [each for each in self._connections.get(life, ()) if not each.is_closed()]

    async def carry(
        self,
        name: str,
        life: Life,
        perform: Callable[[], Awaitable[Any]],
        *,
        connection: Any = None,
        arguments: tuple[Any, ...] = (),
        lock_seconds: float | None = LOCK_SECONDS,
    ) -> Any:
        """Bring a statement to the database and its answer back."""
        if life.is_dead:
            raise asyncio.CancelledError
        await asyncio.sleep(self._latency())
        self.counts["statements"] += 1
        statement = Statement(self.counts["statements"], name, life, perform, self.loop.create_future())
        statement.connection, statement.arguments = connection, arguments
        statement.lock_seconds = lock_seconds
        self._waiting.append(statement)
        self.on_arrival(statement)
        try:
            answer = await statement.answer
        except asyncio.CancelledError:
            await self._abandon(statement)
            raise
        await asyncio.sleep(self._latency())
        if life.is_dead:
            raise asyncio.CancelledError
        return answer

    def _latency(self) -> float:
        """Mostly below a millisecond, and never nothing, so that no two things happen at one instant."""
        sort = self._delay.random()
        if sort < 0.965:
            return self._delay.randint(50, 900) / 1_000_000
        return self._delay.randint(5_000, 80_000 if sort < 0.995 else 3_000_000) / 1_000_000

    async def _abandon(self, statement: Statement) -> None:
        """Its caller does not wait any longer: unsent it is never sent, and one that waits for a lock is called off."""
        if statement in self._waiting:
            self._waiting.remove(statement)
        elif statement in self._blocked and not statement.life.is_dead:
            self._call_off(statement)
            while statement.io is not None and not statement.io.done():
                await asyncio.sleep(0.001)

    def _on_quiet(self) -> bool:
        """Let the next thing happen; False when only time can."""
        if self._dying:
            return self._finish_dying()
        if self._blocked and self._is_stale:
            self._is_stale = False
            for statement in [each for each in self._blocked if not self._blockers(each)]:
                self._blocked.remove(statement)
                self._go(statement)
            if self._under_way:
                return True
        if self._answered:
            self._answered.sort(key=lambda each: each.number)
            self._deliver(self._answered.pop(0))
            return True
        if self._waiting:
            chosen = self._waiting.pop(self._choice.randrange(len(self._waiting)))
            self.on_statement(chosen, "before")
            if not chosen.life.is_dead:
                self._send(chosen)
            return True
        return False

    def _send(self, statement: Statement) -> None:
        # The next one happens later, if only by a microsecond.
        self.loop.now_us += 1
        statement.sent_at = time.monotonic()
        if statement.connection is not None:
            statement.connection.stir()
        statement.io = self.loop.create_task(_performed(statement.perform), context=self.nobody)
        statement.io.add_done_callback(lambda io: self._come_back(statement), context=self.nobody)
        self._go(statement)

    def _go(self, statement: Statement) -> None:
        assert statement.io is not None
        if statement.io.done():
            self._answered.append(statement)
        else:
            self._under_way.append(statement)
            self.loop.under_way += 1

    def _come_back(self, statement: Statement) -> None:
        self._is_stale = True
        assert statement.io is not None
        statement.io.exception()
        if statement in self._under_way:
            self._under_way.remove(statement)
            self.loop.under_way -= 1
            self._answered.append(statement)

    def _deliver(self, statement: Statement) -> None:
        assert statement.io is not None
        if statement.connection is not None:
            statement.connection.rest()
        error = statement.io.exception()
        answer = None if error is not None else statement.io.result()
        told: object = len(answer) if isinstance(answer, list) else ""
        if error is not None:
            told = type(error).__name__
            self.counts[told] += 1
        self.trace.add(self.loop.now_us, statement.life.name, statement.name, told)
        self.on_statement(statement, "after")
        if statement.life.is_dead or statement.answer.done():
            return
        if error is None:
            statement.answer.set_result(answer)
        elif statement.has_timed_out and isinstance(error, asyncpg.QueryCanceledError):
            statement.answer.set_exception(asyncpg.LockNotAvailableError("lock timeout"))
        else:
            statement.answer.set_exception(error)

    def _on_silence(self) -> None:
        """Nothing was heard from the server: somebody may wait for a lock, or a connection has closed."""
        for connection in [each for each in self._closing if each.is_closed()]:
            self._closing.remove(connection)
            self.loop.under_way -= 1
        for statement in list(self._under_way):
            if statement.connection is None or statement.has_timed_out or statement.is_giving_up():
                continue
            blockers = self._blockers(statement)
            if not blockers:
                continue
            if any(blockers & {*each.blockers, each.connection.pid} for each in self._blocked):
                # Two that wait for one and the same would race when it ends, and no seed decides who wins. One that
                # waits behind another does so too: where the row was changed, both run for its new version.
                self._cancel(statement)
            else:
                self._set_aside(statement, blockers)

    def _set_aside(self, statement: Statement, blockers: frozenset[int]) -> None:
        """It waits for a lock, and the others go on.

        It may be found waiting several times, for one lock after another or between two of them; that is noted once.
        """
        self._under_way.remove(statement)
        self.loop.under_way -= 1
        self._blocked.append(statement)
        if not statement.blockers:
            self.counts["blocked"] += 1
            self.trace.add(self.loop.now_us, statement.life.name, statement.name, "waits")
            if statement.lock_seconds is not None:
                seconds = statement.lock_seconds or LOCK_SECONDS
                self.loop.call_later(seconds, self._time_out, statement, context=self.nobody)
        statement.blockers = blockers

    def _blockers(self, statement: Statement) -> frozenset[int]:
        """Whom it waits for."""
        assert statement.io is not None
        if statement.io.done():
            return frozenset()
        return frozenset(self._ask("pg_blocking_pids(%s)", statement.connection.pid))

    def _time_out(self, statement: Statement) -> None:
        if statement in self._blocked:
            self._call_off(statement)

    def _call_off(self, statement: Statement) -> None:
        self._blocked.remove(statement)
        self._cancel(statement)
        self._go(statement)

    def _cancel(self, statement: Statement) -> None:
        statement.has_timed_out = True
        self._ask("pg_cancel_backend(%s)", statement.connection.pid)

    def _ask(self, question: LiteralString, *arguments: object) -> Any:
        row = self._monitor.execute("SELECT " + question + " AS answer", arguments).fetchone()
        assert row is not None
        return row["answer"]

    def opened(self, life: Life, connection: Any) -> None:
        self._connections.setdefault(life, {})[connection] = None

    def cut(self, connection: Any) -> None:
        """The server ends a connection, and its user finds out."""
        if connection.is_closed() or connection in self._closing:
            return
        self.trace.add(self.loop.now_us, connection.life.name, "cut")
        self._end_backend(connection.pid)
        for statement in [each for each in self._blocked if each.connection is connection]:
            self._blocked.remove(statement)
            self._go(statement)
        self._closing.append(connection)
        self.loop.under_way += 1
        self._is_stale = True

    def kill(self, life: Life) -> None:
        """Nothing of the process goes on, no answer reaches it, and the server has forgotten it."""
        if life.is_dead:
            return
        life.is_dead = True
        busy = {each.connection for each in [*self._under_way, *self._blocked] if each.life is life}
        self._waiting = [each for each in self._waiting if each.life is not life]
        self._answered = [each for each in self._answered if each.life is not life]
        self._blocked = [each for each in self._blocked if each.life is not life]
        for connection in self._connections.pop(life, {}):
            if connection in self._closing:
                self._closing.remove(connection)
                self.loop.under_way -= 1
            elif connection not in busy and not connection.is_closed():
                self._keep(connection.handed_on())
                continue
            connection.terminate()
            self._end_backend(connection.pid)
        self._is_stale = True
        self._dying.append(life)
        _cancel_all(life)
        self.loop.thaw(life)

    def _keep(self, line: Any) -> None:
        """A line whose user died: what they had begun is undone before anything else happens."""
        if not line.is_in_transaction():
            self._lines.append(line)
            return

        def undone(io: asyncio.Task[Any]) -> None:
            self.loop.under_way -= 1
            io.result()
            self._lines.append(line)

        self.loop.under_way += 1
        undoing = self.loop.create_task(_performed(line.rolled_back), context=self.nobody)
        undoing.add_done_callback(undone, context=self.nobody)

    def kept_line(self, url: str) -> Any:
        """One that a process left which is dead by now."""
        self._lines[:] = [line for line in self._lines if not line.is_closed()]
        for line in reversed(self._lines):
            if line.url == url:
                self._lines.remove(line)
                return line
        return None

    def _end_backend(self, pid: int) -> None:
        """And wait until it is gone. The server itself would look only ten times a second."""
        self._ask("pg_terminate_backend(%s)", pid)
        give_up_at = time.monotonic() + _END_SECONDS
        while self._ask("EXISTS (SELECT FROM pg_stat_activity WHERE pid = %s)", pid):
            if time.monotonic() > give_up_at:
                raise Stuck(f"the server does not end {pid}")
            self._ask("pg_sleep(0.001)")

    def _finish_dying(self) -> bool:
        """Its loops see a cancellation and can do nothing more; whoever clings to life is told again."""
        for life in list(self._dying):
            life.farewells += 1
            if life.farewells > _ROUNDS_TO_DIE:
                raise Stuck(f"{life.name} does not die: {list(life.loops)}")
            if not life.loops:
                self._dying.remove(life)
            _cancel_all(life)
        return True


def _cancel_all(life: Life) -> None:
    for each in list(life.loops):
        each.cancel()


async def _performed(perform: Callable[[], Awaitable[Any]]) -> Any:
    return await perform()
