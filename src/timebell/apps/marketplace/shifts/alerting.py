"""Alert rules about shifts: when a person is needed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from timebell.apps.marketplace.models import time_log_subject
from timebell.apps.marketplace.shifts.question_store import ShiftQuestionStore
from timebell.kernel import AlertRule, Asked, Finding


async def overdue_approvals(asked: Asked) -> Sequence[Finding]:
    """Whatever became of the job: where it fails, is dead, is held or was lost, the timesheet waits."""
    rows = await ShiftQuestionStore(asked.bell.clock).ask_overdue_approvals(
        asked.session, seconds=asked.window.total_seconds(), after=asked.after, limit=asked.limit
    )
    return [
        Finding(
            tenant=row["tenant"],
            subject=time_log_subject(row["id"]),
            value=1,
            detail=f"the timesheet {row['id']} should have been approved at {row['auto_approval_time'].isoformat()}",
        )
        for row in rows
    ]


ALERTS: Final[Sequence[AlertRule]] = (
    AlertRule(
        name="marketplace_auto_approval_fails",
        severity="critical",
        about="A timesheet that nobody verified in time was not approved by itself either.",
        remedy="`timebell dead list` and the log say why. What can be approved by then is, every hour.",
        question=overdue_approvals,
        window=timedelta(minutes=5),
    ),
)
