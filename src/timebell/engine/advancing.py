"""Time that is told to pass: a clock goes from instant to instant, and an engine pays at each what is due there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from timebell.clock import ManualClock
from timebell.engine.engine import Engine
from timebell.errors import InvalidInput

_INSTANTS_MAX = 1_000_000

Moved = Callable[[datetime], Awaitable[None]]


async def advance(engine: Engine, clock: ManualClock, to: datetime, *, moved: Moved | None = None) -> int:
    """Move the clock, stopping at every instant at which something is due, and run it there.

    What happens at T is stamped T, in order, as it would have been in real time. `moved` is told of each instant before
    the clock shows it; where it raises, the rest of the way is left. Answers with how many attempts were settled.
    """
    clock.check_ahead("to", to)
    settled = await engine.run_due()
    for _ in range(_INSTANTS_MAX):
        upcoming = await engine.upcoming()
        if upcoming is None or upcoming.instant >= to:
            break
        await _move(clock, upcoming.instant, moved)
        # It is told what is written meanwhile, and need not look everywhere each time.
        settled += await engine.run_next(upcoming)
    else:
        raise InvalidInput(
            f"{_INSTANTS_MAX} instants did not suffice, {clock.now.isoformat()} was reached; go on from there",
            field="to",
        )
    if to > clock.now:
        await _move(clock, to, moved)
        settled += await engine.run_due()
    return settled


async def _move(clock: ManualClock, instant: datetime, moved: Moved | None) -> None:
    if moved is not None:
        await moved(instant)
    clock.move_to(instant)
