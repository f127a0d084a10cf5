"""Durable time for applications: tell Timebell what is owed, to whom and when, and it happens exactly then."""

from timebell.kernel import (
    AgendaDiff,
    App,
    Cancel,
    Cancelled,
    Dead,
    Done,
    Enqueue,
    Enqueued,
    Handler,
    Job,
    Outcome,
    Queue,
    Registry,
    Retry,
    Snooze,
    Step,
    Timebell,
    Transaction,
)
from timebell.rules.backoff import RetryPolicy
from timebell.version import __version__

__all__ = [
    "AgendaDiff",
    "App",
    "Cancel",
    "Cancelled",
    "Dead",
    "Done",
    "Enqueue",
    "Enqueued",
    "Handler",
    "Job",
    "Outcome",
    "Queue",
    "Registry",
    "Retry",
    "RetryPolicy",
    "Snooze",
    "Step",
    "Timebell",
    "Transaction",
    "__version__",
]
