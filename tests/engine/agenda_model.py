"""What an agenda should do, said a second time and in another way than the code says it.

The model is told what was asked and what handlers saw, and knows at every instant which jobs must be there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from timebell.kernel import AgendaDiff, Job, Step

RETRY_DELAYS = (timedelta(seconds=61), timedelta(seconds=303))
SNOOZE = timedelta(seconds=121)
MAX_ATTEMPTS = 3

Outcome = Literal["done", "fail", "snooze", "cancel"]


@dataclass(slots=True, eq=False)
class Owed:
    """A job that must be there. `key` is None for one that no agenda speaks of."""

    id: UUID
    key: str | None
    due_at: datetime
    run_at: datetime
    kind: str
    payload: dict[str, Any]
    expires_at: datetime | None = None
    order: int | None = None
    attempt: int = 0
    runs: int = 0
    is_running: bool = False
    is_cancelled: bool = False
    is_given_up: bool = False
    is_stale: bool = False

    @property
    def is_flagged(self) -> bool:
        return self.is_cancelled or self.is_given_up

    def content(self) -> object:
        return self.kind, self.payload, self.expires_at, self.order

    def ends_untried(self, now: datetime) -> str | None:
        """The state in which the engine ends it without running it, once it is due."""
        if self.is_running or self.run_at > now:
            return None
        if self.is_flagged:
            return "cancelled"
        return "expired" if self.expires_at is not None and self.expires_at <= now else None


@dataclass(slots=True)
class Answer:
    """An agenda's diff in a form that can be compared; what was added is known by id only afterwards."""

    kept: set[object] = field(default_factory=set)
    moved: set[object] = field(default_factory=set)
    added: set[object] = field(default_factory=set)
    withdrawn: set[object] = field(default_factory=set)
    skipped: set[object] = field(default_factory=set)
    too_late: set[object] = field(default_factory=set)
    done: set[object] = field(default_factory=set)
    cut_off: set[object] = field(default_factory=set)

    @classmethod
    def of(cls, diff: AgendaDiff) -> Answer:
        answer = cls(
            kept={(each.key, each.due_at, each.job_id) for each in diff.kept},
            moved={(each.key, each.due_at, each.job_id, each.was_due_at, each.reason) for each in diff.moved},
            added={(each.key, each.due_at, each.reason) for each in diff.added},
            withdrawn={(each.key, each.due_at, each.job_id) for each in diff.withdrawn},
            skipped={(each.key, each.due_at, each.reason) for each in diff.skipped},
            too_late={(each.key, each.due_at, each.job_id) for each in diff.too_late},
            done={(each.key, each.due_at, each.reason) for each in diff.done},
            cut_off={(each.key, each.due_at) for each in diff.cut_off},
        )
        for name in cls.__dataclass_fields__:
            assert len(getattr(answer, name)) == len(getattr(diff, name)), f"{name} lists something twice"
        return answer


