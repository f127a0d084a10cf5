"""When the jobs of a queue with a rate may begin: each at an instant of its own, which is used soon or lost."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

# A start happens at its instant or a little later. Instants are so much further apart that a second which begins with
# late ones and ends with punctual ones holds no more than the rate. What is left of the difference is for the way from
# the last look at the clock to the first line of the handler.
STRETCH = 1.06
TOLERANCE = timedelta(milliseconds=50)
_SECOND = timedelta(seconds=1)


@dataclass(slots=True)
class Pace:
    """The leased instants of one queue, who was chosen for one of them, and who waits for it just before acting.

    Whoever is chosen has an instant reserved, and spends one when its handler really begins: not the same one, perhaps,
    for the mark of a start takes as long as it takes.
    """

    starts: deque[datetime] = field(default_factory=deque)
    reserved: set[UUID] = field(default_factory=set)
    waiters: deque[tuple[float, asyncio.Future[None]]] = field(default_factory=deque)
    tolerance: timedelta = TOLERANCE
    # How many more may be chosen to begin at once.
    ripe: int = 0

    def take(self, first: datetime, spacing: timedelta, count: int, told: datetime) -> None:
        """Instants that were leased when the database's clock said `told`; what was saved up means at once."""
        # Of a rate below one a second the instants are further apart, and may be met less exactly.
        self.tolerance = TOLERANCE * max(1.0, spacing / (_SECOND * STRETCH))
        self.starts.extend(max(told, first + spacing * number) for number in range(count))

    def lapse(self, latest: datetime) -> None:
        """Let go of what could be used too late, by the latest that the database's clock may say."""
        while self.starts and self.starts[0] + self.tolerance < latest:
            self.starts.popleft()

    def count(self, until: datetime) -> int:
        """How many instants are there up to this one, beyond those that are reserved."""
        return sum(1 for at in self.starts if at <= until) - len(self.reserved)

    def spend(self, id: UUID, now: datetime, latest: datetime) -> bool:
        """Use an instant for a job that begins now."""
        self.lapse(latest)
        if not self.starts or self.starts[0] > now:
            return False
        self.starts.popleft()
        self.reserved.discard(id)
        return True

    def wake(self, now: datetime, latest: datetime, monotonic: float) -> None:
        """Let as many go on as there are instants for, and those that have waited for long enough give up."""
        self.lapse(latest)
        room = sum(1 for at in self.starts if at <= now)
        still: deque[tuple[float, asyncio.Future[None]]] = deque()
        for until, waiter in self.waiters:
            if waiter.done():
                continue
            if room > 0 or until <= monotonic:
                room -= 1
                waiter.set_result(None)
            else:
                still.append((until, waiter))
        self.waiters = still

    def wake_all(self) -> None:
        for _, waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()

    def clear(self) -> None:
        self.starts.clear()
        self.ripe = 0
