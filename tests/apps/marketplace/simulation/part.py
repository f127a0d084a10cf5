"""A marketplace in a world: see `tests.simulation.parts`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from unittest.mock import patch

from tests.apps.marketplace.simulation.market import Market
from tests.apps.marketplace.simulation.moves import PREPARE
from tests.simulation.parts import Part
from timebell.apps.marketplace import APP
from timebell.apps.marketplace.shifts import rules, sweeping

_ROOMS = ("staffing", "shifts", "payments", "disputes", "insurance", "searches", "tokens")
_SWEPT_EVERY = timedelta(hours=4)


@contextmanager
def _stretched() -> Iterator[None]:
    """What is looked through every hour is so every few."""
    with (
        patch.object(rules, "SWEPT_EVERY", _SWEPT_EVERY),
        patch.object(sweeping, "SWEPT_EVERY", _SWEPT_EVERY),
    ):
        yield


PART = Part(
    # The texts are shipped once, by those who settle in.
    app=replace(APP, on_declare=None),
    queries=tuple(f"timebell.apps.marketplace.{room}.sql" for room in _ROOMS),
    telling=(
        "lock_booking",
        "take_worker",
        "insert_shifts",
        "save_shift",
        "lock_agenda",
        "insert_dispute",
        "resolve_dispute",
        "deactivate_policy",
        "delete_stop",
        "insert_payout",
        "move_booking",
        "insert_entries",
        "insert_jobs",
        "COMMIT",
    ),
    telling_of_nodes=(
        "list_weekly_bookings",
        "insert_payment",
        "insert_movement",
        "insert_call",
        "settle_payment",
        "note_intent",
        "deactivate_expired",
        "insert_stop",
        "insert_report",
        "close_report",
        "move_charge",
        "insert_payout",
        "update_payout",
        "insert_entries",
        "lock_free_booking",
        "save_shift",
        "move_booking",
        "COMMIT",
    ),
    logs=("timebell.marketplace",),
    prepare=PREPARE,
    stretched=_stretched,
    texts={
        "marketplace.action_required": "Action Required",
        "marketplace.final_warning": "Final warning",
        "marketplace.worker_released": "Worker released",
        "marketplace.still_working": "Are you still working",
        "marketplace.clock_out_now": "URGENT: Clock Out",
        "marketplace.timesheet_submitted": "submitted. Verify:",
        "marketplace.timesheet_pending": "pending verification",
        "marketplace.timesheet_urgent": "will auto-approve in 1 hour",
        "marketplace.auto_approved": "auto-approved after 4 hours",
        "marketplace.dispute_unresolved": "unresolved after 3 hours",
        "marketplace.insurance_expiring": "is its last valid day",
        "marketplace.insurance_ended": "is not valid any more",
        "marketplace.insurance_invalid": "Work must stop immediately",
    },
    plants="tests.apps.marketplace.simulation.plants",
    make=Market,
    is_in=lambda scene: bool(scene.staffings_a_day),
)
