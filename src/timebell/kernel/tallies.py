"""Counters of a process since it started: plain sums, added to where the work is done and shown by the metrics.

They are kept here and not in a library's objects because they stand in the way of every job: adding to one costs a
fraction of a microsecond. What lies in the database is not counted here; the insights know that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from timebell.kernel.transaction import Transaction

LATENESS_SECONDS: Final = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.0,
    5.0,
    15.0,
    60.0,
    300.0,
    3_600.0,
)
DURATION_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class Spread:
    """How often a figure was how large: a count for each bound, up to and including it, and one for what is larger."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def note(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)


class QueueTally:
    """What became of the jobs of one queue. `states` has `retried` beside the states in which a job ends."""

    __slots__ = ("duration", "lateness", "retry_success_count", "states")

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self.retry_success_count = 0
        self.lateness = Spread(LATENESS_SECONDS)
        self.duration = Spread(DURATION_SECONDS)


class Tallies:
    """The counts of one process, shared by everything that works in it."""

    def __init__(self) -> None:
        self.enqueued = 0
        self.cancelled = 0
        self.occurrences = 0
        self.planned_jobs = 0
        self.queues: defaultdict[str, QueueTally] = defaultdict(QueueTally)
        self.deliveries: Counter[tuple[str, str, str]] = Counter()
        self.latency = Spread(LATENESS_SECONDS)
        # What was signed with a secret of before and brought to us since, by what it was signed for.
        self.previous_keys: Counter[str] = Counter()
        # What apps count, by the name of the measure and the values of its labels.
        self.counted: defaultdict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
        self.spreads: defaultdict[str, Spread] = defaultdict(lambda: Spread(LATENESS_SECONDS))

    def take(self, tx: Transaction) -> None:
        """What a transaction has written, now that it is committed."""
        counted, tx.counted = tx.counted, None
        if counted is not None:
            self.enqueued += counted["enqueued"]
            self.cancelled += counted["cancelled"]
            self.occurrences += counted["occurrences"]
            self.planned_jobs += counted["planned_jobs"]

    def add(self, measure: str, *labels: str, by: int = 1) -> None:
        """Count for a `Measure` of an app."""
        if by:
            self.counted[measure][labels] += by

    def note(self, measure: str, seconds: float) -> None:
        """The same for a histogram."""
        self.spreads[measure].note(max(0.0, seconds))

    def told(self, channel: str, provider: str, state: str, seconds: float | None = None) -> None:
        """A delivery came to a state, so many seconds after it was owed."""
        self.deliveries[channel, provider, state] += 1
        if seconds is not None:
            self.latency.note(max(0.0, seconds))
