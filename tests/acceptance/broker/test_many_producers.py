"""Several producers beside each other, none of them harmed: everything once, and on time."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.broker.chaos import assert_fine
from tests.acceptance.broker.checking import Seen, Wanted, written
from tests.acceptance.broker.ground import Ground, ground_on, heard
from tests.acceptance.broker.measures import quantile
from tests.acceptance.broker.talking import calling, listening, request
from tests.daily import daily_seed
from timebell.testing.database import TestDatabase

NAMES = ("ada", "bob", "cyd", "dan")


async def due_at_once(ground: Ground, count: int) -> None:
    """S-2.5: all due at the same instant."""
    at = datetime.now(UTC) + timedelta(seconds=1 + count / 2_000)
    wanted = [Wanted(id=f"herd-{number}", dues=(at,)) for number in range(count)]
    async with calling(ground.broker_url) as caller, listening(ground.broker_url) as ear:
        await caller.send(*(request(one.id, at=at) for one in wanted))
        await ground.taken(count)
        await heard(ear.heard, count, 120)
        await ground.settled()
        assert await caller.depth("timebell.due") == 0
    assert Counter(ear.ids()).most_common(1)[0][1] == 1
    assert_fine(Seen(wanted=wanted, fired=ear.fired(), standings=await ground.standings()))
    last = max(each.received_at for each in ear.heard)
    print(f"{count} due at once were received within {(last - at).total_seconds():.2f} s")


async def due_at_random(ground: Ground, count: int, seconds: float) -> None:
    """S-2.4: at random instants on an idle engine."""
    start = datetime.now(UTC) + timedelta(seconds=2)
    dues = {
        f"random-{number}": start + timedelta(seconds=ground.chance.uniform(0, seconds))
        for number in range(count)
    }
    async with calling(ground.broker_url) as caller, listening(ground.broker_url) as ear:
        await caller.send(*(request(id, at=at) for id, at in dues.items()))
        await heard(ear.heard, count, seconds + 60)
    fired = {each.id: each for each in ear.fired()}
    assert {id: each.scheduled_for for id, each in fired.items()} == {
        id: written(at) for id, at in dues.items()
    }
    late = [(fired[id].fired_at - at).total_seconds() for id, at in dues.items()]
    came = [(fired[id].received_at - at).total_seconds() for id, at in dues.items()]
    print(
        f"fired late p50 {quantile(late, 0.5) * 1000:.1f} ms, p99 {quantile(late, 0.99) * 1000:.1f} ms; "
        f"received late p50 {quantile(came, 0.5) * 1000:.1f} ms, p99 {quantile(came, 0.99) * 1000:.1f} ms"
    )
    assert min(late) >= 0
    # A machine with other work may be slow; a producer that looked only now and then would be later in every case.
    assert quantile(late, 0.5) <= 0.5


@pytest.mark.req("S-2.4", "S-2.5")
@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_each_is_handled_by_one_producer(
    place: Path, database: TestDatabase, broker_url: str, count: int
) -> None:
    with ground_on(database, broker_url, place, seed=daily_seed(), lease_seconds=10.0) as ground:
        ground.launch("producer", *NAMES)
        ground.launch("intake", "ivy")
        await ground.ready()
        await due_at_once(ground, count)
        await due_at_random(ground, 200, 4.0 if count == 1_000 else 30.0)
        for name, child in ground.children.items():
            assert child.is_alive, f"{name}: {child.words}"
