"""Findings of `timebell doctor` about a running Timebell, each with a remedy where a figure is not as it should be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from timebell.config import Settings
from timebell.kernel.events import UNSEALED_SECONDS_MAX
from timebell.kernel.insights import Health, ParkedSchedule

Verdict = Literal["ok", "warn", "fail"]

_SNAPSHOT_SECONDS_MAX = 600.0
_LATE_SECONDS_MAX = 60.0
_LOG_DAYS_MIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at; a remedy where it is not as it should be."""

    name: str
    verdict: Verdict
    found: str
    remedy: str | None = None


def nodes(health: Health) -> Finding:
    found = f"{health.node_count} alive, {health.unowned_slot_count} of 256 slots without one"
    if health.node_count and not health.unowned_slot_count:
        return Finding(name="nodes", verdict="ok", found=found)
    remedy = (
        "start `timebell up` or `timebell work`"
        if not health.node_count
        else "wait for a lease to pass; if it stays so, look at the logs of the nodes"
    )
    return Finding(name="nodes", verdict="warn", found=found, remedy=remedy)


def handlers(left: Mapping[str, int]) -> Finding:
    if not left:
        return Finding(name="handlers", verdict="ok", found="a living node can run every kind that is due")
    listed = ", ".join(f"{kind} ({count} due)" for kind, count in left.items())
    return Finding(
        name="handlers",
        verdict="warn",
        found=f"no living node has a handler for {listed}",
        remedy="start the program whose App brings that handler; what is due runs at once then",
    )


def lateness(health: Health) -> Finding:
    found = f"the oldest due job has waited {health.lateness_seconds:.1f} s"
    if health.lateness_seconds <= _LATE_SECONDS_MAX:
        return Finding(name="lateness", verdict="ok", found=found)
    remedy = "see `timebell queues list` for pauses and limits, or start another node"
    return Finding(name="lateness", verdict="warn", found=found, remedy=remedy)


def log(health: Health, settings: Settings) -> Finding:
    days = health.log_days_ahead
    found = f"prepared for {days} days ahead"
    if days >= min(_LOG_DAYS_MIN, settings.tuning.log_partitions_ahead_days):
        return Finding(name="job log", verdict="ok", found=found)
    return Finding(
        name="job log",
        verdict="warn" if days > 0 else "fail",
        found=found,
        remedy="a running node prepares it; start one, or look in its log for why it cannot",
    )


def schedules(parked: list[ParkedSchedule]) -> Finding:
    if not parked:
        return Finding(name="schedules", verdict="ok", found="none is parked")
    last = parked[0]
    many = f"{len(parked)} are parked, the last" if len(parked) > 1 else "one is parked"
    return Finding(
        name="schedules",
        verdict="warn",
        found=f"{many}, {last.id} of the tenant {last.tenant}: {last.reason}",
        remedy="correct it, or `timebell schedules resume ID` once the cause is gone; the others are planned",
    )


def snapshot(health: Health) -> Finding:
    holder = health.oldest_snapshot
    if holder is None or (holder.age_seconds or 0.0) <= _SNAPSHOT_SECONDS_MAX:
        return Finding(name="oldest snapshot", verdict="ok", found="none that is old")
    return Finding(
        name="oldest snapshot",
        verdict="warn",
        found=f"process {holder.pid} ({holder.application_name or holder.role}), {holder.age_seconds:.0f} s old",
        remedy=f"end that transaction; until then dead rows pile up: SELECT pg_terminate_backend({holder.pid})",
    )


def seals(health: Health) -> Finding:
    name = "audit trail"
    if health.unsealed_seconds <= UNSEALED_SECONDS_MAX:
        return Finding(name=name, verdict="ok", found="events are sealed")
    return Finding(
        name=name,
        verdict="warn",
        found=f"an event has had no seal for {health.unsealed_seconds / 3600:.1f} hours",
        remedy="a running node seals them; start one, or seal by hand with `timebell audit seal`",
    )
