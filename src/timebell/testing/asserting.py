"""Assertions about what is owed. A failing one lists what is there instead, and what sets it apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import orjson

from timebell.errors import InvalidInput
from timebell.kernel.bell import DEFAULT_TENANT, Timebell
from timebell.kernel.models import check_instant, check_kind, check_name, check_whole
from timebell.testing.harness import Harness
from timebell.testing.store import AssertionStore

_READ_MAX = 100_000
_LISTED_MAX = 20
_TEXT_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueuedJob:
    """An unfinished job as an assertion found it."""

    id: UUID
    kind: str
    queue: str
    state: Literal["pending", "running"]
    due_at: datetime
    run_at: datetime
    attempt: int
    payload: dict[str, Any]
    subject: str | None
    key: str | None
    step: str | None
    expires_at: datetime | None
    correlation_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What a job must be like; what is None is not asked."""

    kind: str
    payload: Mapping[str, Any] | None
    subject: str | None
    due_at: datetime | None

    def __post_init__(self) -> None:
        check_kind(self.kind)
        check_name("subject", self.subject)
        check_instant("due_at", self.due_at)

    def differences(self, job: EnqueuedJob) -> Iterator[str]:
        if job.kind != self.kind:
            yield f"kind is {job.kind}"
        if self.subject is not None and job.subject != self.subject:
            yield f"subject is {job.subject}"
        if self.due_at is not None and job.due_at != self.due_at:
            yield f"due at {job.due_at.isoformat()}"
        for name, value in (self.payload or {}).items():
            if name not in job.payload:
                yield f"payload has no {name!r}"
            elif job.payload[name] != value:
                yield f"payload[{name!r}] is {_short(job.payload[name])}"

    def __str__(self) -> str:
        parts = [self.kind]
        if self.subject is not None:
            parts.append(f"about {self.subject}")
        if self.due_at is not None:
            parts.append(f"due at {self.due_at.isoformat()}")
        if self.payload:
            parts.append(f"with {_short(self.payload)} in its payload")
        return " ".join(parts)


async def assert_enqueued(
    where: Timebell | Harness,
    kind: str,
    *,
    tenant: str = DEFAULT_TENANT,
    payload: Mapping[str, Any] | None = None,
    subject: str | None = None,
    due_at: datetime | None = None,
    count: int = 1,
) -> list[EnqueuedJob]:
    """Exactly `count` unfinished jobs are like this, in committed transactions; answers with them.

    `payload` names the entries that must be there; a job may have more.
    """
    __tracebackhide__ = True
    check_whole("count", count, 1, _READ_MAX)
    wanted = _Wanted(kind=kind, payload=payload, subject=subject, due_at=due_at)
    found, others = await _look(where, tenant, wanted)
    if len(found) != count:
        raise AssertionError(
            f"{_jobs(count)} {wanted} should be owed to tenant {tenant!r}, found {len(found)}."
            f"{_listed(wanted, found, others)}"
        )
    return found


async def assert_not_enqueued(
    where: Timebell | Harness,
    kind: str,
    *,
    tenant: str = DEFAULT_TENANT,
    payload: Mapping[str, Any] | None = None,
    subject: str | None = None,
    due_at: datetime | None = None,
) -> None:
    """No unfinished job is like this."""
    __tracebackhide__ = True
    wanted = _Wanted(kind=kind, payload=payload, subject=subject, due_at=due_at)
    found, _ = await _look(where, tenant, wanted)
    if found:
        raise AssertionError(
            f"no job {wanted} should be owed to tenant {tenant!r}, found {len(found)}."
            f"{_listed(wanted, found, [])}"
        )


async def _look(
    where: Timebell | Harness, tenant: str, wanted: _Wanted
) -> tuple[list[EnqueuedJob], list[EnqueuedJob]]:
    """The jobs that are as wanted, and the others."""
    check_name("tenant", tenant, required=True)
    bell = where.bell if isinstance(where, Harness) else where
    if not isinstance(bell, Timebell):
        raise InvalidInput(f"{bell!r:.100} is neither a Timebell nor a Harness", field="where")
    async with bell.database.connection() as session:
        rows = await AssertionStore().list_enqueued(session, tenant=tenant, limit=_READ_MAX)
    jobs = [EnqueuedJob(**{**row, "payload": orjson.loads(row["payload"])}) for row in rows]
    found = [job for job in jobs if not any(wanted.differences(job))]
    return found, [job for job in jobs if any(wanted.differences(job))]


def _listed(wanted: _Wanted, found: Sequence[EnqueuedJob], others: Sequence[EnqueuedJob]) -> str:
    if not found and not others:
        return " Nothing is owed; a job is seen once its transaction has been committed, until it has ended."
    # Those that differ in the fewest ways come first: one of them is likely to be the one that was meant.
    nearest = sorted(others, key=lambda job: len(list(wanted.differences(job))))
    lines = [f"  * {_described(job)}" for job in found]
    lines += [f"  - {_described(job)}\n      {', '.join(wanted.differences(job))}" for job in nearest]
    left_out = f"\n  and {len(lines) - _LISTED_MAX} more" if len(lines) > _LISTED_MAX else ""
    legend = " (* is as described, - is not, and why)" if others else ""
    return f" What is owed{legend}:\n" + "\n".join(lines[:_LISTED_MAX]) + left_out


def _described(job: EnqueuedJob) -> str:
    about = "" if job.subject is None else f" about {job.subject}"
    step = "" if job.step is None else f" (step {job.step})"
    return f"{job.kind}{about}{step} due at {job.due_at.isoformat()}, {job.state}, {_short(job.payload)}"


def _short(value: object) -> str:
    text = repr(dict(value) if isinstance(value, Mapping) else value)
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"


def _jobs(count: int) -> str:
    return "one job" if count == 1 else f"{count} jobs"
