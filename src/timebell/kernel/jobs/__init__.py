"""Jobs: enqueued, seen by their handlers, answered with outcomes; which kinds and queues exist."""

from timebell.kernel.jobs.columns import shorten
from timebell.kernel.jobs.enqueueing import encode_payload
from timebell.kernel.jobs.job import Job
from timebell.kernel.jobs.outcomes import Cancel, Dead, Done, Outcome, Retry, Snooze

__all__ = [
    "Cancel",
    "Dead",
    "Done",
    "Job",
    "Outcome",
    "Retry",
    "Snooze",
    "encode_payload",
    "shorten",
]
