"""What goes wrong with the broker of a world, for a while or at one moment, and often when something is due."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime

from tests.apps.scheduler.simulation.broker import WorldServer
from tests.simulation.wire import Wire

# Of the messages, how many are lost, refused or confirmed late, for each time a day that the broker itself fails.
_SPOILED_EACH = 0.015
_SPOILED_MAX = 0.3


def spoiled_share(faults_a_day: float) -> float:
    return min(_SPOILED_MAX, faults_a_day * _SPOILED_EACH)


class BrokerFaults:
    """Stops the broker, blocks it, cuts its connections, and unbinds the queue for what is due."""

    def __init__(self, server: WorldServer, chance: random.Random, wire: Wire) -> None:
        self._server = server
        self._chance = chance
        self._wire = wire
        self._is_over = False

    def happen(self, due_at: datetime | None) -> None:
        """One of them, now or around an instant at which something is due."""
        weights = {self._stop: 3, self._unbind: 3, self._block: 1, self._cut: 1, self._cut_one: 2}
        (action,) = self._chance.choices(list(weights), list(weights.values()))
        if due_at is None or self._chance.random() < 0.3:
            action()
            return
        near = self._chance.randint(-1_000, 20) / 1000
        self._later(max(0.0, (due_at - self._wire.now()).total_seconds() + near), action)

    def calm(self) -> None:
        """No more faults, and those that last are over."""
        self._is_over = True
        for trouble in self._server.troubles:
            trouble.until = min(trouble.until, self._wire.now())
        self._server.spoiled_share = 0
        self._bind()
        self._server.unblock()
        self._server.start()

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        def act() -> None:
            if not self._is_over:
                action()

        self._wire.loop.call_later(seconds, act, context=self._wire.nobody)

    def _stop(self) -> None:
        seconds = self._chance.choice([0.02, 5, 60, 1_200, 5 * 3600])
        if self._server.is_up:
            self._server.trouble("stop", seconds)
            self._server.stop()
            self._later(seconds, self._server.start)

    def _block(self) -> None:
        seconds = self._chance.choice([5, 60, 900])
        if not self._server.is_blocked:
            self._server.trouble("block", seconds)
            self._server.block()
            self._later(seconds, self._server.unblock)

    def _cut(self) -> None:
        self._server.trouble("cut")
        self._server.cut()

    def _cut_one(self) -> None:
        brokers = self._server.brokers
        if brokers:
            self._server.trouble("cut_one")
            self._chance.choice(brokers).cut()

    def _unbind(self) -> None:
        seconds = self._chance.choice([5, 60, 480])
        if not self._server.is_unbound:
            self._server.trouble("unbind", seconds)
            self._server.is_unbound = True
            self._later(seconds, self._bind)

    def _bind(self) -> None:
        self._server.is_unbound = False
