"""The nouns of the kernel, as frozen records that are checked when they are made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal
from uuid import UUID

from timebell.errors import InvalidInput, NaiveInstant
from timebell.kernel.records import quickly_made
from timebell.rules.agenda import CutOff, Late

Mode = Literal["plain", "transactional", "external"]
Urgency = Literal["normal", "time_bound", "critical"]
JobState = Literal["pending", "running", "done", "cancelled", "dead", "skipped", "expired"]
CancelAnswer = Literal["cancelled", "too_late", "undecided", "already_final", "not_found"]
OnConflict = Literal["same", "keep", "replace"]

NAME_MAX = 200
REASON_MAX = 2_000
KEY_LIFETIME_MAX = timedelta(days=3_660)
FILTERED_MAX = 10_000
AGENDAS_MAX = 1_000
_NO_TIME = timedelta(0)
# The driver takes the very first and the very last instant for infinities, and gives them back without an offset.
_EARLIEST = datetime.min.replace(tzinfo=UTC) + datetime.resolution
_LATEST = datetime.max.replace(tzinfo=UTC) - datetime.resolution
_KIND = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_QUEUE = re.compile(r"[a-z][a-z0-9_.-]*")
# PostgreSQL stores no NUL, and half a surrogate pair has no place in UTF-8.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def check_instant(field_name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, datetime):
        raise InvalidInput(f"{value!r:.100} is not a datetime; give one with an offset", field=field_name)
    if value.utcoffset() is None:
        raise NaiveInstant(
            f"{value.isoformat()} has no offset; give it one, for example tzinfo=timezone.utc",
            field=field_name,
        )
    if not _EARLIEST <= value <= _LATEST:
        raise InvalidInput(f"{value.isoformat()} must lie in the years 1 to 9999 of UTC", field=field_name)


def check_duration(field_name: str, value: object) -> None:
    if value is not None and not isinstance(value, timedelta):
        raise InvalidInput(f"{value!r:.100} is not a timedelta; give one", field=field_name)


def check_name(field_name: str, value: object, *, longest: int = NAME_MAX, required: bool = False) -> None:
    if value is None and not required:
        return
    if not isinstance(value, str):
        raise InvalidInput(f"{value!r:.100} is not a text; give 1 to {longest} characters", field=field_name)
    if not 0 < len(value) <= longest:
        raise InvalidInput(f"must have 1 to {longest} characters, has {len(value)}", field=field_name)
    if _UNSTORABLE.search(value):
        raise InvalidInput("must not contain a NUL character or half a surrogate pair", field=field_name)


@lru_cache(maxsize=1_000)
def _is_kind(value: str) -> bool:
    """An application has few kinds and names them with every job."""
    return _KIND.fullmatch(value) is not None


def check_kind(value: object, field_name: str = "kind") -> None:
    if not isinstance(value, str) or len(value) > NAME_MAX or not _is_kind(value):
        raise InvalidInput(f"{value!r:.100} is not of the form app.verb in lower case", field=field_name)


def check_id(field_name: str, value: object) -> None:
    if value is not None and not isinstance(value, UUID):
        raise InvalidInput(f"{value!r:.100} is not a UUID; give the id of a job", field=field_name)


def check_queue(value: object) -> None:
    if not isinstance(value, str) or len(value) > NAME_MAX or not _QUEUE.fullmatch(value):
        raise InvalidInput(f"{value!r:.100} is not a name in lower case", field="queue")


def check_between(field_name: str, value: object, low: float, high: float) -> None:
    if value is None:
        return
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidInput(f"must be between {low:g} and {high:g}, was {value!r:.100}", field=field_name)


def check_whole(field_name: str, value: object, low: int, high: int) -> None:
    if value is None or (type(value) is int and low <= value <= high):
        return
    check_between(field_name, value, low, high)
    if not isinstance(value, int):
        raise InvalidInput(f"must be a whole number, was {value!r}", field=field_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Where jobs of a sort wait, with limits over all nodes together: `rate` starts a second, `concurrency` at once."""

    name: str
    rate: float | None = None
    burst: int = 1
    concurrency: int | None = None

    def __post_init__(self) -> None:
        check_queue(self.name)
        check_between("rate", self.rate, 0.001, 100_000)
        check_whole("burst", self.burst, 1, 100_000)
        check_whole("concurrency", self.concurrency, 1, 100_000)


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueue:
    """What is asked for when a job is enqueued; `enqueue_many` takes a sequence of these."""

    kind: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    due_at: datetime | None = None
    delay: timedelta | None = None
    subject: str | None = None
    key: str | None = None
    key_lifetime: timedelta | None = None
    queue: str | None = None
    expires_at: datetime | None = None
    priority: int = 0
    urgency: Urgency = "normal"
    max_attempts: int | None = None
    guard: str | None = None
    correlation_id: str | None = None
    on_conflict: OnConflict = "same"

    def __post_init__(self) -> None:
        check_kind(self.kind)
        # Most jobs use few of these, and many jobs are made at once: what is not given is not looked at.
        if self.due_at is not None:
            check_instant("due_at", self.due_at)
        if self.expires_at is not None:
            check_instant("expires_at", self.expires_at)
        if self.subject is not None:
            check_name("subject", self.subject)
        if self.key is not None:
            check_name("key", self.key)
        if self.queue is not None:
            check_queue(self.queue)
        if self.guard is not None:
            check_name("guard", self.guard)
        if self.correlation_id is not None:
            check_name("correlation_id", self.correlation_id)
        if self.priority != 0 or type(self.priority) is not int:
            check_whole("priority", self.priority, -100, 100)
        if self.max_attempts is not None:
            check_whole("max_attempts", self.max_attempts, 1, 100)
        if self.urgency != "normal":
            check_urgency(self.urgency)
        if self.delay is not None:
            self._check_delay(self.delay)
        if self.due_at is not None:
            self.check_expiry(self.due_at)
        if self.key_lifetime is not None:
            self._check_key_lifetime(self.key_lifetime)
        if self.on_conflict != "same" and self.on_conflict not in ("keep", "replace"):
            raise InvalidInput("must be 'same', 'keep' or 'replace'", field="on_conflict")

    def _check_delay(self, delay: timedelta) -> None:
        check_duration("delay", delay)
        if self.due_at is not None:
            raise InvalidInput("give due_at or delay, not both", field="delay")
        if delay < _NO_TIME:
            raise InvalidInput("must not be negative", field="delay")

    def _check_key_lifetime(self, lifetime: timedelta) -> None:
        check_duration("key_lifetime", lifetime)
        if self.key is None:
            raise InvalidInput("needs a key that it is the lifetime of", field="key_lifetime")
        if not _NO_TIME < lifetime <= KEY_LIFETIME_MAX:
            raise InvalidInput(
                f"must be positive and at most {KEY_LIFETIME_MAX.days} days", field="key_lifetime"
            )

    def check_expiry(self, due_at: datetime) -> None:
        """Compared in UTC: two wall times of one zone do not say which instant is the later."""
        if self.expires_at is not None and self.expires_at.astimezone(UTC) <= due_at.astimezone(UTC):
            raise InvalidInput("must be after due_at", field="expires_at")


