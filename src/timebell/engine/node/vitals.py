"""Vital signs of a node, which it tells with each beat, so that any node can tell what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from timebell.engine.loop import Loop
from timebell.kernel.bell import Timebell

_HELD_MAX = 20
_REASON_CHARS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """How long ago its loops made their last pass, which queues it cannot serve and why, and what its own clock says.

    None where a loop does not go on by itself.
    """

    passed_seconds: float | None = None
    planned_seconds: float | None = None
    held: Sequence[str] = ()
    own_now: datetime | None = None


UNTOLD = Vitals()


def vitals_of(bell: Timebell, loops: Sequence[Loop], elapsed: float) -> Vitals:
    """Those of this process, at a moment of the event loop's time."""
    ages = ages_of(loops, elapsed)
    return Vitals(
        passed_seconds=ages.get("sweep"),
        planned_seconds=ages.get("planner"),
        held=_held(bell.holds.reasons),
        own_now=datetime.fromtimestamp(bell.chance.milliseconds() / 1_000, UTC),
    )


def ages_of(loops: Sequence[Loop], elapsed: float) -> Mapping[str, float]:
    """How long ago each loop made its last pass, by its name."""
    return {loop.name: elapsed - loop.passed for loop in loops if loop.passed is not None}


def _held(reasons: Mapping[str, str]) -> list[str]:
    """A queue has no space in its name."""
    return [f"{queue} {reason[:_REASON_CHARS_MAX]}" for queue, reason in sorted(reasons.items())][:_HELD_MAX]
