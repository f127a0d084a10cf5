"""Clock, chance and ids: what is never the same twice, each behind one object that can be replaced."""

from __future__ import annotations

import asyncio
import random
import struct
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID

from timebell.errors import InvalidInput, NaiveInstant

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class Clock(Protocol):
    """What time it is, asked in three ways because the answers come from three places.

    `sql_now` is handed to every statement that asks the time; None lets the database decide, which is what
    production does. `lease_now` is the same for leases: they guard real processes, so a sandbox that moves
    `sql_now` by a year must not move them. `monotonic` and `sleep` are for waiting, not for what is due.
    """

    def sql_now(self) -> datetime | None: ...

    def lease_now(self) -> datetime | None: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """Production: the database is the only clock."""

    def sql_now(self) -> datetime | None:
        return None

    def lease_now(self) -> datetime | None:
        return None

    # Asked for every job, so it is the function itself.
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that stands still until it is moved: every statement gets this instant, and waiting costs nothing.

    Leases stay in real time, because they guard real processes.
    """

    def __init__(self, start: datetime = START) -> None:
        _check_instant("start", start)
        self._start = start
        self._now = start

    @property
    def now(self) -> datetime:
        return self._now

    def sql_now(self) -> datetime | None:
        return self._now

    def lease_now(self) -> datetime | None:
        return None

    def monotonic(self) -> float:
        return (self._now - self._start).total_seconds()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)

    def move(self, by: timedelta) -> None:
        self.move_to(self._now + by)

    def move_to(self, instant: datetime) -> None:
        """Time goes forward only."""
        self.check_ahead("instant", instant)
        self._now = instant

    def check_ahead(self, name: str, instant: datetime) -> None:
        """Refuse to go there if it lies in the past, or nowhere."""
        _check_instant(name, instant)
        if instant < self._now:
            raise InvalidInput(
                f"{instant.isoformat()} is before {self._now.isoformat()}; time goes forward only", field=name
            )


class SandboxClock(ManualClock):
    """A manual clock for a real process: what is due stands still, while time-outs and waiting go on as they do."""

    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _check_instant(name: str, value: object) -> None:
    if not isinstance(value, datetime):
        raise InvalidInput(f"{value!r:.100} is not a datetime; give one with an offset", field=name)
    if value.utcoffset() is None:
        raise NaiveInstant(
            f"{value.isoformat()} has no offset; give it one, for example tzinfo=timezone.utc", field=name
        )


class Chance:
    """Randomness for jitter and ids. Seeded in tests, so that a run can be played again."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed) if seed is not None else random.SystemRandom()

    def fraction(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()

    def bits(self, count: int) -> int:
        return self._random.getrandbits(count)

    def milliseconds(self) -> int:
        """The time that ids begin with. It only keeps them in order; nothing is due by it."""
        return time.time_ns() // 1_000_000


class Ids:
    """UUIDv7: ids in the order of their making keep the indexes that hold them local."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._last_ms = 0
        self._counter = 0

    def new(self) -> UUID:
        """The next id; they never go backwards, not within a millisecond nor after a step of the clock."""
        return self.many(1)[0]

    def many(self, count: int) -> list[UUID]:
        """The next ids. The system is asked once for the time and for randomness: that costs more than the rest."""
        milliseconds = self._chance.milliseconds()
        if milliseconds > self._last_ms:
            self._last_ms = milliseconds
            self._counter = self._chance.bits(11)
        chance = self._chance.bits(64 * count).to_bytes(8 * count, "big")
        ids: list[UUID] = []
        for tail in struct.unpack(f">{count}Q", chance):
            head = (self._last_ms & 0xFFFFFFFFFFFF) << 16 | 0x7 << 12 | self._counter
            ids.append(UUID(int=head << 64 | 0b10 << 62 | tail >> 2))
            self._counter += 1
            if self._counter > 0xFFF:
                self._last_ms += 1
                self._counter = 0
        return ids
