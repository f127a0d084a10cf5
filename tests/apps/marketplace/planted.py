"""Faults in the marketplace. They go with the app."""

from __future__ import annotations

from tests.apps.marketplace.planted_alerts import ALERTS
from tests.apps.marketplace.planted_disputes import DISPUTES
from tests.apps.marketplace.planted_insurance import INSURANCE
from tests.apps.marketplace.planted_money import MONEY
from tests.apps.marketplace.planted_searches import SEARCHES
from tests.apps.marketplace.planted_shifts import SHIFTS
from tests.apps.marketplace.planted_staffing import STAFFING
from tests.apps.marketplace.planted_tokens import TOKENS
from tests.apps.marketplace.planted_weekly import WEEKLY

PLANTED = [
    *ALERTS,
    *DISPUTES,
    *INSURANCE,
    *MONEY,
    *SEARCHES,
    *SHIFTS,
    *STAFFING,
    *TOKENS,
    *WEEKLY,
]
