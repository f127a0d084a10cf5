"""Writing jobs: columns for one statement, keys taken first, conflicts answered one by one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from operator import attrgetter
from typing import Any
from uuid import UUID

import orjson

from timebell.clock import Ids
from timebell.config import Settings
from timebell.db.pool import Row
from timebell.errors import InvalidInput, KeyConflict, PayloadTooLarge
from timebell.kernel.jobs.catalogue import Catalogue
from timebell.kernel.jobs.columns import shorten
from timebell.kernel.models import Enqueue, Enqueued
from timebell.kernel.statements import Columns
from timebell.kernel.store import Store
from timebell.kernel.transaction import Transaction, check_transaction

# An escaped NUL: a backslash that is not itself escaped, and what follows it.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
# How often keys are asked for that change hands between asking for them and looking who has them.
_ROUNDS_MAX = 10
# How many jobs go into one statement: few enough that the next ones can be made ready meanwhile.
_CHUNK = 1_000

# The queue of each kind, as it was asked for.
Queues = Mapping[tuple[str, str | None], str]


def encode_payload(payload: Mapping[str, Any], bytes_max: int, *, field: str = "payload") -> str:
    """A JSON object within the limit, as text."""
    if type(payload) is not dict:
        if not isinstance(payload, Mapping):
            raise InvalidInput("must be a mapping that becomes a JSON object", field=field)
        payload = dict(payload)
    try:
        encoded = orjson.dumps(payload, default=_plain)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"cannot be written as JSON: {error}", field=field) from None
    if len(encoded) > bytes_max:
        raise PayloadTooLarge(
            f"{len(encoded)} bytes, the limit is {bytes_max}; store the data yourself and pass its id",
            field=field,
        )
    if b"\\u0000" in encoded and _NUL.search(encoded):
        raise InvalidInput("must not contain a NUL character; PostgreSQL cannot store it", field=field)
    return encoded.decode()


def _plain(value: object) -> str:
    """The driver's own kind of UUID, which the encoder does not know."""
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")


class JobWriter:
    """Enqueues one job or many in the caller's transaction."""

    def __init__(self, store: Store, catalogue: Catalogue, ids: Ids, settings: Settings) -> None:
        self._store = store
        self._catalogue = catalogue
        self._ids = ids
        self._settings = settings
        self._delay_max = timedelta(days=settings.tuning.offset_days_max)

    async def enqueue(self, tx: Transaction, jobs: Sequence[Enqueue]) -> list[Enqueued]:
        check_transaction(tx)
        await self._check_expiry(tx, jobs)
        queues = {
            asked: await self._catalogue.queue_for(tx.session, *asked)
            for asked in {(job.kind, job.queue): None for job in jobs}
        }
        ids = self._ids.many(len(jobs))
        has_keys = any(job.key is not None for job in jobs)
        if len(jobs) == 1 or (len(jobs) <= _CHUNK and not has_keys):
            written = await self._write(tx, jobs, ids, queues, has_keys)
        else:
            # One bad job refuses them all, and neither the keys nor the chunks before it may stay.
            async with tx.all_or_nothing():
                written = await self._write(tx, jobs, ids, queues, has_keys)
        tx.count("enqueued", sum(one.created for one in written) if has_keys else len(written))
        return written

    async def _write(
        self, tx: Transaction, jobs: Sequence[Enqueue], ids: list[UUID], queues: Queues, has_keys: bool
    ) -> list[Enqueued]:
        if not has_keys:
            await self._insert(tx, jobs, ids, queues)
            return [Enqueued(id=id, created=True) for id in ids]
        keyed = {id: job for id, job in zip(ids, jobs, strict=True) if job.key is not None}
        taken = await self._take_keys(tx, keyed, queues)
        new = {id: job for id, job in zip(ids, jobs, strict=True) if id not in taken}
        await self._insert(tx, list(new.values()), list(new), queues)
        return [taken.get(id) or Enqueued(id=id, created=True) for id in ids]

    async def _insert(
        self, tx: Transaction, jobs: Sequence[Enqueue], ids: list[UUID], queues: Queues
    ) -> None:
        """Chunk by chunk: while the database writes one, the next is made ready."""
        writing: asyncio.Task[Sequence[Row]] | None = None
        bytes_written = 0
        try:
            for at in range(0, len(jobs), _CHUNK):
                whole = self._columns(jobs[at : at + _CHUNK], ids[at : at + _CHUNK], queues)
                bytes_written += sum(map(len, whole["payloads"]))
                columns = shorten(whole, alike=_NEVER_NULL, absent=_OFTEN_NULL)
                if writing is not None:
                    tx.note_due(await writing)
                insert = self._store.insert_jobs(tx.session, tenant=tx.tenant, revision=None, columns=columns)
                writing = asyncio.create_task(insert)
                # It is on its way before the next chunk is begun.
                await asyncio.sleep(0)
        finally:
            if writing is not None:
                tx.note_due(await writing)
        tx.count("payload_bytes", bytes_written)

    async def _check_expiry(self, tx: Transaction, jobs: Sequence[Enqueue]) -> None:
        """A job that names no due instant is due after its delay, by the clock of the database."""
        unnamed = [job for job in jobs if job.expires_at is not None and job.due_at is None]
        if unnamed:
            now = await self._store.read_clock(tx.session)
            for job in unnamed:
                job.check_expiry(now + (job.delay or timedelta(0)))

    def _columns(self, jobs: Sequence[Enqueue], ids: list[UUID], queues: Queues) -> Columns:
        """The columns of `insert_jobs.sql`."""
        bytes_max = self._settings.payload_bytes_max
        return {
            **{parameter: list(map(field, jobs)) for parameter, field in _AS_GIVEN.items()},
            "ids": ids,
            "queues": [queues[job.kind, job.queue] for job in jobs],
            "delays": [self._seconds(job.delay) if job.delay else 0.0 for job in jobs],
            "payloads": [encode_payload(job.payload, bytes_max) for job in jobs],
            "steps": [],
            "step_orders": [],
        }

    def _seconds(self, delay: timedelta) -> float:
        if delay > self._delay_max:
            raise InvalidInput(f"must be at most {self._settings.tuning.offset_days_max} days", field="delay")
        return delay.total_seconds()

    async def _take_keys(
        self, tx: Transaction, keyed: Mapping[UUID, Enqueue], queues: Queues
    ) -> dict[UUID, Enqueued]:
        """Take the keys that are free; answer, by the id asked for, what stands behind the others."""
        if len({(job.kind, job.key) for job in keyed.values()}) < len(keyed):
            raise InvalidInput("the same key stands twice in one call; leave one out", field="key")
        rows = self._rows(keyed, queues)
        asked, taken = list(rows.values()), dict[UUID, Enqueued]()
        for _ in range(_ROUNDS_MAX):
            claimed = await self._store.claim_keys(
                tx.session, tenant=tx.tenant, columns=_columns_of(asked, _CLAIMED)
            )
            asked = [row for row in asked if row["id"] not in claimed]
            if not asked:
                return taken
            # A second statement: only it sees what the holder of the key has committed in between.
            held = await self._store.read_keys(
                tx.session, tenant=tx.tenant, columns=_columns_of(asked, _READ)
            )
            for row in held:
                id = row["asked_id"]
                taken[id] = await self._answer(tx, keyed[id], rows[id], row)
            # Whose job ended between the two statements is free again.
            asked = [row for row in asked if row["id"] not in taken]
            if not asked:
                return taken
        raise KeyConflict(f"key {asked[0]['key']!r} keeps changing hands; try again")

    def _rows(self, keyed: Mapping[UUID, Enqueue], queues: Queues) -> dict[UUID, dict[str, Any]]:
        jobs = list(keyed.values())
        columns = self._columns(jobs, list(keyed), queues)
        columns["lifetimes"] = [
            None if job.key_lifetime is None else job.key_lifetime.total_seconds() for job in jobs
        ]
        return {
            id: {field: columns[parameter][at] for parameter, field in _KEYED.items()}
            for at, id in enumerate(keyed)
        }

    async def _answer(self, tx: Transaction, job: Enqueue, row: dict[str, Any], held: Row) -> Enqueued:
        if job.on_conflict == "replace" and held["is_unfinished"]:
            replaced = await self._store.replace_job(
                tx.session, tenant=tx.tenant, id=held["job_id"], **{name: row[name] for name in _REPLACED}
            )
            if not replaced:
                raise KeyConflict(
                    f"key {job.key!r}: the job {held['job_id']} is running, too late to replace it"
                )
            tx.note_due(replaced)
        elif job.on_conflict == "same" and not held["is_same"]:
            raise KeyConflict(
                f"key {job.key!r} already stands for another job of kind {job.kind!r} ({held['job_id']}); "
                "use another key, cancel that job, or pass on_conflict='keep' or 'replace'"
            )
        return Enqueued(id=held["job_id"], created=False)


