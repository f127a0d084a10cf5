"""Meetings in a world: see `tests.simulation.parts`."""

from __future__ import annotations

from dataclasses import replace

from tests.apps.meetings.simulation.attending import Meetings
from tests.simulation.parts import Part
from timebell.apps.meetings import APP

PART = Part(
    # Templates are shipped once, by those who meet.
    app=replace(APP, on_declare=None),
    queries=("timebell.apps.meetings.sql",),
    telling=(
        "lock_meeting",
        "lock_people",
        "take",
        "free_meeting",
        "move_meeting",
        "insert_status_event",
        "lock_agenda",
        "insert_jobs",
        "insert_meeting",
        "insert_reschedule_event",
        "insert_notifications",
        "COMMIT",
    ),
    plants="tests.apps.meetings.simulation.plants",
    make=Meetings,
    is_in=lambda scene: bool(scene.meetings_a_day),
)
