"""The parts that shifts bring to the app: handlers, guards, queues, measures and alert rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from timebell.apps.marketplace.shifts import guards, handlers
from timebell.apps.marketplace.shifts.alerting import ALERTS
from timebell.apps.marketplace.shifts.ending import CANCEL_REST, UNCANCELLED
from timebell.apps.marketplace.shifts.owing import (
    APPROVE_QUEUE,
    AUTO_APPROVE,
    CLIMB,
    CLIMB_QUEUE,
    REMIND,
    REMIND_QUEUE,
)
from timebell.apps.marketplace.shifts.service import TIMESHEETS
from timebell.apps.marketplace.shifts.sweeping import REPAIRED
from timebell.kernel import Handler, Job, Measure, Queue

__all__ = ["ALERTS", "GUARDS", "HANDLERS", "MEASURES", "QUEUES"]

_QUEUE: Final = "marketplace"

HANDLERS: Final[Mapping[str, Handler]] = {
    REMIND: Handler(run=handlers.remind_clock_out, mode="transactional", queue=REMIND_QUEUE),
    CLIMB: Handler(run=handlers.climb_ladder, mode="transactional", queue=CLIMB_QUEUE),
    AUTO_APPROVE: Handler(run=handlers.auto_approve, mode="transactional", queue=APPROVE_QUEUE),
    CANCEL_REST: Handler(run=handlers.cancel_shifts, mode="transactional", queue=_QUEUE),
}
GUARDS: Final[Mapping[str, Callable[[Job], Awaitable[bool]]]] = {
    guards.IS_WORKING: guards.is_working,
    guards.IS_PENDING: guards.is_pending,
    guards.IS_AUTO_APPROVED: guards.is_auto_approved,
}
QUEUES: Final[Sequence[Queue]] = tuple(
    Queue(name=name) for name in (REMIND_QUEUE, CLIMB_QUEUE, APPROVE_QUEUE)
)
MEASURES: Final[Sequence[Measure]] = (
    Measure(
        name=TIMESHEETS, about="Timesheets that were verified, by a person or by the clock.", labels=("by",)
    ),
    Measure(name=REPAIRED, about="What was owed about shifts, was lost, and is owed again."),
    Measure(name=UNCANCELLED, about="Shifts that could not be cancelled with their booking."),
)
