"""Faults in what the marketplace tells operators."""

from __future__ import annotations

from tests.mutants.planted import Planted

_ALERTS = ("tests/apps/marketplace/test_alerts.py",)
_PAYMENTS = "apps/marketplace/payments"

ALERTS = [
    Planted(
        name="alert-of-payments-that-were-called-off",
        file=f"{_PAYMENTS}/sql/ask_failed_payments.sql",
        old="p.status IN ('Failed', 'Succeeded', 'Refunded')",
        new="p.status <> 'Pending'",
        why="Weeks that were called off hide those that fail.",
        tests=_ALERTS,
    ),
    Planted(
        name="alert-of-payments-of-last-week",
        file=f"{_PAYMENTS}/sql/ask_failed_payments.sql",
        old="p.created_at > coalesce(:now::timestamptz, now()) - :seconds::double precision * interval '1 second'",
        new="coalesce(:now::timestamptz, now()) > '-infinity' AND :seconds::double precision > 0",
        why="A bad week is told of for ever.",
        tests=_ALERTS,
    ),
    Planted(
        name="alert-of-a-payment-that-is-not-overdue",
        file=f"{_PAYMENTS}/sql/ask_overdue_payments.sql",
        old="p.created_at <= coalesce(:now::timestamptz, now()) - :seconds::double precision * interval '1 second'",
        new="coalesce(:now::timestamptz, now()) > '-infinity' AND :seconds::double precision > 0",
        why="Every payment is told of as overdue while its report is on its way.",
        tests=_ALERTS,
    ),
    Planted(
        name="alert-of-an-approval-that-is-just-due",
        file="apps/marketplace/shifts/sql/ask_overdue_approvals.sql",
        old=" - :seconds::double precision * interval '1 second'",
        new=" - least(:seconds::double precision, 0) * interval '1 second'",
        why="Each approval is told of as failed in the moment in which it is due.",
        tests=_ALERTS,
    ),
    Planted(
        name="alert-of-a-shift-that-is-funded-by-now",
        file=f"{_PAYMENTS}/payouts.py",
        old="                await self._alerts.close(tx, SHIFT_UNFUNDED, subject=shift.subject)\n",
        new="",
        why="The money came, and somebody pays the lender a second time by hand.",
        tests=_ALERTS,
    ),
    Planted(
        name="nobody-hears-of-a-run-that-was-left-out",
        file=f"{_PAYMENTS}/cycles.py",
        old="        await Alerts(self._bell).open(job.tx, RUN_MISSED, subject=subject, detail=detail)\n",
        new="        del subject, detail\n",
        why="A week of a whole zone is not paid for, and nobody hears of it.",
        tests=("tests/apps/marketplace/test_cycles.py",),
    ),
    Planted(
        name="nobody-hears-of-a-booking-that-could-not-be-charged",
        file=f"{_PAYMENTS}/checking.py",
        old='        if what == "needs_review":\n',
        new='        if what == "needs_review" and data is None:\n',
        why="A booking waits for somebody to decide, and nobody hears of it.",
        tests=("tests/apps/marketplace/test_cutoff.py",),
    ),
    Planted(
        name="nobody-hears-of-shifts-that-could-not-be-cancelled",
        file="apps/marketplace/disputes/timing.py",
        old="        await self._alerts.open(tx, DISPUTE_REVIEW, subject=dispute.subject, detail=detail)\n",
        new="        del detail\n",
        why="Somebody works a shift that nobody will pay for, and nobody hears of it.",
        tests=("tests/apps/marketplace/test_dispute_timeout.py",),
    ),
]
