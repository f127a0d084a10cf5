"""A schedule's plan between two instants: its recurrence, changes to single occurrences, and time that was lost."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from timebell.errors import RecurrenceError
from timebell.rules.budget import WORK_MAX, WORK_PER_OCCURRENCE, Budget
from timebell.rules.localtime import (
    Adjusted,
    at_instant,
    aware,
    end_of_gap,
    local_at,
    naive_utc,
    plain_local,
    zone,
)
from timebell.rules.planned import SOON, Key, Override, Plan, Planned, ScheduleFacts, expires_at
from timebell.rules.reading import read_recurrence
from timebell.rules.recurrence import last_local, read_series
from timebell.rules.rrule import Rule, Until
from timebell.rules.series import Found, Series

# A single date is a rule that ends with its first occurrence, so that one-offs need no code of their own.
ONE_OFF = "FREQ=DAILY;COUNT=1"

_TICK = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)


def end_local(
    recurrence: str | None, *, start_local: datetime, until_local: datetime | None, timezone: str
) -> datetime | None:
    """The last wall time that a recurrence can have: COUNT, UNTIL or until_local, whichever comes first."""
    rule = read_recurrence(recurrence or ONE_OFF)
    ends = [] if until_local is None else [plain_local(until_local, "until_local")]
    counted = last_local(recurrence or ONE_OFF, start_local=start_local)
    if counted is not None:
        ends.append(counted)
    if isinstance(rule, Rule) and rule.until is not None:
        until = rule.until
        ends.append(local_at(until.at, zone(timezone)) if until.form == "utc" else until.at)
    return min((end.replace(fold=0) for end in ends), default=None)


def series_of(facts: ScheduleFacts) -> Series:
    """The series of a schedule. Where COUNT was turned into a last wall time, nobody counts again."""
    series = read_series(
        facts.recurrence or ONE_OFF,
        start_local=facts.start_local,
        timezone=facts.timezone,
        exdates=facts.exdates,
        rdates=facts.rdates,
        until_local=facts.until_local,
        on_gap=facts.on_gap,
        on_fold=facts.on_fold,
    )
    rule = series.recurrence
    if facts.last_local is None or not isinstance(rule, Rule) or rule.count is None:
        return series
    until = Until(at=facts.last_local, form="local")
    return replace(series, recurrence=replace(rule, count=None, until=until))


def find_occurrence(facts: ScheduleFacts, original_local: datetime, fold: int = 0) -> Planned | None:
    """The occurrence of a wall time, as the recurrence gives it and nobody changed it; None where there is none."""
    return _generated(series_of(facts), plain_local(original_local, "original_local"), fold)


def is_first(facts: ScheduleFacts, one: Planned) -> bool:
    """Whether a series begins with this occurrence."""
    first = next(series_of(facts).found(None, None, Budget()), None)
    return first is not None and _planned(first).key == one.key


def remaining_recurrence(facts: ScheduleFacts, one: Planned) -> str | None:
    """The recurrence of a series that goes on with this occurrence as its first: what is left of COUNT, or all of it.

    None where the recurrence itself does not have the occurrence, which was added as a single date.
    """
    assert facts.recurrence is not None
    series = series_of(replace(facts, last_local=None))
    if _generated(replace(series, added=()), one.original_local, one.fold) is None:
        return None
    rule = series.recurrence
    if not isinstance(rule, Rule) or rule.count is None:
        return facts.recurrence
    wall = replace(series, timezone=None, excluded=frozenset(), added=(), until=None)
    budget = Budget(limit=WORK_MAX + WORK_PER_OCCURRENCE * rule.count)
    passed = sum(1 for _ in wall.found(None, one.original_local, budget))
    return re.sub(r"(?i)\bCOUNT=\d+", f"COUNT={rule.count - passed}", facts.recurrence)


def orphans(facts: ScheduleFacts, overrides: Iterable[Override]) -> list[Override]:
    """The overrides of occurrences that there are no more."""
    series = series_of(facts)
    return [one for one in overrides if _generated(series, one.original_local, one.fold) is None]


def moved_to(facts: ScheduleFacts, local: datetime) -> tuple[datetime, Adjusted | None]:
    """The instant of a wall time that somebody chose for one occurrence; one in a gap is shifted, never dropped."""
    instant, adjusted = at_instant(
        plain_local(local, "start_local"), zone(facts.timezone), "shift", facts.on_fold
    )
    assert instant is not None
    return aware(instant), adjusted


class Window(NamedTuple):
    """What one plan holds: `limit` occurrences, or up to `most` while they are before `soon_to`, and none beyond."""

    limit: int
    most: int
    soon_to: datetime
    reach_to: datetime

    def holds(self, place: int, occurs_at: datetime) -> bool:
        most = self.most if occurs_at < self.soon_to else self.limit
        return place < most and occurs_at < self.reach_to


def plan(
    facts: ScheduleFacts,
    overrides: Sequence[Override] = (),
    *,
    cursor: datetime,
    now: datetime,
    horizon: timedelta,
    limit: int | None = None,
) -> Plan:
    """Plan from the cursor to the horizon and the schedule's lead, at most `limit` of what the recurrence gives, or a
    piece. Where that is less than all, the next look is due at once, or when what is ahead has become less than enough.

    What was due before now is caught up or missed. Bounds are half open: what is due at the cursor belongs to this
    plan, and what is due at its `planned_until` to the next.
    """
    reach = horizon + facts.lead
    window = Window(
        limit=facts.piece if limit is None else limit,
        most=facts.piece_max if limit is None else limit,
        soon_to=now + facts.lead + SOON,
        reach_to=now + reach,
    )
    series, changes = series_of(facts), {one.key: one for one in overrides}
    generated = _look(facts, series, changes, cursor, window)
    inside = [one for place, one in enumerate(generated) if window.holds(place, one.occurs_at)]
    following = generated[len(inside)].occurs_at if len(generated) > len(inside) else None
    planned_until = now + reach if following is None else min(following, now + reach)
    timeline, moved_in = generated, []
    if changes:
        moved_in = _moved_in(facts, series, changes, {one.key for one in inside}, cursor)
        timeline = [_changed(facts, one, changes.get(one.key)) for one in generated]
        timeline += [one for one in moved_in if one.key not in {other.key for other in timeline}]
    wanted = timeline[: len(inside)] + [one for one in moved_in if one.occurs_at < planned_until]
    if changes and following is not None:
        timeline = _followed(facts, series, changes, wanted, timeline, following)
    occurrences = _settle(facts, wanted, timeline, now)
    later = [one.occurs_at for one in moved_in if one.occurs_at >= planned_until]
    upcoming = min([*later, *([] if following is None else [following])], default=None)
    if upcoming is not None:
        if following is not None and len(inside) >= window.limit:
            enough = facts.ahead(len(inside), following - inside[0].occurs_at)
            reach = min(horizon, enough) + facts.lead
        # A tick later it is within the window, which does not hold its own end; who looked at once would look for ever.
        plan_at = upcoming - reach + _TICK
        return Plan(occurrences=occurrences, planned_until=planned_until, plan_at=plan_at, is_over=False)
    last = _last_of(facts, series, changes, now, window.limit)
    over_at = now if last is None else last + facts.over_after
    return Plan(
        occurrences=occurrences,
        planned_until=planned_until,
        plan_at=over_at if over_at > now else None,
        is_over=over_at <= now,
    )


def _look(
    facts: ScheduleFacts,
    series: Series,
    changes: Mapping[Key, Override],
    cursor: datetime,
    window: Window,
) -> list[Planned]:
    """What the recurrence gives from the cursor on, and beyond the end of the plan as far as staleness is decided.

    The first beyond the end must be found, since it says when to plan again. Others may be centuries away.
    """
    ahead = facts.catch_up_max if facts.catch_up == "all" else 1
    budget = Budget()
    result: list[Planned] = []
    is_beyond = False
    try:
        for found in series.found(_just_before(cursor), None, budget):
            budget.earn()
            one = _planned(found)
            is_beyond = not window.holds(len(result), one.occurs_at)
            if is_beyond:
                override = changes.get(one.key)
                ahead -= override is None or override.new_local is not None
            result.append(one)
            if ahead == 0:
                break
    except RecurrenceError:
        if not (is_beyond and budget.is_spent):
            raise
    return result


def _followed(
    facts: ScheduleFacts,
    series: Series,
    changes: Mapping[Key, Override],
    wanted: Iterable[Planned],
    timeline: Iterable[Planned],
    since: datetime,
) -> list[Planned]:
    """The timeline with what overtakes occurrences that were moved beyond the plan, to where nobody has looked."""
    known = {one.key: one for one in timeline}
    budget = Budget()
    for moved in wanted:
        if moved.occurs_at < since or moved.state != "planned":
            continue
        later = series.found(naive_utc(moved.occurs_at, "start_local"), None, budget)
        # What was moved or skipped itself is in the timeline already, or nowhere.
        unchanged = (one for one in map(_planned, later) if one.key not in changes)
        try:
            for one in islice(unchanged, _waiting_max(facts)):
                budget.earn()
                known.setdefault(one.key, one)
        except RecurrenceError:
            if not budget.is_spent:
                raise
            break
    return list(known.values())


def _just_before(instant: datetime) -> datetime:
    return naive_utc(instant, "cursor") - _TICK


def _planned(found: Found) -> Planned:
    local = found.local.replace(fold=0)
    return Planned(
        original_local=local,
        fold=found.local.fold,
        local=local,
        occurs_at=aware(found.instant),
        adjusted=found.adjusted,
    )


def _changed(facts: ScheduleFacts, one: Planned, override: Override | None) -> Planned:
    if override is None:
        return one
    if override.new_local is None:
        return one._replace(state="skipped", payload=override.payload)
    if override.new_local == one.original_local:
        return one._replace(payload=override.payload)
    occurs_at, adjusted = moved_to(facts, override.new_local)
    return one._replace(
        local=override.new_local, occurs_at=occurs_at, adjusted=adjusted, payload=override.payload
    )


def _moved_in(
    facts: ScheduleFacts, series: Series, changes: Mapping[Key, Override], inside: set[Key], cursor: datetime
) -> list[Planned]:
    """Occurrences that belong elsewhere by their recurrence and were moved to the cursor or behind it."""
    result = []
    for override in changes.values():
        if override.new_local is None or override.key in inside:
            continue
        if moved_to(facts, override.new_local)[0] < cursor:
            continue
        one = _generated(series, override.original_local, override.fold)
        if one is not None:
            result.append(_changed(facts, one, override))
    return result


def _generated(series: Series, original_local: datetime, fold: int) -> Planned | None:
    """Found by looking at the few instants at which the clocks can show a wall time, or make up for it."""
    timezone = series.timezone
    assert timezone is not None
    candidates = [
        instant
        for instant in (
            at_instant(original_local, timezone, "shift", "first").instant,
            at_instant(original_local, timezone, "shift", "second").instant,
        )
        if instant is not None
    ]
    if not candidates:
        return None
    if at_instant(original_local, timezone).adjusted == "gap":
        candidates.append(end_of_gap(original_local, timezone))
    try:
        after, before = min(candidates) - _SECOND, max(candidates) + _SECOND
    except OverflowError:
        return None
    budget = Budget()
    for found in series.found(after, before, budget):
        budget.earn()
        if (found.local.replace(fold=0), found.local.fold) == (original_local, fold):
            return _planned(found)
    return None


def _settle(
    facts: ScheduleFacts, wanted: Iterable[Planned], timeline: Iterable[Planned], now: datetime
) -> tuple[Planned, ...]:
    """Say of each occurrence that is wanted when it is overtaken, and of each that is past what becomes of it."""
    instants = sorted(one.occurs_at for one in timeline if one.state == "planned")
    waiting_max = _waiting_max(facts)
    settled: list[Planned] = []
    missed_count = 0
    for one in wanted:
        if one.state == "planned":
            place = bisect_right(instants, one.occurs_at) + waiting_max - 1
            if waiting_max and place < len(instants):
                one = one._replace(overtaken_at=instants[place])
            if one.occurs_at < now:
                stale_at = expires_at(facts, one, timedelta(0))
                is_missed = stale_at is not None and stale_at <= now
                missed_count += is_missed
                one = one._replace(state="missed") if is_missed else one._replace(is_caught_up=True)
        settled.append(one)
    return tuple(
        one._replace(missed_count=missed_count) if one.is_caught_up and missed_count else one
        for one in sorted(settled, key=lambda one: (one.occurs_at, one.key))
    )


def _waiting_max(facts: ScheduleFacts) -> int:
    """How many later occurrences are due before one need not be done any more."""
    return {"latest": 1, "all": facts.catch_up_max, "skip": 0}[facts.catch_up]


def _last_of(
    facts: ScheduleFacts, series: Series, changes: Mapping[Key, Override], now: datetime, limit: int
) -> datetime | None:
    """The last instant of a series that has an end, as far as it can be seen from now."""
    budget = Budget()
    last: datetime | None = None
    for found in islice(series.found(_just_before(now - facts.over_after), None, budget), limit):
        budget.earn()
        one = _changed(facts, _planned(found), changes.get((found.local.replace(fold=0), found.local.fold)))
        if one.state == "planned":
            last = one.occurs_at if last is None else max(last, one.occurs_at)
    for moved in _moved_in(facts, series, changes, set(), now - facts.over_after):
        last = moved.occurs_at if last is None else max(last, moved.occurs_at)
    return last
