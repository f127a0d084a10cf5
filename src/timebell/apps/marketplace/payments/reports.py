"""Reports (webhooks) of a payment provider: kept by its own name for each, and applied by a job.

The signature is checked on the bytes that came. The report names the tenant, since we gave the provider that name with
the charge, so it is kept behind the wall of that tenant; what comes twice is kept once. A node applies it by the state
of the payment, whatever the order in which reports come.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from timebell.apps.marketplace.models import By, payment_subject
from timebell.apps.marketplace.payments.applying import Applying
from timebell.apps.marketplace.payments.provider import Report
from timebell.apps.marketplace.payments.report_store import ReportStore
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.kernel import Done, Job, Outcome, Snooze, Timebell, Transaction

APPLY_REPORT: Final = "marketplace.apply_report"
_SOON: Final = timedelta(seconds=1)


class Reports:
    """Takes reports in. It needs no more than the right to write in the tenant that a report names."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = ReportStore(bell.clock)

    async def take(self, tx: Transaction, provider: str, report: Report) -> bool:
        """Keep a report, and have it applied; False where it came before."""
        if not await self._store.insert_report(tx, provider=provider, report=report):
            return False
        await self._bell.enqueue(
            tx,
            APPLY_REPORT,
            {"provider": provider, "event_id": report.event_id},
            subject=payment_subject(report.payment_id),
        )
        return True


async def apply_report(job: Job) -> Outcome:
    """`marketplace.apply_report`: what a report says becomes true of its payment, once. Whoever has the booking may
    wait for this very job, so nobody is waited for."""
    bell, tx = job.bell, job.tx
    store = ReportStore(bell.clock)
    named = {"provider": job.payload["provider"], "provider_event_id": job.payload["event_id"]}
    report = await store.read_report(tx, **named)
    if report is None:
        return Done()
    booking_id = await store.read_paid_booking(tx, payment_id=report.payment_id)
    if booking_id is None:
        await store.close_report(tx, **named, answer="unknown")
        return Done()
    booking = await Bookings(bell).hold_free(tx, booking_id)
    if booking is None:
        return Snooze(delay=_SOON, reason="the booking is being changed")
    answer = await Applying(bell).apply_report(tx, booking, report, by=By(correlation_id=job.correlation_id))
    await store.close_report(tx, **named, answer=answer)
    return Done()
