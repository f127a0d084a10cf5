"""When an alert opens and when it closes: what was found, against what stands already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

# Whose it is and what it is about, in the order in which questions answer: byte by byte.
Place = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """An alert opens where the figure is beyond `opens_at` and comes of enough samples, once that has lasted for
    `holds_for`; at the bound itself it does not. It closes where the figure is no longer beyond `closes_at`."""

    opens_at: float = 0.0
    closes_at: float | None = None
    side: Literal["above", "below"] = "above"
    samples_min: int = 1
    holds_for: timedelta = timedelta(0)

    def is_over(self, value: float, samples: int) -> bool:
        return samples >= self.samples_min and self._is_beyond(value, self.opens_at)

    def is_still_over(self, value: float) -> bool:
        """However few samples there are by now: too few to begin with say nothing of an end either."""
        return self._is_beyond(value, self.opens_at if self.closes_at is None else self.closes_at)

    def _is_beyond(self, value: float, bound: float) -> bool:
        return value > bound if self.side == "above" else value < bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What a question answers about one place."""

    value: float
    samples: int = 1
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is written of a place: since when it is seen, and whether it is open by now."""

    seen_at: datetime
    is_open: bool
    detail: str = ""


@dataclass(slots=True)
class Decision:
    """What becomes of each place: `seen` is noted and may open later, `opened` is opened at once, `ripe` was noted and
    opens now, `worded` stays open and is said otherwise now, `closed` closes, and `forgotten` never opened."""

    seen: list[Place] = field(default_factory=list)
    opened: list[Place] = field(default_factory=list)
    ripe: list[Place] = field(default_factory=list)
    worded: list[Place] = field(default_factory=list)
    closed: list[Place] = field(default_factory=list)
    forgotten: list[Place] = field(default_factory=list)


def decide(
    bounds: Bounds, found: Mapping[Place, Figure], standing: Mapping[Place, Standing], now: datetime
) -> Decision:
    """What was found against what stands. Both speak of the same places: what is not found there is not so any more."""
    decision = Decision()
    for place, figure in found.items():
        if place not in standing and bounds.is_over(figure.value, figure.samples):
            (decision.seen if bounds.holds_for else decision.opened).append(place)
    for place, known in standing.items():
        now_found = found.get(place)
        if known.is_open:
            if now_found is None or not bounds.is_still_over(now_found.value):
                decision.closed.append(place)
            elif now_found.detail != known.detail:
                decision.worded.append(place)
        elif now_found is None or not bounds.is_over(now_found.value, now_found.samples):
            decision.forgotten.append(place)
        elif now - known.seen_at >= bounds.holds_for:
            decision.ripe.append(place)
    return decision


def is_within(place: Place, after: Place | None, until: Place | None) -> bool:
    """Whether a place lies in the part of a long answer that is looked at: behind one place, up to and with another."""
    is_behind = after is None or _bytes_of(place) > _bytes_of(after)
    return is_behind and (until is None or _bytes_of(place) <= _bytes_of(until))


def last_of(places: Iterable[Place]) -> Place | None:
    """The place up to which an answer goes that was cut off."""
    return max(places, key=_bytes_of, default=None)


def _bytes_of(place: Place) -> tuple[bytes, bytes]:
    tenant, subject = place
    return tenant.encode(), subject.encode()
