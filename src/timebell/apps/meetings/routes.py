"""Everything that is served about meetings."""

from __future__ import annotations

from typing import Final

from timebell.apps.meetings import availability_routes, calendar_routes, meeting_routes

ROUTES: Final = (*meeting_routes.ROUTES, *availability_routes.ROUTES, *calendar_routes.ROUTES)
