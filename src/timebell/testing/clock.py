"""A clock that stands still until it is moved."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from timebell.errors import InvalidInput
from timebell.kernel.models import check_instant

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class ManualClock:
    """Time for tests: every statement gets this instant, and waiting costs nothing.

    Leases stay in real time, because they guard real processes.
    """

    def __init__(self, start: datetime = START) -> None:
        check_instant("start", start)
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
        check_instant("instant", instant)
        if instant < self._now:
            raise InvalidInput(f"{instant.isoformat()} is before {self._now.isoformat()}", field="instant")
        self._now = instant