def check_urgency(value: str) -> None:
    if value not in ("normal", "time_bound", "critical"):
        raise InvalidInput("must be 'normal', 'time_bound' or 'critical'", field="urgency")


def check_jobs(value: object) -> None:
    """Asked of the types, which are few, and not of each job."""
    if not isinstance(value, Sequence) or not all(issubclass(of, Enqueue) for of in set(map(type, value))):
        raise InvalidInput("must be a sequence of Enqueue; give [Enqueue(kind=...), ...]", field="jobs")


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """The job that now stands for what was asked; `created` is False where its key had been used before."""

    id: UUID
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The truthful answer to a cancel, for one job."""

    id: UUID
    answer: CancelAnswer
    state: str | None


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing owed about a subject: at an offset from the anchor (negative is before), or at an instant.

    `late` says what happens when its time has passed as it is stated: `skip` it, `run` it now, or run it
    within `grace`. `expires_after` counts from its due instant. `ordered` steps of a subject start only when
    no earlier ordered step is unfinished. `once` makes it owed until it was paid once, however often its time
    moves; skipped or expired, it was not paid. `cut_off` says what happens when it ran as it stopped being owed, and
    failed or lost its node, so that nobody knows whether it had its effect: `run` it again, or `leave` it.
    """

    key: str
    kind: str
    offset: timedelta | None = None
    at: datetime | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    late: Late = "skip"
    grace: timedelta = timedelta(0)
    expires_after: timedelta | None = None
    expires_at: datetime | None = None
    guard: str | None = None
    queue: str | None = None
    priority: int = 0
    urgency: Urgency = "normal"
    max_attempts: int | None = None
    ordered: bool = False
    once: bool = False
    cut_off: CutOff = "run"

    def __post_init__(self) -> None:
        check_name("key", self.key, required=True)
        check_kind(self.kind)
        check_instant("at", self.at)
        check_instant("expires_at", self.expires_at)
        check_name("guard", self.guard)
        if self.queue is not None:
            check_queue(self.queue)
        for name in ("offset", "grace", "expires_after"):
            check_duration(name, getattr(self, name))
        check_whole("priority", self.priority, -100, 100)
        check_whole("max_attempts", self.max_attempts, 1, 100)
        check_urgency(self.urgency)
        if (self.offset is None) == (self.at is None):
            raise InvalidInput(
                f"step {self.key!r} needs an offset or an instant `at`, one of them", field="offset"
            )
        if self.late not in ("skip", "run", "grace"):
            raise InvalidInput("must be 'skip', 'run' or 'grace'", field="late")
        if self.cut_off not in ("run", "leave"):
            raise InvalidInput("must be 'run' or 'leave'", field="cut_off")
        if (self.late == "grace") != (self.grace > timedelta(0)):
            raise InvalidInput("late='grace' and a positive grace go together", field="grace")
        if self.expires_after is not None and self.expires_at is not None:
            raise InvalidInput("give expires_after or expires_at, not both", field="expires_at")
        if self.expires_after is not None and self.expires_after <= timedelta(0):
            raise InvalidInput("must be positive", field="expires_after")

    def due_at(self, anchor: datetime | None) -> datetime:
        """Counted in UTC: an offset is elapsed time, whatever the clocks at the anchor do meanwhile."""
        if self.at is not None:
            return self.at.astimezone(UTC)
        if anchor is None or self.offset is None:
            raise InvalidInput(
                f"step {self.key!r} has an offset but the agenda has no anchor; give one", field="anchor"
            )
        return _later(self, "offset", anchor.astimezone(UTC), self.offset)

    def expiry(self, due_at: datetime) -> datetime | None:
        if self.expires_after is not None:
            return _later(self, "expires_after", due_at, self.expires_after)
        return None if self.expires_at is None else self.expires_at.astimezone(UTC)


