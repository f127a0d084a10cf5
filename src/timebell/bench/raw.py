"""The raw loop: the engine's own statements with nothing around them. What it reaches is the limit of this design."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

import orjson

from timebell.db.pool import Row, Session
from timebell.engine.node.node import Node
from timebell.engine.node.timekeeper import Timekeeper
from timebell.engine.store import EngineStore
from timebell.kernel import Timebell
from timebell.kernel.models import Mode

_BATCH = 1_000
_ROWS_A_READ = 4_000
_WRITERS = 6
_BEGINNING = (datetime(1970, 1, 1, tzinfo=UTC), UUID(int=0))


class RawLoop:
    """Reads ahead on one connection, pays on others, decodes each payload, and does nothing else."""

    batch = _BATCH

    def __init__(self, bell: Timebell, mode: Mode) -> None:
        self._bell = bell
        self._mode = mode
        self._store = EngineStore(bell.clock)
        self._timekeeper = Timekeeper(bell.clock)
        self._node = Node(
            self._store,
            bell.clock,
            name="raw",
            version="raw",
            lease_seconds=600,
            margin_seconds=1,
            is_alone=True,
        )
        self._cursors: dict[int, tuple[datetime, UUID]] = {}
        self.decoded_count = 0

    async def run(self) -> None:
        """Pay everything that is due, then leave."""
        async with self._bell.database.connection() as reading:
            await self._node.tick(reading, await self._timekeeper.anchor(reading))
            self._cursors = dict.fromkeys(sorted(self._node.owned), _BEGINNING)
            coming = asyncio.create_task(self._read(reading))
            while rows := await coming:
                coming = asyncio.create_task(self._read(reading))
                for row in rows:
                    self.decoded_count += bool(orjson.loads(row["payload"]))
                await self._pay(rows)
            await self._node.leave(reading)

    async def _read(self, session: Session) -> Sequence[Row]:
        rows = await self._store.read_due(
            session,
            positions=[(slot, 1, at, id) for slot, (at, id) in self._cursors.items()],
            until=self._timekeeper.now(),
            per_slot=_ROWS_A_READ // len(self._cursors),
        )
        for row in rows:
            self._cursors[row["slot"]] = (row["run_at"], row["id"])
        return rows

    async def _pay(self, rows: Sequence[Row]) -> None:
        if self._mode == "transactional":
            lanes = [self._pay_one_by_one(rows[number::_WRITERS]) for number in range(_WRITERS)]
            await asyncio.gather(*lanes)
            return
        for begin in range(0, len(rows), self.batch):
            batch = rows[begin : begin + self.batch]
            async with self._bell.database.connection() as session:
                version = batch[0]["version"]
                if self._mode == "external":
                    await self._store.start_jobs(
                        session,
                        ids=[row["id"] for row in batch],
                        version=version,
                        fence=self._fence(batch),
                    )
                    version += 1
                await self.work(session, batch, version)
                await self._finish(session, batch, version)

    async def work(self, session: Session, batch: Sequence[Row], version: int) -> None:
        """What the handlers would write; those that are measured write nothing."""

    async def _pay_one_by_one(self, rows: Sequence[Row]) -> None:
        for row in rows:
            async with self._bell.database.transaction() as session:
                await self._store.lock_job(
                    session,
                    id=row["id"],
                    version=row["version"],
                    epoch=self._node.owned[row["slot"]].epoch,
                    incarnation=self._node.incarnation,
                )
                await self._finish(session, [row], row["version"])

    async def _finish(self, session: Session, batch: Sequence[Row], version: int) -> None:
        now = self._timekeeper.now()
        await self._store.finish_jobs(
            session,
            ids=[row["id"] for row in batch],
            version=version,
            started_ats=[now] * len(batch),
            fence=self._fence(batch),
        )

    def _fence(self, batch: Sequence[Row]) -> dict[str, object]:
        slots = sorted({row["slot"] for row in batch})
        return {
            "slots": slots,
            "epochs": [self._node.owned[slot].epoch for slot in slots],
            "incarnation": self._node.incarnation,
            "lock_timeout": "50ms",
        }
