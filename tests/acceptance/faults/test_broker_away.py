"""The broker is not there: before anything else is, and for a while in which much is due."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.broker.checking import Fired, Seen, Wanted
from tests.acceptance.broker.ground import Ground, ground_on, heard
from tests.acceptance.broker.measures import longest_step_back, peak_megabytes, processor_seconds
from tests.acceptance.broker.rabbit import own_rabbit, scheduler_database
from tests.acceptance.broker.reporting import report
from tests.acceptance.broker.talking import CANCELS, DEAD, DUE, REQUESTS, calling, listening, request
from tests.acceptance.processes import Process, clean_environment, free_port, until
from tests.contract.brokers.rabbit_server import RabbitServer
from tests.daily import daily_seed
from timebell.testing.database import DatabaseFactory

# The library that these speak through leaves this behind where a connection is lost as it is made.
pytestmark = pytest.mark.filterwarnings(
    "ignore:coroutine 'Connection.close' was never awaited:RuntimeWarning"
)

TENANTS = ("default", "north", "south")
MEGABYTES_MAX = 250
TRUSTING = {"TIMEBELL_BROKER_TRUSTS_TENANT": "true"}


def start(place: Path, processes: list[Process], ground: Ground) -> Process:
    """A producer that is started as an operator starts it, since its memory is looked at."""
    port = free_port()
    environment = clean_environment(**ground.variables)
    process = Process(place / "work", "work", "--port", port, port=port, environment=environment)
    processes.append(process)
    return process


async def come_up_before_the_broker(
    place: Path, processes: list[Process], ground: Ground, rabbit: RabbitServer
) -> tuple[Process, Process]:
    """A producer and an intake, which had to wait, and so had a `timebell up` beside them."""
    await asyncio.to_thread(rabbit.kill)
    producer = start(place, processes, ground)
    intake = ground.run("ivy", "consume", has_port=True)
    owner = {"TIMEBELL_OWNER_URL": ground.database.owner_url}
    everything = ground.run("eve", "up", has_port=True, **owner)
    started = (producer, intake, everything)

    def are_alive() -> bool:
        assert producer.popen.poll() is None, producer.words
        assert intake.is_alive, intake.words
        assert everything.is_alive, everything.words
        return all("the jobs of a queue wait" in each.log for each in started)

    await asyncio.to_thread(until, are_alive, 60, "three processes that wait for their broker")
    assert [each.status("/healthz") for each in started] == [200, 200, 200]
    assert intake.status("/readyz") == 503
    with ground.broker_away():
        await asyncio.to_thread(rabbit.start)
    for each in started:
        await asyncio.to_thread(each.wait_ready)
    async with calling(ground.broker_url) as caller:
        for queue in (REQUESTS, CANCELS, DUE, DEAD):
            assert await caller.depth(queue) == 0
    assert await asyncio.to_thread(everything.stop) == 0, everything.words
    return producer, intake


class Outage:
    """Much is asked for, the broker goes, all of it is due, the broker comes back."""

    def __init__(
        self, ground: Ground, rabbit: RabbitServer, producer: Process, count: int, seconds: float
    ) -> None:
        self._ground, self._rabbit, self._producer = ground, rabbit, producer
        self._count, self._seconds = count, seconds
        self.drained_seconds = 0.0
        self.processor_seconds = 0.0

    async def run(self) -> Seen:
        ground, chance = self._ground, self._ground.chance
        async with calling(ground.broker_url) as caller, listening(ground.broker_url) as ear:
            begin = datetime.now(UTC) + timedelta(seconds=2 + self._count / 700)
            wanted = [
                Wanted(
                    id=f"due-{number}",
                    tenant=chance.choice(TENANTS),
                    dues=(begin + timedelta(seconds=chance.uniform(0, self._seconds)),),
                )
                for number in range(self._count)
            ]
            await caller.send(*(request(one.id, tenant=one.tenant, at=one.dues[0]) for one in wanted))
            await ground.taken(self._count, 120)
            await _reached(begin - timedelta(seconds=0.5))
            ground.note(f"{len(ear.heard)} were fired before the broker goes")
            with ground.broker_away():
                await asyncio.to_thread(self._rabbit.kill)
                spent = processor_seconds(self._producer.popen.pid)
                await _reached(begin + timedelta(seconds=self._seconds))
                self.processor_seconds = processor_seconds(self._producer.popen.pid) - spent
                await asyncio.to_thread(self._rabbit.start)
            back = time.monotonic()
            await heard(ear.heard, self._count, 120)
            self.drained_seconds = time.monotonic() - back
            await ground.settled()
        return Seen(
            wanted=wanted, fired=ear.fired(), standings=await ground.standings(), outages=ground.outages
        )


async def _reached(instant: datetime) -> None:
    await asyncio.sleep(max(0.0, (instant - datetime.now(UTC)).total_seconds()))


def disorder(fired: Sequence[Fired]) -> float:
    """Seconds by which a message came after one of its tenant that was due later, at most."""
    by_tenant: dict[str, list[datetime]] = defaultdict(list)
    for each in sorted(fired, key=lambda each: each.received_at):
        by_tenant[each.tenant].append(each.due_at)
    return max(longest_step_back(dues).total_seconds() for dues in by_tenant.values())


@pytest.mark.req("S-2.3")
@pytest.mark.parametrize(
    ("count", "seconds"), [(1_000, 3.0), pytest.param(10_000, 60.0, marks=pytest.mark.slow)]
)
async def test_the_broker_is_away_while_much_is_due(
    timebell_server: DatabaseFactory, place: Path, processes: list[Process], count: int, seconds: float
) -> None:
    seed = daily_seed()
    async with scheduler_database(timebell_server) as database:
        with (
            own_rabbit(place) as rabbit,
            ground_on(database, rabbit.url(), place, seed=seed, **TRUSTING) as ground,
        ):
            producer, intake = await come_up_before_the_broker(place, processes, ground, rabbit)
            outage = Outage(ground, rabbit, producer, count, seconds)
            seen = await outage.run()
            memory = peak_megabytes(producer.popen.pid)
            assert await asyncio.to_thread(producer.stop) == 0, producer.words
            assert await asyncio.to_thread(intake.stop) == 0, intake.words
    moved = disorder(seen.fired)
    report(
        "F12",
        "the broker is away",
        f"{count:,} due within {seconds:g} s of it, 3 tenants, one producer",
        seen,
        recovery_seconds=outage.drained_seconds,
        remark=f"drained; order within {moved:.2f} s; {memory:.0f} MB at most; "
        f"{outage.processor_seconds:.1f} s of a processor meanwhile",
        seed=seed,
    )
    assert moved <= 1.0
    assert memory < MEGABYTES_MAX
    assert outage.processor_seconds < 0.5 * seconds + count / 2_000
