"""However much one tenant asks for at once, another is answered; and no read takes longer than it may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from tests.web.support import OTHER, open_site, problem
from timebell.db.pool import Limits
from timebell.testing.database import TestDatabase

# Those who wait for the lock are let go when the test says so, however slow the machine is.
PATIENT = Limits(connect=60, lock=60, statement=60)
WAITING = "SELECT count(*) FROM pg_locks WHERE relation = 'timebell.jobs'::regclass AND NOT granted"


@asynccontextmanager
async def jobs_locked(database: TestDatabase) -> AsyncIterator[asyncpg.Connection]:
    """Whoever reads jobs waits, as behind a statement that takes long."""
    admin = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        async with admin.transaction():
            await admin.execute("LOCK TABLE timebell.jobs IN ACCESS EXCLUSIVE MODE")
            yield admin
    finally:
        await admin.close(timeout=10)


async def test_lists_of_one_tenant_leave_connections_to_another(database_url: TestDatabase) -> None:
    async with open_site(database_url, connections=4, limits=PATIENT, read_seconds=60) as site:
        assert (await site.get("/v1/recipients", key=OTHER)).status_code == 200
        async with jobs_locked(database_url) as admin:
            lists = [asyncio.create_task(site.get("/v1/jobs")) for _ in range(24)]
            async with asyncio.timeout(30):
                while await admin.fetchval(WAITING) < 3:
                    pass
            async with asyncio.timeout(20):
                answered = await site.get("/v1/recipients", key=OTHER)
            assert answered.status_code == 200
            assert await admin.fetchval(WAITING) == 3
        assert [response.status_code for response in await asyncio.gather(*lists)] == [200] * 24


async def test_who_asks_for_too_much_at_once_hears_so(database_url: TestDatabase) -> None:
    async with open_site(database_url, connections=2, limits=PATIENT, read_seconds=60) as site:
        assert (await site.get("/v1/recipients")).status_code == 200
        async with jobs_locked(database_url) as admin:
            lists = [asyncio.create_task(site.get("/v1/jobs")) for _ in range(26)]
            async with asyncio.timeout(30):
                while await admin.fetchval(WAITING) < 1:
                    pass
            refused = await site.get("/v1/recipients")
            content = problem(refused, 429, "too_many_at_once")
            assert "ask for less at once" in content["detail"]
            assert refused.headers["retry-after"] == "1"
        assert {response.status_code for response in await asyncio.gather(*lists)} == {200}


async def test_a_read_that_takes_too_long_is_given_up(database_url: TestDatabase) -> None:
    async with open_site(database_url, read_seconds=0.1) as site:
        async with jobs_locked(database_url):
            content = problem(await site.get("/v1/jobs"), 503, "too_slow")
            assert "narrower filter" in content["detail"]
        async with asyncio.timeout(30):
            # Its own tenth of a second may be too short on a busy machine, and is not what is looked at here.
            while (await site.get("/v1/jobs")).status_code != 200:
                pass
