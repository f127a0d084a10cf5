"""Bugs to plant, each a rule of the engine left out, so that every invariant is seen to catch what it is there for.

They change a statement's text or a method while a run lasts. Nothing in the package knows of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

from tests.simulation import process
from tests.simulation.database import altered
from tests.simulation.world import Scene
from timebell.engine import executor, held, node, reader, settler, starter
from timebell.engine import store as engine_store
from timebell.kernel import store as kernel_store

Planting = Callable[[], AbstractContextManager[None]]

_BUSY = Scene(
    enqueues_a_day=60,
    plans_a_day=16,
    holds_a_day=2,
    poisons_a_day=0,
    kills_a_day=8,
    pauses_a_day=5,
    rush=0.15,
)
_CALM = Scene(
    enqueues_a_day=0,
    plans_a_day=0,
    holds_a_day=0,
    poisons_a_day=0,
    kills_a_day=0,
    pauses_a_day=0,
    cuts_a_day=0,
)
_STEPS = replace(_CALM, plans_a_day=50, subjects=40, ordered=1, far=0, together=0)
_PLANNED = replace(_CALM, plans_a_day=50, subjects=40, far=0.9, together=0.9)
_REPLACED = replace(_CALM, enqueues_a_day=100, modes=("plain",), near=0.9, replaced=1)
_LONG = Scene(
    enqueues_a_day=90,
    plans_a_day=0,
    holds_a_day=0,
    poisons_a_day=0,
    kills_a_day=2,
    pauses_a_day=6,
    stops_a_day=8,
)
_POISONED = Scene(
    enqueues_a_day=10, plans_a_day=0, holds_a_day=0, poisons_a_day=10, kills_a_day=0, pauses_a_day=0
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """A bug: the rule that it leaves out, the invariants that may catch it, and the scene and first seed to look in."""

    name: str
    about: str
    caught_by: frozenset[str]
    scene: Scene
    planted: Planting
    days: float = 1
    seed: int = 1
    is_slow: bool = False


@contextmanager
def _several(*plantings: AbstractContextManager[None]) -> Iterator[None]:
    with ExitStack() as stack:
        for planting in plantings:
            stack.enter_context(planting)
        yield


_VERSION = {"version = :version::integer": "(true OR version = :version::integer)"}
_FENCE = {"(started_by = :incarnation::bigint OR": "(true OR started_by = :incarnation::bigint OR"}


def _finish_by_id() -> AbstractContextManager[None]:
    return altered(engine_store, "finish_jobs", _VERSION | _FENCE)


def _finish_any_version() -> AbstractContextManager[None]:
    return altered(engine_store, "finish_jobs", _VERSION)


def _start_unmarked() -> AbstractContextManager[None]:
    mark = {"SET started_by = :incarnation::bigint, started_at": "SET started_at"}
    return altered(engine_store, "start_jobs", mark)


@contextmanager
def _recover_the_living() -> Iterator[None]:
    def take_row(self: Any, row: Any) -> None:
        if row["started_by"] is not None and not self._held.knows(row["id"]):
            self.orphans.append(row)
        else:
            original(self, row)

    original = reader.Reader._take_row
    dead_only = {"AND NOT EXISTS (SELECT FROM timebell.nodes n WHERE n.incarnation = j.started_by)": ""}
    with (
        patch.object(reader.Reader, "_take_row", take_row),
        altered(engine_store, "recover_jobs", dead_only),
    ):
        yield


@contextmanager
def _buried_alive() -> Iterator[None]:
    # A lease is eight hours long here and renewed every eighty minutes; this takes the last renewal for too old.
    lapsed = "lease_until <= coalesce(:lease_now::timestamptz, now())"
    hasty = {lapsed: f"{lapsed} + interval '7 hours'", **process.AGES}
    with altered(engine_store, "bury_nodes", hasty):
        yield


@contextmanager
def _no_solitude() -> Iterator[None]:
    with patch.object(starter.Starter, "_has_place", lambda self, entry, handler: True):
        yield


def _agenda_unlocked() -> AbstractContextManager[None]:
    unlocked = {
        "INSERT INTO": "WITH made AS (INSERT INTO",
        "ON CONFLICT (tenant, subject) DO UPDATE\n": "ON CONFLICT DO NOTHING) SELECT 1 AS revision,",
        "    SET revision = a.revision + 1, anchor = excluded.anchor, updated_at = excluded.updated_at\n": "",
        "RETURNING revision, updated_at AS now": " coalesce(:now::timestamptz, now()) AS now",
    }
    return altered(kernel_store, "lock_agenda", unlocked)


@contextmanager
def _seen_by_id() -> Iterator[None]:
    def accept(self: Any, row: Any) -> bool:
        return row["id"] not in self._seen and original(self, row)

    original = held.Held.accept
    with (
        patch.object(held.Held, "accept", accept),
        patch.object(held.Held, "_drop_seen", lambda self, id, version: None),
    ):
        yield


def _no_subject_no_slot() -> AbstractContextManager[None]:
    return altered(
        engine_store, "read_due", {"WHERE j.slot = w.slot": "WHERE j.subject IS NOT NULL AND j.slot = w.slot"}
    )


@contextmanager
def _no_sweep() -> Iterator[None]:
    def plan(self: Any) -> None:
        self._next_sweep = self._next_full_sweep = 1e12
        original(self)

    original = reader.Reader.plan
    with patch.object(reader.Reader, "plan", plan):
        yield


@contextmanager
def _finish_first() -> Iterator[None]:
    async def run(self: Any, running: Any, job: Any) -> Any:
        if running.handler.mode != "transactional":
            entry = running.entry
            async with self._database.connection() as session:
                await self._store.finish_jobs(
                    session,
                    ids=[entry.id],
                    version=running.version,
                    started_ats=[running.started_at],
                    fence=settler.fence([entry], entry.incarnation),
                )
        return await original(self, running, job)

    original = executor.Executor._run
    with patch.object(executor.Executor, "_run", run):
        yield


@contextmanager
def _effect_apart() -> Iterator[None]:
    async def settle_inside(self: Any, session: Any, settlement: Any) -> bool:
        await session.execute("COMMIT")
        await session.execute("BEGIN")
        return bool(await original(self, session, settlement))

    original = executor.Executor._settle_inside
    with patch.object(executor.Executor, "_settle_inside", settle_inside):
        yield


@contextmanager
def _node_clocks() -> Iterator[None]:
    def sql_now(self: Any) -> datetime:
        skew = self._offset % 23 - 3
        now: datetime = process.START + timedelta(microseconds=self._loop.now_us)
        return now + timedelta(seconds=skew)

    with patch.object(process.SimulatedClock, "sql_now", sql_now):
        yield


@contextmanager
def _zombie_starts() -> Iterator[None]:
    def must_mark(self: Any, entry: Any, handler: Any) -> bool:
        return bool(handler.mode == "external")

    with (
        patch.object(node.Node, "may_start", lambda self: self.incarnation != 0),
        patch.object(node.Node, "may_begin", lambda self, incarnation: True),
        patch.object(starter.Starter, "_must_mark", must_mark),
    ):
        yield


def _retry_any_version() -> AbstractContextManager[None]:
    return altered(engine_store, "retry_jobs", {"j.version = r.version": "(true OR j.version = r.version)"})


def _key_released_at_start() -> AbstractContextManager[None]:
    released = "WITH released AS (DELETE FROM timebell.job_keys WHERE job_id = ANY(:ids::uuid[]))\nUPDATE"
    return altered(engine_store, "start_jobs", {"UPDATE timebell.jobs j": f"{released} timebell.jobs j"})


def _unordered() -> AbstractContextManager[None]:
    unordered = {"j.step_order IS NULL OR NOT EXISTS": "true OR NOT EXISTS"}
    return _several(
        altered(engine_store, "start_jobs", unordered), altered(engine_store, "lock_job", unordered)
    )


# What leaves out which rule, the invariants that catch it, and the scene and the seed in which they are known to.
PLANTS = [
    Plant(
        name="finish by id",
        about="1: a finish looks at the id alone",
        caught_by=frozenset({"lost"}),
        scene=_REPLACED,
        planted=_finish_by_id,
    ),
    Plant(
        name="finish any version",
        about="2: a fence without a version",
        caught_by=frozenset({"lost"}),
        scene=_REPLACED,
        planted=_finish_any_version,
    ),
    Plant(
        name="start unmarked",
        about="4: a cancel lies",
        caught_by=frozenset({"truth", "after_cancel", "repeated"}),
        scene=_BUSY,
        planted=_start_unmarked,
        seed=3,
    ),
    Plant(
        name="recover the living",
        about="5: a handover runs long jobs twice",
        caught_by=frozenset({"repeated"}),
        scene=_LONG,
        planted=_recover_the_living,
        seed=2,
    ),
    Plant(
        name="buried alive",
        about="5: a living node is taken for dead",
        caught_by=frozenset({"repeated"}),
        scene=_LONG,
        planted=_buried_alive,
    ),
    Plant(
        name="no solitude",
        about="6: poison buries its neighbours",
        caught_by=frozenset({"buried"}),
        scene=_POISONED,
        planted=_no_solitude,
        seed=3,
    ),
    Plant(
        name="agenda unlocked",
        about="7: two plans at once double steps",
        caught_by=frozenset({"agenda"}),
        scene=_PLANNED,
        planted=_agenda_unlocked,
    ),
    Plant(
        name="seen by id",
        about="11: a retry is taken for what was seen before",
        caught_by=frozenset({"lost"}),
        scene=_BUSY,
        planted=_seen_by_id,
    ),
    Plant(
        name="unordered",
        about="16: the next step overtakes one that is tried again",
        caught_by=frozenset({"order"}),
        scene=_STEPS,
        planted=_unordered,
    ),
    Plant(
        name="no subject, no slot",
        about="17: what has no subject is never read",
        caught_by=frozenset({"lost"}),
        scene=_BUSY,
        planted=_no_subject_no_slot,
    ),
    Plant(
        name="no sweep",
        about="a hint that was lost is never made good",
        caught_by=frozenset({"lost"}),
        scene=_BUSY,
        planted=_no_sweep,
    ),
    Plant(
        name="finish first",
        about="the end is written before the effect",
        caught_by=frozenset({"truth"}),
        scene=_BUSY,
        planted=_finish_first,
    ),
    Plant(
        name="effect apart",
        about="effect and end are two transactions",
        caught_by=frozenset({"duplicated", "after_cancel"}),
        scene=_BUSY,
        planted=_effect_apart,
        seed=2,
    ),
    Plant(
        name="node clocks",
        about="nodes ask their own clocks what is due",
        caught_by=frozenset({"early"}),
        scene=_BUSY,
        planted=_node_clocks,
    ),
    Plant(
        name="zombie starts",
        about="nobody looks at the lease before a start",
        caught_by=frozenset({"repeated", "after_cancel"}),
        scene=_LONG,
        planted=_zombie_starts,
    ),
    Plant(
        name="retry any version",
        about="a retry of what was replaced meanwhile",
        caught_by=frozenset({"early"}),
        scene=_REPLACED,
        planted=_retry_any_version,
    ),
    Plant(
        name="key released at start",
        about="a key is free while its job runs",
        caught_by=frozenset({"key"}),
        scene=_BUSY,
        planted=_key_released_at_start,
        seed=2,
    ),
]
