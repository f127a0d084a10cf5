"""Everything that is served about the marketplace."""

from __future__ import annotations

from typing import Final

from timebell.apps.marketplace.disputes import routes as dispute_routes
from timebell.apps.marketplace.insurance import routes as insurance_routes
from timebell.apps.marketplace.payments import money_routes, paying_routes
from timebell.apps.marketplace.searches import routes as search_routes
from timebell.apps.marketplace.shifts import routes as shift_routes
from timebell.apps.marketplace.staffing import routes as staffing_routes
from timebell.apps.marketplace.tokens import routes as token_routes

ROUTES: Final = (
    *staffing_routes.ROUTES,
    *shift_routes.ROUTES,
    *dispute_routes.ROUTES,
    *money_routes.ROUTES,
    *paying_routes.ROUTES,
    *insurance_routes.ROUTES,
    *search_routes.ROUTES,
    *token_routes.ROUTES,
)
