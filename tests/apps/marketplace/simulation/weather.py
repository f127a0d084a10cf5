"""The faults of the payment provider: each call of it finds other orders, which the seed draws just before.

What the provider does lies in tables of the simulator, so a call of it is some statements on the wire, and everything
that happens to a node may happen between any two of them.
"""

from __future__ import annotations

import random
from typing import Any

import orjson
import psycopg

from tests.simulation.wire import Statement

# Whoever uses up a fault has the row; then its orders stay as they are.
_ORDER = """
INSERT INTO marketplace.simulator_settings AS s (tenant, outcome, webhook_after, faults, updated_at)
SELECT 'default', %(outcome)s, %(after)s::float8 * interval '1 second', %(faults)s::text::jsonb, 'epoch'
WHERE NOT EXISTS (SELECT FROM marketplace.simulator_settings o WHERE o.tenant = 'default')
"""
_REORDER = """
UPDATE marketplace.simulator_settings SET outcome = %(outcome)s,
    webhook_after = %(after)s::float8 * interval '1 second', faults = %(faults)s::text::jsonb
WHERE tenant = (SELECT o.tenant FROM marketplace.simulator_settings o WHERE o.tenant = 'default'
    FOR UPDATE SKIP LOCKED)
"""
# How likely a fault is at each call, and which; one call in so many is never made good.
_FAULTS = {
    "charge": (0.35, ("unavailable", "timeout_before", "timeout_after", "timeout_after")),
    "lookup": (0.2, ("unavailable", "timeout_before", "timeout_after")),
    "cancel": (0.25, ("unavailable", "timeout_before", "timeout_after")),
    "refund": (0.3, ("unavailable", "timeout_before", "timeout_after", "timeout_after", "refuse")),
    "transfer": (0.3, ("unavailable", "timeout_before", "timeout_after", "timeout_after", "refuse")),
    "report": (0.4, ("lose", "repeat", "reorder")),
}
_OUTCOMES = {"succeed": 5.0, "decline": 1.5, "processing": 2.5, "timeout": 1.0}
# Late reports: some come after the cutoff.
_AFTER = (0.0, 0.0, 1.0, 700.0, 7_200.0, 36_000.0, 72_000.0)
_AFTER_CALMLY = (0.0, 1.0, 5_400.0)


class Weather:
    """Tells the simulator what to do."""

    def __init__(self, seed: int, monitor: psycopg.Connection[Any]) -> None:
        self._chance = random.Random(f"{seed}/weather")
        self._monitor = monitor
        self.is_calm = False
        # Where somebody has to be charged for certain.
        self.is_fair = False

    def change(self, statement: Statement) -> None:
        """Somebody is about to ask the provider for something."""
        if statement.name == "read_simulator":
            self._order(**self._drawn())

    def _order(self, **orders: Any) -> None:
        if not self._monitor.execute(_REORDER, orders).rowcount:
            self._monitor.execute(_ORDER, orders)

    def _drawn(self) -> dict[str, Any]:
        chance = self._chance
        (outcome,) = chance.choices(list(_OUTCOMES), list(_OUTCOMES.values()))
        after = chance.choice(_AFTER_CALMLY if self.is_calm else _AFTER)
        faults = [
            {"call": call, "fault": chance.choice(sorts), "times": 1}
            for call, (share, sorts) in _FAULTS.items()
            if chance.random() < share
        ]
        if self.is_calm:
            # Nothing goes wrong any more; a card without money in it is nothing that goes wrong.
            faults, outcome = [], "succeed" if outcome == "timeout" or self.is_fair else outcome
        if outcome == "processing":
            # What is processing and never told of would stay so for a month.
            after = max(after, 1.0)
        return {"outcome": outcome, "after": after, "faults": orjson.dumps(faults).decode()}
