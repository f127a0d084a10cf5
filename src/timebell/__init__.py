"""Durable time for applications: tell Timebell what is owed, to whom and when, and it happens exactly then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timebell.kernel import (
    Agenda,
    AgendaDiff,
    App,
    Cancel,
    Cancelled,
    Dead,
    Done,
    Enqueue,
    Enqueued,
    EnqueueOptions,
    Handler,
    Job,
    NewScheduleOptions,
    Occurrence,
    OccurrenceChange,
    OrphanedOverride,
    Outcome,
    Queue,
    Refused,
    Registry,
    Retry,
    Schedule,
    ScheduleChange,
    ScheduleDiff,
    ScheduleOptions,
    Snooze,
    Step,
    Timebell,
    Transaction,
)
from timebell.rules.backoff import RetryPolicy
from timebell.version import __version__

if TYPE_CHECKING:
    from timebell.server import running

__all__ = [
    "Agenda",
    "AgendaDiff",
    "App",
    "Cancel",
    "Cancelled",
    "Dead",
    "Done",
    "Enqueue",
    "EnqueueOptions",
    "Enqueued",
    "Handler",
    "Job",
    "NewScheduleOptions",
    "Occurrence",
    "OccurrenceChange",
    "OrphanedOverride",
    "Outcome",
    "Queue",
    "Refused",
    "Registry",
    "Retry",
    "RetryPolicy",
    "Schedule",
    "ScheduleChange",
    "ScheduleDiff",
    "ScheduleOptions",
    "Snooze",
    "Step",
    "Timebell",
    "Transaction",
    "__version__",
    "running",
]


def __getattr__(name: str) -> Any:
    """Whoever only writes what is owed does not load the engine that pays it."""
    if name == "running":
        from timebell.server import running

        return running
    raise AttributeError(f"module 'timebell' has no attribute {name!r}")
