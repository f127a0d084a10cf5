"""What goes wrong in a world: processes are killed, stopped for a while, restarted, and cut off from the database."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta

from tests.history import Record
from tests.simulation.loop import Life
from tests.simulation.parts import parts
from tests.simulation.process import LEASE_SECONDS, Process
from tests.simulation.scene import Scene
from tests.simulation.wire import Moment, Statement, Wire

# The statements around which a fault is most telling, of a node and of a caller.
_TELLING = (
    "start_jobs",
    "lock_job",
    "finish_jobs",
    "retry_jobs",
    "end_jobs",
    "effect",
    "COMMIT",
    "read_due",
    "recover_jobs",
    "take_slots",
    "renew_node",
    "bury_nodes",
    "release_slots",
)
_TELLING_OF_NOTES = ("read_facts", "start_attempts", "record_answers", "show_entries", "note_progress")
_TELLING_OF_CALLERS = ("insert_jobs", "COMMIT")


class Injector:
    """Keeps the nodes alive, and does not."""

    def __init__(
        self,
        seed: int,
        scene: Scene,
        wire: Wire,
        start: Callable[[str], Process],
        record: Callable[[Record], None],
    ) -> None:
        self._chance = random.Random(f"{seed}/faults")
        self._scene = scene
        self._wire = wire
        self._start = start
        self._record = record
        self._armed: list[tuple[str, str, Moment, str]] = []
        self.processes: dict[str, Process] = {}
        self.is_over = False
        wire.on_statement = self.on_statement

    def node_names(self) -> list[str]:
        return [name for name, process in self.processes.items() if name.startswith("node")]

    async def live(self) -> None:
        scene = self._scene
        rates = {
            self._arm_kill: scene.kills_a_day * 0.7,
            self._kill_now: scene.kills_a_day * 0.3,
            self._arm_pause: scene.pauses_a_day * 0.7,
            self._pause_now: scene.pauses_a_day * 0.3,
            self._cut: scene.cuts_a_day,
            self._stop: scene.stops_a_day,
        }
        a_day = sum(rates.values())
        if not a_day:
            return
        while True:
            await asyncio.sleep(self._chance.expovariate(a_day / 86_400))
            if self.is_over:
                return
            (action,) = self._chance.choices(list(rates), list(rates.values()))
            action()

    def _someone(self) -> str:
        names = list(self.processes)
        weights = [4 if name.startswith("node") else 1 for name in names]
        return self._chance.choices(names, weights)[0]

    def _arm_kill(self) -> None:
        moment: Moment = self._chance.choice(["before", "after"])
        name = self._someone()
        telling = self._telling() if name.startswith("node") else self._telling_of_callers()
        self._armed.append((name, self._chance.choice(telling), moment, "kill"))

    def _telling(self) -> tuple[str, ...]:
        """Of a node: the statements of jobs, or those of notifications where there are some, or of an app."""
        special = [
            part.telling_of_nodes for part in parts() if part.is_in(self._scene) and part.telling_of_nodes
        ]
        if special and self._chance.random() < 0.5:
            return self._chance.choice(special)
        share = self._scene.notes_share
        return _TELLING_OF_NOTES if share and self._chance.random() < share else _TELLING

    def _telling_of_callers(self) -> tuple[str, ...]:
        special = [part.telling for part in parts() if part.is_in(self._scene)]
        return self._chance.choice(special) if special else _TELLING_OF_CALLERS

    def _arm_pause(self) -> None:
        moment: Moment = self._chance.choice(["before", "after"])
        name = self._chance.choice(self.node_names())
        self._armed.append((name, self._chance.choice(self._telling()), moment, "pause"))

    def _kill_now(self) -> None:
        self.kill(self.processes[self._someone()].life)

    def _pause_now(self) -> None:
        self._pause(self.processes[self._chance.choice(self.node_names())].life)

    def on_statement(self, statement: Statement, moment: Moment) -> None:
        for armed in self._armed:
            name, what, when, fault = armed
            if (statement.life.name, statement.name, moment) == (name, what, when):
                self._armed.remove(armed)
                if not self.is_over:
                    (self.kill if fault == "kill" else self._pause)(statement.life)
                return

    def kill(self, life: Life) -> None:
        """A process dies and comes back after a while, under its name."""
        if life.is_dead:
            return
        self._note("kill", life)
        self._wire.kill(life)
        delay = self._chance.choice([0.5, 5, 60, 90, 1_800, LEASE_SECONDS * 1.4])
        self._wire.loop.call_later(delay, self._restart, life.name, context=self._wire.nobody)

    def _restart(self, name: str) -> None:
        if self.processes[name].life.is_dead:
            self._wire.trace.add(self._wire.loop.now_us, name, "restart")
            self.processes[name] = self._start(name)

    def _pause(self, life: Life) -> None:
        if life.is_dead or life.is_frozen:
            return
        seconds = self._chance.choice([5, 600, LEASE_SECONDS * 1.1, LEASE_SECONDS * 1.7])
        self._note("pause", life, seconds)
        life.is_frozen = True
        self._wire.loop.call_later(seconds, self._thaw, life, context=self._wire.nobody)

    def _thaw(self, life: Life) -> None:
        if not life.is_dead:
            self._wire.trace.add(self._wire.loop.now_us, life.name, "thaw")
            self._wire.loop.thaw(life)

    def _cut(self) -> None:
        life = self.processes[self._someone()].life
        connections = self._wire.connections(life)
        if connections and not life.is_dead:
            self._note("cut", life)
            self._wire.cut(self._chance.choice(connections))

    def _stop(self) -> None:
        """A deployment: the node leaves in order and comes back."""
        name = self._chance.choice(self.node_names())
        process = self.processes[name]
        if process.life.is_dead or process.life.is_frozen or process.engine is None:
            return
        self._wire.trace.add(self._wire.loop.now_us, name, "stop")
        process.run(self._leave(process))

    async def _leave(self, process: Process) -> None:
        assert process.engine is not None
        await process.engine.stop()
        self._wire.loop.call_soon(self._end, process.life, context=self._wire.nobody)

    def _end(self, life: Life) -> None:
        self._wire.kill(life)
        delay = self._chance.choice([0.5, 30, 1_800])
        self._wire.loop.call_later(delay, self._restart, life.name, context=self._wire.nobody)

    def _note(self, kind: str, life: Life, seconds: float = 0.0) -> None:
        now = self._wire.now()
        self._wire.trace.add(self._wire.loop.now_us, life.name, kind, seconds)
        self._record(
            Record(
                op="fault",
                key=kind,
                node=life.name,
                invoked_at=now,
                answered_at=now + timedelta(seconds=seconds),
            )
        )

    def calm(self) -> None:
        """No more faults; whoever is stopped goes on, and whoever is dead comes back."""
        self.is_over = True
        for name, process in list(self.processes.items()):
            if process.life.is_frozen:
                self._thaw(process.life)
            self._restart(name)
