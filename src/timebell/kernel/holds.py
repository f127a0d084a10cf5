"""Queues whose jobs this process cannot do for now, as whoever serves them says: their broker is away, for example.

What is due there is parked, as in a paused queue, and begun in the order of its time once it can be done again. Other
processes go on, and nothing is tried that must fail.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from timebell.logs import Logger

log = Logger("timebell.holds")


class Holds:
    """The queues that are held, each for a reason."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._watching: list[Callable[[], None]] = []
        self.reasons = MappingProxyType(self._reasons)

    def __contains__(self, queue: object) -> bool:
        return queue in self._reasons

    def __bool__(self) -> bool:
        return bool(self._reasons)

    def hold(self, queue: str, reason: str) -> None:
        """Begin no job of this queue here. Saying so again changes nothing."""
        if queue not in self._reasons:
            self._reasons[queue] = reason
            log.warning("the jobs of a queue wait", queue=queue, reason=reason)
            self._changed()

    def release(self, queue: str) -> None:
        """Go on with what has waited."""
        if self._reasons.pop(queue, None) is not None:
            log.info("the jobs of a queue go on", queue=queue)
            self._changed()

    def watch(self, changed: Callable[[], None]) -> None:
        self._watching.append(changed)

    def _changed(self) -> None:
        for changed in self._watching:
            changed()
