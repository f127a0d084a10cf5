"""Whose turn it is at a provider with a rate: the tenants in a circle, and what is critical before the rest.

A pace keeps to a rate in every second, wherever that begins. Whoever starts late would lose what was free before, so a
tenth of a rate from ten on is kept back, and may be used to catch up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from typing import Generic, TypeVar

Id = TypeVar("Id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """A start every `spacing`; those of the last `slack` that nobody used may be made up for."""

    spacing: timedelta
    slack: timedelta

    @classmethod
    def of(cls, per_second: float) -> Pace:
        kept_back = int(per_second / 10)
        # Rounded up: a microsecond too little would let one more into some second.
        spacing = timedelta(microseconds=ceil(1_000_000 / (per_second - kept_back)))
        return cls(spacing=spacing, slack=spacing * kept_back)

    def starts_within(self, window: timedelta) -> int:
        """How many starts a window has, and one at least."""
        return max(1, ceil(window / self.spacing))


@dataclass(slots=True, kw_only=True)
class Line(Generic[Id]):
    """What waits for one tenant, each first come first. `last_turn` is the number of the last turn that it had."""

    tenant: str
    last_turn: int = 0
    critical: list[Id] = field(default_factory=list)
    others: list[Id] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen(Generic[Id]):
    """Whose turn it is, its number, and that of the turn before, which its tenant had."""

    tenant: str
    id: Id
    turn: int
    last_turn: int


def choose(lines: Sequence[Line[Id]], *, count: int, turn: int) -> list[Chosen[Id]]:
    """Who starts next, at most `count`; `turn` is the number of the turn before the first of them.

    Every second turn is for what is critical, of the tenant that has waited longest for a turn. In the others it is
    each tenant's turn, with what is critical first. So a flood holds up only the tenant whose it is, critical or not.
    """
    critical = {line.tenant: list(line.critical) for line in lines}
    others = {line.tenant: list(line.others) for line in lines}
    last = {line.tenant: line.last_turn for line in lines}
    chosen: list[Chosen[Id]] = []
    while len(chosen) < count:
        turn += 1
        waiting = [tenant for tenant in last if critical[tenant] or others[tenant]]
        urgent = [tenant for tenant in waiting if critical[tenant]]
        if not waiting:
            break
        tenant = min(urgent if urgent and turn % 2 else waiting, key=lambda one: (last[one], one))
        id = (critical[tenant] or others[tenant]).pop(0)
        chosen.append(Chosen(tenant=tenant, id=id, turn=turn, last_turn=last[tenant]))
        last[tenant] = turn
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Comer(Generic[Id]):
    """One that was called and has come. `id` None: it came before, keeps its place, and is not here just now."""

    id: Id | None
    turn: int
    last_turn: int


def instants(comers: Sequence[Comer[Id]], *, free: datetime, spacing: timedelta) -> dict[Id, datetime]:
    """When each of those who are here may start: first the tenants that had no turn for longest, whoever was called
    before. So one that was called and comes late, or several of one tenant that do, hold up nobody."""
    order = sorted(comers, key=lambda comer: (comer.last_turn, comer.turn))
    return {comer.id: free + spacing * place for place, comer in enumerate(order) if comer.id is not None}
