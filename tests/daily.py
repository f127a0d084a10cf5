"""One seed for each day: what is tried changes from day to day, and a day can be played again.

Property tests that bring no seed of their own draw from it, and other tests that want chance ask `daily_seed()`.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

# Not called TIMEBELL_…: those are settings, and one that nobody knows is refused.
VARIABLE = "PYTEST_TIMEBELL_SEED"


def daily_seed() -> int:
    """The day of the world's calendar as a number, such as 20260314, unless the environment names another seed."""
    chosen = os.environ.get(VARIABLE)
    if chosen is None:
        return int(datetime.now(UTC).strftime("%Y%m%d"))
    if not (chosen.isascii() and chosen.isdigit() and len(chosen) <= 18):
        raise ValueError(f"{VARIABLE} is a whole number of up to 18 digits, not {chosen[:40]!r}")
    return int(chosen)


def pin_seed() -> int:
    """The seed from here on, for this process and those that it starts: a run that passes midnight keeps its seed."""
    seed = daily_seed()
    os.environ[VARIABLE] = str(seed)
    return seed
