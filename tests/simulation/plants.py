"""Bugs to plant, each a rule of the engine left out, so that every invariant is seen to catch what it is there for.

They change a statement's text or a method while a run lasts. Nothing in the package knows of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from tests.simulation.database import altered
from tests.simulation.planting import Planted, Planting, answering, instead, several
from tests.simulation.process import AGES, SimulatedClock
from tests.simulation.scene import Scene
from tests.simulation.wire import START
from timebell.engine.ledger import ledger
from timebell.engine.limits import admission
from timebell.engine.node import node
from timebell.engine.store import EngineStore
from timebell.engine.worker import executor, fencing, reader, starter
from timebell.kernel.store import Store

CALM = Scene(
    enqueues_a_day=0,
    plans_a_day=0,
    holds_a_day=0,
    poisons_a_day=0,
    kills_a_day=0,
    pauses_a_day=0,
    cuts_a_day=0,
    tells_a_day=0,
    visits_a_day=0,
)
_BUSY = replace(
    CALM,
    enqueues_a_day=60,
    plans_a_day=16,
    holds_a_day=2,
    kills_a_day=8,
    pauses_a_day=5,
    cuts_a_day=1,
    rush=0.15,
)
_STEPS = replace(CALM, plans_a_day=50, subjects=40, ordered=1, far=0, together=0)
_PLANNED = replace(CALM, plans_a_day=50, subjects=40, far=0.9, together=0.9)
_REPLACED = replace(CALM, enqueues_a_day=100, modes=("plain",), near=0.9, replaced=1)
_LONG = replace(
    CALM, enqueues_a_day=60, kills_a_day=2, pauses_a_day=6, cuts_a_day=1, stops_a_day=12, long=0.3
)
_POISONED = replace(CALM, enqueues_a_day=4, poisons_a_day=16, stops_a_day=0)
_KEYED = replace(CALM, enqueues_a_day=90, modes=("external",), near=0.8, replaced=0, long=0.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """A bug: the rule that it leaves out, the invariants that may catch it, and the scene, the first seed and for how
    many days to look.

    Whatever changes the order of statements changes what happens in a seed. A bug that shows in nearly every seed is
    caught each time; one that is rare may take many, and is `is_slow`.
    """

    name: str
    about: str
    caught_by: frozenset[str]
    scene: Scene
    seed: int
    days: float
    is_slow: bool
    planted: Planting


PLANTS: list[Plant] = []


class Planter(Protocol):
    def __call__(
        self,
        about: str,
        *caught_by: str,
        scene: Scene = ...,
        seed: int = 1,
        days: float = 0.5,
        slow: bool = False,
    ) -> Callable[[Planting], Planting]: ...


def planter(plants: list[Plant], usual: Scene) -> Planter:
    """What lists a function's bug among some plants, under the function's name."""

    def plant(
        about: str,
        *caught_by: str,
        scene: Scene = usual,
        seed: int = 1,
        days: float = 0.5,
        slow: bool = False,
    ) -> Callable[[Planting], Planting]:
        def listed(planting: Planting) -> Planting:
            plants.append(
                Plant(
                    name=planting.__name__.strip("_").replace("_", " "),
                    about=about,
                    caught_by=frozenset(caught_by),
                    scene=scene,
                    seed=seed,
                    days=days,
                    is_slow=slow,
                    planted=planting,
                )
            )
            return planting

        return listed

    return plant


_plant = planter(PLANTS, _BUSY)


_VERSION = {"version = :version::integer": "(true OR version = :version::integer)"}
_FENCE = {"(started_by = :incarnation::bigint OR": "(true OR started_by = :incarnation::bigint OR"}


@_plant("1: a finish looks at the id alone", "lost", scene=_REPLACED)
def _finish_by_id() -> Planted:
    return altered(EngineStore, "finish_jobs", _VERSION | _FENCE)


@_plant("2: a fence without a version", "lost", scene=_REPLACED, slow=True)
def _finish_any_version() -> Planted:
    return altered(EngineStore, "finish_jobs", _VERSION)


@_plant("4: a cancel lies", "truth", "after_cancel", "repeated")
def _start_unmarked() -> Planted:
    mark = {"SET started_by = :incarnation::bigint, started_at": "SET started_at"}
    return altered(EngineStore, "start_jobs", mark)


@_plant("5: a handover runs long jobs twice", "repeated", scene=_LONG)
def _recover_the_living() -> Planted:
    def take_row(self: Any, row: Any) -> None:
        self.orphans.append(row)

    def is_begun(self: Any, row: Any) -> bool:
        return row["started_by"] is not None and not self._ledger.knows(row["id"])

    dead_only = {"AND NOT EXISTS (SELECT FROM timebell.nodes n WHERE n.incarnation = j.started_by)": ""}
    return several(
        instead(reader.Reader, "_take_row", take_row, where=is_begun),
        altered(EngineStore, "recover_jobs", dead_only),
    )


@_plant("5: a living node is taken for dead", "repeated", "truth", scene=_LONG, seed=2, slow=True)
def _buried_alive() -> Planted:
    # A lease is eight hours long here and renewed every eighty minutes; this takes the last renewal for too old.
    lapsed = "lease_until <= coalesce(:lease_now::timestamptz, now())"
    return altered(EngineStore, "bury_nodes", {lapsed: f"{lapsed} + interval '7 hours'", **AGES})


# A lease is eight hours long here, and a day too short for all the crashes that it takes.
@_plant("6: poison buries its neighbours", "buried", scene=_POISONED, seed=3, days=2, slow=True)
def _no_solitude() -> Planted:
    return instead(admission.Admission, "_has_place", lambda self, entry, handler: True)


@_plant(
    "6: two crashes are enough to be taken for their cause",
    "buried",
    scene=_POISONED,
    seed=3,
    days=2,
    slow=True,
)
def _buried_too_soon() -> Planted:
    return answering(starter, "is_cause", lambda _, crash_count: crash_count >= 2)


@_plant("7: two plans at once double steps", "agenda", scene=_PLANNED)
def _agenda_unlocked() -> Planted:
    unlocked = {
        "INSERT INTO": "WITH made AS (INSERT INTO",
        "ON CONFLICT (tenant, subject) DO UPDATE\n": "ON CONFLICT DO NOTHING) SELECT 1 AS revision,",
        "    SET revision = a.revision + 1, anchor = excluded.anchor, updated_at = excluded.updated_at\n": "",
        "RETURNING revision, updated_at AS now": " coalesce(:now::timestamptz, now()) AS now",
    }
    return altered(Store, "lock_agenda", unlocked)


@_plant("11: a retry is taken for what was seen before", "lost", "agenda", slow=True)
def _seen_by_id() -> Planted:
    def is_newer(self: Any, row: Any) -> bool:
        known = self._entries.get(row["id"])
        return known is not None and bool(known.version < row["version"])

    return several(
        instead(ledger.JobLedger, "accept", lambda self, row: False, where=is_newer),
        instead(ledger.JobLedger, "_drop", lambda self, entry: None),
    )


@_plant("16: the next step overtakes one that is tried again", "order", scene=_STEPS)
def _unordered() -> Planted:
    unordered = {"j.step_order IS NULL OR NOT EXISTS": "true OR NOT EXISTS"}
    return several(altered(EngineStore, "start_jobs", unordered), altered(EngineStore, "lock_job", unordered))


@_plant("17: what has no subject is never read", "lost")
def _no_subject_no_slot() -> Planted:
    with_subject = {"WHERE j.slot = w.slot": "WHERE j.subject IS NOT NULL AND j.slot = w.slot"}
    return altered(EngineStore, "read_due", with_subject)


@_plant("a hint that was lost is never made good", "lost", days=1)
def _no_sweep() -> Planted:
    def plan(self: Any) -> None:
        self._next_sweep = self._next_full_sweep = 1e12
        original(self)

    original = reader.Reader.plan
    return instead(reader.Reader, "plan", plan)


@_plant("the end is written before the effect", "truth")
def _finish_first() -> Planted:
    async def run(self: Any, running: Any, job: Any) -> Any:
        entry = running.entry
        async with self._database.connection() as session:
            await self._store.finish_jobs(
                session,
                ids=[entry.id],
                version=running.version,
                started_ats=[running.started_at],
                fence=fencing.fence([entry], entry.incarnation),
            )
        return await original(self, running, job)

    def is_apart(self: Any, running: Any, job: Any) -> bool:
        return bool(running.handler.mode != "transactional")

    original = executor.Executor._call
    return instead(executor.Executor, "_call", run, where=is_apart)


@_plant("effect and end are two transactions", "duplicated", "after_cancel")
def _effect_apart() -> Planted:
    async def settle_inside(self: Any, session: Any, settlement: Any) -> bool:
        await session.execute("COMMIT")
        await session.execute("BEGIN")
        return bool(await original(self, session, settlement))

    original = executor.Executor._settle_inside
    return instead(executor.Executor, "_settle_inside", settle_inside)


@_plant("nodes ask their own clocks what is due", "early")
def _node_clocks() -> Planted:
    def sql_now(self: Any) -> datetime:
        skew = self._offset % 23 - 3
        now: datetime = START + timedelta(microseconds=self._loop.now_us)
        return now + timedelta(seconds=skew)

    return instead(SimulatedClock, "sql_now", sql_now)


@_plant(
    "nobody looks at the lease before a start", "repeated", "after_cancel", scene=_LONG, seed=2, slow=True
)
def _zombie_starts() -> Planted:
    # What waited in memory is marked before it begins, and the mark asks for the slot: it would look in their stead.
    return several(
        instead(node.Node, "may_start", lambda self: self.incarnation != 0),
        answering(node.Node, "may_begin", lambda *_: True),
        answering(
            admission.Admission, "must_mark", lambda _, self, entry, handler: handler.mode == "external"
        ),
    )


@_plant("a retry of what was replaced meanwhile", "early", scene=_REPLACED)
def _retry_any_version() -> Planted:
    return altered(EngineStore, "retry_jobs", {"j.version = r.version": "(true OR j.version = r.version)"})


@_plant("a key is free while its job runs", "key", scene=_KEYED, seed=2)
def _key_released_at_start() -> Planted:
    released = "released AS (DELETE FROM timebell.job_keys WHERE job_id = ANY(:ids::uuid[]))"
    return altered(EngineStore, "start_jobs", {"WITH started AS (": f"WITH {released}, started AS ("})
