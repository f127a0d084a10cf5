"""What one would write without Timebell: FastAPI, a pool of asyncpg, and one insert for each request."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import orjson
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from timebell.clock import Chance, Ids

_INSERT = """
    INSERT INTO timebell.jobs (id, tenant, queue, kind, run_at, due_at, payload)
    VALUES ($1, 'default', 'default', $2, now() + $3, now() + $3, $4::text::jsonb)
"""


class Job(BaseModel):
    kind: str
    payload: dict[str, Any]
    delay: timedelta


class Made(BaseModel):
    id: UUID
    created: bool


def plain() -> FastAPI:
    ids = Ids(Chance())
    pools: list[asyncpg.Pool] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=10, max_size=10) as pool:
            pools.append(pool)
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/healthz")
    async def healthz() -> dict[str, bool]:
        return {"ok": True}

    @app.post("/jobs", status_code=201)
    async def create(job: Job) -> Made:
        id_ = ids.new()
        payload = orjson.dumps(job.payload).decode()
        async with pools[0].acquire() as connection, connection.transaction():
            await connection.execute(_INSERT, id_, job.kind, job.delay, payload)
        return Made(id=id_, created=True)

    return app


if __name__ == "__main__":
    uvicorn.run(
        plain(),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        log_level="warning",
        access_log=False,
        http="httptools",
    )
