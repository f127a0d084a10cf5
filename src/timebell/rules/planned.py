"""The records of planning, and what can be said of them without a calendar.

An occurrence is known by the wall time that the recurrence gave it, so it stays the same one when somebody moves it
or when the data of its timezone change.

Catch-up is one rule seen from two sides. An occurrence goes stale: after its grace, or when as many later ones are
due as the policy lets wait. What is planned ahead expires at that instant, so an outage of those who pay resolves
itself. What was never planned, because those who plan were away, is caught up if it is not stale yet and is missed
otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, NamedTuple
from uuid import UUID, uuid5

from timebell.rules.localtime import Adjusted, OnFold, OnGap

CatchUp = Literal["latest", "skip", "all"]
OccurrenceState = Literal["planned", "skipped", "missed"]
Key = tuple[datetime, int]

# What is planned of one schedule at once, besides what the longest of its offsets needs, and how much ahead of that: no
# transaction and no schedule is without bound, whatever a recurrence and its steps come to together.
PIECE_OCCURRENCES = 500
PIECE_JOBS = 5_000
LEAD_JOBS = 10_000
AHEAD_JOBS = 20_000
# Until then the planner will have looked. What is due before it does must be there by then.
SOON = timedelta(minutes=5)

GRACE = timedelta(minutes=15)
# With `skip` nothing is done late. This much is not lateness: somebody must notice and begin.
SKIP_GRACE = timedelta(seconds=60)

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFacts:
    """Everything about a schedule that decides when something is due. `offsets` are those of its steps."""

    recurrence: str | None
    timezone: str
    start_local: datetime
    until_local: datetime | None = None
    last_local: datetime | None = None
    exdates: tuple[datetime, ...] = ()
    rdates: tuple[datetime, ...] = ()
    on_gap: OnGap = "shift"
    on_fold: OnFold = "first"
    catch_up: CatchUp = "latest"
    catch_up_max: int = 100
    grace: timedelta | None = None
    offsets: tuple[timedelta, ...] = ()

    @property
    def lead(self) -> timedelta:
        """How long before an occurrence its first step is due."""
        return -min((timedelta(0), *self.offsets))

    @property
    def trail(self) -> timedelta:
        """How long after an occurrence its last step is due."""
        return max((timedelta(0), *self.offsets))

    @property
    def piece(self) -> int:
        """How many occurrences are planned at once: as many as their jobs allow, and at least one."""
        return max(1, min(PIECE_OCCURRENCES, PIECE_JOBS // max(1, len(self.offsets))))

    @property
    def piece_max(self) -> int:
        """How many they may be where more have steps that are due soon."""
        return self.piece + LEAD_JOBS // max(1, len(self.offsets))

    def ahead(self, count: int, span: timedelta) -> timedelta:
        """How far ahead it is planned where so many of its occurrences take so long."""
        return span * (AHEAD_JOBS / (count * max(1, len(self.offsets))))

    @property
    def over_after(self) -> timedelta:
        """How long after an occurrence there is nothing more to come of it."""
        return self.trail + (SKIP_GRACE if self.catch_up == "skip" else self.grace or GRACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """What somebody changed about one occurrence. Without a new wall time it is skipped."""

    original_local: datetime
    fold: int = 0
    new_local: datetime | None = None
    payload: Mapping[str, Any] | None = None

    @property
    def key(self) -> Key:
        return self.original_local, self.fold


class Planned(NamedTuple):
    """One occurrence as it should be. `overtaken_at` is when so many later ones are due that it need not be any more.

    `is_caught_up` marks one that was due before it could be planned and is not stale; `missed_count` says how many
    were.
    """

    original_local: datetime
    fold: int
    local: datetime
    occurs_at: datetime
    adjusted: Adjusted | None = None
    state: OccurrenceState = "planned"
    overtaken_at: datetime | None = None
    is_caught_up: bool = False
    missed_count: int = 0
    payload: Mapping[str, Any] | None = None

    @property
    def key(self) -> Key:
        return self.original_local, self.fold


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a look at a schedule found.

    Every occurrence before `planned_until` has been planned. `plan_at` is when to look again: when the next one comes
    within reach, or when the last one is over. With `is_over` there is nothing left to look for.
    """

    occurrences: tuple[Planned, ...]
    planned_until: datetime
    plan_at: datetime | None
    is_over: bool

    def counting(self, missed_before: int) -> Plan:
        """The same plan after so many were missed of which it does not know."""
        return replace(
            self,
            occurrences=tuple(
                one._replace(missed_count=one.missed_count + missed_before) if one.is_caught_up else one
                for one in self.occurrences
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Existing:
    """An occurrence as it is in the tables."""

    original_local: datetime
    fold: int
    occurs_at: datetime
    state: OccurrenceState = "planned"

    @property
    def key(self) -> Key:
        return self.original_local, self.fold


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How a new plan differs from what is there. What is skipped in both is in none of these."""

    added: tuple[Planned, ...]
    kept: tuple[tuple[Planned, Existing], ...]
    moved: tuple[tuple[Planned, Existing], ...]
    withdrawn: tuple[Existing, ...]
    skipped: tuple[Planned, ...]


@lru_cache(maxsize=20_000)
def occurrence_id(schedule_id: UUID, original_local: datetime, fold: int = 0) -> UUID:
    """The same for whoever asks and whenever, so that planning twice makes nothing twice."""
    name = original_local.replace(fold=0, microsecond=0).isoformat()
    return uuid5(schedule_id, f"{name}~2" if fold else name)


def expires_at(facts: ScheduleFacts, planned: Planned, offset: timedelta) -> datetime | None:
    """When a step of an occurrence is stale, which is after its due instant; None if it waits for ever."""
    due_at = planned.occurs_at + offset
    if facts.catch_up == "skip":
        return due_at + SKIP_GRACE
    grace = GRACE if facts.grace is None and facts.catch_up == "latest" else facts.grace
    ends = [] if grace is None else [due_at + max(grace, _SECOND)]
    if planned.overtaken_at is not None:
        ends.append(planned.overtaken_at + offset)
    return min(ends, default=None)


def compare(existing: Iterable[Existing], planned: Iterable[Planned]) -> Compared:
    """Match by identity. Something that is skipped now is withdrawn if it was owed before."""
    before = {one.key: one for one in existing}
    added: list[Planned] = []
    kept: list[tuple[Planned, Existing]] = []
    moved: list[tuple[Planned, Existing]] = []
    withdrawn: list[Existing] = []
    skipped: list[Planned] = []
    for one in planned:
        old = before.pop(one.key, None)
        is_owed = old is not None and old.state == "planned"
        if one.state != "planned":
            skipped.append(one)
            if old is not None and is_owed:
                withdrawn.append(old)
        elif old is None or not is_owed:
            added.append(one)
        else:
            (kept if old.occurs_at == one.occurs_at else moved).append((one, old))
    withdrawn += [old for old in before.values() if old.state == "planned"]
    return Compared(
        added=tuple(added),
        kept=tuple(kept),
        moved=tuple(moved),
        withdrawn=tuple(withdrawn),
        skipped=tuple(skipped),
    )
