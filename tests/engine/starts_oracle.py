"""The arithmetic of a rate that all nodes share, to be read: what `lease_starts.sql` has to answer.

A limit is one row with one number, `next_free_us`: the earliest instant that no start has been promised yet. Whoever
wants to start jobs leases the next few instants from it and moves the number on. Each instant is given away once, so
nodes need not know of each other. A node that falls behind lets the instants it missed go instead of catching up on
them: lost instants err on the slow side, late ones would crowd.

Instants are integer microseconds, and the spacing is the ceiling of one quotient of doubles, so that there is only one
way to round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StartLease:
    """Starts promised to one caller: `count` instants from `first_us` on, `spacing_us` apart.

    `next_free_us` is what the limit must remember for the next caller.
    """

    first_us: int
    count: int
    next_free_us: int
    spacing_us: int

    def instants_us(self) -> range:
        return range(self.first_us, self.first_us + self.count * self.spacing_us, self.spacing_us)


def spacing_us(per_second: float) -> int:
    """The distance between two starts, rounded up: a limit may be missed by a microsecond, never exceeded."""
    return math.ceil(SECOND_US / per_second)


def lease_starts(
    *, now_us: int, next_free_us: int, per_second: float, burst: int, wanted: int, window_us: int
) -> StartLease:
    """Lease up to `wanted` starts, none later than `now_us + window_us`.

    An idle limit saves up at most `burst - 1` starts: their instants lie in the past and mean "at once".
    Acted on at max(instant, now), no half-open second holds more than `ceil(per_second) + burst - 1` starts.
    A caller that asks for enough at least once in every window gets the full rate; one that asks less often
    lets instants pass. A clock that steps back makes callers wait and breaks nothing, because
    `next_free_us` only grows.
    """
    spacing = spacing_us(per_second)
    first = max(next_free_us, now_us - (burst - 1) * spacing)
    within_window = max(0, (now_us + window_us - first) // spacing + 1)
    count = min(wanted, within_window)
    next_free = first + count * spacing if count else next_free_us
    return StartLease(first_us=first, count=count, next_free_us=next_free, spacing_us=spacing)
