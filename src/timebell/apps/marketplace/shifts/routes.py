"""Everything that is served about shifts."""

from __future__ import annotations

from typing import Final

from timebell.apps.marketplace.shifts import dispute_routes, time_log_routes

ROUTES: Final = (*time_log_routes.ROUTES, *dispute_routes.ROUTES)
