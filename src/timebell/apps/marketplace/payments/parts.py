"""The parts that the ledger, payouts and the payment provider bring to the app: handlers, guards, queues, measures and
alert rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from timebell.apps.marketplace.payments.alerting import ALERTS
from timebell.apps.marketplace.payments.building import destination_of
from timebell.apps.marketplace.payments.payouts import (
    MONEY,
    PAY_OUT,
    PAYOUTS,
    PAYOUTS_QUEUE,
    UNFUNDED,
    pay_out,
)
from timebell.apps.marketplace.payments.reports import APPLY_REPORT, apply_report
from timebell.apps.marketplace.payments.simulating import simulate_report
from timebell.apps.marketplace.payments.simulator import SIMULATE_REPORT
from timebell.apps.marketplace.staffing.guards import IS_GOING_ON, is_going_on
from timebell.kernel import Handler, Job, Measure, Queue

__all__ = ["ALERTS", "GUARDS", "HANDLERS", "MEASURES", "QUEUES"]

REPORTS_QUEUE: Final = "marketplace-payment-reports"

HANDLERS: Final[Mapping[str, Handler]] = {
    PAY_OUT: Handler(run=pay_out, queue=PAYOUTS_QUEUE, retry=MONEY, destination=destination_of),
    APPLY_REPORT: Handler(run=apply_report, mode="transactional", queue=REPORTS_QUEUE, retry=MONEY),
    SIMULATE_REPORT: Handler(run=simulate_report, mode="transactional", queue=REPORTS_QUEUE),
}
GUARDS: Final[Mapping[str, Callable[[Job], Awaitable[bool]]]] = {IS_GOING_ON: is_going_on}
QUEUES: Final[Sequence[Queue]] = (Queue(name=PAYOUTS_QUEUE), Queue(name=REPORTS_QUEUE))
MEASURES: Final[Sequence[Measure]] = (
    Measure(
        name=PAYOUTS,
        about="Transfers and refunds by what became of them; what needs review waits for somebody.",
        labels=("sort", "outcome"),
    ),
    Measure(name=UNFUNDED, about="Shifts that were verified without anything held for them."),
)
