"""pgqueuer under the same work. Settings: the best of those tried, as the table says."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers.common import PAYLOAD, Counter, run, until_reached

BATCH = 1_000
CHUNK = 5_000
_STOP_SECONDS = 30.0


class PgQueuerPeer:
    name = "pgqueuer"
    settings = f"batch {BATCH}, asyncpg pool of 10, uvloop, enqueue by {CHUNK}"

    _pool: asyncpg.Pool[asyncpg.Record]
    _queries: Queries

    async def set_up(self, url: str) -> None:
        self._pool = await asyncpg.create_pool(url, min_size=4, max_size=10)
        self._queries = Queries.from_asyncpg_pool(self._pool)
        await self._queries.install()

    async def enqueue(self, count: int) -> None:
        for begin in range(0, count, CHUNK):
            size = min(CHUNK, count - begin)
            await self._queries.enqueue(
                ["nothing"] * size,
                [json.dumps(PAYLOAD).encode() for _ in range(size)],
                [0] * size,
            )

    async def enqueue_later(self, delays: Sequence[float]) -> None:
        await self._queries.enqueue(
            ["nothing"] * len(delays),
            [json.dumps(PAYLOAD).encode() for _ in delays],
            [0] * len(delays),
            [timedelta(seconds=delay) for delay in delays],
        )

    async def run_until(self, counter: Counter, *, late: list[float] | None = None) -> float:
        queuer = PgQueuer.from_asyncpg_pool(self._pool)

        async def nothing(job: Job) -> None:
            if late is not None:
                late.append((time.time() - job.execute_after.timestamp()) * 1_000)
            counter.add()

        queuer.entrypoint("nothing")(nothing)
        worker = asyncio.create_task(queuer.run(batch_size=BATCH))
        ended = await until_reached(worker, counter)
        queuer.shutdown.set()
        await asyncio.wait_for(worker, _STOP_SECONDS)
        return ended

    async def unfinished(self) -> int:
        count: int = await self._pool.fetchval("SELECT count(*) FROM pgqueuer")
        return count

    async def close(self) -> None:
        await self._pool.close()


if __name__ == "__main__":
    run(PgQueuerPeer())