# The statement's parameter for each field of a row.
_INSERTED = {
    "ids": "id",
    "queues": "queue",
    "kinds": "kind",
    "subjects": "subject",
    "keys": "key",
    "due_ats": "due_at",
    "delays": "delay",
    "expires_ats": "expires_at",
    "priorities": "priority",
    "urgencies": "urgency",
    "max_attempts": "max_attempts",
    "steps": "step",
    "step_orders": "step_order",
    "guards": "guard",
    "payloads": "payload",
    "correlation_ids": "correlation_id",
}
_AS_GIVEN = {
    parameter: attrgetter(field)
    for parameter, field in _INSERTED.items()
    if field not in ("id", "queue", "delay", "step", "step_order", "payload")
}
_NEVER_NULL = {"queues", "kinds", "delays", "priorities", "urgencies"}
_OFTEN_NULL = _INSERTED.keys() - _NEVER_NULL - {"ids", "payloads"}
_READ = {
    name: _INSERTED[name] for name in ("ids", "kinds", "keys", "queues", "subjects", "payloads", "due_ats")
}
_MOVED = {
    parameter: field
    for parameter, field in _INSERTED.items()
    if parameter not in ("subjects", "keys", "delays", "steps", "correlation_ids")
}
_CLAIMED = {**_READ, "lifetimes": "lifetime"}
_KEYED = {
    parameter: field for parameter, field in _INSERTED.items() if parameter not in ("steps", "step_orders")
} | _CLAIMED
_REPLACED = (
    "queue",
    "subject",
    "payload",
    "due_at",
    "delay",
    "expires_at",
    "priority",
    "urgency",
    "max_attempts",
    "guard",
    "correlation_id",
    "lifetime",
)


def _columns_of(rows: Sequence[Mapping[str, Any]], fields: Mapping[str, str]) -> Columns:
    return {parameter: [row[field] for row in rows] for parameter, field in fields.items()}


def move_columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """The columns of `move_steps.sql`."""
    return _columns_of(rows, _MOVED)


def insert_columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """The columns of `insert_jobs.sql` for rows that carry every field."""
    return shorten(_columns_of(rows, _INSERTED), alike=_NEVER_NULL, absent=_OFTEN_NULL)
