"""S2: two tenants in turn on one connection, behind PgBouncer, and neither ever sees a row of the other."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tests.acceptance.faults.pooler import Bouncer
from tests.acceptance.faults.servers import PASSWORD, served
from timebell.db.pool import Database
from timebell.db.provision import ROLES
from timebell.db.walls import walled_to
from timebell.errors import NotFound
from timebell.kernel import App, Job, Registry, Timebell
from timebell.kernel.insights.insights import Insights

TENANTS = ("red", "blue")
ROUNDS = 50


async def ring(_: Job) -> None:
    """Never run: no node is there."""


REGISTRY = Registry([App(name="office", handlers={"office.ring": ring})])


async def work(bell: Timebell, tenant: str, name: str) -> list[str]:
    """Write, read, fail and read again, as requests do; answers with whatever was another tenant's."""
    strangers: list[str] = []
    for number in range(ROUNDS):
        with walled_to(tenant):
            async with bell.transaction(tenant=tenant) as tx:
                await bell.enqueue(tx, "office.ring", {"of": tenant}, key=f"{name}-{number}")
            with suppress(NotFound):
                async with bell.transaction(tenant=tenant) as tx:
                    await bell.record(tx, "office.failed")
                    raise NotFound("undone")
            async with bell.database.connection() as session:
                rows = await session.connection.fetch(
                    "SELECT tenant FROM timebell.jobs UNION ALL SELECT tenant FROM timebell.job_keys"
                )
            strangers += [row["tenant"] for row in rows if row["tenant"] != tenant]
            lines = (await Insights(bell.database, bell.clock).jobs(tenant, limit=10)).lines
            assert lines
        # Whoever gets the connection next, and says nothing of a tenant, finds none that was left there.
        for unwalled in (bell.database._borrowed(), bell.database.connection()):
            async with unwalled as session:
                assert await session.connection.fetchval("SELECT count(*) FROM timebell.jobs") == 0
    return strangers


@pytest.mark.slow
async def test_two_tenants_in_turn_on_one_connection(place: Path) -> None:
    passwords = dict.fromkeys(ROLES.values(), PASSWORD)
    async with (
        served(place / "server") as server,
        Bouncer(place / "bouncer", server.port, passwords, pool_size=1) as bouncer,
    ):
        node = await Database.open(server.url())
        await Timebell(node, registry=REGISTRY).declare()
        opened = await Database.open(
            server.url("api", port=bouncer.port), size=8, pooled=True, is_walled=True
        )
        bell = Timebell(opened, registry=REGISTRY)
        found = await asyncio.gather(
            *(work(bell, tenant, f"{tenant}-{caller}") for caller in range(3) for tenant in TENANTS)
        )
        backends = await server.ask("SELECT count(*) FROM pg_stat_activity WHERE usename = $1", ROLES["api"])
        await bell.close()
        await opened.close()
        assert found == [[]] * 6
        assert backends == 1, "they did share one connection"
        counts = await server.ask(
            "SELECT array_agg(j.count) FROM (SELECT count(*) FROM timebell.jobs GROUP BY tenant) j"
        )
        assert counts == [3 * ROUNDS] * 2
        await node.close()
