"""What users test with: a clock that moves when told, and Timebell on a real database."""

from timebell.testing.clock import ManualClock
from timebell.testing.harness import Harness, harness

__all__ = ["Harness", "ManualClock", "harness"]
