"""From when on a job is taken for what its nodes died of.

Nobody sees who ended a process. A job that does so ends it each time; one that only was there does not. So suspects run
with ever less beside them, and only what happens to a job that runs by itself counts against it.
"""

from __future__ import annotations

# After one crash a job runs with few others, after two with nothing beside it. Three more, and it was the job; where
# nodes die that no job explains, it takes one more for each of those.
ALONE_FROM = 2
CRASHES_MAX = ALONE_FROM + 3
# However many nodes die of something else: a killer must not go on for ever among them.
STARTS_MAX = 20
# Nor among crashes that prove nothing: a handler that stops the loop of its process for longer than a lease never comes
# to an end, and its process lives on each time.
UNPROVEN_STARTS_MAX = 10


def must_be_alone(crash_count: int) -> bool:
    return crash_count >= ALONE_FROM


def is_cause(crash_count: int) -> bool:
    """Whether so many crashes are the job's doing: it is dead."""
    return crash_count >= CRASHES_MAX
