"""Reconciliation of an agenda that is set: the steps that should be owed, compared with those that are and that were.

The rule that must always hold is that the pending jobs of a subject are exactly what `reconcile` would plan
from the agenda, the instant it was set and the steps that came to an end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

Late = Literal["skip", "run", "grace"]
CutOff = Literal["run", "leave"]

# Ends in which nothing was done: a step that is owed once is still owed after them, at another time.
UNPAID = frozenset({"skipped", "expired"})
# The end of a step that ran as it stopped being owed, and whose attempt failed or was lost with its node. It may have
# had its effect or not, so it is neither paid nor unpaid: whoever states it again says what becomes of it.
CUT_OFF = "cut_off"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedStep:
    """A step as it is stated now. `content` is everything about it but its time."""

    key: str
    due_at: datetime
    expires_at: datetime | None
    late: Late
    grace: timedelta
    once: bool
    content: object
    cut_off: CutOff = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedStep:
    """A step's job that has not come to an end."""

    job_id: UUID
    key: str
    due_at: datetime
    expires_at: datetime | None
    is_started: bool
    content: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What to do with each step and each job. A job is in exactly one list, a step in at most one.

    `done` has the state in which each came to its end. `again` names those of the planned steps that were cut off.
    """

    kept: tuple[tuple[OwedStep, UnfinishedStep], ...]
    changed: tuple[tuple[OwedStep, UnfinishedStep], ...]
    moved: tuple[tuple[OwedStep, UnfinishedStep], ...]
    added: tuple[OwedStep, ...]
    withdrawn: tuple[UnfinishedStep, ...]
    too_late: tuple[UnfinishedStep, ...]
    skipped: tuple[tuple[OwedStep, str], ...]
    done: tuple[tuple[OwedStep, str], ...]
    cut_off: tuple[OwedStep, ...]
    again: frozenset[str]


def reconcile(
    owed: Sequence[OwedStep],
    unfinished: Sequence[UnfinishedStep],
    done: Iterable[tuple[str, datetime, str]],
    now: datetime,
) -> Reconciled:
    """Match steps by key and decide about each.

    What came to an end is given by key, planned instant and state. The same step at another time is owed
    again, as a reminder of a meeting that was moved must be, unless the step says `once`. What was cut off is owed
    again or left, as the step says. The unfinished jobs are given oldest first; of two for one step the newer counts.
    """
    past = _Past(done)
    free: dict[str, UnfinishedStep] = {}
    withdrawn: list[UnfinishedStep] = []
    for job in unfinished:
        if job.is_started:
            continue
        if job.key in free:
            withdrawn.append(free[job.key])
        free[job.key] = job
    started = [job for job in unfinished if job.is_started]
    kept: list[tuple[OwedStep, UnfinishedStep]] = []
    changed: list[tuple[OwedStep, UnfinishedStep]] = []
    moved: list[tuple[OwedStep, UnfinishedStep]] = []
    added: list[OwedStep] = []
    skipped: list[tuple[OwedStep, str]] = []
    ended: list[tuple[OwedStep, str]] = []
    left: list[OwedStep] = []
    again: set[str] = set()
    for step in owed:
        running = _running(step, started)
        if running is not None:
            kept.append((step, running))
            continue
        end = past.end_of(step)
        if end is not None and end != CUT_OFF:
            ended.append((step, end))
            continue
        if end == CUT_OFF and step.cut_off == "leave":
            left.append(step)
            continue
        held = free.get(step.key)
        if held is not None and held.due_at == step.due_at:
            same = held.content == step.content and held.expires_at == step.expires_at
            (kept if same else changed).append((step, free.pop(step.key)))
            continue
        reason = _too_late_for(step, now)
        if reason is not None:
            skipped.append((step, reason))
            continue
        if end == CUT_OFF:
            again.add(step.key)
        if held is not None:
            moved.append((step, free.pop(step.key)))
        else:
            added.append(step)
    return Reconciled(
        kept=tuple(kept),
        changed=tuple(changed),
        moved=tuple(moved),
        added=tuple(added),
        withdrawn=(*withdrawn, *free.values()),
        too_late=tuple(started),
        skipped=tuple(skipped),
        done=tuple(ended),
        cut_off=tuple(left),
        again=frozenset(again),
    )


class _Past:
    """The steps that came to an end."""

    def __init__(self, done: Iterable[tuple[str, datetime, str]]) -> None:
        self._ends: dict[tuple[str, datetime], str] = {}
        self._paid: dict[str, str] = {}
        self._cut_off: set[str] = set()
        for key, due_at, state in done:
            self._ends[key, due_at] = state
            if state == CUT_OFF:
                self._cut_off.add(key)
            elif state not in UNPAID:
                self._paid[key] = state

    def end_of(self, step: OwedStep) -> str | None:
        """How this step came to its end: at its instant, or at any where it is owed once; None where it did not."""
        if step.once and step.key in self._paid:
            return self._paid[step.key]
        end = self._ends.get((step.key, step.due_at))
        if end is None and step.once and step.key in self._cut_off:
            return CUT_OFF
        return end


def begin(
    owed: Sequence[OwedStep], now: datetime
) -> tuple[Sequence[OwedStep], Sequence[tuple[OwedStep, str]]]:
    """As `reconcile` for a subject that nothing was ever owed about: which steps to add, and which to skip and why."""
    skipped = [(step, reason) for step in owed if (reason := _too_late_for(step, now)) is not None]
    if not skipped:
        return owed, ()
    late = {step.key for step, _ in skipped}
    return [step for step in owed if step.key not in late], skipped


def _running(step: OwedStep, started: list[UnfinishedStep]) -> UnfinishedStep | None:
    """The job that is paying this step right now; for one that is owed once, whatever time it was due."""
    for position, job in enumerate(started):
        if job.key == step.key and (step.once or job.due_at == step.due_at):
            return started.pop(position)
    return None


def _too_late_for(step: OwedStep, now: datetime) -> str | None:
    """Why a step that is stated only now is not run any more, or None where it is."""
    if step.expires_at is not None and step.expires_at <= now:
        return "expired"
    if step.due_at >= now or step.late == "run":
        return None
    if step.late == "grace" and now - step.due_at <= step.grace:
        return None
    return "late"
