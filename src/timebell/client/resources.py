"""The engine's own nouns: jobs, schedules, recipients, and the clock of a sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, Unpack
from uuid import UUID

from timebell.client.calling import Caller
from timebell.client.records import (
    Advanced,
    Alert,
    CancelledJob,
    ChangedSchedule,
    EnqueuedJob,
    Erasure,
    Job,
    JobResult,
    Occurrence,
    Preview,
    Recipient,
    Record,
    Schedule,
    Token,
)
from timebell.client.terms import (
    JobTerms,
    NewJob,
    NewRecipient,
    NewSchedule,
    PreviewTerms,
    RecipientTerms,
    ScheduleTerms,
)

Row = TypeVar("Row", bound=Record)
# Time passes quickly in a sandbox, and a year of it still takes a while.
_ADVANCE_SECONDS = 600.0


async def every(
    caller: Caller,
    row: type[Row],
    path: str,
    query: Mapping[str, Any] | None = None,
    actor: UUID | None = None,
) -> AsyncIterator[Row]:
    """Every line of a list; the next page is asked for when the last line of this one was taken."""
    cursor = None
    while True:
        page = await caller.call("GET", path, query={**(query or {}), "cursor": cursor}, actor=actor)
        for line in page["data"]:
            yield row.model_validate(line)
        cursor = page["next_cursor"]
        if cursor is None:
            return


class Jobs:
    """`/v1/jobs`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create(
        self, kind: str, *, idempotency_key: str | None = None, **terms: Unpack[JobTerms]
    ) -> EnqueuedJob:
        """Enqueue a job, once, however often it has to be said. A key of your own is needed only where your process
        may die before the answer comes, and another is to say the same."""
        body = {"kind": kind, **terms}
        made = await self._caller.call("POST", "/v1/jobs", body=body, idempotency_key=idempotency_key)
        return EnqueuedJob.model_validate(made)

    async def create_many(
        self, jobs: Sequence[NewJob], *, idempotency_key: str | None = None
    ) -> list[JobResult]:
        """Up to a thousand at once, each taken or refused by itself."""
        made = await self._caller.call(
            "POST", "/v1/jobs/bulk", body={"jobs": list(jobs)}, idempotency_key=idempotency_key
        )
        return [JobResult.model_validate(each) for each in made["data"]]

    async def get(self, id: UUID) -> Job:
        return Job.model_validate(await self._caller.call("GET", f"/v1/jobs/{id}"))

    def list(
        self,
        *,
        state: str = "unfinished",
        kind: str | None = None,
        queue: str | None = None,
        subject: str | None = None,
        key: str | None = None,
        newest_first: bool = False,
    ) -> AsyncIterator[Job]:
        query = {"state": state, "kind": kind, "queue": queue, "subject": subject, "key": key}
        sort = "-created_at" if newest_first else None
        return every(self._caller, Job, "/v1/jobs", {**query, "sort": sort})

    async def cancel(self, id: UUID, *, reason: str = "cancelled") -> CancelledJob:
        """Cancel one job, and hear truthfully what became of it."""
        answer = await self._caller.call("POST", f"/v1/jobs/{id}/cancel", body={"reason": reason})
        return CancelledJob.model_validate(answer)

    async def cancel_all(
        self,
        *,
        subject: str | None = None,
        kind: str | None = None,
        key: str | None = None,
        reason: str = "cancelled",
    ) -> Sequence[CancelledJob]:
        """Every unfinished job about a subject, or the one of a kind and a key."""
        given = {"subject": subject, "kind": kind, "key": key}
        body = {"reason": reason, **{name: value for name, value in given.items() if value is not None}}
        answer = await self._caller.call("POST", "/v1/jobs/cancel", body=body)
        return [CancelledJob.model_validate(each) for each in answer["data"]]


