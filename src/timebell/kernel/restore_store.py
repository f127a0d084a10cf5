"""The statements of a restore: one method for each file, of the same name. They are run as the owner of the tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from timebell.db.pool import Row, Session
from timebell.kernel.statements import Statements


class RestoreStore(Statements):
    """What must be so in a database whose rows came from elsewhere."""

    async def read_log_partitions(self, session: Session) -> list[date]:
        return [row["day"] for row in await self._run(session, "read_log_partitions")]

    async def release_everything(self, session: Session) -> None:
        await self._run(session, "release_everything")

    async def hold_queues(self, session: Session, *, reason: str, actor: str | None) -> list[str]:
        return [row["queue"] for row in await self._run(session, "hold_queues", reason=reason, actor=actor)]

    async def count_overdue(self, session: Session) -> Sequence[Row]:
        return await self._run(session, "count_overdue")
