"""Through which provider the last message went: one row, however many there are, and whoever's."""

from __future__ import annotations

import pytest

from tests.engine.notify.stage import stage
from tests.query_plans import queries_of
from timebell.notify.delivery.provider_store import ProviderStore
from timebell.providers.log import captured_providers
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase


@pytest.mark.req("M-5.8")
async def test_it_is_that_of_the_last_message_beyond_the_inbox(database_url: TestDatabase) -> None:
    async def last() -> str | None:
        async with it.harness.bell.database.connection() as session:
            return await ProviderStore(it.clock).read_last_provider(session)

    async with stage(database_url.url, [RecordingProvider("mail"), *captured_providers()]) as it:
        assert await last() is None
        await it.told(channels=["inbox"])
        assert await last() is None
        await it.told(channels=["email"])
        assert await last() == "mail"
        await it.decide(providers={"sms": ["captured-sms"]})
        await it.told(channels=["sms"])
        assert await last() == "captured-sms"


async def test_it_is_read_from_the_end_of_an_index(database_url: TestDatabase) -> None:
    query = queries_of("notify")["read_last_provider"]
    async with stage(database_url.url) as it, it.harness.bell.database.connection() as session:
        await session.connection.execute("SET enable_seqscan = off")
        rows = await session.connection.fetch(f"EXPLAIN {query.text}")
    plan = "\n".join(row[0] for row in rows)
    assert "Index Scan Backward using deliveries_id" in plan
