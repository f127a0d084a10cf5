"""A gauge for operators: how many insurances end soon. What the daily run has left undone, `question_store` asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from timebell.apps.marketplace.insurance.question_store import InsuranceQuestionStore
from timebell.kernel import TableGauge

EXPIRING: Final = "marketplace_insurance_policies_expiring"

GAUGES: Final[Sequence[TableGauge]] = (
    TableGauge(
        name=EXPIRING,
        about="Active insurances by the days that are left; what has expired waits for the daily run.",
        label="days",
        store=InsuranceQuestionStore,
        ask=InsuranceQuestionStore.count_expiring,
    ),
)
