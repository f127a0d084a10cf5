"""What there is to look at once a world is over, and what may explain that something did not happen in time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

import psycopg

from tests.history import Record, Violation
from tests.simulation.callers import tenant_of
from tests.simulation.post import Post
from tests.simulation.process import LEASE_SECONDS

# A node that died is taken for dead when its lease ends, and is missed for some time longer.
_MISSED = timedelta(seconds=LEASE_SECONDS * 1.5)
# A hint leaves a moment after the commit that it tells of.
_ABOUT = timedelta(minutes=1)


class Change(Protocol):
    """Somebody changed what is owed about a subject, or tried to."""

    @property
    def subject(self) -> str: ...

    @property
    def invoked_at(self) -> datetime: ...

    @property
    def ends_at(self) -> datetime: ...

    @property
    def is_ending(self) -> bool:
        """Whether nothing may be owed about it from then on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A world that is over. What was due `grace` before `until` must be over, too."""

    history: Sequence[Record]
    post: Post
    monitor: psycopg.Connection[Any]
    until: datetime
    grace: timedelta
    changes: Sequence[Change] = ()
    lost_hints: Sequence[datetime] = ()
    finals: dict[str, list[Record]] = field(default_factory=dict)
    starts: dict[str, list[Record]] = field(default_factory=dict)
    faults: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        for record in self.history:
            if record.op == "final":
                self.finals.setdefault(record.key, []).append(record)
            elif record.op == "start":
                self.starts.setdefault(record.job_id or "", []).append(record)
            elif record.op == "fault":
                self.faults.append(record)

    def was_announced(self, written_at: datetime) -> bool:
        """Whether every node was told of what was written at an instant."""
        return not any(abs(lost_at - written_at) <= _ABOUT for lost_at in self.lost_hints)

    def was_hit(self, since: datetime, until: datetime) -> bool:
        """Whether a fault explains that what was due at one instant did not happen until another."""
        return any(fault.invoked_at <= until and fault.ends_at + _MISSED >= since for fault in self.faults)


def check_tenants(ending: Ending) -> Iterator[Violation]:
    """Nobody is answered for, nor changes, what is another tenant's."""
    whose = {final.job_id: tenant_of(final.key) for finals in ending.finals.values() for final in finals}
    for record in ending.history:
        if record.op in ("enqueue", "cancel", "revive") and record.job_id in whose:
            tenant = tenant_of(record.key)
            if tenant != whose[record.job_id]:
                text = (
                    f"{record.op} by {tenant}, answered {record.answer}, of a job of {whose[record.job_id]}"
                )
                yield Violation(invariant="tenant", key=record.key, text=text)
