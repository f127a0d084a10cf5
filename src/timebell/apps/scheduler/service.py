"""The verbs: ask for messages, cancel them, and see how they stand. Each takes part in the transaction it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from timebell.apps.scheduler import rules
from timebell.apps.scheduler.messages import LIMITS, TENANT_BYTES_MAX, in_words
from timebell.apps.scheduler.models import (
    Known,
    Poison,
    ScheduledRequest,
    ScheduleRequest,
    Status,
    Taken,
    Withdrawn,
)
from timebell.apps.scheduler.rows import (
    FIRE,
    Place,
    columns_of,
    columns_of_new,
    correlation_id_of,
    job_of,
    known_of,
    request_of,
)
from timebell.apps.scheduler.store import Row, SchedulerStore
from timebell.errors import (
    InvalidInput,
    NotFound,
    RecurrenceError,
    RevisionConflict,
    TimebellError,
    UnknownTimezone,
)
from timebell.kernel import Ids, Page, Step, Timebell, Transaction, decode_cursor, page_of
from timebell.logs import Logger
from timebell.rules.recurrence import occurrences

log = Logger("timebell.scheduler")

QUEUED: Final = "jobs_queued"
CANCELLED: Final = "jobs_cancelled"

_STEP: Final = "fire"
_LOOK_MAX: Final = 1_000
_PAGE_BYTES_MAX: Final = 2_097_152
_REPLACED: Final = "replaced"
_REASON: Final = "cancelled"


class _TooLate(TimebellError):
    """A job cannot be withdrawn any more."""


class Scheduler:
    """Whoever asks under a name that is known gets no second message. The database is asked a few times for a batch,
    however many are in it."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = SchedulerStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def request_many(
        self, tx: Transaction, requests: Sequence[ScheduleRequest]
    ) -> Sequence[Taken | Poison]:
        """Take requests, in their order. `RevisionConflict` where another transaction was faster with one of the names:
        nothing may be committed then, and the same again will see it."""
        if len(tx.tenant.encode()) > TENANT_BYTES_MAX:
            raise InvalidInput(f"use at most {TENANT_BYTES_MAX} bytes of UTF-8 for its name", field="tenant")
        ids = rules.in_order(request.id for request in requests)
        held = await self._store.lock_requests(tx, ids)
        if not held and len(ids) == len(requests) and all(one.recurrence is None for one in requests):
            return await self._take_new(tx, requests, ids)
        known = await self._known(tx, requests, held)
        batch: dict[str, Place] = {}
        answers: list[Taken | Poison] = []
        for request, one in zip(requests, known, strict=True):
            place = batch.get(request.id)
            if place is None:
                place = batch[request.id] = Place(known=one)
                if one is not None:
                    place.job_id, place.schedule_id = one.job_id, one.schedule_id
                    place.start_at = one.start_at
            elif one is not None:
                place.known = one
            answers.append(await self._take(tx, place, request))
        await self._write(tx, batch)
        return answers

    async def cancel_many(self, tx: Transaction, ids: Sequence[str]) -> Sequence[Withdrawn]:
        """Cancel by name. A name under which nobody has asked yet is kept for a day, so that a request which comes late
        is known to be cancelled. `RevisionConflict` as in `request_many`."""
        requests = [ScheduleRequest(id=id) for id in dict.fromkeys(ids)]
        held = await self._store.lock_requests(tx, rules.in_order(ids))
        known = await self._known(tx, requests, held)
        found = {request.id: one for request, one in zip(requests, known, strict=True)}
        answers: dict[str, Withdrawn] = {}
        renewed: list[str] = []
        for id, one in found.items():
            answers[id] = Withdrawn(id=id, answer=await self._cancel(tx, one))
            if answers[id].answer == "cancelled" or (one is not None and one.status is None):
                renewed.append(id)
        if renewed:
            await self._store.cancel_requests(tx, rules.in_order(renewed))
        unknown = rules.in_order(id for id, one in found.items() if one is None)
        if unknown:
            numbers = list(self._ids.many(len(unknown)))
            if await self._store.insert_tombstones(tx, ids=unknown, numbers=numbers) < len(unknown):
                raise _overtaken()
        twice = _Twice(answers)
        return [twice.answer(id) for id in ids]

    def tell(self, tenant: str, answers: Sequence[Taken | Withdrawn | Poison]) -> None:
        """Count what became of them, and say what was ignored. To be called once it is committed."""
        tallies = self._bell.tallies
        tallies.add(QUEUED, by=sum(isinstance(one, Taken) and one.answer == "queued" for one in answers))
        tallies.add(
            CANCELLED, by=sum(isinstance(one, Withdrawn) and one.answer == "cancelled" for one in answers)
        )
        ignored = [one for one in answers if isinstance(one, Taken) and one.answer == "ignored"]
        if ignored:
            first = ignored[0]
            log.info(
                "requests were ignored", tenant=tenant, count=len(ignored), id=first.id, reason=first.reason
            )

    async def get(self, tx: Transaction, id: str) -> ScheduledRequest:
        row = await self._store.read_request(tx, id)
        if row is None:
            raise NotFound("nobody has asked for a message under this id")
        return await self._foreseen(tx, request_of(row, row["id"], row["number"]), row["now"])

    async def list(
        self, tx: Transaction, *, status: Status | None = None, limit: int, cursor: str | None
    ) -> Page[ScheduledRequest]:
        """In the order in which they were asked for."""
        rows = await self._store.list_requests(
            tx,
            status=status,
            after=decode_cursor("scheduler", cursor).id,
            limit=limit,
            look_max=limit + 1 if status is None else max(_LOOK_MAX, limit + 1),
            bytes_max=_PAGE_BYTES_MAX,
        )
        if status is None:
            rows = [{**row, "is_end": False} for row in rows]
        page = page_of("scheduler", rows, limit, lambda row: request_of(row, row["name"], row["id"]))
        now = rows[0]["now"] if rows else None
        lines = [await self._foreseen(tx, one, now) for one in page.lines]
        return Page(lines=tuple(lines), next_cursor=page.next_cursor)

    async def now(self, tx: Transaction) -> datetime:
        """The instant that the transaction takes place at."""
        return await self._store.read_clock(tx.session)

    async def _take_new(
        self, tx: Transaction, requests: Sequence[ScheduleRequest], ids: Sequence[str]
    ) -> Sequence[Taken]:
        """What nearly all batches are: messages that are due once, under names that nobody knows."""
        jobs = await self._bell.enqueue_many(tx, [job_of(request) for request in requests])
        of_ids = {request.id: (request, job.id) for request, job in zip(requests, jobs, strict=True)}
        columns = columns_of_new([of_ids[id] for id in ids])
        if await self._store.insert_requests(tx, columns=columns) < len(ids):
            raise _overtaken()
        return [Taken(id=request.id, answer="queued") for request in requests]

    async def _known(
        self, tx: Transaction, requests: Sequence[ScheduleRequest], rows: Sequence[Row]
    ) -> Sequence[Known | None]:
        """What is known of each name, of those that are held. How they stand is asked once they are."""
        if not rows:
            return [None] * len(requests)
        held = {row["id"]: row for row in rows}
        asked = [(at, one) for at, one in enumerate(requests) if one.id in held]
        standings = await self._store.read_standings(
            tx, ids=[one.id for _, one in asked], payloads=[one.payload for _, one in asked]
        )
        found: list[Known | None] = [None] * len(requests)
        for at, one in asked:
            found[at] = known_of(held[one.id], None)
        for row in standings:
            at, one = asked[row["position"] - 1]
            found[at] = known_of(held[one.id], row)
        return found

    async def _take(self, tx: Transaction, place: Place, request: ScheduleRequest) -> Taken | Poison:
        if place.request is not None:
            # One of this very batch goes before; nothing of it is written yet.
            if rules.timing_of(place.request) != rules.timing_of(request):
                return await self._retime(tx, place, request, "replaced")
            if rules.is_same_payload(place.request.payload, request.payload):
                return Taken(id=request.id, answer="same")
            place.request = request
            return Taken(id=request.id, answer="replaced")
        what = "new" if place.known is None else rules.second(place.known, request)
        match what:
            case "new":
                return await self._retime(tx, place, request, "queued")
            case "timing":
                return await self._retime(tx, place, request, "replaced")
            case "payload":
                place.request = request
                return Taken(id=request.id, answer="replaced")
            case "same":
                return Taken(id=request.id, answer="same")
            case "withdrawn":
                reason = "it was cancelled before it was asked for"
            case _:
                assert place.known is not None
                reason = f"it is {place.known.status}"
        return Taken(id=request.id, answer="ignored", reason=reason)

    async def _retime(
        self, tx: Transaction, place: Place, request: ScheduleRequest, answer: Any
    ) -> Taken | Poison:
        """Owe it at its time, and no more at the one before. What is new is made first: it may be refused."""
        start_at: datetime | None = None
        schedule_id: UUID | None = None
        if request.recurrence is not None:
            start_at = rules.start_of(request, await self.now(tx))
            try:
                schedule_id = await self._schedule(tx, request, start_at)
            except UnknownTimezone as error:
                return Poison(reason="bad_timezone", detail=in_words(error))
            except RecurrenceError as error:
                return Poison(reason="bad_rule", detail=in_words(error))
        if place.job_id is not None and not await self._makes_way(tx, place.job_id):
            if schedule_id is not None:
                await self._drop_schedule(tx, schedule_id)
            return Taken(id=request.id, answer="ignored", reason="it is being published")
        if place.schedule_id is not None:
            await self._drop_schedule(tx, place.schedule_id)
        place.request, place.start_at = request, start_at
        place.job_id, place.schedule_id = None, schedule_id
        return Taken(id=request.id, answer=answer)

    async def _schedule(self, tx: Transaction, request: ScheduleRequest, start_at: datetime) -> UUID:
        change = await self._bell.schedules.create(
            tx,
            limits=LIMITS,
            recurrence=request.recurrence,
            timezone=request.timezone,
            start_local=rules.local_start(start_at, request.timezone),
            steps=[Step(key=_STEP, kind=FIRE, offset=timedelta(0), late="run")],
            payload={"id": request.id},
            correlation_id=correlation_id_of(request),
            **rules.catch_up_of(request.misfire),
        )
        return change.schedule.id

    async def _drop_schedule(self, tx: Transaction, id: UUID) -> None:
        """It makes way for another, and nobody asks for it any more. What it publishes just now stays published."""
        if await self._end_schedule(tx, id, _REPLACED):
            await self._bell.schedules.forget(tx, id)

    async def _end_schedule(self, tx: Transaction, id: UUID, reason: str) -> bool:
        try:
            await self._bell.schedules.end(tx, id, reason)
        except (NotFound, InvalidInput):
            # Somebody ended it by another door.
            return False
        return True

    async def _makes_way(self, tx: Transaction, id: UUID) -> bool:
        """Whether a job was withdrawn for another. One that runs must not even know that this was asked: it would not
        be tried again if its attempt fails, and nothing would take its place."""
        try:
            async with tx.all_or_nothing():
                if not await self._withdraw_job(tx, id, _REPLACED):
                    raise _TooLate
        except _TooLate:
            return False
        return True

    async def _withdraw_job(self, tx: Transaction, id: UUID, reason: str) -> bool:
        """Whether it will not be published. One that died waits for nobody any more."""
        (answer,) = await self._bell.cancel(tx, id=id, reason=reason)
        if answer.answer == "already_final" and answer.state == "dead":
            return bool(await self._bell.discard(tx, ids=[id]))
        return answer.answer == "cancelled"

    async def _cancel(self, tx: Transaction, known: Known | None) -> Any:
        if known is None or known.status is None:
            return "unknown"
        if known.status != "pending":
            return "over"
        if known.schedule_id is not None:
            await self._end_schedule(tx, known.schedule_id, _REASON)
            return "cancelled"
        assert known.job_id is not None
        return "cancelled" if await self._withdraw_job(tx, known.job_id, _REASON) else "too_late"

    async def _write(self, tx: Transaction, batch: Mapping[str, Place]) -> None:
        """In the order of the names, as everybody does, so that nobody waits in a circle."""
        places = [place for place in batch.values() if place.request is not None]
        once = [place for place in places if place.job_id is None and place.schedule_id is None]
        jobs = await self._bell.enqueue_many(
            tx, [job_of(place.request) for place in once if place.request is not None]
        )
        for place, job in zip(once, jobs, strict=True):
            place.job_id = job.id
        for place in places:
            place.number = place.job_id or self._ids.new()
        written = [batch[id] for id in rules.in_order(batch) if batch[id].request is not None]
        changed = [place for place in written if place.known is not None]
        if changed:
            await self._store.replace_requests(tx, columns=columns_of(changed))
        new = [place for place in written if place.known is None]
        if new:
            columns = {**columns_of(new), "numbers": [place.number for place in new]}
            if await self._store.insert_requests(tx, columns=columns) < len(new):
                raise _overtaken()

    async def _foreseen(
        self, tx: Transaction, one: ScheduledRequest, now: datetime | None
    ) -> ScheduledRequest:
        """What lies beyond the horizon is not planned yet, so it is computed."""
        if one.status != "pending" or one.upcoming_at is not None or one.recurrence is None or now is None:
            return one
        assert one.start_at is not None
        assert one.timezone is not None
        work = partial(
            occurrences,
            one.recurrence,
            start_local=rules.local_start(one.start_at, one.timezone),
            timezone=one.timezone,
            after=now,
            limit=1,
        )
        try:
            found = await self._bell.aside.short.run(tx.tenant, "recurrences", work)
        except RecurrenceError:
            return one
        return replace(one, upcoming_at=found[0].at) if found else one


class _Twice:
    """A name that is cancelled twice in one batch was cancelled the first time."""

    def __init__(self, answers: Mapping[str, Withdrawn]) -> None:
        self._answers = answers
        self._told: set[str] = set()

    def answer(self, id: str) -> Withdrawn:
        answer = self._answers[id]
        if answer.answer == "cancelled" and id in self._told:
            return Withdrawn(id=id, answer="over")
        self._told.add(id)
        return answer


def _overtaken() -> RevisionConflict:
    return RevisionConflict("another process took one of these ids at the same time; send them again")
