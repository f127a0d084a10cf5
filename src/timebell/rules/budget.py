"""A budget of work for one answer. The rules know no clock, so work is counted in units instead of milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

from timebell.errors import RecurrenceError

# A unit is about half a microsecond of work, so that the whole allowance is spent in less than 150 ms.
WORK_MAX = 100_000
WORK_PER_OCCURRENCE = 16


@dataclass(slots=True, kw_only=True)
class Budget:
    """How much work may be done, in units, and how much was. Each occurrence that is found pays for a little more."""

    limit: int = WORK_MAX
    used: int = 0

    @property
    def is_spent(self) -> bool:
        return self.used > self.limit

    def spend(self, units: int) -> None:
        self.used += units
        if self.used > self.limit:
            raise RecurrenceError(
                part="recurrence",
                reason=f"its next occurrence was not found in {self.limit} steps of work",
                remedy="check whether its parts can ever agree, or use a longer FREQ",
            )

    def earn(self) -> None:
        self.limit += WORK_PER_OCCURRENCE
