"""What time the database has, estimated between two answers from it."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

from timebell.clock import Clock
from timebell.db.pool import Session
from timebell.kernel.store import Store

_KEPT_SECONDS = 5.0
_STEP = timedelta(seconds=1)


class Timekeeper:
    """The database's clock as this process knows it: never ahead of it, so nothing fires early.

    An answer is anchored at its receipt, so it lags by the way back and by whatever kept this process from
    reading it. The least lagging one of the last seconds counts. Python's own clock only measures how long ago
    that was.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._store = Store(clock)
        self.monotonic = clock.monotonic
        # When each answer came, and what the database's clock would have said at this clock's zero.
        self._origins: deque[tuple[float, datetime]] = deque()
        self._origin: datetime | None = None

    async def anchor(self, session: Session) -> datetime:
        now = await self._store.read_clock(session)
        self._note(now)
        return now

    def is_set_back(self, now: datetime) -> bool:
        """Whether an answer to another question, which told the time too, shows that the clock was set back since the
        last anchor. It is the anchor then."""
        origin = now - timedelta(seconds=self._clock.monotonic())
        is_set_back = self._origin is not None and origin < self._origin - _STEP
        if is_set_back:
            self._note(now)
        return is_set_back

    def _note(self, now: datetime) -> None:
        received = self._clock.monotonic()
        origin = now - timedelta(seconds=received)
        if self._origin is not None and origin < self._origin - _STEP:
            # No way back takes that long: the database's clock was set back, and what it said before is void.
            self._origins.clear()
        self._origins.append((received, origin))
        while self._origins[0][0] < received - _KEPT_SECONDS:
            self._origins.popleft()
        self._origin = max(origin for _, origin in self._origins)

    def now(self) -> datetime:
        fixed = self._clock.sql_now()
        if fixed is not None:
            return fixed
        if self._origin is None:
            raise RuntimeError("the clock was asked before it was anchored")
        return self._origin + timedelta(seconds=self._clock.monotonic())

    @property
    def is_anchored(self) -> bool:
        return self._origin is not None
