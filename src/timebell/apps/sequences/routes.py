"""Everything that is served about sequences."""

from __future__ import annotations

from typing import Final

from timebell.apps.sequences import booking_routes, message_routes, seeing_routes, sequence_routes

ROUTES: Final = (
    *sequence_routes.ROUTES,
    *booking_routes.ROUTES,
    *message_routes.ROUTES,
    *seeing_routes.ROUTES,
)
