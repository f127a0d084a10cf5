"""Alerts: rules as values, and the rows that open and close."""

from timebell.kernel.alerts.alerting import (
    AlertLine,
    AlertNews,
    AlertRule,
    Asked,
    BroughtRule,
    Finding,
    shortened,
)
from timebell.kernel.alerts.alerts import ENGINE, Acknowledged, Alerts, AlertState
from timebell.kernel.alerts.store import AlertStore

__all__ = [
    "ENGINE",
    "Acknowledged",
    "AlertLine",
    "AlertNews",
    "AlertRule",
    "AlertState",
    "AlertStore",
    "Alerts",
    "Asked",
    "BroughtRule",
    "Finding",
    "shortened",
]
