"""Those who ask for things: when, through whom, and that they change their minds at the worst of moments."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

import psycopg

from tests.history import Record, Violation
from tests.simulation.callers import LOSSES
from tests.simulation.ending import Change, Ending
from tests.simulation.process import Process
from tests.simulation.scene import Scene
from tests.simulation.wire import Statement
from timebell.kernel import App


class Asking(ABC):
    """Lets callers ask for things, at times that the seed chooses."""

    # The statements between which the life of what was asked for passes, where its ids are among the arguments.
    turning: ClassVar[frozenset[str]]

    def __init__(self, seed: int, name: str, rush: float, record: Callable[[Record], None]) -> None:
        self._chance = random.Random(f"{seed}/{name}")
        self._rush = random.Random(f"{seed}/rush")
        self._rush_share = rush
        self._record = record
        self._count = 0
        self._callers: list[Process] = []
        self._wanted: dict[UUID, Any] = {}
        self.is_over = False

    async def settle_in(self) -> None:  # noqa: B027
        """Before anything else."""

    @abstractmethod
    async def live(self, days: float) -> None:
        """Ask for things until the days are over."""

    async def afterwards(self) -> None:  # noqa: B027
        """Once no fault is left that could explain a silence: each thing once more."""

    async def in_the_end(self) -> None:  # noqa: B027
        """When nothing is left to do."""

    def leave(self) -> None:  # noqa: B027
        """Nobody does anything any more."""

    def app(self, app: App) -> App:
        """An app's as one process has it: the same for all, unless each keeps something of its own."""
        return app

    def changes(self) -> Sequence[Change]:
        """What was done, besides by plans, about what is owed."""
        return ()

    def check(self, ending: Ending) -> Sequence[Violation]:
        """What broke of that which only those who asked know of."""
        return ()

    def serve(self, callers: list[Process]) -> None:
        self._callers = callers

    def _process(self) -> Process:
        alive = [each for each in self._callers if not each.life.is_dead and not each.life.is_frozen]
        return self._chance.choice(alive or self._callers)

    def _now(self) -> datetime:
        return self._callers[0].wire.now()

    def _until(self, instant: datetime | None) -> float:
        return max(0.0, (instant - self._now()).total_seconds()) if instant else 0.0

    def _name(self, sort: str) -> str:
        self._count += 1
        return f"{sort}{self._count}"

    def _let(self, process: Process, work: Coroutine[Any, Any, Any]) -> None:
        process.run(_outliving(work))

    async def _live(self, days: float, a_day: Mapping[Callable[[], None], float]) -> None:
        """Do each so many times a day, until the days are over."""
        until = self._now() + timedelta(days=days)
        whole = sum(a_day.values())
        while self._now() < until:
            await asyncio.sleep(self._chance.expovariate(whole / 86_400) if whole else 86_400)
            if whole:
                (action,) = self._chance.choices(list(a_day), list(a_day.values()))
                action()
        self.is_over = True

    @abstractmethod
    def _regret(self, id: UUID) -> None:
        """Somebody does not want it any more."""

    def rush(self, statement: Statement) -> None:
        """Something is just about to be started or settled: now and then somebody changes their mind at this moment."""
        if self.is_over or statement.name not in self.turning or self._rush.random() >= self._rush_share:
            return
        ids = [each for each in ids_in(statement) if each in self._wanted]
        if ids and not statement.life.is_dead:
            self._regret(self._rush.choice(ids))


def ids_in(statement: Statement) -> list[UUID]:
    found: list[UUID] = []
    for argument in statement.arguments:
        several = argument if isinstance(argument, list) else [argument]
        found += [each for each in several if isinstance(each, UUID)]
    return found


async def _outliving(work: Coroutine[Any, Any, Any]) -> None:
    """A caller whose connection is gone has written that down and gives up."""
    with suppress(*LOSSES):
        await work


class Unhurried(Asking):
    """Those who ask when they please, and not at the worst of moments on purpose."""

    turning = frozenset()
    # What their chance is drawn by.
    name: ClassVar[str]

    def __init__(
        self,
        seed: int,
        scene: Scene,
        record: Callable[[Record], None],
        monitor: psycopg.Connection[Any],
    ) -> None:
        super().__init__(seed, self.name, 0, record)
        self._scene = scene
        self._monitor = monitor
        self._begin()

    @abstractmethod
    def _begin(self) -> None:
        """Nothing was asked for yet."""
