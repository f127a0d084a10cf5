"""`Timebell`: the verbs. Each takes part in the transaction that it is given and writes nothing outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Unpack
from uuid import UUID

from timebell.clock import Chance, Clock, Ids, SandboxClock, SystemClock
from timebell.config import Settings
from timebell.db.joined import session_on
from timebell.db.pool import Database, Session
from timebell.db.wakeup import Wakeups
from timebell.db.walls import check_wall
from timebell.errors import InvalidInput
from timebell.kernel.agenda.writer import AgendaWriter
from timebell.kernel.app import Registry
from timebell.kernel.aside import Aside
from timebell.kernel.holds import Holds
from timebell.kernel.jobs.catalogue import Catalogue
from timebell.kernel.jobs.enqueueing import JobWriter, encode_payload
from timebell.kernel.jobs.kinds_alive import KindsAlive
from timebell.kernel.look_ups import LookUps
from timebell.kernel.models import (
    REASON_MAX,
    Agenda,
    AgendaDiff,
    Cancelled,
    Enqueue,
    Enqueued,
    Step,
    check_agendas,
    check_between,
    check_id,
    check_ids,
    check_instant,
    check_jobs,
    check_kind,
    check_name,
    dead_filters,
)
from timebell.kernel.options import EnqueueOptions, Payload, enqueue_of
from timebell.kernel.schedules.schedules import Schedules
from timebell.kernel.schedules.store import ScheduleStore
from timebell.kernel.shared import Shared
from timebell.kernel.store import Store
from timebell.kernel.tallies import Tallies
from timebell.kernel.transaction import Transaction, check_transaction

DEFAULT_TENANT = "default"


class Timebell:
    """Durable time for an application: tell it what is owed, to whom and when.

    Made by `timebell.running(...)`; an engine, in this process or another, pays what is owed.
    """

    def __init__(
        self,
        database: Database,
        *,
        registry: Registry | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        chance: Chance | None = None,
        beside: Timebell | None = None,
    ) -> None:
        self.database = database
        self.settings = settings or Settings()
        self.registry = (registry or Registry()).limited(self.settings.queues)
        self.clock = clock or SystemClock()
        self.is_sandbox = isinstance(self.clock, SandboxClock)
        self.chance = chance or Chance()
        self.tallies: Tallies = Tallies() if beside is None else beside.tallies
        self.shared: Shared = Shared(self, None if beside is None else beside.shared)
        self.holds = Holds()
        self.aside = Aside()
        self.look_ups = LookUps()
        self.wakeups = Wakeups(database, listen_url=self.settings.listen_url)
        self.store = Store(self.clock)
        self.kinds_alive = KindsAlive(database, self.store, self.clock.monotonic)
        self._ids = Ids(self.chance)
        self._catalogue = Catalogue(self.registry, self.store, self.kinds_alive)
        self._jobs = JobWriter(self.store, self._catalogue, self._ids, self.settings)
        self.agendas = AgendaWriter(self.store, self._catalogue, self._ids, self.settings)
        self.schedules = Schedules(
            self.store, ScheduleStore(self.clock), self.agendas, self._ids, self.settings, self.aside
        )

    async def declare(self) -> None:
        """Make the kinds and queues of the loaded apps known to SQL and to other processes."""
        async with self.database.transaction() as session:
            await self._catalogue.declare(session, self.settings.payload_bytes_max)
        for app in self.registry.apps:
            if app.on_declare is not None:
                await app.on_declare(self)

    async def close(self) -> None:
        self.aside.close()
        self.look_ups.close()
        await self.kinds_alive.close()
        await self.wakeups.close()

    @asynccontextmanager
    async def transaction(self, *, tenant: str = DEFAULT_TENANT) -> AsyncIterator[Transaction]:
        """A transaction of one tenant, committed at the end of the block; then the engine is woken."""
        check_name("tenant", tenant, required=True)
        if self.database.is_walled:
            check_wall(tenant)
        async with self.database.transaction() as session:
            tx = Transaction(session, tenant)
            try:
                yield tx
            finally:
                tx.close()
        self.wake(tx)

    def join(self, connection: Any, *, tenant: str = DEFAULT_TENANT) -> Transaction:
        """Take part in a transaction that you have open with asyncpg, psycopg or SQLAlchemy.

        You commit. Call `wake(tx)` afterwards to have what is due now run at once; otherwise the next sweep
        finds it.
        """
        check_name("tenant", tenant, required=True)
        return Transaction(session_on(connection, self.database.observer), tenant)

    def wake(self, tx: Transaction) -> None:
        """Wake the engine for what a committed transaction made due. Never fails and never waits."""
        self.wakeups.hint(tx.take_wakeups())
        self.tallies.take(tx)
        while tx.after_commit:
            tx.after_commit.pop(0)()

    async def enqueue(
        self, tx: Transaction, kind: str, payload: Payload | None = None, **options: Unpack[EnqueueOptions]
    ) -> Enqueued:
        """One job, due now unless `due_at` or `delay` says otherwise. The options are those of `Enqueue`."""
        return (await self._jobs.enqueue(tx, [enqueue_of(kind, payload, options)]))[0]

    async def enqueue_many(self, tx: Transaction, jobs: Sequence[Enqueue]) -> list[Enqueued]:
        """Many jobs at once, answered in the same order; all of them or none."""
        check_jobs(jobs)
        if len(jobs) > self.settings.many_max:
            raise InvalidInput(
                f"{len(jobs)} at once, the limit is {self.settings.many_max}; send several", field="jobs"
            )
        return await self._jobs.enqueue(tx, jobs) if jobs else []

    async def cancel(
        self,
        tx: Transaction,
        *,
        id: UUID | None = None,
        kind: str | None = None,
        key: str | None = None,
        subject: str | None = None,
        reason: str = "cancelled",
        actor: str | None = None,
    ) -> list[Cancelled]:
        """Cancel by id, by kind and key, or by subject, and say truthfully what became of each job.

        With a kind, what is of another kind is not meant.

        `cancelled`: it will not start. `too_late`: it is running; it is told, and is not tried again.
        `undecided`: another transaction held it for longer than `cancel_wait_seconds`, so nothing is known yet;
        what was asked is kept and done as soon as it is free, and who must know asks again. `already_final`: it had
        ended, in the state given.
        """
        check_transaction(tx)
        if sum(given is not None for given in (id, key, subject)) != 1:
            raise InvalidInput("name what to cancel by id, by kind and key, or by subject", field="id")
        if key is not None and kind is None:
            raise InvalidInput("a key belongs to a kind; give both", field="key")
        check_id("id", id)
        check_name("key", key)
        check_name("subject", subject)
        check_name("reason", reason, longest=REASON_MAX, required=True)
        check_name("actor", actor)
        if kind is not None:
            check_kind(kind)
        rows = await self.store.cancel_jobs(
            tx.session,
            tenant=tx.tenant,
            id=id,
            kind=kind,
            key=key,
            subject=subject,
            reason=reason,
            actor=actor,
            running=tx.running_job,
            wait_ms=int(self.settings.cancel_wait_seconds * 1000),
        )
        answers = [Cancelled(id=row["job_id"], answer=row["answer"], state=row["state"]) for row in rows]
        tx.count("cancelled", sum(one.answer == "cancelled" for one in answers))
        if id is not None and not answers:
            return [Cancelled(id=id, answer="not_found", state=None)]
        return answers

    async def set_agenda(
        self,
        tx: Transaction,
        *,
        subject: str,
        steps: Sequence[Step],
        anchor: datetime | None = None,
        reason: str = "withdrawn",
        actor: str | None = None,
        correlation_id: str | None = None,
    ) -> AgendaDiff:
        """State what should be owed about a subject; the answer is what changed.

        Steps are matched by key. What came to an end is not done again, what runs is left to run, and what is
        no longer stated is withdrawn.
        """
        agenda = Agenda(subject=subject, anchor=anchor, steps=steps, correlation_id=correlation_id)
        return await self.agendas.set(tx, agenda, reason=reason, actor=actor)

    async def set_agendas(
        self,
        tx: Transaction,
        agendas: Sequence[Agenda],
        *,
        reason: str = "withdrawn",
        actor: str | None = None,
    ) -> list[AgendaDiff]:
        """`set_agenda` for several subjects at once, answered in the same order; all of them or none."""
        check_agendas(agendas, self.settings.many_max)
        return await self.agendas.set_all(tx, agendas, reason=reason, actor=actor)

    async def clear_agenda(
        self, tx: Transaction, *, subject: str, reason: str = "cleared", actor: str | None = None
    ) -> AgendaDiff:
        """Nothing is owed about this subject any more."""
        return await self.agendas.set(tx, Agenda(subject=subject), reason=reason, actor=actor)

    async def record(
        self,
        tx: Transaction,
        name: str,
        data: Mapping[str, Any] | None = None,
        *,
        subject: str | None = None,
        actor: str | None = None,
        correlation_id: str | None = None,
        occurred_at: datetime | None = None,
    ) -> UUID:
        """Record an event: a fact in the past tense, `booking.cancelled`, that nothing changes afterwards."""
        check_transaction(tx)
        check_kind(name, "name")
        check_name("subject", subject)
        check_name("actor", actor)
        check_name("correlation_id", correlation_id)
        check_instant("occurred_at", occurred_at)
        id = self._ids.new()
        await self.store.insert_event(
            tx.session,
            id=id,
            tenant=tx.tenant,
            name=name,
            subject=subject,
            actor=actor,
            data=encode_payload({} if data is None else data, self.settings.payload_bytes_max, field="data"),
            correlation_id=correlation_id,
            occurred_at=occurred_at,
        )
        return id

    async def hasten(self, tx: Transaction, ids: Sequence[UUID]) -> list[UUID]:
        """Have jobs that were snoozed, or wait for their next attempt, tried now; answers with the ids of those.

        None is run before it is due, and one that runs already is left to run.
        """
        check_transaction(tx)
        check_ids(ids)
        rows = await self.store.hasten_jobs(tx.session, tenant=tx.tenant, ids=list(ids))
        tx.note_due(rows)
        return [row["id"] for row in rows]

    async def confirm(
        self, session: Session, runs: Sequence[tuple[UUID, int]]
    ) -> frozenset[tuple[UUID, int]]:
        """Of runs, by job and `version`, those that go on: the job was not given to another while a node stood still,
        and nobody cancelled it or stopped owing it.

        It is not until the session's transaction ends, so that what is written in there is written by one run, and
        nothing is begun after its cancel was committed.
        """
        ids, versions = [id for id, _ in runs], [version for _, version in runs]
        rows = await self.store.confirm_jobs(session, ids=ids, versions=versions)
        return frozenset((row["id"], row["version"]) for row in rows)

    async def finish(
        self,
        tx: Transaction,
        ids: Sequence[UUID],
        *,
        cursor: Mapping[str, Any] | None = None,
        reason: str = "done by another",
    ) -> list[UUID]:
        """End jobs that wait as done, because this transaction does their work; answers with the ids of those.

        One that runs, or that another transaction holds, goes on. With a `cursor`, so does one that was not snoozed
        with it, or was moved or changed since.
        """
        check_transaction(tx)
        check_ids(ids)
        check_name("reason", reason, longest=REASON_MAX, required=True)
        bytes_max = self.settings.payload_bytes_max
        rows = await self.store.finish_waiting(
            tx.session,
            tenant=tx.tenant,
            ids=list(ids),
            cursor=None if cursor is None else encode_payload(cursor, bytes_max, field="cursor"),
            reason=reason,
        )
        return [row["id"] for row in rows]

    async def revive(
        self,
        tx: Transaction,
        *,
        ids: Sequence[UUID] | None = None,
        kind: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
        payload: Mapping[str, Any] | None = None,
        per_second: float | None = None,
        limit: int = 1000,
        actor: str | None = None,
    ) -> list[UUID]:
        """Bring dead jobs back, by id or by filter, at most `limit` and, where asked, at a capped rate.

        A new `payload` is taken for a single id only, and not where its app says that the tenant may not ask for such
        jobs. What it expires at stays. Answers with the ids that came back.
        """
        check_transaction(tx)
        filters = dead_filters(ids, kind, queue, fingerprint, limit)
        check_name("actor", actor)
        check_between("per_second", per_second, 0.001, 100_000)
        if payload is not None and (ids is None or len(ids) != 1):
            raise InvalidInput("a new payload is taken for a single id only", field="payload")
        if payload is not None and ids is not None:
            kind = await self.store.read_dead_kind(tx.session, tenant=tx.tenant, id=ids[0])
            self.registry.check_new_payload(kind, tx.tenant)
        rows = await self.store.revive_jobs(
            tx.session,
            tenant=tx.tenant,
            actor=actor,
            payload=None if payload is None else encode_payload(payload, self.settings.payload_bytes_max),
            spacing_seconds=0.0 if per_second is None else 1.0 / per_second,
            **filters,
        )
        tx.note_due(rows)
        return [row["id"] for row in rows]

    async def discard(
        self,
        tx: Transaction,
        *,
        ids: Sequence[UUID] | None = None,
        kind: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
        limit: int = 1000,
        actor: str | None = None,
    ) -> list[UUID]:
        """Give dead jobs up for good, by id or by filter."""
        check_transaction(tx)
        filters = dead_filters(ids, kind, queue, fingerprint, limit)
        check_name("actor", actor)
        rows = await self.store.discard_jobs(tx.session, tenant=tx.tenant, actor=actor, **filters)
        return [row["id"] for row in rows]

    async def pause(
        self,
        tx: Transaction,
        queue: str,
        *,
        everyone: bool = False,
        reason: str | None = None,
        actor: str | None = None,
    ) -> None:
        """Stop starting jobs of a queue, for this tenant or for everyone. What runs is left to run."""
        check_transaction(tx)
        await self._catalogue.check_queue(tx.session, queue)
        check_name("reason", reason, longest=REASON_MAX)
        check_name("actor", actor)
        await self.store.pause_queue(
            tx.session, queue=queue, tenant="" if everyone else tx.tenant, reason=reason, actor=actor
        )

    async def resume(self, tx: Transaction, queue: str, *, everyone: bool = False) -> bool:
        """Start jobs of a queue again; False where it was not paused."""
        check_transaction(tx)
        await self._catalogue.check_queue(tx.session, queue)
        return await self.store.resume_queue(tx.session, queue=queue, tenant="" if everyone else tx.tenant)
