"""A version that is applied to thousands, by processes of which one is killed in the middle."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import asyncpg
import pytest
import pytest_asyncio

from tests.acceptance.conftest import Work
from tests.acceptance.faults.waiting import until
from tests.apps.databases import template_for
from tests.apps.sequences.test_applying import OWED, VERSIONS, begin
from timebell.apps.sequences import APP
from timebell.notify import notify_app
from timebell.testing import ManualClock, harness
from timebell.testing.database import DatabaseFactory, TestDatabase

COUNT = 10_000
DONE = "SELECT done_count FROM sequences.applications WHERE id = $1"
IS_OVER = "SELECT finished_at IS NOT NULL FROM sequences.applications WHERE id = $1"


@pytest_asyncio.fixture
async def database(timebell_server: DatabaseFactory) -> AsyncIterator[TestDatabase]:
    made = await timebell_server.create(template=await template_for(timebell_server, APP))
    yield made
    await timebell_server.drop(made)


@pytest.mark.slow
async def test_a_process_that_is_killed_leaves_the_rest_to_the_next(
    database: TestDatabase, work: Work
) -> None:
    async with harness(database.url, [notify_app(), APP], clock=ManualClock(datetime.now(UTC))) as h:
        application_id = await begin(h.bell, COUNT)
    admin = await asyncpg.connect(database.admin_url, timeout=10)

    async def is_halfway() -> bool:
        return bool(await admin.fetchval(DONE, application_id) >= COUNT // 4)

    async def is_over() -> bool:
        return bool(await admin.fetchval(IS_OVER, application_id))

    variables = {"DATABASE_URL": database.url, "TIMEBELL_APPS": "timebell.apps.sequences"}
    try:
        doomed = await asyncio.to_thread(work, **variables)
        await until(is_halfway, 60, "a quarter that is applied")
        doomed.signal(signal.SIGKILL)
        await asyncio.to_thread(doomed.wait)
        assert not await is_over()
        await asyncio.to_thread(work, **variables)
        await until(is_over, 180, "the rest")
        (row,) = await admin.fetch(
            "SELECT done_count, (counts ->> 'added')::integer AS added FROM sequences.applications"
        )
        assert (row["done_count"], row["added"]) == (COUNT, COUNT)
        assert [tuple(each) for each in await admin.fetch(VERSIONS)] == [(2, COUNT)]
        owed = {each["step"]: each["count"] for each in await admin.fetch(OWED)}
        assert owed == {"day_1": COUNT, "day_3": COUNT}
    finally:
        await admin.close(timeout=10)
