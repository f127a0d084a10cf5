"""Insights: the read model of jobs, queues, nodes and schedules, for every front end."""

from timebell.kernel.insights.insights import Insights
from timebell.kernel.insights.records import (
    BreakerLine,
    Health,
    JobLine,
    LatenessSummary,
    ListedState,
    ParkedSchedule,
    PauseLine,
    Pulse,
    QueueDepth,
    QueueLine,
    TimezoneLine,
)
from timebell.kernel.insights.store import InsightsStore

__all__ = [
    "BreakerLine",
    "Health",
    "Insights",
    "InsightsStore",
    "JobLine",
    "LatenessSummary",
    "ListedState",
    "ParkedSchedule",
    "PauseLine",
    "Pulse",
    "QueueDepth",
    "QueueLine",
    "TimezoneLine",
]
