"""Everything outside: providers that take what is sent, whether or not their answer arrives, and remember it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg

from tests.simulation.loop import LIFE, Life
from timebell.kernel import Job
from timebell.notify import Channel, Parcel, Rejected, Sent, Traits, Unavailable, Uncertain
from timebell.notify.provider import Answer

# The job on whose behalf a provider is called. It is not in the parcel, and a mistake in there must be seen.
JOB: ContextVar[Job] = ContextVar("job")
# The job that began last for a name at an instant: what leaves for many jobs together is in the context of one of them.
BEGUN: dict[tuple[str, str, datetime], str] = {}

_TIMEOUT = timedelta(seconds=30)
_WRITTEN = """
SELECT max(t.started_at) FILTER (WHERE d.id = %(delivery_id)s AND t.answer IS NULL) AS started_at,
    coalesce(bool_or(t.answer = 'uncertain'), false) AS is_uncertain
FROM timebell_notify.deliveries d JOIN timebell_notify.attempts t ON (t.tenant, t.delivery_id) = (d.tenant, d.id)
WHERE d.notification_id = %(job_id)s
"""


def name_in(payload: Mapping[str, Any]) -> str:
    """What a notification is about: a note by its name, a meeting by its title, and the rest by its template."""
    context = payload.get("context") or {}
    return str(context.get("name") or context.get("title") or payload["template"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Something that reached the outside, and what the database knew at that moment.

    `started_at` is that of an attempt at this delivery which is under way; `is_uncertain`: it was known that the same
    may have arrived before.
    """

    job_id: str
    name: str
    provider: str
    channel: Channel
    is_keyed: bool
    address: str
    text: str
    at: datetime
    node: str
    started_at: datetime | None
    is_uncertain: bool


@dataclass(slots=True, kw_only=True)
class Call:
    """A provider was called; `is_sent` once it has answered that it took it."""

    job_id: str
    channel: Channel
    is_sent: bool = False


class Post:
    """The providers of all processes, and what arrived at them."""

    def __init__(
        self,
        seed: int,
        now: Callable[[], datetime],
        monitor: psycopg.Connection[Any],
        kill: Callable[[Life], None],
    ) -> None:
        self._now = now
        self._monitor = monitor
        self.seed = seed
        self.kill = kill
        self.arrivals: list[Arrival] = []
        self.on_arrival: Callable[[Arrival], None] = lambda arrival: None
        self.calls: Counter[str] = Counter()
        self.called: list[Call] = []
        self.is_calm = False
        week = timedelta(days=7)
        self.providers = (
            SimulatedProvider(self, "letters", "email", key_lifetime=week),
            SimulatedProvider(self, "spare", "email", key_lifetime=week),
            SimulatedProvider(self, "texts", "sms", when_uncertain="retry"),
            SimulatedProvider(self, "chats", "whatsapp", when_uncertain="wait", reports=True),
        )

    def take(self, parcel: Parcel, provider: SimulatedProvider) -> None:
        job, life = JOB.get(), LIFE.get()
        assert life is not None
        written = self._monitor.execute(_WRITTEN, {"delivery_id": parcel.delivery_id, "job_id": job.id})
        row = written.fetchone()
        assert row is not None
        arrival = Arrival(
            job_id=str(job.id),
            name=name_in(job.payload),
            provider=provider.name,
            channel=next(iter(provider.traits.channels)),
            is_keyed=provider.traits.key_lifetime is not None,
            address=parcel.address,
            text=parcel.content.text,
            at=self._now(),
            node=life.name,
            **row,
        )
        self.arrivals.append(arrival)
        self.on_arrival(arrival)


class SimulatedProvider:
    """One provider, the same for all processes. What it does depends on the seed, what is told, and how often it was
    called for it."""

    def __init__(self, post: Post, name: str, channel: Channel, **traits: Any) -> None:
        self._post = post
        self._name = name
        self._traits = Traits(channels=frozenset({channel}), timeout=_TIMEOUT, **traits)
        self._keys: set[str] = set()

    @property
    def name(self) -> str:
        return self._name

    @property
    def traits(self) -> Traits:
        return self._traits

    async def send(self, parcel: Parcel) -> Answer:
        (channel,) = self._traits.channels
        called = Call(job_id=str(JOB.get().id), channel=channel)
        self._post.called.append(called)
        answer = await self._answer(parcel)
        called.is_sent = isinstance(answer, Sent)
        return answer

    async def _answer(self, parcel: Parcel) -> Answer:
        post = self._post
        call = f"{post.seed}/{self._name}/{JOB.get().id}"
        post.calls[call] += 1
        chance = random.Random(f"{call}/{post.calls[call]}")
        await asyncio.sleep(chance.random())
        if random.Random(f"{call}/refused").random() < 0.05:
            # What is wrong with an address was wrong the first time, and is the next.
            return Rejected(reason="no such address", blame="address")
        sort = 0.0 if post.is_calm else chance.random()
        if sort < 0.77:
            self._take(parcel)
        if sort < 0.66:
            await asyncio.sleep(chance.choice([0.01, 1, 20]))
            return Sent(provider_id=f"{self._name}-{parcel.delivery_id}")
        return await self._fail(sort, chance)

    async def _fail(self, sort: float, chance: random.Random) -> Answer:
        """Before or after having taken it."""
        if sort < 0.69 or 0.77 <= sort < 0.79:
            return await self._die()
        if sort < 0.73:
            raise ConnectionResetError("the other side hung up")
        if sort < 0.77:
            await asyncio.sleep(_TIMEOUT.total_seconds() * 2)
        if sort < 0.85:
            return Uncertain(reason="no answer")
        return Unavailable(reason="come back later", retry_after=chance.choice([None, timedelta(minutes=20)]))

    async def _die(self) -> Answer:
        life = LIFE.get()
        assert life is not None
        self._post.kill(life)
        await asyncio.sleep(3_600)
        return Uncertain(reason="dead")

    def _take(self, parcel: Parcel) -> None:
        """It arrives, unless its key shows that it has."""
        if self._traits.key_lifetime is None or parcel.key not in self._keys:
            self._post.take(parcel, self)
        self._keys.add(parcel.key)

    async def look_up(self, parcel: Parcel) -> Answer:
        raise NotImplementedError

    async def close(self) -> None:
        return None
