"""What is never the same twice, each behind one object that a test can replace: time, chance and ids."""

from __future__ import annotations

import asyncio
import random
import time
from datetime import datetime
from typing import Protocol
from uuid import UUID


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
        return self._next(self._chance.bits(62))

    def many(self, count: int) -> list[UUID]:
        """The next ids. Asking the system for randomness costs more than the rest, so it is asked once."""
        chance = self._chance.bits(64 * count).to_bytes(8 * count, "big")
        return [self._next(int.from_bytes(chance[at : at + 8], "big") >> 2) for at in range(0, 8 * count, 8)]

    def _next(self, tail: int) -> UUID:
        milliseconds = self._chance.milliseconds()
        if milliseconds > self._last_ms:
            self._last_ms = milliseconds
            self._counter = self._chance.bits(11)
        else:
            self._counter += 1
            if self._counter > 0xFFF:
                self._last_ms += 1
                self._counter = 0
        value = (self._last_ms & 0xFFFFFFFFFFFF) << 80 | 0x7 << 76 | self._counter << 64
        return UUID(int=value | 0b10 << 62 | tail)
