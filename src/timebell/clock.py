"""What is never the same twice, each behind one object that a test can replace: time, chance and ids."""

from __future__ import annotations

import asyncio
import random
import struct
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