class SubjectModel:
    """One subject: its jobs, what came to an end, and what its agenda states."""

    def __init__(self) -> None:
        self.revision = 0
        self.jobs: dict[UUID, Owed] = {}
        self.ends: dict[tuple[str, datetime], str] = {}
        self.finals: dict[UUID, str] = {}
        self.stated: dict[str, datetime] = {}

    def set_agenda(
        self, steps: Sequence[Step], anchor: datetime | None, now: datetime, diff: AgendaDiff
    ) -> Answer:
        """Take the agenda over and say what the answer had to be; ids of added jobs come from the answer."""
        self.revision += 1
        new_ids = {each.key: each.job_id for each in diff.added}
        answer = Answer()
        on_the_list = [job for job in self.jobs.values() if job.key is not None]
        paying: set[UUID] = set()
        self.stated = {}
        for position, step in enumerate(steps):
            due_at = step.due_at(anchor)
            wish = Owed(
                id=new_ids.get(step.key) or UUID(int=0),
                key=step.key,
                due_at=due_at,
                run_at=max(due_at, now),
                kind=step.kind,
                payload=dict(step.payload),
                expires_at=step.expiry(due_at),
                order=position if step.ordered else None,
            )
            mine = [job for job in on_the_list if job.key == step.key and job.id not in paying]
            job = self._place(step, wish, mine, now, answer)
            if job is not None:
                paying.add(job.id)
                job.is_stale = job.is_given_up = False
                self.stated[step.key] = job.due_at
        for job in on_the_list:
            if job.id not in paying:
                self._let_go(job, answer)
        return answer

    def _place(self, step: Step, wish: Owed, mine: list[Owed], now: datetime, answer: Answer) -> Owed | None:
        """Which job pays this step, if any does."""
        where = (step.key, wish.due_at)
        for job in mine:
            if job.is_running and (job.due_at == wish.due_at or step.once):
                if job.is_given_up:
                    job.is_cancelled = False
                answer.kept.add((*where, job.id))
                return job
        if (paid := self._paid_as(step, where)) is not None:
            answer.done.add((*where, paid))
            return None
        # Nobody knows what became of it, so it is not done: the step says whether it runs again.
        was_cut_off = self.ends.get(where) == "cut_off" or (step.once and self._was_cut_off(step.key))
        if was_cut_off and step.cut_off == "leave":
            answer.cut_off.add(where)
            return None
        again = "cut_off" if was_cut_off else None
        waiting = next((job for job in mine if not job.is_running), None)
        if waiting is not None and waiting.due_at == wish.due_at:
            if waiting.content() != wish.content():
                self._rewrite(waiting, wish)
            answer.kept.add((*where, waiting.id))
            return waiting
        if (reason := _misses(step, wish, now)) is not None:
            answer.skipped.add((*where, reason))
            self.ends[where] = "skipped"
            return None
        if self.ends.get(where) == "cut_off":
            del self.ends[where]
        if waiting is not None:
            answer.moved.add((*where, waiting.id, waiting.due_at, again))
            self._rewrite(waiting, wish)
            return waiting
        answer.added.add((*where, again))
        self.jobs[wish.id] = wish
        return wish

    def _paid_as(self, step: Step, where: tuple[str, datetime]) -> str | None:
        """The state in which this step came to an end for good."""
        if step.once:
            for (key, _), state in sorted(self.ends.items(), reverse=True):
                if key == step.key and state not in ("skipped", "expired", "cut_off"):
                    return state
        end = self.ends.get(where)
        return None if end == "cut_off" else end

    def _was_cut_off(self, key: str) -> bool:
        return any(other == key and state == "cut_off" for (other, _), state in self.ends.items())

    @staticmethod
    def _rewrite(job: Owed, wish: Owed) -> None:
        for name in ("due_at", "run_at", "kind", "payload", "expires_at", "order", "attempt"):
            setattr(job, name, getattr(wish, name))

    def _let_go(self, job: Owed, answer: Answer) -> None:
        if job.is_running:
            job.is_given_up = True
            answer.too_late.add((job.key, job.due_at, job.id))
        else:
            del self.jobs[job.id]
            self.finals[job.id] = "cancelled"
            answer.withdrawn.add((job.key, job.due_at, job.id))

    def enqueue(self, job: Owed) -> None:
        self.jobs[job.id] = job

    def cancel(self, ids: Iterable[UUID]) -> set[tuple[UUID, str, str]]:
        """Cancel these jobs and say what the answers had to be."""
        answers = set()
        for id in list(ids):
            job = self.jobs.get(id)
            if job is None:
                answers.add((id, "already_final", self.finals[id]))
            elif job.is_running:
                job.is_cancelled = True
                answers.add((id, "too_late", "running"))
            else:
                self._end(job, "cancelled")
                answers.add((id, "cancelled", "cancelled"))
        return answers

    def begin(self, job: Job, now: datetime) -> Owed:
        """A handler was called: it must have been right to call it."""
        owed = self.jobs.get(job.id)
        assert owed is not None, f"{job.step} ran after it had ended as {self.finals.get(job.id)}"
        assert owed.ends_untried(now) is None, f"{job.step} ran although it was {owed.ends_untried(now)}"
        assert not owed.is_running, f"{job.step} was begun twice"
        assert not owed.is_flagged, f"{job.step} was begun although it was given up"
        assert not owed.is_stale, f"{job.step} was begun although its revision was old"
        assert owed.run_at <= now, f"{job.step} was begun early"
        assert (owed.due_at, owed.payload) == (job.due_at, job.payload), (
            f"{job.step} was begun as it had been"
        )
        assert (job.step or "", job.due_at) not in self.ends, f"{job.step} ran again for {job.due_at}"
        assert job.attempt == owed.attempt + 1, f"{job.step} counted attempt {job.attempt}"
        assert not self._is_behind(owed, now), f"{job.step} overtook an earlier step"
        owed.is_running = True
        owed.attempt += 1
        owed.runs += 1
        return owed

    def _is_behind(self, job: Owed, now: datetime) -> bool:
        return job.order is not None and any(
            other.order is not None and other.order < job.order and other.ends_untried(now) is None
            for other in self.jobs.values()
        )

    def expect_alone(self, kind: str, now: datetime) -> None:
        """Nothing else of the subject may begin or end at the instant at which a job of this kind begins.

        The database hears of a start before the handler does, and of an end after it. A handler that asks the database
        in between would be told what the model knows only on some machines.
        """
        acting = [job for job in self.jobs.values() if self._acts(job, now)]
        is_alone = len(acting) < 2 or kind not in {job.kind for job in acting}
        assert is_alone, (
            f"{[job.key for job in acting]} are due at once, and the test cannot tell who is first"
        )

    def _acts(self, job: Owed, now: datetime) -> bool:
        if job.ends_untried(now) is not None:
            return True
        return not (job.is_running or job.run_at > now or job.is_stale or self._is_behind(job, now))

    def finish(self, job: Owed, outcome: Outcome, now: datetime) -> None:
        """The attempt is over."""
        if outcome == "done":
            self._end(job, "done")
        elif outcome == "cancel":
            self._end(job, "cancelled")
        elif outcome == "fail" and job.attempt >= MAX_ATTEMPTS:
            self._end(job, "dead")
        elif job.is_flagged:
            self._cut_off(job)
        else:
            job.run_at = now + (SNOOZE if outcome == "snooze" else RETRY_DELAYS[job.attempt - 1])
            job.attempt -= outcome == "snooze"
            job.is_running = False

    def _cut_off(self, job: Owed) -> None:
        """What its agenda gave up while it ran is remembered so; what somebody cancelled is cancelled."""
        self._end(job, "cancelled", remembered="cut_off" if job.is_given_up else "cancelled")

    def _end(self, job: Owed, state: str, *, remembered: str | None = None) -> None:
        del self.jobs[job.id]
        self.finals[job.id] = state
        if job.key is not None:
            self.ends.setdefault((job.key, job.due_at), remembered or state)

    def recover(self) -> None:
        """A new node found what the dead one had started."""
        for job in self.jobs.values():
            job.is_running = False

    def settle(self, now: datetime) -> None:
        """The engine has come to rest: whatever is still due must have a reason to wait."""
        for job in list(self.jobs.values()):
            state = job.ends_untried(now)
            if state is not None and job.is_flagged:
                self._cut_off(job)
            elif state is not None:
                self._end(job, state)
        for job in self.jobs.values():
            may_wait = job.is_stale or self._is_behind(job, now)
            assert job.is_running or job.run_at > now or may_wait, f"{job.key} was due and did not run"

    def plan(self) -> set[tuple[str, datetime]]:
        """What should be owed: every stated step that has not come to an end."""
        return {step for step in self.stated.items() if step not in self.ends}


def _misses(step: Step, wish: Owed, now: datetime) -> str | None:
    if wish.expires_at is not None and now >= wish.expires_at:
        return "expired"
    tolerated = {"skip": timedelta(0), "run": timedelta.max, "grace": step.grace}[step.late]
    return "late" if now - wish.due_at > tolerated else None