class Alerts:
    """`/v1/alerts`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self, *, state: str | None = None, newest_first: bool = False) -> AsyncIterator[Alert]:
        sort = "-opened_at" if newest_first else None
        return every(self._caller, Alert, "/v1/alerts", {"state": state, "sort": sort})

    async def acknowledge(self, id: UUID) -> Alert:
        """Say that somebody sees to it; whoever was first stays."""
        return Alert.model_validate(await self._caller.call("POST", f"/v1/alerts/{id}/acknowledge"))


class Schedules:
    """`/v1/schedules`. Whatever changes one answers with the schedule and the diff, and takes `dry_run`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create(
        self, *, dry_run: bool = False, idempotency_key: str | None = None, **terms: Unpack[NewSchedule]
    ) -> ChangedSchedule:
        """Planned at once."""
        made = await self._caller.call(
            "POST",
            "/v1/schedules",
            body=terms,
            query=_dry(dry_run),
            idempotency_key=idempotency_key,
        )
        return ChangedSchedule.model_validate(made)

    async def get(self, id: UUID) -> Schedule:
        return Schedule.model_validate(await self._caller.call("GET", f"/v1/schedules/{id}"))

    def list(
        self, *, owner: str | None = None, subject: str | None = None, state: str | None = None
    ) -> AsyncIterator[Schedule]:
        query = {"owner": owner, "subject": subject, "state": state}
        return every(self._caller, Schedule, "/v1/schedules", query)

    def occurrences(
        self, id: UUID, *, from_at: datetime | None = None, before: datetime | None = None
    ) -> AsyncIterator[Occurrence]:
        query = {"from_at": from_at, "before": before}
        return every(self._caller, Occurrence, f"/v1/schedules/{id}/occurrences", query)

    async def change(
        self,
        id: UUID,
        *,
        if_revision: int | None = None,
        dry_run: bool = False,
        **terms: Unpack[ScheduleTerms],
    ) -> ChangedSchedule:
        """Change all that is to come; what is left out stays."""
        return await self._change(
            "PATCH", f"/v1/schedules/{id}", terms, if_revision=if_revision, dry_run=dry_run
        )

    async def split(
        self,
        id: UUID,
        original_local: datetime,
        *,
        fold: int = 0,
        if_revision: int | None = None,
        dry_run: bool = False,
        **terms: Unpack[ScheduleTerms],
    ) -> ChangedSchedule:
        """Change one occurrence and all that follow: the answer is a new schedule, which goes on from there."""
        body = {"original_local": original_local, "fold": fold, **terms}
        return await self._change(
            "POST", f"/v1/schedules/{id}/split", body, if_revision=if_revision, dry_run=dry_run
        )

    async def override(
        self,
        id: UUID,
        original_local: datetime,
        *,
        skip: bool = False,
        start_local: datetime | None = None,
        payload: Mapping[str, Any] | None = None,
        fold: int = 0,
        dry_run: bool = False,
    ) -> ChangedSchedule:
        """Skip one occurrence, move it, or give it a payload of its own."""
        body = {"skip": skip, "start_local": start_local, "payload": payload}
        return await self._change("PATCH", _occurrence(id, original_local), body, fold=fold, dry_run=dry_run)

    async def restore(
        self, id: UUID, original_local: datetime, *, fold: int = 0, dry_run: bool = False
    ) -> ChangedSchedule:
        """Have an occurrence as the recurrence gives it."""
        return await self._change("DELETE", _occurrence(id, original_local), None, fold=fold, dry_run=dry_run)

    async def pause(self, id: UUID, *, reason: str = "paused", dry_run: bool = False) -> ChangedSchedule:
        return await self._change("POST", f"/v1/schedules/{id}/pause", {"reason": reason}, dry_run=dry_run)

    async def resume(self, id: UUID, *, dry_run: bool = False) -> ChangedSchedule:
        return await self._change("POST", f"/v1/schedules/{id}/resume", None, dry_run=dry_run)

    async def end(self, id: UUID, *, reason: str = "ended", dry_run: bool = False) -> ChangedSchedule:
        return await self._change("POST", f"/v1/schedules/{id}/end", {"reason": reason}, dry_run=dry_run)

    async def preview(self, recurrence: str, **terms: Unpack[PreviewTerms]) -> Preview:
        """When a recurrence is due, without a schedule."""
        body = {"recurrence": recurrence, **terms}
        return Preview.model_validate(await self._caller.call("POST", "/v1/schedules/preview", body=body))

    async def _change(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        fold: int | None = None,
        if_revision: int | None = None,
        dry_run: bool,
    ) -> ChangedSchedule:
        query = {"fold": fold or None, **_dry(dry_run)}
        changed = await self._caller.call(method, path, body=body, query=query, if_revision=if_revision)
        return ChangedSchedule.model_validate(changed)


class Recipients:
    """`/v1/recipients`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create(self, *, idempotency_key: str | None = None, **terms: Unpack[NewRecipient]) -> Recipient:
        made = await self._caller.call("POST", "/v1/recipients", body=terms, idempotency_key=idempotency_key)
        return Recipient.model_validate(made)

    async def get(self, id: UUID) -> Recipient:
        return Recipient.model_validate(await self._caller.call("GET", f"/v1/recipients/{id}"))

    def list(self, *, external_id: str | None = None) -> AsyncIterator[Recipient]:
        return every(self._caller, Recipient, "/v1/recipients", {"external_id": external_id})

    async def change(
        self, id: UUID, *, if_revision: int | None = None, **terms: Unpack[RecipientTerms]
    ) -> Recipient:
        """Change what is named; None takes back what may be absent."""
        path = f"/v1/recipients/{id}"
        return Recipient.model_validate(
            await self._caller.call("PATCH", path, body=terms, if_revision=if_revision)
        )

    async def erase(self, id: UUID) -> Erasure:
        return Erasure.model_validate(await self._caller.call("DELETE", f"/v1/recipients/{id}"))

    async def token(self, id: UUID, *, seconds: int = 3_600) -> Token:
        """A token with which the recipient's own device calls for that recipient, and for nobody else."""
        body = {"recipient_id": id, "seconds": seconds}
        return Token.model_validate(await self._caller.call("POST", "/v1/recipient-tokens", body=body))


class SandboxClock:
    """`/v1/clock`: there only in `timebell up --sandbox`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def now(self) -> datetime:
        return datetime.fromisoformat((await self._caller.call("GET", "/v1/clock"))["now"])

    async def advance(
        self, *, by: timedelta | None = None, to: datetime | None = None, seconds: float = _ADVANCE_SECONDS
    ) -> Advanced:
        """Let time pass, `by` so much or `to` an instant. Only the latter is said again where no answer comes, since
        going where one is already does no harm."""
        body = {name: value for name, value in (("by", by), ("to", to)) if value is not None}
        answer = await self._caller.call(
            "POST", "/v1/clock/advance", body=body, may_repeat=by is None, seconds=seconds
        )
        return Advanced.model_validate(answer)


def _dry(dry_run: bool) -> dict[str, Any]:
    return {"dry_run": True} if dry_run else {}


def _occurrence(id: UUID, original_local: datetime) -> str:
    return f"/v1/schedules/{id}/occurrences/{original_local.isoformat()}"
