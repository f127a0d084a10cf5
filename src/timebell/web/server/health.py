"""`GET /health`: whether the engine is at work, when it last was, and how far it is behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from timebell.config import Settings
from timebell.engine import Engine
from timebell.kernel.insights import Pulse
from timebell.rules.localtime import show_instant


def health_of(
    complaints: Sequence[str], pulse: Pulse | None, engine: Engine | None, settings: Settings
) -> tuple[bool, dict[str, object]]:
    """What is told, and whether all is well: nothing is complained of, and somebody has looked for what is due within
    a lease. An engine of this process knows better than its last beat."""
    ages: Mapping[str, float] = {} if engine is None else engine.ages()
    if pulse is None:
        return False, _told(False, None, None, None)
    passed_at = _latest(pulse, pulse.passed_at, ages.get("sweep"))
    planned_at = _latest(pulse, pulse.planned_at, ages.get("planner"))
    still = timedelta(seconds=max(2 * settings.sweep_seconds, settings.lease_seconds))
    is_well = not complaints and passed_at is not None and pulse.now - passed_at <= still
    return is_well, _told(is_well, planned_at, passed_at, pulse.lateness_seconds)


def _latest(pulse: Pulse, said_at: datetime | None, age: float | None) -> datetime | None:
    own = None if age is None else pulse.now - timedelta(seconds=age)
    return max((at for at in (said_at, own) if at is not None), default=None)


def _told(
    is_well: bool, planned_at: datetime | None, passed_at: datetime | None, lag: float | None
) -> dict[str, object]:
    return {
        "status": "ok" if is_well else "unhealthy",
        "last_trigger_at": None if planned_at is None else show_instant(planned_at),
        "last_pass_at": None if passed_at is None else show_instant(passed_at),
        "queue_lag_seconds": lag,
    }
