"""The parts that the weekly cycle brings to the app: handlers, queues and measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from timebell.apps.marketplace.payments import charging, cutoff, cycles, overdue, warning
from timebell.apps.marketplace.payments.applying import NOTICES, PAYMENTS
from timebell.apps.marketplace.payments.building import destination_of
from timebell.apps.marketplace.payments.payouts import MONEY
from timebell.kernel import Handler, Measure, Queue

_QUEUE: Final = "marketplace"
PAYMENTS_QUEUE: Final = "weekly-payments"
WARNINGS_QUEUE: Final = "weekly-payment-warning"
CUTOFFS_QUEUE: Final = "weekly-payment-cutoff"

HANDLERS: Final[Mapping[str, Handler]] = {
    cycles.ENQUEUE_PAYMENTS: Handler(run=cycles.enqueue_payments, mode="transactional", queue=_QUEUE),
    cycles.ENQUEUE_WARNINGS: Handler(run=cycles.enqueue_warnings, mode="transactional", queue=_QUEUE),
    cycles.ENQUEUE_CUTOFFS: Handler(run=cycles.enqueue_cutoffs, mode="transactional", queue=_QUEUE),
    cycles.CHARGE: Handler(
        run=charging.charge, queue=PAYMENTS_QUEUE, retry=MONEY, destination=destination_of
    ),
    overdue.WEBHOOK_OVERDUE: Handler(run=overdue.ask_again, queue=_QUEUE, retry=MONEY),
    cycles.WARN: Handler(run=warning.warn, mode="transactional", queue=WARNINGS_QUEUE, retry=MONEY),
    cycles.CUT_OFF: Handler(run=cutoff.cut_off, queue=CUTOFFS_QUEUE, retry=MONEY),
}
# Payments begin at this rate over all nodes together, whatever is due at once.
QUEUES: Final[Sequence[Queue]] = (
    Queue(name=PAYMENTS_QUEUE, rate=50),
    Queue(name=WARNINGS_QUEUE),
    Queue(name=CUTOFFS_QUEUE),
)
MEASURES: Final[Sequence[Measure]] = (
    Measure(
        name=cycles.WEEKLY_RUNS,
        about="Weekly runs of a zone that did not happen: skipped after the cutoff, or in need of review.",
        labels=("run", "outcome"),
    ),
    Measure(
        name=PAYMENTS,
        about="Weekly payments by what became of them; what needs review waits for somebody.",
        labels=("outcome",),
    ),
    Measure(name=NOTICES, about="What people were told about payments.", labels=("text",)),
    Measure(
        name=cutoff.RELEASES,
        about="Bookings at the cutoff that nobody had paid for: released, or in need of review.",
        labels=("outcome",),
    ),
)
