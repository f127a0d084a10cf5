"""The database's clock is set back: what it said before binds nobody."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner
from timebell.kernel import App

LEASE = timedelta(seconds=30)


async def lend_for_an_hour(owner: Owner, node: ClusterNode) -> int:
    """As if the lease had been written while the clock was an hour ahead."""
    done = await owner.connection.execute(
        "UPDATE timebell.nodes SET lease_until = now() + interval '1 hour' WHERE incarnation = $1",
        node.incarnation,
    )
    assert done == "UPDATE 1"
    return node.incarnation


@pytest.mark.req("U-1")
async def test_a_dead_node_does_not_keep_its_slots_until_the_old_time_has_come_again(
    cluster: Cluster, owner: Owner
) -> None:
    dead, alive = await cluster.node([App(name="t")]), await cluster.node([App(name="t")])
    life = await lend_for_an_hour(owner, dead)
    await cluster.kill_only(dead)
    await alive.engine.beat()
    cluster.clock.move(LEASE - timedelta(seconds=1))
    await alive.engine.beat()
    assert life in alive.engine.node.alive, "it may only be slow"
    cluster.clock.move(timedelta(seconds=1))
    await alive.engine.beat()
    assert life not in alive.engine.node.alive
    await alive.engine.beat()
    assert len(alive.engine.node.owned) == 256


async def test_a_node_that_goes_on_renewing_is_not_taken_for_dead(cluster: Cluster, owner: Owner) -> None:
    first, second = await cluster.node([App(name="t")]), await cluster.node([App(name="t")])
    life = await lend_for_an_hour(owner, first)
    await second.engine.beat()
    await first.engine.beat()
    cluster.clock.move(2 * LEASE)
    for _ in range(2):
        await second.engine.beat()
        await first.engine.beat()
    assert first.incarnation == life
    assert life in second.engine.node.alive
