"""procrastinate under the same work. Settings: the best of those tried, as the table says."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from procrastinate import App, PsycopgConnector

from bench.peers.common import PAYLOAD, Counter, run, until_reached

CONCURRENCY = 10
CHUNK = 1_000
POLL_SECONDS = 0.1
_STOP_SECONDS = 30.0


class ProcrastinatePeer:
    name = "procrastinate"
    settings = f"concurrency {CONCURRENCY}, delete on success, polling {POLL_SECONDS:g} s, uvloop, enqueue by {CHUNK}"

    _app: App
    _counter: Counter
    _late: list[float] | None

    async def set_up(self, url: str) -> None:
        logging.disable(logging.WARNING)
        self._app = App(connector=PsycopgConnector(conninfo=url, min_size=4, max_size=CONCURRENCY + 4))
        await self._app.open_async()
        await self._app.schema_manager.apply_schema_async()

        async def nothing(due: float = 0.0, **_: Any) -> None:
            if self._late is not None:
                self._late.append((time.time() - due) * 1_000)
            self._counter.add()

        self._app.task(name="nothing", queue="bench")(nothing)

    async def enqueue(self, count: int) -> None:
        nothing = self._app.configure_task("nothing", queue="bench")
        for begin in range(0, count, CHUNK):
            await nothing.batch_defer_async(*[PAYLOAD for _ in range(min(CHUNK, count - begin))])

    async def enqueue_later(self, delays: Sequence[float]) -> None:
        """One call each, some at a time: a batch of this library has one instant for all."""
        now = datetime.now(UTC)
        for begin in range(0, len(delays), CONCURRENCY):
            together = delays[begin : begin + CONCURRENCY]
            await asyncio.gather(*(self._defer(now + timedelta(seconds=delay)) for delay in together))

    async def _defer(self, at: datetime) -> None:
        nothing = self._app.configure_task("nothing", queue="bench", schedule_at=at)
        await nothing.defer_async(due=at.timestamp(), **PAYLOAD)

    async def run_until(self, counter: Counter, *, late: list[float] | None = None) -> float:
        self._counter, self._late = counter, late
        worker = asyncio.create_task(
            self._app.run_worker_async(
                queues=["bench"],
                concurrency=CONCURRENCY,
                delete_jobs="successful",
                fetch_job_polling_interval=POLL_SECONDS,
                install_signal_handlers=False,
            )
        )
        ended = await until_reached(worker, counter)
        worker.cancel()
        await asyncio.wait([worker], timeout=_STOP_SECONDS)
        return ended

    async def unfinished(self) -> int:
        rows = await self._app.connector.execute_query_one_async(
            "SELECT count(*) AS n FROM procrastinate_jobs"
        )
        count: int = rows["n"]
        return count

    async def close(self) -> None:
        await self._app.close_async()


if __name__ == "__main__":
    run(ProcrastinatePeer())
