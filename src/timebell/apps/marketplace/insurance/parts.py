"""The parts that insurances bring to the app: handlers, guards, queues, measures, gauges and alert rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from timebell.apps.marketplace.insurance import handlers
from timebell.apps.marketplace.insurance.alerting import ALERTS
from timebell.apps.marketplace.insurance.monitoring import WARNINGS, monitor_insurance
from timebell.apps.marketplace.insurance.service import MONITOR, POLICIES
from timebell.apps.marketplace.insurance.stopping import RESUME_WORK, STOP_WORK, STOPS
from timebell.apps.marketplace.insurance.watching import GAUGES as SHOWN
from timebell.kernel import Handler, Job, Measure, Queue, TableGauge

__all__ = ["ALERTS", "GAUGES", "GUARDS", "HANDLERS", "MEASURES", "QUEUES"]

INSURANCE_QUEUE: Final = "insurance-monitor"

HANDLERS: Final[Mapping[str, Handler]] = {
    MONITOR: Handler(run=monitor_insurance, mode="transactional", queue=INSURANCE_QUEUE),
    STOP_WORK: Handler(run=handlers.stop_work, mode="transactional", queue=INSURANCE_QUEUE),
    RESUME_WORK: Handler(run=handlers.resume_work, mode="transactional", queue=INSURANCE_QUEUE),
    handlers.TELL_STOPPED: Handler(run=handlers.tell_stopped, mode="transactional", queue=INSURANCE_QUEUE),
}
GUARDS: Final[Mapping[str, Callable[[Job], Awaitable[bool]]]] = {handlers.IS_INVALID: handlers.is_invalid}
QUEUES: Final[Sequence[Queue]] = (Queue(name=INSURANCE_QUEUE),)
MEASURES: Final[Sequence[Measure]] = (
    Measure(
        name=POLICIES,
        about="What became of insurances: added, renewed, expired or invalidated.",
        labels=("what",),
    ),
    Measure(
        name=STOPS,
        about="Bookings that an insurance has stopped, those that went on, and of these those not paid for.",
        labels=("what",),
    ),
    Measure(
        name=WARNINGS,
        about="Warnings that an insurance ends: people who were told, and insurances of which nobody could be.",
        labels=("threshold", "outcome"),
    ),
)
GAUGES: Final[Sequence[TableGauge]] = SHOWN
