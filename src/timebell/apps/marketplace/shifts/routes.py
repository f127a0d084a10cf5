"""Everything that is served about shifts."""

from __future__ import annotations

from typing import Final

from timebell.apps.marketplace.shifts import time_log_routes

ROUTES: Final = time_log_routes.ROUTES
