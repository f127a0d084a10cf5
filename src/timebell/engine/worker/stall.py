"""Whether the jobs that are ready can go on at all, or wait for something else than a place to run in."""

from __future__ import annotations

from collections.abc import Callable

# Where others begin meanwhile, a place is free in a moment.
_SECONDS = 0.1


class Stall:
    """Nothing begins although something is ready and there is room: it waits for a limit, or its tenant has its share.

    The share of a tenant is free again as soon as one of its jobs ends, so that is no stall while others begin.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._begun_at = float("-inf")
        self.is_one = False

    def note(self, *, has_begun: bool, is_busy: bool) -> None:
        """Something began just now, or nothing could, while others run or nothing does."""
        now = self._monotonic()
        if has_begun:
            self._begun_at = now
        self.is_one = not has_begun and not (is_busy and now - self._begun_at < _SECONDS)
