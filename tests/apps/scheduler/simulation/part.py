"""The scheduler over a broker in a world: see `tests.simulation.parts`."""

from __future__ import annotations

from tests.apps.scheduler.simulation.services import Services
from tests.simulation.parts import Part
from timebell.apps.scheduler import with_broker

PART = Part(
    app=with_broker(None),
    queries=("timebell.apps.scheduler.sql",),
    telling=(
        "lock_requests",
        "read_standings",
        "insert_jobs",
        "insert_requests",
        "replace_requests",
        "cancel_jobs",
        "cancel_requests",
        "insert_tombstones",
        "insert_schedule",
        "COMMIT",
        "COMMIT",
    ),
    plants="tests.apps.scheduler.simulation.plants",
    make=Services,
    is_in=lambda scene: bool(scene.requests_a_day),
)