def _later(step: Step, field_name: str, instant: datetime, duration: timedelta) -> datetime:
    try:
        return instant + duration
    except OverflowError:
        raise InvalidInput(
            f"step {step.key!r}: leads out of the years 1 to 9999; make it smaller", field=field_name
        ) from None


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Agenda:
    """What should be owed about a subject; `set_agendas` takes a sequence of these. Without steps, nothing is owed."""

    subject: str
    anchor: datetime | None = None
    steps: Sequence[Step] = ()
    correlation_id: str | None = None

    def __post_init__(self) -> None:
        check_name("subject", self.subject, required=True)
        check_instant("anchor", self.anchor)
        check_name("correlation_id", self.correlation_id)
        if not isinstance(self.steps, Sequence):
            raise InvalidInput("must be a sequence of Step; give [Step(...), ...]", field="steps")


def check_agendas(value: object, steps_max: int) -> None:
    if not isinstance(value, Sequence) or not all(issubclass(of, Agenda) for of in set(map(type, value))):
        raise InvalidInput(
            "must be a sequence of Agenda; give [Agenda(subject=..., steps=[...]), ...]", field="agendas"
        )
    if len(value) > AGENDAS_MAX:
        raise InvalidInput(f"{len(value)} at once, the limit is {AGENDAS_MAX}; send several", field="agendas")
    step_count = sum(len(agenda.steps) for agenda in value)
    if step_count > steps_max:
        raise InvalidInput(
            f"{step_count} steps at once, the limit is {steps_max} for all; send several", field="agendas"
        )
    subjects: set[str] = set()
    for agenda in value:
        if agenda.subject in subjects:
            raise InvalidInput(
                f"the subject {agenda.subject!r} is stated twice; leave one out", field="agendas"
            )
        subjects.add(agenda.subject)


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class StepChange:
    """What became of one step when its agenda was set."""

    key: str
    due_at: datetime
    job_id: UUID | None = None
    was_due_at: datetime | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgendaDiff:
    """The answer to setting an agenda.

    `kept` also has steps that are owed once and run already, whose time would have moved: `was_due_at` is the one that
    they run for.
    `too_late` lists steps that were running while they stopped being owed; what they do cannot be taken back.
    `done` lists stated steps that came to an end before and are not owed again; the reason is the state in which they
    ended. `cut_off` lists stated steps that were running as they stopped being owed, did not come to an end, and are
    left; one that is run again instead is `added`, or `moved`, for the reason `cut_off`.
    """

    revision: int
    kept: tuple[StepChange, ...] = ()
    moved: tuple[StepChange, ...] = ()
    added: tuple[StepChange, ...] = ()
    withdrawn: tuple[StepChange, ...] = ()
    skipped: tuple[StepChange, ...] = ()
    too_late: tuple[StepChange, ...] = ()
    done: tuple[StepChange, ...] = ()
    cut_off: tuple[StepChange, ...] = ()


def check_ids(ids: Sequence[UUID]) -> None:
    if len(ids) > FILTERED_MAX:
        raise InvalidInput(f"{len(ids)} at once, the limit is {FILTERED_MAX}; send several", field="ids")
    for id in ids:
        check_id("ids", id)


def dead_filters(
    ids: Sequence[UUID] | None, kind: str | None, queue: str | None, fingerprint: str | None, limit: int
) -> dict[str, object]:
    if ids is None and kind is None and queue is None and fingerprint is None:
        raise InvalidInput("name dead jobs by ids, kind, queue or fingerprint", field="ids")
    if ids is not None:
        check_ids(ids)
    for name, value in (("kind", kind), ("queue", queue), ("fingerprint", fingerprint)):
        check_name(name, value)
    check_whole("limit", limit, 1, FILTERED_MAX)
    named = None if ids is None else list(ids)
    return {"ids": named, "kind": kind, "queue": queue, "fingerprint": fingerprint, "limit": limit}
