"""What time the database has, estimated between two answers from it."""

from __future__ import annotations

from datetime import datetime, timedelta

from timebell.clock import Clock
from timebell.db.pool import Session
from timebell.kernel.store import Store


class Timekeeper:
    """The database's clock as this process knows it: never ahead of it, so nothing fires early.

    The instant is anchored at the receipt of the answer, so the estimate lags by the way back. Python's own
    clock only measures how long ago that was.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._store = Store(clock)
        self._anchor: datetime | None = None
        self._anchored_at = 0.0

    async def anchor(self, session: Session) -> datetime:
        now = await self._store.read_clock(session)
        self._anchor, self._anchored_at = now, self._clock.monotonic()
        return now

    def now(self) -> datetime:
        fixed = self._clock.sql_now()
        if fixed is not None:
            return fixed
        if self._anchor is None:
            raise RuntimeError("the clock was asked before it was anchored")
        return self._anchor + timedelta(seconds=self._clock.monotonic() - self._anchored_at)

    @property
    def is_anchored(self) -> bool:
        return self._anchor is not None

    def monotonic(self) -> float:
        return self._clock.monotonic()
