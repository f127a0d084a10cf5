"""The records of a history, sorted by what they are about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.history_records import NEVER, Record

UNFINISHED = frozenset({"pending", "running"})
# Faults that hit everybody at once carry one of these as their node.
EVERYBODY = frozenset({"*", "database"})


@dataclass(slots=True)
class Life:
    """Everything that is known about one job."""

    key: str
    enqueues: list[Record] = field(default_factory=list)
    cancels: list[Record] = field(default_factory=list)
    starts: list[Record] = field(default_factory=list)
    ends: list[Record] = field(default_factory=list)
    effects: list[Record] = field(default_factory=list)
    # That somebody brought it back after it had died.
    revivals: list[Record] = field(default_factory=list)
    final: Record | None = None

    @property
    def state(self) -> str:
        return "missing" if self.final is None or self.final.state is None else self.final.state

    @property
    def over_at(self) -> datetime | None:
        """When it ended; None where nobody knows."""
        if self.final is None or self.final.state is None:
            return None
        return NEVER if self.final.state in UNFINISHED else self.final.answered_at


class Facts:
    """The records of a history, sorted by what they are about."""

    def __init__(self, history: Iterable[Record]) -> None:
        self.lives: dict[str, Life] = {}
        self.by_key: dict[str, list[Life]] = defaultdict(list)
        self.steps: dict[str, list[Life]] = defaultdict(list)
        self.plans: dict[str, list[Record]] = defaultdict(list)
        self.faults: list[Record] = []
        records = sorted(history, key=lambda record: record.invoked_at)
        for record in [each for each in records if each.job_id is not None]:
            self._life(record)
        for record in records:
            self._sort(record)

    def _life(self, record: Record) -> Life:
        """By job_id; a record without one belongs to the only job of its key, or else stands for itself."""
        lives = self.by_key.get(record.key, [])
        identity = record.job_id or record.key
        if record.job_id is None and len(lives) == 1:
            return lives[0]
        if identity not in self.lives:
            self.lives[identity] = Life(record.key)
            self.by_key[record.key].append(self.lives[identity])
            self.steps[record.key.rpartition("/")[0]].append(self.lives[identity])
        return self.lives[identity]

    def _sort(self, record: Record) -> None:
        match record.op:
            case "plan":
                self.plans[record.key].append(record)
            case "fault":
                self.faults.append(record)
            case "enqueue":
                self._life(record).enqueues.append(record)
            case "cancel":
                self._life(record).cancels.append(record)
            case "revive":
                self._life(record).revivals.append(record)
            case "start":
                self._life(record).starts.append(record)
            case "end":
                self._life(record).ends.append(record)
            case "effect":
                self._life(record).effects.append(record)
            case "final":
                self._life(record).final = record

    def plans_in_effect(self, subject: str, at: datetime) -> list[Record]:
        """The plans that may be the last to have taken effect at an instant; several where they overlapped."""
        begun = [plan for plan in self.plans.get(subject, ()) if plan.invoked_at < at]
        settled = [plan for plan in begun if plan.ends_at < at]
        latest = max((plan.invoked_at for plan in settled), default=None)
        return [plan for plan in begun if latest is None or plan.ends_at >= latest]

    def is_hit(self, node: str, since: datetime, until: datetime, lease: timedelta) -> bool:
        """Whether a fault explains that what the node began at one instant was begun again at another."""
        return any(
            (fault.node == node or fault.node in EVERYBODY)
            and fault.ends_at >= since
            and fault.invoked_at <= until
            and not (fault.key == "pause" and fault.ends_at - fault.invoked_at < lease)
            for fault in self.faults
        )
