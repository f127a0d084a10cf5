"""The job as its handler sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from timebell.errors import NoTransaction
from timebell.kernel.destinations import Destinations
from timebell.kernel.transaction import Transaction
from timebell.rules.batches import shrunk

if TYPE_CHECKING:
    from timebell.kernel.bell import Timebell

Beat = Callable[["Job", dict[str, Any] | None], Awaitable[bool]]


@dataclass(slots=True, eq=False)
class Job:
    """One attempt at a job. `attempt` counts from 1, and began at `started_at` by the database's clock; `cursor` is
    where an earlier run got to; `version` is its row's for as long as this attempt has it.

    `bell` is the verbs, for a handler or guard that wants a transaction of its own. `destinations` is asked by one
    that learns only while it runs what it depends on.
    """

    id: UUID
    tenant: str
    kind: str
    queue: str
    payload: dict[str, Any]
    due_at: datetime
    attempt: int
    started_at: datetime
    bell: Timebell
    destinations: Destinations
    subject: str | None = None
    key: str | None = None
    step: str | None = None
    expires_at: datetime | None = None
    correlation_id: str | None = None
    cursor: dict[str, Any] | None = None
    version: int = 0
    beat: Beat | None = None
    is_cancel_requested: bool = False
    transaction: Transaction | None = None

    @property
    def tx(self) -> Transaction:
        """The transaction of a transactional handler, committed together with the completion."""
        if self.transaction is None:
            raise NoTransaction(
                "only a transactional handler has job.tx; declare the handler mode='transactional'"
            )
        return self.transaction

    async def heartbeat(self, cursor: dict[str, Any] | None = None) -> bool:
        """Say that the handler is alive: its time-out starts anew. Answers False when the job was cancelled.

        A `cursor` is stored, so that after a time-out or a crash the next attempt goes on from there. In a
        transactional handler nothing is stored before its end; return `Snooze(cursor=...)` there instead.
        """
        if self.beat is None:
            return not self.is_cancel_requested
        return await self.beat(self, cursor)

    def batch(self, full: int) -> int:
        """The size of a batch: halved after each failed attempt, so that what was too much gets smaller."""
        return shrunk(full, self.attempt - 1)
