"""Producers, intakes and the broker between other services and them are killed with -9, at random, again and again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.broker.chaos import Chaos, Sizes
from tests.acceptance.broker.checking import figures
from tests.acceptance.broker.ground import ground_on
from tests.acceptance.broker.rabbit import own_rabbit, scheduler_database
from tests.acceptance.broker.reporting import report
from tests.daily import daily_seed
from timebell.testing.database import DatabaseFactory

# The library that these speak through leaves this behind where a connection is lost as it is made.
pytestmark = pytest.mark.filterwarnings(
    "ignore:coroutine 'Connection.close' was never awaited:RuntimeWarning"
)

SHORT = Sizes(once=300, recurring=20, seconds=9.0, kills=20, broker_kills=1)
LONG = Sizes(
    once=5_000,
    recurring=200,
    seconds=400.0,
    kills=200,
    broker_kills=10,
    early_seconds=120.0,
    interval_max=15,
    count_max=25,
)


@pytest.mark.req("S-5.1", "S-5.3")
@pytest.mark.parametrize("sizes", [SHORT, pytest.param(LONG, marks=pytest.mark.slow)], ids=["short", "long"])
async def test_everything_is_killed(timebell_server: DatabaseFactory, place: Path, sizes: Sizes) -> None:
    """The set of what was fired is the expected one, and whatever came twice is explained by a kill."""
    seed = daily_seed()
    async with scheduler_database(timebell_server) as database:
        with own_rabbit(place) as rabbit, ground_on(database, rabbit.url(), place, seed=seed) as ground:
            chaos = Chaos(ground, rabbit, sizes)
            seen = await chaos.run()
    report(
        "F12",
        "producers, intakes and the broker die",
        f"3 producers, 2 intakes, kill -9 {sizes.kills} times, {sizes.broker_kills} of the broker",
        seen,
        remark=f"{chaos.sent_again} requests were sent again",
        seed=seed,
    )
    assert chaos.killed == sizes.kills
    assert figures(seen).cancelled >= len(seen.cancelled_early)
