"""Whatever happens in whatever order: a request is pending, and comes to one of two ends, and stays there."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, ClassVar

import orjson
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.apps.scheduler.support import DAY, DUE_QUEUE, MINUTE, Desk, desk, is_there, message
from timebell.apps.scheduler.models import STATUSES
from timebell.brokers.local_server import Fate
from timebell.testing.database import TestDatabase

EDGES = {
    (None, "pending"),
    ("pending", "done"),
    ("pending", "cancelled"),
    ("pending", "pending"),
    ("done", "done"),
    ("cancelled", "cancelled"),
}
names = st.sampled_from(["a", "b", "c"])
minutes = st.integers(0, 2)


class World:
    """One desk for all examples; each has names of its own."""

    def __init__(self, runner: asyncio.Runner, post: Desk) -> None:
        self.runner = runner
        self.post = post
        self.example = 0
        self._looked_at = 0
        self._fired: dict[str, set[str]] = defaultdict(set)

    def fired(self) -> dict[str, set[str]]:
        """What was published for each name, for which instants."""
        messages = self.post.server.messages(DUE_QUEUE)
        for one in messages[self._looked_at :]:
            due = orjson.loads(one.body)
            self._fired[due["id"]].add(due["scheduled_for"])
        self._looked_at = len(messages)
        return self._fired


class RequestMachine(RuleBasedStateMachine):
    """Requests, cancels, time, and a broker that comes and goes; after each event everything is looked at."""

    seen_edges: ClassVar[set[tuple[str | None, str]]] = set()

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.post = world.post
        self.statuses: dict[str, str] = {}
        self.fired: dict[str, int] = {}
        world.example += 1

    def _run(self, event: Coroutine[Any, Any, None]) -> None:
        self.world.runner.run(event)
        self.world.runner.run(self._look())

    def _id(self, name: str) -> str:
        return f"{self.world.example}-{name}"

    async def _look(self) -> None:
        rows = await self.post.rows(
            "SELECT id, status, next_run_at, fire_count, rrule, at FROM scheduler.scheduler_jobs WHERE id LIKE $1",
            f"{self.world.example}-%",
        )
        fired = self.world.fired()
        for row in rows:
            id, status = row["id"], row["status"]
            assert status in STATUSES
            before = self.statuses.get(id)
            assert (before, status) in EDGES
            self.seen_edges.add((before, status))
            if before in ("done", "cancelled"):
                assert len(fired[id]) == self.fired[id]
            self.statuses[id], self.fired[id] = status, len(fired[id])
            # What arrived and was not confirmed is not counted yet, and what took another's place counts anew.
            assert row["fire_count"] <= len(fired[id])
            if row["rrule"] is None:
                assert row["fire_count"] == (status == "done")
                assert status != "done" or f"{row['at']:%Y-%m-%dT%H:%M:%S}.000000Z" in fired[id]
            assert status == "pending" or row["next_run_at"] is None
        assert self.statuses.keys() == {row["id"] for row in rows}

    @rule(name=names, at=minutes, payload=st.integers(0, 1))
    def ask_once(self, name: str, at: int, payload: int) -> None:
        due_at = self.post.clock.now + at * MINUTE
        self._run(self._send(message("ScheduleRequest", self._id(name), at=due_at, payload=payload)))

    @rule(name=names, count=st.integers(1, 3), misfire=st.sampled_from(["fire_once", "fire_all", "skip"]))
    def ask_again(self, name: str, count: int, misfire: str) -> None:
        rule = f"FREQ=MINUTELY;COUNT={count}"
        self._run(self._send(message("ScheduleRequest", self._id(name), rrule=rule, misfire=misfire)))

    @rule(name=names)
    def cancel(self, name: str) -> None:
        self._run(self._send(message("ScheduleCancel", self._id(name))))

    @rule(passed=minutes)
    def pass_time(self, passed: int) -> None:
        self._run(self.post.run_to(self.post.clock.now + passed * MINUTE))

    @rule(passed=minutes)
    def nobody_publishes_for_a_while(self, passed: int) -> None:
        self.post.clock.move(passed * MINUTE)
        self._run(self._run_due())

    @precondition(lambda self: self.post.server.is_up)
    @rule(name=names, passed=minutes, fate=st.sampled_from(["lose", "lose_confirm", "return", "refuse"]))
    def the_broker_fails(self, name: str, passed: int, fate: Any) -> None:
        id = self._id(name)
        self.post.server.fate = lambda one: Fate(
            sort=fate if f'"id":"{id}"' in one.body.decode() else "arrive"
        )
        try:
            self._run(self.post.run_to(self.post.clock.now + passed * MINUTE))
        finally:
            self.post.server.fate = lambda one: Fate()

    @rule(passed=minutes)
    def the_broker_is_away(self, passed: int) -> None:
        self._run(self._outage(passed * MINUTE))

    def teardown(self) -> None:
        """In the end everything that was asked for once has come to its end, and what recurs here too."""
        self._run(self.post.run_to(self.post.clock.now + 10 * MINUTE))
        assert "pending" not in self.statuses.values()
        self._run(self.post.run_to(self.post.clock.now + DAY))

    async def _send(self, one: Any) -> None:
        await self.post.send(one)

    async def _run_due(self) -> None:
        await self.post.harness.run_due()

    async def _outage(self, length: timedelta) -> None:
        self.post.server.stop()
        await self.post.broker_left()
        await self.post.run_to(self.post.clock.now + length)
        self.post.server.start()
        await is_there(self.post)
        await self.post.stranger.open(self.post.stranger._topology)
        await self.post.harness.run_due()


def explore(database: TestDatabase, examples: int, steps: int) -> set[tuple[str | None, str]]:
    RequestMachine.seen_edges = set()
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        post = runner.run(stack.enter_async_context(desk(database)))
        world = World(runner, post)
        try:
            run_state_machine_as_test(
                lambda: RequestMachine(world),  # type: ignore[arg-type]
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=steps,
                    deadline=None,
                    database=None,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(stack.aclose())
    return RequestMachine.seen_edges


@pytest.mark.req("S-7.1")
def test_only_these_edges_are_ever_seen(scheduler_database: TestDatabase) -> None:
    seen = explore(scheduler_database, 5, 12)
    assert (None, "pending") in seen
    assert seen <= EDGES


@pytest.mark.slow
@pytest.mark.req("S-7.1")
def test_only_these_edges_are_ever_seen_at_length(scheduler_database: TestDatabase) -> None:
    seen = explore(scheduler_database, 60, 25)
    assert {("pending", "done"), ("pending", "cancelled")} <= seen <= EDGES
