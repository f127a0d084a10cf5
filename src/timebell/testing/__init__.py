"""Test tools for users: a clock that moves when told, Timebell on a real database, and assertions about it.

`timebell.testing.fixtures` is a pytest plugin that brings the database.
"""

from timebell.clock import ManualClock
from timebell.testing.asserting import EnqueuedJob, assert_enqueued, assert_not_enqueued
from timebell.testing.harness import Harness, harness
from timebell.testing.providers import RecordingProvider

__all__ = [
    "EnqueuedJob",
    "Harness",
    "ManualClock",
    "RecordingProvider",
    "assert_enqueued",
    "assert_not_enqueued",
    "harness",
]
