"""Telling that the database is away: when that begins, now and then while it lasts, and when it is over."""

from __future__ import annotations

from collections.abc import Callable

from timebell.logs import Logger

log = Logger("timebell.engine")

# Whatever needs the database tries again several times a second, and says nothing new by that.
_AGAIN_SECONDS = 10.0


class Outages:
    """Whoever could not reach the database says so here at each try; a loop also says when it could again."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._told_at: dict[str, float] = {}

    def away(self, error: Exception, *, doing: str) -> None:
        now = self._monotonic()
        if now - self._told_at.get(doing, float("-inf")) >= _AGAIN_SECONDS:
            self._told_at[doing] = now
            log.warning("the database is away", doing=doing, error=str(error) or type(error).__name__)

    def back(self) -> None:
        if self._told_at:
            self._told_at.clear()
            log.info("the database answers again")
