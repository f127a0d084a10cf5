"""`/api/scheduler/jobs`: messages for later, once or again, as services ask for them through the broker.

The names of the fields are those of the messages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, Literal, Required, TypedDict, Unpack
from urllib.parse import quote
from uuid import UUID

from pydantic import AwareDatetime

from timebell.client.calling import Caller, Refused
from timebell.client.records import Record
from timebell.client.resources import every

_PATH = "/api/scheduler/jobs"


class ScheduledJobTerms(TypedDict, total=False):
    """`at` for once, or `rrule` for again and again, read in `tz` from `dtstart` on."""

    at: datetime
    rrule: str
    dtstart: datetime
    tz: str
    misfire: Literal["fire_once", "fire_all", "skip"]
    payload: Any
    tenant: str


class NewScheduledJob(ScheduledJobTerms):
    id: Required[str]


class ScheduledJob(Record):
    """A job and how it stands: `pending`, `done` or `cancelled`. `next_run_at` is when it fires next."""

    id: str
    status: str
    at: AwareDatetime | None
    rrule: str | None
    dtstart: AwareDatetime | None
    tz: str | None
    misfire: str | None
    next_run_at: AwareDatetime | None
    fire_count: int
    payload: Any
    created_at: AwareDatetime
    updated_at: AwareDatetime


class Scheduler:
    """What is published to the broker at its time. Ids are your own texts."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def request(
        self,
        id: str,
        *,
        actor: UUID | None = None,
        idempotency_key: str | None = None,
        **terms: Unpack[ScheduledJobTerms],
    ) -> ScheduledJob:
        """Have a message published. The same again changes nothing; while it is pending, another timing or payload
        takes the place of the one before."""
        made = await self._caller.call(
            "POST", _PATH, body={"id": id, **terms}, actor=actor, idempotency_key=idempotency_key
        )
        return ScheduledJob.model_validate(made)

    async def get(self, id: str) -> ScheduledJob:
        return ScheduledJob.model_validate(await self._caller.call("GET", _path(id)))

    def list(self, *, status: str | None = None) -> AsyncIterator[ScheduledJob]:
        return every(self._caller, ScheduledJob, _PATH, {"status": status})

    async def cancel(self, id: str, *, actor: UUID | None = None) -> ScheduledJob | None:
        """Have nothing published any more. None where nobody had asked for it; for a day nobody can then.

        `Refused` with `job_done` or `too_late` says that it was published, or is being published just now.
        """
        try:
            answer = await self._caller.call("DELETE", _path(id), actor=actor)
        except Refused as error:
            if (error.status, error.code) == (404, "not_found"):
                return None
            raise
        return ScheduledJob.model_validate(answer)


def _path(id: str) -> str:
    """A path leaves out what is only dots, unless those are written otherwise."""
    written = quote(id, safe="")
    return f"{_PATH}/{written if written.strip('.') else written.replace('.', '%2E')}"
