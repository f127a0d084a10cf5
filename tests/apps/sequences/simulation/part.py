"""Bookings in a world: see `tests.simulation.parts`."""

from __future__ import annotations

from tests.apps.sequences.simulation.guests import Guests
from tests.simulation.parts import Part
from timebell.apps.sequences import APP

PART = Part(
    app=APP,
    queries=("timebell.apps.sequences.sql",),
    telling=(
        "lock_subjects",
        "lock_free_subject",
        "insert_subjects",
        "update_subject",
        "replace_people",
        "insert_enrolments",
        "end_enrolments",
        "move_enrolments",
        "write_messages",
        "cancel_messages",
        "read_wanted",
        "lock_agenda",
        "insert_jobs",
        "COMMIT",
    ),
    plants="tests.apps.sequences.simulation.plants",
    make=Guests,
    is_in=lambda scene: bool(scene.bookings_a_day),
)
