"""What was decided in a world otherwise than by somebody's turn, as far as people may not be told any more of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

_EVENTS = """
SELECT subject, occurred_at FROM timebell.events
WHERE name IN ('time_log.auto_approved', 'time_log.disputed') ORDER BY id
"""
# What has ended, and what has begun again: nobody is told any more what was to be said of it.
_ENDED = """
SELECT CASE place WHEN 'disputes' THEN 'dispute:' WHEN 'staffing_bookings' THEN 'staffing:' ELSE 'policy:' END
    || (after->>'id') AS subject, (after->>'updated_at')::timestamptz AS occurred_at FROM simulation.moves
WHERE (place = 'disputes' AND after->>'status' <> 'Open')
    OR (place = 'staffing_bookings' AND after->>'status' IN ('Cancelled', 'Completed'))
    OR (place = 'insurance_policies' AND before IS NOT NULL
        AND ((after->>'is_active')::boolean OR after->>'replaced_by' IS NOT NULL))
UNION ALL
SELECT 'dispute:' || d.id, b.updated_at FROM marketplace.disputes d JOIN marketplace.staffing_bookings b
    ON b.id = d.booking_id WHERE b.status = 'Cancelled'
ORDER BY 2, 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """The clock decided something about a subject."""

    subject: str
    at: datetime

    @property
    def invoked_at(self) -> datetime:
        return self.at

    @property
    def ends_at(self) -> datetime:
        return self.at

    @property
    def is_ending(self) -> bool:
        return True


def decided(monitor: psycopg.Connection[Any]) -> list[Happened]:
    rows = [row for sql in (_EVENTS, _ENDED) for row in monitor.execute(sql).fetchall()]
    return [Happened(subject=row["subject"], at=row["occurred_at"]) for row in rows]
