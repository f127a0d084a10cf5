"""Outcomes: the answers of a handler. They are values; a handler that raises has a bug, and is tried again as if it had
answered `Retry`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from timebell.kernel.models import check_name
from timebell.rules.backoff import ErrorClass


@dataclass(frozen=True, slots=True)
class Done:
    """The job has been paid."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt failed; try again as the retry policy says, or after what the other side asked for."""

    error: str
    error_class: ErrorClass = "transient"
    after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Snooze:
    """Not now: run again at `until`, after `delay`, or else in a second. It does not count as an attempt.

    With a `cursor` it is a continuation: it goes on at once, and finds the cursor in `job.cursor`.
    """

    until: datetime | None = None
    delay: timedelta | None = None
    cursor: dict[str, Any] | None = None
    reason: str = "snoozed"


@dataclass(frozen=True, slots=True)
class Cancel:
    """The job is no longer wanted."""

    reason: str


@dataclass(frozen=True, slots=True)
class Dead:
    """The job can never succeed; it waits for an operator."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """What a guard may answer in the place of False, so that it is known why: in up to 200 characters."""

    why: str

    def __post_init__(self) -> None:
        check_name("why", self.why, required=True)

    def __bool__(self) -> bool:
        return False


Outcome = Done | Retry | Snooze | Cancel | Dead
