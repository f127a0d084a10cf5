"""The broker of a world: one server that outlives its connections, and the way of each process to it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from tests.simulation.loop import LIFE, Life
from tests.simulation.post import BEGUN
from timebell.apps.scheduler.topology import DEAD
from timebell.brokers import Confirmed, Heard, Intake, Message, Published, Received
from timebell.brokers.local import PUBLISH_SECONDS, LocalBroker, LocalIntake
from timebell.brokers.local_server import Fate, LocalServer
from timebell.config import Settings

Sort = Literal["arrive", "lose", "lose_confirm", "return", "refuse"]

DUE = Settings().broker_due_queue
_DUE_TYPE = "ScheduleDue"
# How long a broker waits for a sign of life, about.
BEAT_SECONDS = 600.0
# A broker that is back is noticed at once, and what waited for it is brought back at the next look around.
_BACK = timedelta(hours=1)


class Notes(Protocol):
    """Whoever wants to know what happens at the broker."""

    def now(self) -> datetime: ...

    def trace(self, who: str, what: str, facts: str) -> None: ...

    def arrived(self, arrival: Arrival) -> None: ...

    def sent(self, name: str) -> None: ...

    def taken(self, name: str, *, is_redelivered: bool) -> None: ...


@dataclass(slots=True, kw_only=True)
class Arrival:
    """A message that is due came to its queue. `is_heard`: the process that published it heard so."""

    tenant: str
    id: str
    due_at: datetime
    message_id: str
    routing_key: str
    payload: Any
    at: datetime
    node: str
    job_id: str
    is_heard: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.tenant, self.id


@dataclass(slots=True, kw_only=True)
class Trouble:
    """The broker did not do its work for a while."""

    sort: str
    since: datetime
    until: datetime


class WorldServer(LocalServer):
    """What is published to it may be lost, refused, returned or confirmed late, and what came of it is noted."""

    def __init__(self, seed: int, notes: Notes, *, spoiled_share: float) -> None:
        super().__init__()
        self.spoiled_share = spoiled_share
        self.is_unbound = False
        self.troubles: list[Trouble] = []
        # Messages of which one was not taken, or not told so in time.
        self.spoiled: set[str] = set()
        # What was given up, by name, with the reason that each copy bears.
        self.dead: dict[str, list[str]] = {}
        self.under_way: dict[int, Arrival] = {}
        self.fate = self._fate
        self._notes = notes
        self._fates = random.Random(f"{seed}/fates")
        self._brokers: dict[ProcessBroker, bool] = {}

    def publish(self, message: Message) -> tuple[Published, float]:
        before = self._held_count()
        answer, seconds = super().publish(message)
        life = LIFE.get()
        who = "service" if life is None else life.name
        what = f"{message.message_id} {type(answer).__name__} {seconds}"
        self._notes.trace(who, "publish", what)
        if not isinstance(answer, Confirmed) or seconds > PUBLISH_SECONDS:
            self.spoiled.add(message.message_id or "")
        if self._held_count() > before:
            self._note(message, who)
        return answer, seconds

    def _held_count(self) -> int:
        return sum(queue._count for queue in self.queues.values())

    def _note(self, message: Message, who: str) -> None:
        """It is in a queue now, whatever is answered."""
        if message.exchange == DEAD:
            reasons = self.dead.setdefault(message.message_id or "", [])
            reasons.append(str(message.headers["timebell-reason"]))
        elif message.type == _DUE_TYPE:
            arrival = self._arrival(message, who)
            self.under_way[id(message)] = arrival
            self._notes.arrived(arrival)
        else:
            self._notes.sent(message.message_id or "")

    def _arrival(self, message: Message, who: str) -> Arrival:
        body = json.loads(message.body)
        due_at = datetime.fromisoformat(body["scheduled_for"])
        return Arrival(
            tenant=body["tenant"],
            id=body["id"],
            due_at=due_at,
            message_id=message.message_id or "",
            routing_key=message.routing_key,
            payload=body["payload"],
            at=self._notes.now(),
            node=who,
            job_id=BEGUN.get((body["tenant"], body["id"], due_at), ""),
        )

    def _fate(self, message: Message) -> Fate:
        if self.is_unbound and message.type == _DUE_TYPE:
            return Fate(sort="return")
        brief = self._fates.randint(200, 20_000) / 1_000_000
        if self._fates.random() >= self.spoiled_share:
            return Fate(seconds=brief)
        sorts: list[Sort] = ["lose", "lose_confirm", "arrive", "refuse"]
        sort = self._fates.choice(sorts[:3] if message.exchange == DEAD else sorts)
        late = self._fates.choice([0.2, 3.0, 9.0, PUBLISH_SECONDS + 5])
        return Fate(sort=sort, seconds=late if sort == "arrive" else brief)

    def join(self, broker: ProcessBroker) -> None:
        self._brokers[broker] = False

    def part(self, broker: ProcessBroker) -> None:
        self._brokers.pop(broker, None)

    @property
    def brokers(self) -> list[ProcessBroker]:
        return list(self._brokers)

    def beat(self) -> None:
        """Whoever has given no sign of life since the last time is cut off, and what they held comes to others."""
        for broker, was_silent in list(self._brokers.items()):
            if broker.life.is_frozen and was_silent:
                broker.cut()
            self._brokers[broker] = broker.life.is_frozen

    def trouble(self, sort: str, seconds: float = 0.0) -> Trouble:
        now = self._notes.now()
        self._notes.trace("broker", sort, str(seconds))
        made = Trouble(sort=sort, since=now, until=now + timedelta(seconds=seconds))
        self.troubles.append(made)
        return made

    def was_hit(self, since: datetime, until: datetime) -> bool:
        return any(each.since <= until and each.until + _BACK >= since for each in self.troubles)


class ProcessBroker(LocalBroker):
    """One process's way to the server. It is cut when the process dies, and nothing of the dead arrives."""

    def __init__(self, server: WorldServer, notes: Notes) -> None:
        super().__init__(server)
        self.life = Life("nobody")
        self._world = server
        self._notes = notes
        self._living: asyncio.Task[None] | None = None

    async def open(self, topology: Any) -> None:
        life = LIFE.get()
        assert life is not None
        self.life = life
        if self._living is None:
            self._world.join(self)
            self._living = asyncio.create_task(self._live())
        await super().open(topology)

    async def _live(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self._world.part(self)
            self.die()

    async def publish(self, messages: Sequence[Message], heard: Heard | None = None) -> Sequence[Published]:
        self.check_alive()

        def note(place: int, answer: Published) -> None:
            arrival = self._world.under_way.pop(id(messages[place]), None)
            if arrival is not None:
                arrival.is_heard = isinstance(answer, Confirmed)
            if heard is not None:
                heard(place, answer)

        return await super().publish(messages, note)

    @asynccontextmanager
    async def intake(self, queue: str, *, prefetch: int, body_bytes_max: int) -> AsyncIterator[Intake]:
        taking = super().intake(queue, prefetch=prefetch, body_bytes_max=body_bytes_max)
        async with taking as intake:
            assert isinstance(intake, LocalIntake)
            yield NotedIntake(intake, self.check_alive, self._notes)

    def check_alive(self) -> None:
        if self.life.is_dead:
            raise asyncio.CancelledError


class NotedIntake:
    """An intake that tells what was acknowledged, if the broker heard it."""

    def __init__(self, intake: LocalIntake, check_alive: Callable[[], None], notes: Notes) -> None:
        self._intake = intake
        self._check_alive = check_alive
        self._notes = notes

    async def take(self, most: int) -> Sequence[Received]:
        return await self._intake.take(most)

    async def acknowledge(self, received: Sequence[Received]) -> None:
        self._check_alive()
        subscription = self._intake._subscription
        held = {} if subscription is None else subscription.held
        heard = [one for one in received if one.tag in held]
        await self._intake.acknowledge(received)
        for one in heard:
            self._notes.taken(one.message_id or "", is_redelivered=one.is_redelivered)

    async def give_back(self, received: Sequence[Received]) -> None:
        self._check_alive()
        await self._intake.give_back(received)
