"""The clock of the database as a process knows it, estimated between two answers from it."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

from timebell.clock import Clock
from timebell.db.pool import Session
from timebell.kernel.store import Store

_KEPT_SECONDS = 5.0
# Two clocks drift apart by less than this while an answer is kept. Without it a drift of microseconds would make the
# answer to a long read, which is a poor one, the only one that counts.
_DRIFT = timedelta(milliseconds=1)


class Timekeeper:
    """The database's clock as this process knows it: never ahead of it, so nothing fires early.

    The database answered after it was asked and before it was heard. Anchored at its receipt an answer lags by the
    way back, and by whatever kept this process from reading it; the least lagging one of the last seconds counts.
    Anchored at the question it is ahead, however long it took; so where even that lies behind what counts, the clock
    was set back. Python's own clock only measures how long ago all this was.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._store = Store(clock)
        self.monotonic = clock.monotonic
        # When each answer came, and what the database's clock would have said at this clock's zero.
        self._origins: deque[tuple[float, datetime, datetime]] = deque()
        self._origin: datetime | None = None
        self._latest_origin: datetime | None = None
        self._set_back_by = float("-inf")

    async def anchor(self, session: Session) -> datetime:
        asked = self._clock.monotonic()
        now = await self._store.read_clock(session)
        self._note(now, asked)
        return now

    def is_set_back(self, now: datetime, asked: float) -> bool:
        """Whether an answer to another question, which told the time too, shows that the clock was set back since the
        last anchor. It is the anchor then. `asked` is when the question was sent, or earlier."""
        is_set_back = self._is_behind(now, asked)
        if is_set_back:
            self._note(now, asked)
        return is_set_back

    def _is_behind(self, now: datetime, asked: float) -> bool:
        return self._origin is not None and _origin(now, asked) < self._origin - _DRIFT

    def _note(self, now: datetime, asked: float) -> None:
        received = self._clock.monotonic()
        if self._is_behind(now, asked):
            self._origins.clear()
            self._set_back_by = received
        elif asked < self._set_back_by:
            # It may have been said before the clock was set back, and only be heard now.
            return
        # What was known when the question was sent does not grow old while the answer is waited for.
        while self._origins and self._origins[0][0] < asked - _KEPT_SECONDS:
            self._origins.popleft()
        self._origins.append((received, _origin(now, received), _origin(now, asked)))
        self._origin = max(origin for _, origin, _ in self._origins)
        self._latest_origin = min(latest for _, _, latest in self._origins)

    def now(self) -> datetime:
        fixed = self._clock.sql_now()
        if fixed is not None:
            return fixed
        if self._origin is None:
            raise RuntimeError("the clock was asked before it was anchored")
        return self._origin + timedelta(seconds=self._clock.monotonic())

    def latest(self) -> datetime:
        """The latest that the database's clock can say now: no answer was given before its question was sent."""
        fixed = self._clock.sql_now()
        if fixed is not None:
            return fixed
        if self._latest_origin is None:
            raise RuntimeError("the clock was asked before it was anchored")
        return self._latest_origin + _DRIFT + timedelta(seconds=self._clock.monotonic())

    @property
    def is_fixed(self) -> bool:
        """Whether the clock stands still until somebody moves it, so that nothing comes of waiting."""
        return self._clock.sql_now() is not None

    @property
    def is_anchored(self) -> bool:
        return self._origin is not None


def _origin(now: datetime, monotonic: float) -> datetime:
    """What the database's clock would have said at this clock's zero, had it said `now` at that moment."""
    return now - timedelta(seconds=monotonic)
