"""Who asks through the broker in a world: services that want messages for later, and change their minds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from tests.apps.scheduler.simulation import asked
from tests.apps.scheduler.simulation.asked import FOREIGN, POISONS, Sending, Wish
from tests.apps.scheduler.simulation.breaking import BrokerFaults, spoiled_share
from tests.apps.scheduler.simulation.broker import BEAT_SECONDS, Arrival, ProcessBroker, WorldServer
from tests.apps.scheduler.simulation.fired import Told, check_fired
from tests.apps.scheduler.simulation.kept import Kept
from tests.history import Record, Violation
from tests.simulation.asking import Asking, ids_in
from tests.simulation.callers import NEIGHBOUR, OURS
from tests.simulation.ending import Ending
from tests.simulation.loop import LIFE
from tests.simulation.scene import Scene
from tests.simulation.wire import Statement
from timebell.apps.scheduler import with_broker
from timebell.brokers import Confirmed
from timebell.brokers.local import PUBLISH_SECONDS
from timebell.kernel import App, Timebell

_ASKED_FOR = "SELECT tenant, id FROM scheduler.requests WHERE job_id = ANY(%s) ORDER BY tenant, id"
_MISFIRES = ("fire_once", "fire_all", "skip")
_STEPS = tuple(timedelta(seconds=seconds) for seconds in (30, 1_200, 7_200, 18_000, 28_800))
_AGAIN_SECONDS = (0.0, 0.002, 5, 900, 5 * 3600)
_TRIES_MAX = 2_000
_AHEAD = timedelta(hours=12)


class Services(Asking):
    """Lets services ask, with one server for the whole world and a way to it for each process."""

    turning = frozenset({"start_jobs"})

    def __init__(
        self,
        seed: int,
        scene: Scene,
        record: Callable[[Record], None],
        monitor: psycopg.Connection[Any],
    ) -> None:
        super().__init__(seed, "services", scene.rush, record)
        self._scene = scene
        self._monitor = monitor
        self._is_trusting = self._chance.random() < 0.5
        self._tenants = (OURS, NEIGHBOUR) if self._is_trusting else (OURS,)
        self._wishes: dict[tuple[str, str], Wish] = {}
        self._sendings: dict[str, Sending] = {}
        self._arrivals: list[Arrival] = []
        # When somebody asked to start a job: it was not started before.
        self._marks: dict[str, list[datetime]] = {}
        self._kept = Kept(monitor)
        self._going: dict[asyncio.Task[Any], None] = {}
        self.server = WorldServer(seed, self, spoiled_share=spoiled_share(scene.broker_faults_a_day))

    def app(self, app: App) -> App:
        """Each process has its own connection. All that serve callers take requests in, and of the nodes some."""
        made = with_broker(ProcessBroker(self.server, self))
        opening, consume = made.on_open, made.on_consume
        assert opening is not None
        assert consume is not None

        def opened(bell: Timebell) -> AbstractAsyncContextManager[None]:
            object.__setattr__(bell.settings, "broker_trusts_tenant", self._is_trusting)
            return opening(bell)

        async def taking_in(bell: Timebell) -> None:
            life = LIFE.get()
            assert life is not None
            if life.name in ("node1", "node3"):
                await asyncio.Event().wait()
            await consume(bell)

        return replace(made, on_open=opened, on_consume=taking_in)

    def now(self) -> datetime:
        return self._now()

    def trace(self, who: str, what: str, facts: str) -> None:
        wire = self._callers[0].wire
        wire.trace.add(wire.loop.now_us, who, what, facts)

    def arrived(self, arrival: Arrival) -> None:
        self._arrivals.append(arrival)
        self._callers[0].wire.counts["dues"] += 1

    def sent(self, name: str) -> None:
        self._sendings[name].copy_count += 1

    def taken(self, name: str, *, is_redelivered: bool) -> None:
        """What was acknowledged must be in the database by now, or a copy of it where an operator finds it."""
        sending = self._sendings[name]
        self.trace("broker", "taken", name)
        self._callers[0].wire.counts["redelivered"] += is_redelivered
        wish = self._wishes.get((sending.tenant, sending.id))
        self._kept.look(sending, wish, self.server.dead, self._now())
        sending.taken_count += 1
        sending.taken_at = sending.taken_at or self._now()
        sending.last_taken_at = self._now()

    async def live(self, days: float) -> None:
        requests, faults = self._scene.requests_a_day, self._scene.broker_faults_a_day
        self._faults = BrokerFaults(self.server, self._chance, self._callers[0].wire)
        self._go(self._beats())
        a_day = {
            self._once: requests * 0.35,
            self._crowd: requests * 0.07,
            self._before: requests * 0.08,
            self._again: requests * 0.2,
            self._poison: requests * 0.05,
            self._break: faults,
        }
        await self._live(days, a_day)
        self._faults.calm()

    def leave(self) -> None:
        for each in list(self._going):
            each.cancel()

    def _go(self, work: Coroutine[Any, Any, Any]) -> None:
        """Services live elsewhere, and go on whatever becomes of the processes."""
        wire = self._callers[0].wire
        made = wire.loop.create_task(work, context=wire.nobody)
        self._going[made] = None
        made.add_done_callback(self._going.pop)
        made.add_done_callback(wire.loop.note_end)

    async def _beats(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self.server.beat()

    def _break(self) -> None:
        """The broker fails, at some time or when something is due next; and something may be asked for just then."""
        now = self._now()
        ahead = [at for wish in self._wishes.values() for at in wish.instants if now < at < now + _AHEAD]
        self._faults.happen(min(ahead, default=None))
        if self.server.is_unbound:
            at = now + timedelta(milliseconds=self._chance.randint(500, 2_000))
            self._go(self._once_story(self._wish(), at))

    def _wish(self, *, is_recurring: bool = False, is_calm: bool = False) -> Wish:
        """Under a name that the other tenant may have, too."""
        number = len(self._wishes) // len(self._tenants)
        tenant = self._tenants[len(self._wishes) % len(self._tenants)]
        wish = Wish(tenant=tenant, id=f"wish{number}", is_recurring=is_recurring, is_calm=is_calm)
        self._wishes[wish.key] = wish
        return wish

    def _once(self) -> None:
        self._go(self._once_story(self._wish(), self._at()))

    def _crowd(self) -> None:
        """Several at once, for one instant, and one in between that nobody can do anything with."""
        at = self._at()
        for _ in range(self._chance.randint(2, 3)):
            self._go(self._once_story(self._wish(), at))
        self._poison()
        self._go(self._once_story(self._wish(), at))

    def _at(self) -> datetime:
        now, sort = self._now(), self._chance.random()
        if sort < 0.1:
            return now - timedelta(seconds=self._chance.randint(1, 7_200))
        if sort < 0.45:
            return now + timedelta(milliseconds=self._chance.randint(0, 2_000))
        if sort < 0.5:
            # A day that this world does not see: it must be there in the end, and once.
            return now + timedelta(days=100)
        # What is not quite near is seen at the next sweep; most of it is left the time for that.
        least = 5_000 if sort < 0.65 else 4 * 3_600_000
        return now + timedelta(milliseconds=self._chance.randint(least, 6 * 3_600_000))

    async def _once_story(self, wish: Wish, at: datetime) -> None:
        timing = {"at": at}
        first = self._request(wish, timing)
        if self._chance.random() < 0.3:
            self._go(self._send_again(first))
        if self._chance.random() < 0.2:
            self._go(self._replace(wish, at))
        if self._chance.random() < 0.35:
            self._go(self._regret_at(wish, at))
        await self._send(first)

    async def _send_again(self, sending: Sending) -> None:
        """The same once more: at the same time, or when it may be under way or over."""
        instant = self._chance.choice(sending.instants)
        is_at_once = self._chance.random() < 0.4
        near = self._chance.randint(-30, 30) / 1000
        wait = 0.0 if is_at_once else max(0.0, self._wait(instant) + near)
        await asyncio.sleep(wait + self._chance.choice(_AGAIN_SECONDS))
        if not self.is_over:
            again = sending.again(self._name("sending"))
            self._wishes[again.tenant, again.id].requests.append(again)
            await self._send(self._note(again))

    async def _replace(self, wish: Wish, at: datetime) -> None:
        """Another time for it, mostly while there is time."""
        wait = self._wait(at)
        is_late = self._chance.random() < 0.3
        await asyncio.sleep(max(0.0, wait + 0.05 if is_late else wait * self._chance.random()))
        if not self.is_over:
            other = self._now() + timedelta(milliseconds=self._chance.randint(1_000, 3 * 3_600_000))
            await self._send(self._request(wish, {"at": other}))

    async def _regret_at(self, wish: Wish, instant: datetime) -> None:
        """At the very moment at which it is due, at some time before, at once, or later."""
        wait, sort = self._wait(instant), self._chance.random()
        if sort < 0.5:
            wait += self._chance.randint(-80, 20) / 1000
        elif sort < 0.7:
            wait *= self._chance.random()
        elif sort < 0.85:
            wait = self._chance.choice([0.0, 0.001, 1.0])
        else:
            wait += self._chance.choice([0.5, 20, 900, 7_200])
        await asyncio.sleep(max(0.0, wait))
        if not self.is_over:
            await self._send(self._cancel(wish))
            if self._chance.random() < 0.3:
                await self._send(self._cancel(wish))

    def _wait(self, instant: datetime) -> float:
        """Until then, and not for longer than a world lasts."""
        return self._until(instant) % 86_400

    def _before(self) -> None:
        self._go(self._before_story(self._wish()))

    async def _before_story(self, wish: Wish) -> None:
        """The cancel goes first, and the request comes late."""
        await self._send(self._cancel(wish))
        await asyncio.sleep(self._chance.choice([0.001, 0.05, 30, 3 * 3600]))
        if not self.is_over:
            await self._send(self._request(wish, {"at": self._at()}))

    def _again(self) -> None:
        self._go(self._again_story(self._wish(is_recurring=True), self._timing()))

    def _timing(self) -> Mapping[str, Any]:
        start = self._now() + timedelta(seconds=self._chance.randint(60, 10_000))
        return {
            "start": start.replace(microsecond=0),
            "step": self._chance.choice(_STEPS),
            "count": self._chance.randint(2, 4),
            "misfire": self._chance.choice(_MISFIRES),
        }

    async def _again_story(self, wish: Wish, timing: Mapping[str, Any]) -> None:
        first = self._request(wish, timing)
        if self._chance.random() < 0.3:
            self._go(self._send_again(first))
        if self._chance.random() < 0.3:
            self._go(self._regret_at(wish, self._chance.choice(first.instants)))
        if self._chance.random() < 0.2:
            self._go(self._replace_again(wish, self._chance.choice(first.instants)))
        await self._send(first)

    async def _replace_again(self, wish: Wish, instant: datetime) -> None:
        """Another recurrence takes the place of the first, around one of its occurrences."""
        await asyncio.sleep(max(0.0, self._wait(instant) + self._chance.choice([-600, -0.02, 0.01, 60])))
        if not self.is_over:
            await self._send(self._request(wish, self._timing()))

    def _poison(self) -> None:
        poisons = {**POISONS, **({} if self._is_trusting else FOREIGN)}
        reason = self._chance.choice(list(poisons))
        self._go(self._send(self._poisoned(reason, poisons[reason])))

    def _poisoned(self, reason: str, body: bytes) -> Sending:
        return self._note(Sending(name=self._name("sending"), sort="poison", body=body, reason=reason))

    def _request(self, wish: Wish, timing: Mapping[str, Any]) -> Sending:
        sending = asked.request(self._name("sending"), wish, self._tenants, timing)
        wish.requests.append(sending)
        return self._note(sending)

    def _cancel(self, wish: Wish) -> Sending:
        sending = asked.cancel(self._name("sending"), wish, self._tenants)
        wish.cancels.append(sending)
        return self._note(sending)

    def _note(self, sending: Sending) -> Sending:
        self._sendings[sending.name] = sending
        return sending

    async def _send(self, sending: Sending) -> None:
        """Until the broker has confirmed it: a service loses nothing of what it wants."""
        sending.sent_at = self._now()
        for _ in range(_TRIES_MAX):
            if self.server.is_up:
                answer, seconds = self.server.publish(sending.message())
                await asyncio.sleep(min(seconds, PUBLISH_SECONDS))
                if isinstance(answer, Confirmed) and seconds <= PUBLISH_SECONDS:
                    sending.is_confirmed = True
                    return
            await asyncio.sleep(self._chance.choice([0.05, 1, 60]))
        raise RuntimeError(f"the broker never confirmed {sending.name}")

    async def afterwards(self) -> None:
        """Each thing once more, of each sort and for each tenant, and nothing in the way."""
        if not self._scene.requests_a_day:
            return
        self.is_over = False
        for _ in self._tenants:
            await self._calmly()
        for reason in ("not_json", "bad_rule"):
            await self._send(self._poisoned(reason, POISONS[reason]))
        self.is_over = True

    async def _calmly(self) -> None:
        now = self._now()
        past = self._wish(is_calm=True)
        await self._send(self._request(past, {"at": now - timedelta(hours=1)}))
        twice = self._wish(is_calm=True)
        first = self._request(twice, {"at": now + timedelta(minutes=20)})
        await self._send(first)
        await self._send(first)
        moved = self._wish(is_calm=True)
        await self._send(self._request(moved, {"at": now + timedelta(minutes=30)}))
        await asyncio.sleep(60)
        await self._send(self._request(moved, {"at": now + timedelta(minutes=40)}))
        unwanted = self._wish(is_calm=True)
        await self._send(self._request(unwanted, {"at": now + timedelta(minutes=30)}))
        await asyncio.sleep(60)
        await self._send(self._cancel(unwanted))
        early = self._wish(is_calm=True)
        await self._send(self._cancel(early))
        await asyncio.sleep(60)
        await self._send(self._request(early, {"at": now + timedelta(minutes=30)}))
        start = (now + timedelta(hours=1)).replace(microsecond=0)
        for misfire in _MISFIRES:
            wish = self._wish(is_recurring=True, is_calm=True)
            timing = {"start": start, "step": timedelta(hours=5), "count": 2, "misfire": misfire}
            await self._send(self._request(wish, timing))
        await self._send(past.requests[0])

    def _regret(self, id: UUID) -> None:
        raise NotImplementedError

    def rush(self, statement: Statement) -> None:
        """Somebody is about to start jobs. Now and then one of them is cancelled at this moment."""
        if statement.name not in self.turning:
            return
        ids = ids_in(statement)
        for id in ids:
            self._marks.setdefault(str(id), []).append(self._now())
        if self.is_over or self._rush.random() >= self._rush_share or statement.life.is_dead:
            return
        for row in self._monitor.execute(_ASKED_FOR, [ids]).fetchall():
            self._go(self._send(self._cancel(self._wishes[row["tenant"], row["id"]])))

    def _note_figures(self) -> None:
        counts = self._callers[0].wire.counts
        counts["dues_again"] = len(self._arrivals) - len({each.message_id for each in self._arrivals})
        counts["taken_again"] = sum(max(0, each.taken_count - 1) for each in self._sendings.values())
        counts["given_up"] = len(self.server.dead)
        counts["broker_faults"] = len(self.server.troubles)

    def check(self, ending: Ending) -> Sequence[Violation]:
        self._note_figures()
        told = Told(
            wishes=list(self._wishes.values()),
            sendings=list(self._sendings.values()),
            arrivals=self._arrivals,
            marks=self._marks,
            server=self.server,
        )
        return [*self._kept.found, *check_fired(told, ending)]
