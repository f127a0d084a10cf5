"""Alert rules about insurances: when a person is needed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from timebell.apps.marketplace.insurance.question_store import InsuranceQuestionStore, Row
from timebell.kernel import AlertRule, Asked, Finding

UNPAID: Final = "marketplace_work_resumed_unpaid"
_SUBJECT: Final = "insurance"
# So long after midnight the daily run may still be on its way.
_RUNS: Final = timedelta(hours=1)


async def unwarned(asked: Asked) -> Sequence[Finding]:
    rows = await InsuranceQuestionStore(asked.bell.clock).ask_unwarned(
        asked.session, seconds=asked.window.total_seconds(), after=asked.after, limit=asked.limit
    )
    return [_finding(row, "end soon, and nobody was warned") for row in rows]


async def expired_active(asked: Asked) -> Sequence[Finding]:
    rows = await InsuranceQuestionStore(asked.bell.clock).ask_expired_active(
        asked.session, seconds=asked.window.total_seconds(), after=asked.after, limit=asked.limit
    )
    return [_finding(row, "have ended, and work goes on") for row in rows]


def _finding(row: Row, what: str) -> Finding:
    detail = f"{row['policy_count']} insurances {what}; the first date is {row['oldest'].isoformat()}"
    return Finding(tenant=row["tenant"], subject=_SUBJECT, value=row["policy_count"], detail=detail)


ALERTS: Final[Sequence[AlertRule]] = (
    AlertRule(
        name="marketplace_insurance_unwarned",
        severity="critical",
        about="Insurances end soon, and the daily run has warned nobody.",
        remedy="See whether the queue insurance-monitor runs, and `timebell dead list`; until then call the companies.",
        question=unwarned,
        window=_RUNS,
    ),
    AlertRule(
        name="marketplace_insurance_expired",
        severity="critical",
        about="Insurances have ended, and the daily run has not stopped the work.",
        remedy="See whether the queue insurance-monitor runs, and `timebell dead list`. "
        "POST /api/marketplace/policies/{id}/invalidate stops the work at once.",
        question=expired_active,
        window=_RUNS,
    ),
    AlertRule(
        name=UNPAID,
        severity="warning",
        about="Work goes on after a renewal, in a week that nobody has paid for.",
        remedy="The next Wednesday charges the week that comes, and POST /api/marketplace/bookings/{id}/pay at once.",
    ),
)
