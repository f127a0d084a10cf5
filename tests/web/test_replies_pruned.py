"""Replies to idempotency keys are kept for a day, and then forgotten by whoever prunes."""

from __future__ import annotations

from datetime import timedelta

from tests.store.support import StillClock
from tests.web.bells import ROUTES
from tests.web.support import open_site
from timebell.engine import Engine
from timebell.testing.database import TestDatabase


async def test_a_reply_is_pruned_when_its_day_is_over(database_url: TestDatabase) -> None:
    clock = StillClock()
    async with open_site(database_url, routes=ROUTES, clock=clock) as site:
        await site.post("/api/bells", {"name": "x"}, headers={"idempotency-key": "once"})
        engine = Engine(site.bell)
        await engine.pruner.tick()
        assert await site.tables.value("SELECT count(*) FROM timebell_web.replies") == 1
        assert clock.now is not None
        clock.now += timedelta(hours=25)
        await engine.pruner.tick()
        assert await site.tables.value("SELECT count(*) FROM timebell_web.replies") == 0
