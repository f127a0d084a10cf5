"""What a schedule owes, told anew: an oracle that shares no code with what plans.

Wall times come from dateutil and from counting, instants from zoneinfo alone, and the rest is read from pages of the
specification: `recurrence.md` for gaps, folds and ends, `schedules.md` for overrides, steps and what goes stale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

from dateutil.rrule import rrulestr  # type: ignore[import-untyped]

from timebell.kernel.schedules.models import Schedule

HORIZON = timedelta(days=60)
NOTHING = timedelta(0)
EVERY = {f"every PT{hours}H": timedelta(hours=hours) for hours in (31, 36)}
CRON = {"cron 30 2 * * 1-5": "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=2;BYMINUTE=30;BYSECOND=0"}
Key = tuple[datetime, int]


@dataclass(frozen=True)
class Change:
    """What somebody said of one occurrence: it takes place then, or not at all where no time is given."""

    new_local: datetime | None
    payload: Mapping[str, Any] | None


@dataclass(frozen=True)
class Occurrence:
    original_local: datetime
    fold: int
    at: datetime


@dataclass(frozen=True)
class Owed:
    original_local: str
    occurs_at: str
    step: str
    due_at: datetime
    expires_at: datetime | None
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class Terms:
    """What decides when a schedule occurs."""

    recurrence: str | None
    timezone: str
    start_local: datetime
    until_local: datetime | None = None
    exdates: tuple[datetime, ...] = ()
    rdates: tuple[datetime, ...] = ()


def instant(local: datetime, zone: ZoneInfo) -> datetime:
    """The first pass of a fold; out of a gap by its length, which is what the offset before it makes of it."""
    return local.replace(tzinfo=zone, fold=0).astimezone(UTC)


def generated(schedule: Terms | Schedule) -> Iterator[Occurrence]:
    """What the recurrence gives, with single dates added and left out, in the order of instants."""
    zone = ZoneInfo(schedule.timezone)
    added = [Occurrence(local, 0, instant(local, zone)) for local in sorted({*schedule.rdates})]
    excluded, until, seen = {*schedule.exdates}, schedule.until_local, set[datetime]()
    # Clocks shift by less than a day, so what is later by two of them is later by the clock of the world.
    waiting = sorted(added, key=lambda one: one.at)
    for one in _by_rule(schedule, zone):
        while waiting and waiting[0].at <= one.at:
            yield from _allowed([waiting.pop(0)], excluded, until, seen)
        yield from _allowed([one], excluded, until, seen)
        if until is not None and one.original_local > until:
            break
    yield from _allowed(waiting, excluded, until, seen)


def _allowed(
    found: Sequence[Occurrence], excluded: set[datetime], until: datetime | None, seen: set[datetime]
) -> Iterator[Occurrence]:
    for one in found:
        is_over = until is not None and one.original_local > until
        if one.original_local not in excluded and not is_over and one.at not in seen:
            seen.add(one.at)
            yield one


def _by_rule(schedule: Terms | Schedule, zone: ZoneInfo) -> Iterator[Occurrence]:
    rule, start = schedule.recurrence, schedule.start_local
    if rule is None:
        yield Occurrence(start, 0, instant(start, zone))
    elif rule in EVERY:
        for number in count():
            at = instant(start, zone) + number * EVERY[rule]
            shown = at.astimezone(zone)
            yield Occurrence(shown.replace(tzinfo=None, fold=0), shown.fold, at)
    else:
        for local in rrulestr(CRON.get(rule, rule), dtstart=start):
            yield Occurrence(local, 0, instant(local, zone))


def owed(schedule: Schedule, changes: Mapping[Key, Change], since: datetime) -> list[Owed]:
    """Every step of every occurrence that the plan of this instant has, be it due or not."""
    zone = ZoneInfo(schedule.timezone)
    offsets = [step.offset or NOTHING for step in schedule.steps]
    reach = since + HORIZON - min([NOTHING, *offsets])
    waiting_max = {"latest": 1, "all": schedule.catch_up_max, "skip": 0}[schedule.catch_up]
    plan: list[tuple[Occurrence, Change | None, bool]] = []
    # Nothing beyond so many after all of these can matter.
    edge = max(reach, *(instant(local, zone) for local, _ in changes), *_moves(changes, zone), since)
    beyond = 0
    for one in generated(schedule):
        change = changes.get((one.original_local, one.fold))
        is_inside = since <= one.at < reach
        if change is not None and change.new_local not in (None, one.original_local):
            assert change.new_local is not None
            moved = Occurrence(one.original_local, one.fold, instant(change.new_local, zone))
            if one.at >= since or moved.at >= since:
                plan.append((moved, change, is_inside or since <= moved.at < reach))
        elif one.at >= since and (change is None or change.new_local is not None):
            plan.append((one, change, is_inside))
        beyond += one.at > edge
        if beyond > waiting_max:
            break
    instants = sorted(one.at for one, _, _ in plan)
    found: list[Owed] = []
    for one, change, is_inside in plan:
        later = [at for at in instants if at > one.at]
        overtaken = later[waiting_max - 1] if 0 < waiting_max <= len(later) else None
        is_past = one.at < since
        stale = _expiry(schedule, one.at, NOTHING, overtaken)
        if is_inside and not (is_past and stale is not None and stale <= since):
            found += _steps(schedule, one, change, overtaken)
    return found


def _moves(changes: Mapping[Key, Change], zone: ZoneInfo) -> list[datetime]:
    return [instant(each.new_local, zone) for each in changes.values() if each.new_local is not None]


def _steps(
    schedule: Schedule, one: Occurrence, change: Change | None, overtaken: datetime | None
) -> Iterator[Owed]:
    for step in schedule.steps:
        offset = step.offset or NOTHING
        about = {**schedule.payload, **step.payload, **((change and change.payload) or {})}
        yield Owed(
            original_local=one.original_local.isoformat(),
            occurs_at=one.at.isoformat(),
            step=step.key,
            due_at=one.at + offset,
            expires_at=_expiry(schedule, one.at, offset, overtaken),
            payload=about,
        )


def _expiry(
    schedule: Schedule, at: datetime, offset: timedelta, overtaken: datetime | None
) -> datetime | None:
    if schedule.catch_up == "skip":
        return at + offset + timedelta(seconds=60)
    grace = schedule.grace
    if grace is None and schedule.catch_up == "latest":
        grace = timedelta(minutes=15)
    ends = [] if grace is None else [at + offset + grace]
    if overtaken is not None:
        ends.append(overtaken + offset)
    return min(ends, default=None)
