"""A run in which everything is killed: what is asked for, when, and who dies when, all chosen by a seed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from tests.acceptance.broker.checking import Misfire, Name, Seen, Wanted, check, figures, owed
from tests.acceptance.broker.ground import Ground, eventually
from tests.acceptance.broker.talking import Caller, Ear, Letter, calling, cancel, listening, request
from tests.acceptance.faults.waiting import until
from tests.contract.brokers.rabbit_server import RabbitServer

PRODUCERS: Final = ("ada", "bob", "cyd")
INTAKES: Final = ("ivy", "joe")
_TICK_SECONDS: Final = 0.01
# How long nothing is finished before somebody dies.
_FROZEN_SECONDS: Final = 0.15
# For what has to be known before the first is killed.
_AHEAD_SECONDS: Final = 3.0
_BACK_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How large a run is. `early_seconds` is how long before its time a cancel is early, whatever may happen between;
    None where those are sent before anybody is killed."""

    once: int
    recurring: int
    seconds: float
    kills: int
    broker_kills: int
    early_seconds: float | None = None
    interval_max: int = 4
    count_max: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Letters and kills by the seconds of the run at which they are due; those at zero come before any kill."""

    wanted: Sequence[Wanted]
    letters: Sequence[tuple[float, Letter]]
    kills: Sequence[tuple[float, str]]
    cancelled: frozenset[Name]
    cancelled_early: frozenset[Name]

    @property
    def first(self) -> list[Letter]:
        return [letter for at, letter in self.letters if at <= 0]


def plan(chance: random.Random, start: datetime, sizes: Sizes) -> Plan:
    wanted: list[Wanted] = []
    letters: list[tuple[float, Letter]] = []
    cancelled: set[Name] = set()
    early: set[Name] = set()
    kills = sorted(_kills(chance, sizes))
    for number in range(sizes.once):
        one = Wanted(id=f"once-{number}", dues=(_due(chance, start, sizes, kills),))
        due = (one.dues[0] - start).total_seconds()
        sent = _sent(chance, sizes, kills)
        if number % 10 < 2:
            cancelled.add(one.name)
        if number % 10 == 0:
            one, sent, withdrawn = _cancelled_early(chance, one, start, sizes)
            early.add(one.name)
            letters.append((withdrawn, cancel(one.id)))
        elif number % 10 == 1:
            letters.append((max(sent, due + chance.uniform(-0.4, 0.4)), cancel(one.id)))
        letters += [(sent, request(one.id, at=one.dues[0], payload={"n": number}))] * (1 + (number % 20 == 7))
        wanted.append(one)
    for number in range(sizes.recurring):
        some, letter = _recurring(chance, start, sizes, number)
        wanted.append(some)
        letters.append((0, letter))
        if number % 20 == 3:
            cancelled.add(some.name)
            letters.append((chance.uniform(0.2, 0.9) * sizes.seconds, cancel(some.id)))
    return Plan(
        wanted=wanted,
        letters=sorted(letters, key=lambda one: one[0]),
        kills=kills,
        cancelled=frozenset(cancelled),
        cancelled_early=frozenset(early),
    )


def _due(
    chance: random.Random, start: datetime, sizes: Sizes, kills: Sequence[tuple[float, str]]
) -> datetime:
    """Now and then long ago; many just before somebody who publishes dies, or the broker: in the middle of it."""
    if chance.random() < 0.03:
        return start - timedelta(seconds=chance.randrange(3600))
    seconds = chance.uniform(0.5, sizes.seconds)
    if chance.random() < 0.5:
        at = chance.choice([at for at, name in kills if name not in INTAKES])
        seconds = max(0.5, at - chance.uniform(0, _FROZEN_SECONDS))
    return start + timedelta(seconds=seconds)


def _sent(chance: random.Random, sizes: Sizes, kills: Sequence[tuple[float, str]]) -> float:
    """Many just before one that takes them in dies."""
    if chance.random() < 0.5:
        at = chance.choice([at for at, name in kills if name in INTAKES])
        return max(0.0, at - chance.uniform(0, _FROZEN_SECONDS))
    return chance.uniform(0, sizes.seconds * 0.6)


def _cancelled_early(
    chance: random.Random, one: Wanted, start: datetime, sizes: Sizes
) -> tuple[Wanted, float, float]:
    """The request with a later time, when it is sent, and when its cancel is."""
    if sizes.early_seconds is None:
        due = chance.uniform(0.6, 1.0) * sizes.seconds
        return replace(one, dues=(start + timedelta(seconds=due),)), 0.0, 0.0
    due = chance.uniform(sizes.early_seconds + 10, sizes.seconds)
    withdrawn = chance.uniform(0, due - sizes.early_seconds)
    sent = chance.uniform(max(0.0, withdrawn - 20), withdrawn)
    return replace(one, dues=(start + timedelta(seconds=due),)), sent, withdrawn


def _recurring(chance: random.Random, start: datetime, sizes: Sizes, number: int) -> tuple[Wanted, Letter]:
    misfire: Misfire = chance.choices(("fire_all", "fire_once", "skip"), (80, 15, 5))[0]
    begin = start.replace(microsecond=0) + timedelta(seconds=chance.randrange(3, 6))
    interval = chance.randint(1, sizes.interval_max)
    count = min(chance.randint(2, sizes.count_max), 1 + int(sizes.seconds - 4) // interval)
    one = Wanted(
        id=f"often-{number}",
        dues=tuple(begin + timedelta(seconds=interval * place) for place in range(count)),
        misfire=misfire,
    )
    rule = f"FREQ=SECONDLY;INTERVAL={interval};COUNT={count}"
    return one, request(one.id, rrule=rule, dtstart=begin, misfire=misfire)


def _kills(chance: random.Random, sizes: Sizes) -> Iterator[tuple[float, str]]:
    """Spread over the run; the broker takes a while to come back, so that its kills are far from each other."""
    for number in range(sizes.broker_kills):
        yield sizes.seconds * (number + chance.uniform(0.3, 0.6)) / sizes.broker_kills, "broker"
    others = sizes.kills - sizes.broker_kills
    for number in range(others):
        at = sizes.seconds * (number + chance.random()) / others
        yield at, chance.choice((*PRODUCERS, *PRODUCERS, *INTAKES))


class Chaos:
    """One run of a plan."""

    def __init__(self, ground: Ground, rabbit: RabbitServer, sizes: Sizes) -> None:
        self._ground = ground
        self._rabbit = rabbit
        self._sizes = sizes
        self.killed = 0
        self.sent_again = 0

    async def run(self) -> Seen:
        """Kill as planned, let everything settle, and hand over what was seen."""
        ground = self._ground
        ground.launch("producer", *PRODUCERS)
        ground.launch("intake", *INTAKES)
        await asyncio.to_thread(self._rabbit.wait)
        await ground.ready()
        async with calling(ground.broker_url) as caller, listening(ground.broker_url) as ear:
            began = time.monotonic() + _AHEAD_SECONDS
            start = datetime.now(UTC) + timedelta(seconds=_AHEAD_SECONDS)
            chosen = plan(ground.chance, start, self._sizes)
            await caller.send(*chosen.first)
            await self._is_begun(chosen)
            await asyncio.gather(self._ask(caller, chosen, began), self._kill_all(chosen, began))
            await ground.ready()
            await ground.taken(len(chosen.wanted))
            await ground.settled()
            seen = await self._seen(chosen, ear)
            self.sent_again = caller.sent_again
        ground.note(f"{figures(seen)}")
        return seen

    async def _is_begun(self, chosen: Plan) -> None:
        """All that was sent before is known: requests have rows, and cancels are carried out."""
        often = sum(one.misfire is not None for one in chosen.wanted)
        await self._ground.taken(often)
        if self._sizes.early_seconds is None:
            query = "scheduler.requests WHERE cancelled_at IS NOT NULL"

            async def is_so() -> bool:
                return await self._ground.count(query) >= len(chosen.cancelled_early)

            await eventually(is_so, _BACK_SECONDS, "the early cancels")

    async def _ask(self, caller: Caller, chosen: Plan, began: float) -> None:
        left = [(at, letter) for at, letter in chosen.letters if at > 0]
        while left:
            await asyncio.sleep(max(_TICK_SECONDS, began + left[0][0] - time.monotonic()))
            now = time.monotonic() - began
            due = [letter for at, letter in left if at <= now]
            left = left[len(due) :]
            await caller.send(*due, seconds=_BACK_SECONDS)

    async def _kill_all(self, chosen: Plan, began: float) -> None:
        reviving: asyncio.Task[None] | None = None
        for at, name in chosen.kills:
            await asyncio.sleep(max(0.0, began + at - _FROZEN_SECONDS - time.monotonic()))
            is_away = reviving is not None and not reviving.done()
            if name == "broker":
                if reviving is not None:
                    await reviving
                reviving = asyncio.create_task(self._kill_broker())
            else:
                async with self._in_the_middle(name, is_away=is_away):
                    await asyncio.to_thread(self._ground.kill, name)
            self.killed += 1
        if reviving is not None:
            await reviving

    @asynccontextmanager
    async def _in_the_middle(self, name: str, *, is_away: bool) -> AsyncIterator[None]:
        """What is being published has no answer for a while, or what is taken in cannot be written."""
        if name in INTAKES:
            async with self._ground.locked("scheduler.requests"):
                await asyncio.sleep(_FROZEN_SECONDS)
                yield
        elif is_away:
            await asyncio.sleep(_FROZEN_SECONDS)
            yield
        else:
            pid = await asyncio.to_thread(self._pid)
            os.kill(pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(_FROZEN_SECONDS)
                yield
            finally:
                os.kill(pid, signal.SIGCONT)

    async def _kill_broker(self) -> None:
        """It answers nobody for a while before that."""
        with self._ground.broker_away():
            os.kill(await asyncio.to_thread(self._pid), signal.SIGSTOP)
            await asyncio.sleep(_FROZEN_SECONDS)
            await asyncio.to_thread(self._rabbit.kill)
            await asyncio.to_thread(self._rabbit.start)

    def _pid(self) -> int:
        return int(self._rabbit.ask("list_to_integer(os:getpid())"))

    async def _seen(self, chosen: Plan, ear: Ear) -> Seen:
        """What is owed may be on its way still."""
        seen = Seen(
            wanted=chosen.wanted,
            fired=(),
            standings=await self._ground.standings(),
            cancelled=chosen.cancelled,
            cancelled_early=chosen.cancelled_early,
            outages=self._ground.outages,
        )
        missing = {(one.name, due) for one in seen.wanted for due in owed(one, seen)}
        looked = 0

        async def all_came() -> bool:
            nonlocal looked
            some, looked = ear.heard[looked:], len(ear.heard)
            missing.difference_update((each.name, each.due_at) for each in (one.fired() for one in some))
            return not missing

        try:
            await until(all_came, 30, "what is owed")
        except AssertionError:
            self._ground.note(f"never came: {sorted(missing)[:10]}")
        return replace(seen, fired=ear.fired())


def assert_fine(seen: Seen) -> None:
    broken = check(seen)
    assert not broken, f"{len(broken)} in all:\n" + "\n".join(map(str, broken[:20]))
