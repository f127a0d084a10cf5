"""Alert rules of notify: what is wrong with telling people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from timebell.kernel import AlertRule, Asked, Bounds, Finding
from timebell.notify.alerts.question_store import QuestionStore

_ROWS_MAX: Final = 10_000


async def failed_deliveries(asked: Asked) -> Sequence[Finding]:
    rows = await QuestionStore(asked.bell.clock).ask_deliveries(
        asked.session, seconds=asked.window.total_seconds(), rows_max=_ROWS_MAX
    )
    return [
        Finding(
            subject=f"channel:{row['channel']}",
            value=row["failed_count"] / row["ended_count"],
            samples=row["ended_count"],
            detail=f"{row['failed_count']} of {row['ended_count']} deliveries by {row['channel']} failed",
        )
        for row in rows
    ]


async def not_told(asked: Asked) -> Sequence[Finding]:
    """Of each tenant, since its own people know whom to call."""
    rows = await QuestionStore(asked.bell.clock).ask_not_told(
        asked.session,
        seconds=asked.window.total_seconds(),
        rows_max=_ROWS_MAX,
        after=asked.after,
        limit=asked.limit,
    )
    return [
        Finding(
            tenant=row["tenant"],
            value=row["not_told_count"],
            detail=f"{row['not_told_count']} could not be told of what does not wait within a day; the last was "
            f"{row['template']}" + (f" about {row['subject']}" if row["subject"] else ""),
        )
        for row in rows
    ]


RULES: Final = (
    AlertRule(
        name="deliveries_fail",
        severity="critical",
        about="More than one in twenty of what goes by a channel fails.",
        remedy="`timebell notifications list` and `timebell notifications explain ID` show the reasons.",
        question=failed_deliveries,
        bounds=Bounds(opens_at=0.05, samples_min=20),
        window=timedelta(hours=1),
    ),
    AlertRule(
        name="somebody_not_told",
        severity="critical",
        about="Somebody could not be told of what does not wait.",
        remedy="`timebell notifications attention` says who, and of what; call them.",
        question=not_told,
        window=timedelta(days=1),
    ),
)
