"""A cluster of three brokers, of which the one that leads is killed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.broker.checking import Seen, Wanted
from tests.acceptance.broker.cluster import NAMES, Cluster, own_cluster
from tests.acceptance.broker.ground import Ground, eventually, ground_on
from tests.acceptance.broker.rabbit import scheduler_database
from tests.acceptance.broker.reporting import report
from tests.acceptance.broker.talking import DUE, Letter, calling, listening, request
from tests.daily import daily_seed
from timebell.testing.database import DatabaseFactory

# The library that these speak through leaves this behind where a connection is lost as it is made.
pytestmark = pytest.mark.filterwarnings(
    "ignore:coroutine 'Connection.close' was never awaited:RuntimeWarning"
)

COUNT = 1_500
SECONDS = 60.0
KILLS = 2


def asked(ground: Ground, start: datetime) -> list[tuple[float, Wanted, Letter]]:
    """Each with the second at which it is sent."""
    chosen = []
    for number in range(COUNT):
        sent = ground.chance.uniform(0, SECONDS)
        due = start + timedelta(seconds=sent + ground.chance.uniform(0, 5))
        one = Wanted(id=f"c{number}", dues=(due,))
        chosen.append((sent, one, request(one.id, at=due)))
    return sorted(chosen, key=lambda each: each[0])


async def kill_leaders(ground: Ground, cluster: Cluster) -> float:
    """Answers with how long at most nobody led."""
    longest = 0.0
    for _ in range(KILLS):
        await asyncio.sleep(SECONDS / (KILLS + 1))
        leader = await asyncio.to_thread(cluster.leader, DUE, NAMES[0])
        other = next(name for name in NAMES if name != leader)

        async def is_led_by(name: str = leader, other: str = other) -> bool:
            return await asyncio.to_thread(cluster.leader, DUE, other) != name

        async def is_whole(name: str = leader) -> bool:
            return await asyncio.to_thread(cluster.count, name) == len(NAMES)

        ground.note(f"{leader} leads")
        began = datetime.now(UTC)
        with ground.broker_away():
            await asyncio.to_thread(cluster.nodes[leader].kill)
            await eventually(is_led_by, 60, "another to lead")
            longest = max(longest, (datetime.now(UTC) - began).total_seconds())
            ground.note("another leads")
            await asyncio.to_thread(cluster.nodes[leader].start)
            await eventually(is_whole, 60, "a cluster of three")
    return longest


@pytest.mark.slow
@pytest.mark.req("S-5.3")
async def test_the_leader_of_a_cluster_is_killed(timebell_server: DatabaseFactory, place: Path) -> None:
    seed = daily_seed()
    async with scheduler_database(timebell_server) as database:
        with own_cluster(place) as cluster, ground_on(database, cluster.url, place, seed=seed) as ground:
            await asyncio.to_thread(cluster.wait)
            ground.launch("producer", "ada", "bob")
            ground.launch("intake", "ivy", "joe")
            await ground.ready()
            assert await asyncio.to_thread(cluster.members, DUE) == len(NAMES)
            start = datetime.now(UTC)
            chosen = asked(ground, start)

            async def send() -> None:
                async with calling(ground.broker_url) as caller:
                    for second in range(int(SECONDS) + 1):
                        some = [letter for at, _, letter in chosen if second - 1 < at <= second]
                        passed = (datetime.now(UTC) - start).total_seconds()
                        await asyncio.sleep(max(0.0, second - passed))
                        await caller.send(*some)

            async with listening(ground.broker_url) as ear:
                longest, _ = await asyncio.gather(kill_leaders(ground, cluster), send())
                await ground.taken(COUNT)
                await ground.settled()

                async def all_came() -> bool:
                    return len({*ear.ids()}) == COUNT

                await eventually(all_came, 30, "every message")
            for name, child in ground.children.items():
                assert child.is_alive, f"{name}: {child.words}"
            seen = Seen(
                wanted=[one for _, one, _ in chosen],
                fired=ear.fired(),
                standings=await ground.standings(),
                outages=ground.outages,
            )
    report(
        "F12",
        "the leader of a cluster dies",
        f"3 brokers, kill -9 of the one that leads, {KILLS} times, started again",
        seen,
        recovery_seconds=longest,
        remark="until another leads",
        seed=seed,
    )
