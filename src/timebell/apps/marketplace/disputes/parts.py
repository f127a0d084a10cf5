"""The parts that disputes bring to the app: handlers, guards, queues, measures and alert rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from timebell.apps.marketplace.disputes import handlers, retrying
from timebell.apps.marketplace.disputes.alerting import ALERTS
from timebell.apps.marketplace.disputes.guards import IS_UNRESOLVED, is_unresolved
from timebell.apps.marketplace.disputes.service import DISPUTES, TIME_OUT, TIME_OUT_QUEUE
from timebell.apps.marketplace.disputes.standing import RETRIES, RETRY_PAYMENT, RETRY_QUEUE, RETRY_RATE
from timebell.apps.marketplace.disputes.timing import TELL_UNRESOLVED
from timebell.apps.marketplace.payments.building import destination_of
from timebell.apps.marketplace.payments.payouts import MONEY
from timebell.apps.marketplace.shifts.sweeping import SWEEP
from timebell.kernel import Handler, Job, Measure, Queue

__all__ = ["ALERTS", "GUARDS", "HANDLERS", "MEASURES", "QUEUES"]

HANDLERS: Final[Mapping[str, Handler]] = {
    TIME_OUT: Handler(run=handlers.time_out_dispute, mode="transactional", queue=TIME_OUT_QUEUE, retry=MONEY),
    TELL_UNRESOLVED: Handler(
        run=handlers.tell_unresolved, mode="transactional", queue=TIME_OUT_QUEUE, retry=MONEY
    ),
    SWEEP: Handler(run=handlers.sweep, mode="transactional", queue="marketplace"),
    RETRY_PAYMENT: Handler(
        run=retrying.retry_payment, queue=RETRY_QUEUE, retry=RETRIES, destination=destination_of
    ),
}
GUARDS: Final[Mapping[str, Callable[[Job], Awaitable[bool]]]] = {IS_UNRESOLVED: is_unresolved}
QUEUES: Final[Sequence[Queue]] = (
    Queue(name=TIME_OUT_QUEUE),
    Queue(name=RETRY_QUEUE, rate=RETRY_RATE),
)
MEASURES: Final[Sequence[Measure]] = (
    Measure(
        name=DISPUTES,
        about="Disputes by what became of them: filed, not resolved in time, resolved, or in need of review.",
        labels=("what", "option"),
    ),
    Measure(
        name=retrying.PAYMENT_RETRIES,
        about="Payments after the last dispute of a booking, by what became of them.",
        labels=("outcome",),
    ),
    Measure(
        name=retrying.RETRY_SECONDS,
        about="From the resolution of the last dispute to the end of the payment that follows it.",
        sort="histogram",
    ),
)
