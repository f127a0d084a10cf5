"""What callers ask for, each call with its record: answered, refused, or of unknown outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from tests.history import Mode, Record
from tests.simulation.process import Process
from timebell.errors import KeyConflict
from timebell.kernel import Cancelled, Enqueued, Step, Transaction
from timebell.notify import Told

# What a caller hears instead of an answer. After the first the outcome is known: nothing happened.
_REFUSALS = (KeyConflict, asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
LOSSES = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)
_LOCKS = "/* hold */ SELECT id FROM timebell.jobs WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE"


OURS = "default"
NEIGHBOUR = "other"


def named(tenant: str, name: str) -> str:
    """What a name of one tenant is called in a history; another tenant may have the same."""
    return name if tenant == OURS else f"{tenant}:{name}"


def tenant_of(name: str) -> str:
    """Whose a name in a history is."""
    tenant, _, rest = name.partition(":")
    return NEIGHBOUR if rest and tenant == NEIGHBOUR else OURS


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A job that somebody wants, under a name that is its own."""

    name: str
    mode: Mode
    due_at: datetime | None = None
    subject: str | None = None
    key: str | None = None
    expires_at: datetime | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    queue: str | None = None

    @property
    def kind(self) -> str:
        return f"sim.{self.mode}"

    @property
    def handles(self) -> dict[str, str | None]:
        """What it can be cancelled by, besides its id."""
        return {"kind": self.kind, "key": self.key, "subject": self.subject}


class Caller:
    """Asks as one process does, and writes down what it was told."""

    def __init__(self, process: Process, record: Callable[[Record], None], tenant: str = OURS) -> None:
        self.process = process
        self._record = record
        self._tenant = tenant

    def _now(self) -> datetime:
        return self.process.wire.now()

    def note(self, op: Any, key: str, invoked_at: datetime, *, is_known: bool = False, **facts: Any) -> None:
        answered_at = self._now() if is_known else None
        self._record(
            Record(
                op=op,
                key=key,
                node=self.process.name,
                invoked_at=invoked_at,
                answered_at=answered_at,
                **facts,
            )
        )

    async def _ask(self, tx: Transaction, wanted: Any, is_replacing: bool) -> Enqueued | Told:
        return await self.process.bell.enqueue(
            tx,
            wanted.kind,
            wanted.payload,
            due_at=wanted.due_at,
            subject=wanted.subject,
            key=wanted.key,
            expires_at=wanted.expires_at,
            correlation_id=wanted.name,
            queue=wanted.queue,
            on_conflict="replace" if is_replacing else "same",
        )

    async def _take_back(self, tx: Transaction, **which: Any) -> Sequence[Cancelled]:
        return await self.process.bell.cancel(tx, **which)

    async def _step(self, tx: Transaction, subject: str, name: str, mode: Mode, **options: Any) -> Step:
        return Step(key=name, kind=f"sim.{mode}", **options)

    async def enqueue(self, wanted: Wanted, *, is_replacing: bool = False) -> UUID | None:
        """The id of the job that stands for it; None where it was refused or nobody knows."""
        invoked_at = self._now()
        facts: dict[str, Any] = {
            "mode": wanted.mode,
            "due_at": wanted.due_at or invoked_at,
            "expires_at": wanted.expires_at,
        }
        try:
            async with self.process.bell.transaction(tenant=self._tenant) as tx:
                made = await self._ask(tx, wanted, is_replacing)
        except _REFUSALS:
            self.note("enqueue", wanted.name, invoked_at, is_known=True, answer="refused", **facts)
            return None
        except (*LOSSES, asyncio.CancelledError):
            self.note("enqueue", wanted.name, invoked_at, is_known=False, **facts)
            raise
        found = "replaced" if is_replacing else "existing"
        facts |= {"answer": "new" if made.created else found, "job_id": str(made.id)}
        self.note("enqueue", wanted.name, invoked_at, is_known=True, **facts)
        return made.id

    async def cancel(self, wanted: Mapping[UUID, Wanted], **which: Any) -> None:
        """Cancel by id, by kind and key, or by subject; one record for each job that is answered for.

        Where no answer comes it may have been any that the question fits, of those that are known by then.
        """
        invoked_at = self._now()
        try:
            async with self.process.bell.transaction(tenant=self._tenant) as tx:
                answers = await self._take_back(tx, **which)
        except _REFUSALS:
            return
        except (*LOSSES, asyncio.CancelledError):
            for id, job in wanted.items():
                if which.items() <= {**job.handles, "id": id}.items():
                    self.note("cancel", job.name, invoked_at, is_known=False, job_id=str(id))
            raise
        for each in answers:
            # By subject also jobs are cancelled whose enqueue has not been answered yet.
            name = wanted[each.id].name if each.id in wanted else named(self._tenant, str(each.id))
            facts = {"answer": each.answer, "job_id": str(each.id)}
            self.note("cancel", name, invoked_at, is_known=True, **facts)

    async def plan(
        self, subject: str, steps: Mapping[str, tuple[datetime, Mode]], *, is_ordered: bool
    ) -> None:
        invoked_at = self._now()
        facts: dict[str, Any] = {
            "steps": {step: due_at for step, (due_at, _) in steps.items()},
            "is_ordered": is_ordered,
        }
        try:
            async with self.process.bell.transaction(tenant=self._tenant) as tx:
                stated = [
                    await self._step(tx, subject, step, mode, at=due_at, ordered=is_ordered)
                    for step, (due_at, mode) in steps.items()
                ]
                diff = await self.process.bell.set_agenda(
                    tx, subject=subject, steps=stated, correlation_id=named(self._tenant, subject)
                )
        except _REFUSALS:
            return
        except (*LOSSES, asyncio.CancelledError):
            self.note("plan", named(self._tenant, subject), invoked_at, is_known=False, **facts)
            raise
        running = tuple(change.key for change in diff.too_late)
        self.note("plan", named(self._tenant, subject), invoked_at, is_known=True, running=running, **facts)

    async def hold(self, ids: list[UUID], duration: timedelta) -> None:
        """Keep a transaction open that has locked jobs, as a caller does who forgets it."""
        async with self.process.bell.transaction(tenant=self._tenant) as tx:
            await tx.connection.fetch(_LOCKS, ids)
            await asyncio.sleep(duration.total_seconds())
