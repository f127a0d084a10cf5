"""What is owed about a subject, worked out once more and by other means, so that the app is not asked whether it is
right. It knows the source's words alone: steps and conditions as callers write them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

GRACE = timedelta(minutes=15)
# Sequence, entry, step, contact.
Name = tuple[str, int, str, str]
# What the plan says of a message that is not to be sent. Whatever else is said was found out at sending.
BY_PLAN = frozenset(
    {
        "past",
        "no_anchor",
        "min_days_out",
        "max_days_out",
        "subtype",
        "language",
        "phone",
        "status",
        "template_missing",
    }
)
_OFFSET = re.compile(r"(-?)P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A subject, as it stands. `dates_at` is when its dates were decided."""

    timezone: str
    start: datetime | None
    end: datetime | None
    subtype: str | None
    status: str | None
    dates_at: datetime
    people: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    language: str
    has_phone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """A sequence that a subject entered, as the version has it that counts for it."""

    sequence: str
    entry: int
    event_at: datetime
    conditions: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]]
    is_ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """A message: when it is due, from when on it is of no use, and every reason for which it is not to be sent."""

    due_at: datetime | None
    useless_at: datetime | None
    reasons: frozenset[str]

    def is_late(self, now: datetime) -> bool:
        """Whether it is too late to plan it only now."""
        assert self.due_at is not None
        is_useless = self.useless_at is not None and self.useless_at <= now
        return is_useless or now - self.due_at > GRACE


def expected(known: Known, contacts: Mapping[str, Contact], entered: Sequence[Entered]) -> dict[Name, Owed]:
    """Every message of a subject."""
    there = [id for id in known.people if id in contacts]
    return {
        (one.sequence, one.entry, step["key"], id): _owed(known, contacts[id], one, step)
        for one in entered
        if not one.is_ended
        for step in one.steps
        for id in (there if step.get("contacts") == "all" else there[:1])
    }


def _owed(known: Known, contact: Contact, one: Entered, step: Mapping[str, Any]) -> Owed:
    anchors = {"event_time": one.event_at, "booking_start": known.start, "booking_end": known.end}
    anchor = anchors[step.get("anchor") or "booking_start"]
    due_at = None if anchor is None else _due_at(step, anchor, ZoneInfo(known.timezone))
    is_before = step.get("anchor") != "event_time" and due_at is not None and due_at < (anchor or due_at)
    measured_at = max(one.event_at, known.dates_at)
    reasons = {"no_anchor"} if due_at is None else set()
    for conditions in (one.conditions, step.get("conditions") or {}):
        reasons |= {*_days(conditions, known, measured_at), *refusals(conditions, known, contact)}
    return Owed(due_at=due_at, useless_at=anchor if is_before else None, reasons=frozenset(reasons))


def _due_at(step: Mapping[str, Any], anchor: datetime, zone: ZoneInfo) -> datetime:
    found = _OFFSET.fullmatch(step["offset"])
    assert found is not None
    weeks, days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[1:])
    sign = -1 if found[1] else 1
    instant = anchor.astimezone(UTC)
    at = step.get("at")
    if weeks or days or at:
        wall = instant.astimezone(zone).replace(tzinfo=None) + sign * timedelta(weeks=weeks, days=days)
        if at:
            wall = datetime.combine(wall.date(), time.fromisoformat(at))
        instant = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    return instant + sign * timedelta(hours=hours, minutes=minutes, seconds=seconds)


def _days(conditions: Mapping[str, Any], known: Known, measured_at: datetime) -> Iterator[str]:
    if not conditions.keys() & {"minDaysOut", "maxDaysOut"}:
        return
    if known.start is None:
        yield "no_anchor"
        return
    zone = ZoneInfo(known.timezone)
    days = (known.start.astimezone(zone).date() - measured_at.astimezone(zone).date()).days
    if days < conditions.get("minDaysOut", days):
        yield "min_days_out"
    if days > conditions.get("maxDaysOut", days):
        yield "max_days_out"


def refusals(conditions: Mapping[str, Any], known: Known, contact: Contact) -> Iterator[str]:
    """What is asked as it is planned, and again at sending."""
    for name, word, value in (
        ("bookingSubtype", "subtype", known.subtype),
        ("status", "status", known.status),
        ("language", "language", contact.language),
    ):
        wanted = conditions.get(name)
        if wanted is not None and value not in ([wanted] if isinstance(wanted, str) else wanted):
            yield word
    if conditions.get("hasPhone", contact.has_phone) != contact.has_phone:
        yield "phone"
