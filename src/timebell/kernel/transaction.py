"""The transaction that the verbs take part in: ours, or one that the user has open."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from timebell.db.failures import REFUSED_ERRORS
from timebell.db.pool import Row, Session
from timebell.errors import NoTransaction, TimebellError


def check_transaction(tx: object) -> None:
    """What a verb is given as its transaction must be one, and open."""
    if not isinstance(tx, Transaction):
        raise NoTransaction(
            f"{type(tx).__name__} is no transaction; pass the tx of `bell.transaction()` or of `bell.join(...)`"
        )
    tx.check_open()


class Transaction:
    """One open transaction of one tenant. It gathers the wake-ups to send, what to count and what to call, once it has
    been committed."""

    __slots__ = ("_is_open", "after_commit", "counted", "running_job", "session", "tenant", "wakeups")

    def __init__(self, session: Session, tenant: str, running_job: UUID | None = None) -> None:
        self.session = session
        self.tenant = tenant
        self.running_job = running_job
        self.wakeups: list[tuple[int, datetime]] = []
        self.counted: Counter[str] | None = None
        self.after_commit: list[Callable[[], None]] = []
        self._is_open = True

    @property
    def connection(self) -> Any:
        """The driver's connection, for statements of your own in the same transaction."""
        self.check_open()
        return self.session.connection  # type: ignore[attr-defined]

    def check_open(self) -> None:
        if not self._is_open or not self.session.is_in_transaction():
            raise NoTransaction(
                "the transaction has ended; open another with `bell.transaction()`, or begin one and join it"
            )

    @asynccontextmanager
    async def all_or_nothing(self) -> AsyncIterator[None]:
        """A part that is undone where Timebell or the database refuses it, so that the caller may go on with the rest.
        There may be parts within a part."""
        await self.session.execute("SAVEPOINT timebell_part")
        try:
            yield
        except (TimebellError, *REFUSED_ERRORS):
            await self.session.execute("ROLLBACK TO SAVEPOINT timebell_part")
            # It would hide that of a part around this one, which has the same name.
            await self.session.execute("RELEASE SAVEPOINT timebell_part")
            raise
        await self.session.execute("RELEASE SAVEPOINT timebell_part")

    def count(self, what: str, number: int) -> None:
        """For the tallies of the process, which take it after the commit."""
        if number:
            if self.counted is None:
                self.counted = Counter()
            self.counted[what] += number

    def close(self) -> None:
        self._is_open = False

    def note_due(self, rows: Iterable[Row]) -> None:
        """Remember which slots to wake: those in which something is due soon."""
        self.wakeups.extend((row["slot"], row["run_at"]) for row in rows if row["is_near"])

    def take_wakeups(self) -> list[tuple[int, datetime]]:
        wakeups, self.wakeups = self.wakeups, []
        return wakeups
