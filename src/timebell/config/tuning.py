"""Tuning: figures that Timebell chooses by itself, and why. Nobody who runs it could know one of them better.

Each of these was a setting once. Tests choose small ones, so that a limit is met with few rows, and simulations long
ones, since what they pay for is statements.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """The insides of a process. `Settings` carries it, and no file and no variable reaches it."""

    # Wake-ups for due jobs are rounded up to this, so that neighbours share one. Up, since nothing may begin
    # early; and by no more than what the timers of a busy loop are off by themselves.
    grid_ms: float = 1.0
    # How long before it is due a job is read, so that it can begin on the instant: twice the time between two looks.
    # Where looks are rarer it is as long as from one to the next. Farther ahead a plain job is asked for once more
    # before it begins, as its cancel may have come meanwhile.
    read_ahead_seconds: float = 1.0
    # How often everything that is due is looked at, however old. Only what every other way has missed is found by this,
    # so that it may be rare; it goes over each slot once.
    full_sweep_seconds: float = 60.0
    # Jobs that are held in memory: enough that a node has work while it reads on. What their payloads take has a limit
    # that is set, held_bytes_max; the rest waits in PostgreSQL.
    held_jobs_max: int = 20_000
    # Half of that for one tenant in one queue, so that nobody can fill the memory of a node alone.
    held_per_tenant_queue_max: int = 10_000
    # Schedules that are planned in one transaction: more of them take fewer round trips, and keep their rows locked for
    # longer, which whoever edits one waits for.
    plan_batch: int = 500
    # How often the planner looks, give or take a twelfth. What is created or edited is planned at once, and the rest is
    # planned for weeks ahead, so that a minute more or less is nothing to it.
    plan_seconds: float = 60.0
    # How far a step may be from its anchor, and a delay from now: ten years. A job that is meant is not owed later,
    # and a slip of the pen is found.
    offset_days_max: int = 3_660
    # How many days of the log of finished jobs have their partition ready. No job can finish on a day without one, so
    # this is how long its upkeep may fail before anybody suffers.
    log_partitions_ahead_days: int = 14


# Whoever still names one of these is told so, and not refused.
RETIRED: Final = frozenset(each.name for each in fields(Tuning))
