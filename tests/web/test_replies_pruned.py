"""Replies to idempotency keys are kept for a day, dead keys for longer, and then forgotten by whoever prunes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.store.support import StillClock
from tests.web.bells import ROUTES
from tests.web.support import open_site
from timebell.engine import Engine
from timebell.errors import ConfigurationError
from timebell.testing.database import TestDatabase
from timebell.web.access.keys import CHOSEN_KEY


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


async def test_a_key_is_pruned_long_after_it_was_revoked(database_url: TestDatabase) -> None:
    async with open_site(database_url, dead_days=10) as site:
        names = "SELECT name FROM timebell_web.api_keys ORDER BY name"
        for name in ("first", "second"):
            made = (await site.post("/v1/keys", {"name": name, "scope": "read"}, key="admin")).json()
            await site.ask("DELETE", f"/v1/keys/{made['id']}", key="admin")
        before = [row["name"] for row in await site.tables.rows(names)]
        age = "UPDATE timebell_web.api_keys SET revoked_at = revoked_at - $1::interval WHERE name = 'first'"
        await site.tables.rows(age, timedelta(days=9))
        engine = Engine(site.bell)
        await engine.pruner.tick()
        assert [row["name"] for row in await site.tables.rows(names)] == before
        await site.tables.rows(age, timedelta(days=2))
        await engine.pruner.tick()
        assert [row["name"] for row in await site.tables.rows(names)] == [
            name for name in before if name != "first"
        ]


async def test_a_key_that_the_settings_chose_stays_revoked_for_ever(database_url: TestDatabase) -> None:
    """A process that still has it in its settings would make it anew, were it forgotten."""
    chosen = "a key that somebody chose and others know"
    async with open_site(database_url, dead_days=10) as site:
        await site.surface.keys.ensure(chosen, name=CHOSEN_KEY)
        old = "UPDATE timebell_web.api_keys SET revoked_at = now() - interval '99 days' WHERE name = $1"
        await site.tables.rows(old, CHOSEN_KEY)
        await Engine(site.bell).pruner.tick()
        with pytest.raises(ConfigurationError, match="was revoked"):
            await site.surface.keys.ensure(chosen, name=CHOSEN_KEY)
