"""Everything that is served about staffing."""

from __future__ import annotations

from typing import Final

from timebell.apps.marketplace.staffing import booking_routes, company_routes, setting_routes, worker_routes

ROUTES: Final = (
    *company_routes.ROUTES,
    *worker_routes.ROUTES,
    *booking_routes.ROUTES,
    *setting_routes.ROUTES,
)
