"""The world of one seed: what is asked for and when, biased towards the moments at which things go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from tests.history import Mode, Record
from tests.simulation.asking import Asking
from tests.simulation.callers import OURS, Caller, Wanted, named
from tests.simulation.scene import Scene


class World(Asking):
    """Lets callers ask for jobs and agendas."""

    turning = frozenset({"start_jobs", "lock_job", "finish_jobs", "retry_jobs", "end_jobs", "recover_jobs"})

    def __init__(self, seed: int, scene: Scene, record: Callable[[Record], None], tenant: str = OURS) -> None:
        super().__init__(seed, named(tenant, "world"), scene.rush, record)
        self._scene = scene
        self._tenant = tenant

    def _caller(self) -> Caller:
        return Caller(self._process(), self._record, self._tenant)

    async def live(self, days: float) -> None:
        """Ask for things until the days are over."""
        scene = self._scene
        a_day = {
            self._enqueue: scene.enqueues_a_day,
            self._plan: scene.plans_a_day,
            self._hold: scene.holds_a_day,
            self._poison: scene.poisons_a_day,
        }
        await self._live(days, a_day)

    async def afterwards(self) -> None:
        """A job of each mode once more."""
        caller = self._caller()
        for mode in self._scene.modes if self._scene.enqueues_a_day else ():
            await caller.process.run(
                caller.enqueue(Wanted(name=named(self._tenant, self._name("calm_job")), mode=mode))
            )

    def _due_at(self) -> datetime | None:
        sort = self._chance.random()
        if sort < 0.1:
            return None
        if sort < self._scene.near:
            return self._now() + timedelta(milliseconds=self._chance.randint(0, 2_000))
        return self._now() + timedelta(milliseconds=self._chance.randint(5_000, 6 * 3_600_000))

    def _subject(self) -> str | None:
        sort = self._chance.random()
        return None if sort < 0.4 else f"order{self._chance.randrange(self._scene.subjects)}"

    def _enqueue(self) -> None:
        due_at = self._due_at()
        name = self._name("job")
        is_keyed = self._chance.random() < 0.4
        wanted = Wanted(
            name=named(self._tenant, name),
            mode=self._chance.choice(self._scene.modes),
            due_at=due_at,
            subject=self._subject(),
            key=name if is_keyed else None,
            expires_at=due_at + timedelta(hours=1) if due_at and self._chance.random() < 0.08 else None,
        )
        caller = self._caller()
        self._let(caller.process, self._enqueue_and_regret(caller, wanted))
        if is_keyed and wanted.mode == "plain" and self._chance.random() < self._scene.replaced:
            other = self._caller()
            self._let(other.process, self._replace(other, wanted))
        elif is_keyed and self._chance.random() < 0.5:
            other = self._caller()
            self._let(other.process, self._enqueue_again(other, wanted, self._chance.random() < 0.6))

    async def _enqueue_again(self, caller: Caller, wanted: Wanted, is_at_once: bool) -> None:
        """The same once more: at the same time, or when the first may be under way or over."""
        if not is_at_once:
            await asyncio.sleep(
                self._until(wanted.due_at) + self._chance.choice([-0.01, 0.001, 0.02, 5, 900])
            )
        await self._noted(caller, wanted)

    async def _replace(self, caller: Caller, wanted: Wanted) -> None:
        """Something else under the same key, when the first is about to begin or under way."""
        await asyncio.sleep(max(0.0, self._until(wanted.due_at) + self._chance.randint(-20, 200) / 1000))
        due_at = self._now() + timedelta(milliseconds=self._chance.randint(60_000, 3 * 3_600_000))
        await caller.enqueue(replace(wanted, due_at=due_at, expires_at=None), is_replacing=True)

    async def _noted(self, caller: Caller, wanted: Wanted) -> UUID | None:
        id = await caller.enqueue(wanted)
        if id is not None:
            self._wanted[id] = wanted
        return id

    async def _enqueue_and_regret(self, caller: Caller, wanted: Wanted) -> None:
        id = await self._noted(caller, wanted)
        sort = self._chance.random()
        if id is None or sort > 0.4:
            return
        if sort < 0.3:
            # At the very moment at which it is due, a little before or a little after.
            await asyncio.sleep(max(0.0, self._until(wanted.due_at) + self._chance.randint(-50, 50) / 1000))
        else:
            await asyncio.sleep(self._chance.random() * self._until(wanted.due_at))
        self._regret(id)

    def _regret(self, id: UUID) -> None:
        caller = self._caller()
        self._let(caller.process, self._cancel(caller, id))

    async def _cancel(self, caller: Caller, id: UUID) -> None:
        wanted = self._wanted[id]
        sort = self._chance.random()
        if wanted.key is not None and sort < 0.4:
            await caller.cancel(self._wanted, kind=wanted.kind, key=wanted.key)
        elif wanted.subject is not None and sort < 0.5:
            await caller.cancel(self._wanted, subject=wanted.subject)
        else:
            await caller.cancel(self._wanted, id=id)

    def _poison(self) -> None:
        """A job that kills its process, and others that are due beside it."""
        due_at = self._now() + timedelta(seconds=self._chance.randint(5, 60))
        for number in range(4):
            payload = {"is_poison": True} if number == 0 else {"is_steady": True}
            mode: Mode = "external" if number < 3 else "plain"
            wanted = Wanted(
                name=named(self._tenant, self._name("poison" if number == 0 else "beside")),
                mode=mode,
                due_at=due_at,
                payload=payload,
            )
            caller = self._caller()
            self._let(caller.process, self._noted(caller, wanted))

    def _hold(self) -> None:
        ids = sorted(self._wanted)[-12:]
        if not ids:
            return
        held = self._chance.sample(ids, min(len(ids), 3))
        caller = self._caller()
        seconds = self._chance.choice([0.03, 0.5, 20, 120])
        self._let(caller.process, caller.hold(sorted(held), timedelta(seconds=seconds)))

    def _plan(self) -> None:
        subject = f"meeting{self._chance.randrange(self._scene.subjects)}"
        is_ordered = self._chance.random() < self._scene.ordered
        caller = self._caller()
        self._let(caller.process, self._plan_and_change(caller, subject, self._steps(), is_ordered))
        if self._chance.random() < self._scene.together:
            other = self._caller()
            self._let(other.process, other.plan(subject, self._steps(), is_ordered=False))

    def _steps(self) -> dict[str, tuple[datetime, Mode]]:
        if self._chance.random() < 0.15:
            return {}
        # Some are for a day that this world does not see: they must be there in the end, and once.
        days = 100 if self._chance.random() < self._scene.far else 0
        anchor = self._now() + timedelta(days=days, milliseconds=self._chance.randint(100, 5 * 3_600_000))
        spacing = self._chance.choice([0.02, 2, 600])
        names = ["first", "second", "third", "fourth"][: self._chance.randint(1, 4)]
        return {
            name: (anchor + timedelta(seconds=spacing * number), self._chance.choice(self._scene.modes))
            for number, name in enumerate(names)
        }

    async def _plan_and_change(
        self, caller: Caller, subject: str, steps: dict[str, tuple[datetime, Mode]], is_ordered: bool
    ) -> None:
        await caller.plan(subject, steps, is_ordered=is_ordered)
        if steps and self._chance.random() < 0.5:
            due_at, _ = self._chance.choice(list(steps.values()))
            wait = self._until(due_at) % 86_400 + self._chance.randint(-50, 50) / 1000
            await asyncio.sleep(max(0.0, wait))
            if self.is_over:
                return
            other = self._caller()
            self._let(other.process, other.plan(subject, self._steps(), is_ordered=is_ordered))
