"""What must be in the database at the moment at which a message is acknowledged, since it never comes again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg

from tests.apps.scheduler.simulation.asked import Sending, Wish
from tests.history import Violation

_ROW = """
SELECT coalesce(r.due_at, r.start_at) AS first_at, s.status, owed.job_count,
    coalesce(owed.is_under_way, false) AS is_under_way
FROM scheduler.requests r LEFT JOIN scheduler.standings s USING (tenant, id)
CROSS JOIN LATERAL (
    SELECT count(*) AS job_count, bool_or(j.started_by IS NOT NULL OR j.cancel_requested_at IS NOT NULL
        OR j.id IN (SELECT c.job_id FROM timebell.cancel_requests c)) AS is_under_way
    FROM timebell.jobs j WHERE j.tenant = r.tenant AND j.kind = 'scheduler.fire' AND j.payload->>'id' = r.id
        AND j.payload->>'schedule_id' IS NULL
) owed
WHERE r.tenant = %s AND r.id = %s
"""
_FINAL = frozenset({"done", "cancelled"})


class Kept:
    """Looks at the database whenever something is acknowledged."""

    def __init__(self, monitor: psycopg.Connection[Any]) -> None:
        self._monitor = monitor
        self._ended: dict[tuple[str, str], str] = {}
        self.found: list[Violation] = []

    def look(
        self, sending: Sending, wish: Wish | None, dead: Mapping[str, Sequence[str]], now: datetime
    ) -> None:
        if sending.name in dead:
            return
        if wish is None:
            self._note("letters", sending, f"acknowledged ({sending.reason}), and there is no copy of it")
            return
        row = self._monitor.execute(_ROW, [wish.tenant, wish.id]).fetchone()
        if row is None:
            self._note("unkept", sending, "acknowledged, and nobody knows of it")
            return
        before = self._ended.get(wish.key, row["status"])
        if before != row["status"]:
            self._note("rows", sending, f"it was {before}, and is {row['status']}")
        if row["status"] in _FINAL:
            self._ended[wish.key] = row["status"]
        if row["job_count"] > 1:
            self._note("rows", sending, f"{row['job_count']} jobs are owed for it")
        text = _unwritten(row, sending, wish) if sending.sort == "request" else _uncancelled(row)
        if text is not None:
            self._note("unkept", sending, text)

    def _note(self, invariant: str, sending: Sending, text: str) -> None:
        key = f"{sending.tenant}/{sending.id}" if sending.id else sending.name
        text = f"{sending.sort} {sending.name}: {text}"
        self.found.append(Violation(invariant=invariant, key=key, text=text))


def _unwritten(row: Mapping[str, Any], sending: Sending, wish: Wish) -> str | None:
    """Whether the row says something else, although nobody else wrote it since."""
    if row["status"] is None:
        return None if wish.cancels else "acknowledged, and taken for cancelled, which nobody asked for"
    others = [each for each in wish.requests if each.instants != sending.instants]
    was_changed = any(
        each.is_under_way or (each.last_taken_at is not None and each.last_taken_at >= sending.sent_at)
        for each in others
    )
    if row["status"] in _FINAL or row["is_under_way"] or was_changed:
        return None
    if row["first_at"] != sending.instants[0]:
        return f"asked for {sending.instants[0].isoformat()}, and {row['first_at']} is written"
    return None


def _uncancelled(row: Mapping[str, Any]) -> str | None:
    """Whether it is still owed, and nothing of it under way."""
    is_owed = row["status"] == "pending" or row["job_count"]
    return f"{row['status']}, and it is still owed" if is_owed and not row["is_under_way"] else None
