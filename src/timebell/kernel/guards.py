"""The question before acting: is this still wanted? Whoever acts for a job asks it here, so that all get one answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from timebell.kernel.jobs.job import Job
from timebell.kernel.jobs.outcomes import Refused, Retry

# Somebody has to load an app. What waits for that costs no attempt, and is not to keep a node busy meanwhile.
_NOT_LOADED: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwanted:
    """A guard's no, with its words where it has some."""

    guard: str
    why: str | None = None


async def ask_guard(job: Job, name: str | None) -> Unwanted | Retry | None:
    """None where the job is still wanted, or names no guard. What a guard raises goes to whoever asked.

    One that no app of this process brings may be there after the next start, so nothing is decided without it.
    """
    if name is None:
        return None
    guard = job.bell.registry.guards.get(name)
    if guard is None:
        return not_registered("guard", name)
    answer = await guard(job)
    if answer:
        return None
    return Unwanted(guard=name, why=answer.why if isinstance(answer, Refused) else None)


def not_registered(what: str, name: str) -> Retry:
    return Retry(
        f"no {what} is registered as {name!r}; load the app that brings it", "unavailable", _NOT_LOADED
    )
