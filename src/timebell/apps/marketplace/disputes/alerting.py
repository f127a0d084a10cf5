"""Alert rules about disputes: when a person is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from timebell.kernel import AlertRule

DISPUTE_REVIEW: Final = "marketplace_dispute_needs_review"

ALERTS: Final[Sequence[AlertRule]] = (
    AlertRule(
        name=DISPUTE_REVIEW,
        severity="critical",
        about="A dispute has timed out, and not all shifts to come could be cancelled.",
        remedy="`timebell dead list` says why; mend that, then `timebell jobs revive`.",
    ),
)
