"""Everything that was ever written about money and states, in the order in which it came to be.

Triggers of the tests' own write it down, with the transaction it belongs to; what is rolled back is not there. So each
commit can be looked at as if somebody had stood beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

_TABLES = (
    "staffing_bookings",
    "time_log",
    "disputes",
    "incident_reports",
    "insurance_policies",
    "insurance_stops",
    "pending_payments",
    "payouts",
    "ledger_entries",
    "simulator_movements",
)
PREPARE = """
CREATE TABLE IF NOT EXISTS simulation.moves (number bigserial, commit text NOT NULL, place text NOT NULL,
    before jsonb, after jsonb);
CREATE OR REPLACE FUNCTION simulation.note_move() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO simulation.moves (commit, place, before, after)
    VALUES (pg_current_xact_id()::text, TG_TABLE_NAME,
        CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END, CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END);
    RETURN NULL;
END $$;
""" + "".join(
    f"CREATE OR REPLACE TRIGGER simulation_moves AFTER INSERT OR UPDATE OR DELETE ON marketplace.{table} "
    "FOR EACH ROW EXECUTE FUNCTION simulation.note_move();\n"
    for table in _TABLES
)
_READ = "SELECT number, commit, place, before, after FROM simulation.moves ORDER BY number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One row was written: what it was before, and what it is from then on."""

    number: int
    commit: str
    place: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def row(self) -> Mapping[str, Any]:
        row = self.after or self.before
        assert row is not None
        return row

    def was(self, name: str) -> Any:
        return None if self.before is None else self.before[name]


def read_moves(monitor: psycopg.Connection[Any]) -> Sequence[Move]:
    return [Move(**row) for row in monitor.execute(_READ).fetchall()]


def at_of(row: Mapping[str, Any], name: str) -> datetime:
    """An instant, as a row in JSON has it."""
    return datetime.fromisoformat(row[name])
