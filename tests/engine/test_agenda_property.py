"""Random edits of agendas beside a running engine: the pending jobs of a subject are always the plan of its state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.engine.agenda_world import SUBJECTS, Ground, World
from timebell.kernel import Step
from timebell.testing.database import TestDatabase

MINUTE = timedelta(minutes=1)
# Steps share a coarse grid of instants around now, so that edits meet what is there.
_GRID = timedelta(minutes=5)
_LADDER = "d"

subjects = st.sampled_from(SUBJECTS)
# Which of the jobs there are. How many there are is not hypothesis's business: two agendas set at once may leave
# one or the other.
numbers = st.integers(0, 60)
minutes = st.sampled_from([0, 5, 1, 12])
words = st.sampled_from(["done", "done", "fail", "fail_once", "snooze_once", "cancel", "hang", "hang"])


@st.composite
def wishes(draw: st.DrawFn, key: str) -> dict[str, Any]:
    """A step without its time, which depends on when it is stated."""
    late = draw(st.sampled_from(["skip", "run", "grace"]))
    return {
        "key": key,
        "cells": draw(st.sampled_from([1, 0, 2, -1, -2])),
        "is_on_the_quarter": draw(st.booleans()),
        "by_offset": draw(st.booleans()),
        "kind": draw(st.sampled_from(["p.plain", "p.external", "p.external", "p.inside"])),
        "payload": {"do": draw(words), "edition": draw(st.integers(0, 1))},
        "late": late,
        "grace": draw(st.integers(1, 9)) * MINUTE if late == "grace" else timedelta(0),
        "expires_after": draw(st.sampled_from([None, None, MINUTE, 7 * MINUTE])),
        "ordered": draw(st.booleans()),
        "once": draw(st.sampled_from([False, False, True])),
        "cut_off": draw(st.sampled_from(["run", "run", "leave"])),
    }


@st.composite
def agendas(draw: st.DrawFn) -> list[dict[str, Any]]:
    keys = draw(st.lists(st.sampled_from("abc"), unique=True, min_size=1, max_size=3))
    return [draw(wishes(key)) for key in keys]


@st.composite
def ladders(draw: st.DrawFn) -> dict[str, Any] | None:
    """A step that states another agenda when it runs, or none."""
    if not draw(st.booleans()):
        return None
    return {
        "cells": draw(st.integers(0, 2)),
        "do": draw(st.sampled_from(["done", "fail_once"])),
        "then": draw(agendas()),
    }


class AgendaMachine(RuleBasedStateMachine):
    """Each rule is one thing that may happen to two subjects; the invariant is asked after each."""

    def __init__(self, runner: asyncio.Runner, ground: Ground) -> None:
        super().__init__()
        self._runner = runner
        self._run(ground.clear())
        self.world = World(ground)

    def _run(self, doing: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(doing)

    def teardown(self) -> None:
        self._run(self.world.end())

    @initialize()
    def begin(self) -> None:
        self._run(self.world.start_node())

    @invariant()
    def the_pending_jobs_are_the_plan(self) -> None:
        self._run(self.world.check())

    def _go_on(self, minutes: int) -> None:
        if self.world.engine is not None:
            self._run(self.world.advance(self.world.now + minutes * MINUTE))

    def _plan(
        self, agenda: list[dict[str, Any]], ladder: dict[str, Any] | None = None
    ) -> tuple[datetime | None, list[Step]]:
        cell = self.world.now.replace(second=0) - (self.world.now.minute % 5) * MINUTE
        steps = [_step(wish, cell) for wish in agenda]
        if ladder is not None:
            number = len(self.world.plans)
            anchor, then = self._plan(ladder["then"])
            # What it states is skipped when late, or it could run beside the step that stated it.
            then = [_step({**wish, "late": "skip", "grace": timedelta(0)}, cell) for wish in ladder["then"]]
            self.world.plans[number] = (anchor, then)
            at = cell + ladder["cells"] * _GRID + timedelta(seconds=45)
            payload = {"do": ladder["do"], "plan": number}
            steps.append(Step(key=_LADDER, kind="p.ladder", at=at, payload=payload))
        return cell, steps

    @rule(subject=subjects, agenda=agendas(), ladder=ladders(), minutes=minutes)
    def set_agenda(
        self, subject: str, agenda: list[dict[str, Any]], ladder: dict[str, Any] | None, minutes: int
    ) -> None:
        anchor, steps = self._plan(agenda, ladder)
        if ladder is not None and self.world.is_overdue(subject, steps[-1]):
            # It waits to be tried again, or is stale, and runs as soon as it is stated: not at an instant of its own,
            # so nothing else may be due now.
            if self.world.engine is None:
                self._run(self.world.start_node())
            steps = [step for step in steps if step.key == _LADDER or step.due_at(anchor) > self.world.now]
        self._run(self.world.set_agenda(subject, anchor, steps))
        self._go_on(minutes)

    @rule(order=st.permutations(SUBJECTS), first=agendas(), second=agendas(), minutes=minutes)
    def set_the_agendas_of_both(
        self, order: list[str], first: list[dict[str, Any]], second: list[dict[str, Any]], minutes: int
    ) -> None:
        self._run(self.world.set_agendas({order[0]: self._plan(first), order[1]: self._plan(second)}))
        self._go_on(minutes)

    @rule(subject=subjects, first=agendas(), second=agendas(), minutes=minutes)
    def set_two_agendas_at_once(
        self, subject: str, first: list[dict[str, Any]], second: list[dict[str, Any]], minutes: int
    ) -> None:
        self._run(self.world.set_two_agendas_at_once(subject, [self._plan(first), self._plan(second)]))
        self._go_on(minutes)

    @rule(subject=subjects, first=agendas(), second=agendas())
    def set_agenda_while_steps_start(
        self, subject: str, first: list[dict[str, Any]], second: list[dict[str, Any]]
    ) -> None:
        """What is due is started, or edited, but not both."""
        first = [{**wish, "kind": "p.external", "cells": 1, "ordered": False} for wish in first]
        self._run(self.world.set_agenda(subject, *self._plan(first)))
        self._run(self.world.come_to_rest())
        anchor, steps = self._plan(second)
        until = self.world.now + _GRID + MINUTE
        # A step with a transaction of its own would wait for the agenda, and this test for the step.
        if not self.world.is_due_by(until, "p.inside", "p.ladder"):
            self.world.clock.move_to(until)
        self._run(self.world.set_agenda_while_the_engine_starts(subject, anchor, steps))
        self._run(self.world.come_to_rest())

    @rule(subject=subjects, agenda=agendas(), minutes=minutes)
    def edit_steps_just_before_their_time(
        self, subject: str, agenda: list[dict[str, Any]], minutes: int
    ) -> None:
        """The node has read the steps ahead of time, and must not act on them as they were."""
        soon = [{**wish, "kind": "p.external", "cells": 1, "ordered": False} for wish in agenda]
        self._run(self.world.set_agenda(subject, *self._plan(soon)))
        self._go_on(4 - self.world.now.minute % 5)
        edited = [{**wish, "payload": {**wish["payload"], "edition": 2}} for wish in soon]
        self._run(self.world.set_agenda(subject, *self._plan(edited)))
        self._go_on(minutes)

    @rule(subject=subjects)
    def clear_agenda(self, subject: str) -> None:
        self._run(self.world.set_agenda(subject, None, []))
        self._run(self.world.come_to_rest())

    @rule(subject=subjects, minutes=minutes, word=words)
    def enqueue_beside_the_agenda(self, subject: str, minutes: int, word: str) -> None:
        self._run(self.world.enqueue(subject, minutes * MINUTE, {"do": word}))
        self._run(self.world.come_to_rest())

    @rule(subject=subjects, minutes=minutes)
    def cancel_by_subject(self, subject: str, minutes: int) -> None:
        self._run(self.world.cancel(subject))
        self._go_on(minutes)

    @rule(subject=subjects, number=numbers, minutes=minutes)
    def cancel_by_id(self, subject: str, number: int, minutes: int) -> None:
        model = self.world.models[subject]
        ids = [*model.jobs, *model.finals]
        if ids:
            self._run(self.world.cancel(subject, ids[number % len(ids)]))
            self._go_on(minutes)

    @rule(subject=subjects, number=numbers)
    def make_a_step_stale(self, subject: str, number: int) -> None:
        ids = [job.id for job in self.world.models[subject].jobs.values() if job.key and not job.is_running]
        if ids:
            self._run(self.world.make_stale(ids[number % len(ids)], subject))

    @rule(number=numbers, word=st.sampled_from(["done", "fail", "snooze", "cancel"]), minutes=minutes)
    def let_one_go_on(self, number: int, word: str, minutes: int) -> None:
        ids = list(self.world.hanging)
        if ids:
            self._run(self.world.release(ids[number % len(ids)], word))
            self._go_on(minutes)

    @precondition(lambda self: self.world.engine is not None)
    @rule(comes_back=st.booleans())
    def crash(self, comes_back: bool) -> None:
        self._run(self.world.crash())
        if comes_back:
            self._run(self.world.start_node())

    @precondition(lambda self: self.world.engine is None)
    @rule(minutes=st.integers(0, 12))
    def come_back(self, minutes: int) -> None:
        until = self.world.now + minutes * MINUTE
        if not self.world.is_due_by(until, "p.ladder"):
            self.world.clock.move_to(until)
        self._run(self.world.start_node())


def _step(wish: dict[str, Any], cell: datetime) -> Step:
    shift = wish["cells"] * _GRID + timedelta(seconds=15 if wish["is_on_the_quarter"] else 0)
    when: dict[str, Any] = {"offset": shift} if wish["by_offset"] else {"at": cell + shift}
    rest = {name: wish[name] for name in ("late", "grace", "expires_after", "ordered", "once", "cut_off")}
    return Step(key=wish["key"], kind=wish["kind"], payload=wish["payload"], **when, **rest)


def _explore(
    database: TestDatabase, examples: int, steps: int, *, is_fixed: bool = False, is_quick: bool = True
) -> None:
    with asyncio.Runner() as runner:
        ground = runner.run(Ground.open(database))
        try:
            run_state_machine_as_test(
                lambda: AgendaMachine(runner, ground),  # type: ignore[arg-type]
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=steps,
                    deadline=None,
                    database=None,
                    derandomize=is_fixed,
                    # Every run of an example costs a second, so only the long test looks for a shorter one.
                    phases=[Phase.generate] if is_quick else [Phase.generate, Phase.shrink],
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(ground.close())


def _wish(key: str, **given: Any) -> dict[str, Any]:
    plain = {
        "cells": 1,
        "is_on_the_quarter": True,
        "by_offset": False,
        "kind": "p.external",
        "payload": {"do": "done"},
    }
    rest = {"late": "skip", "grace": timedelta(0), "expires_after": None, "ordered": False, "once": False}
    return {"key": key, **plain, **rest, "cut_off": "run", **given}


def _ladder(do: str, *then: dict[str, Any]) -> dict[str, Any]:
    return {"cells": 1, "do": do, "then": list(then)}


def _play(database: TestDatabase, *doings: Callable[[AgendaMachine], None]) -> None:
    """One example by hand. What it finds must not depend on what is quicker."""
    with asyncio.Runner() as runner:
        ground = runner.run(Ground.open(database))
        machine = AgendaMachine(runner, ground)
        try:
            machine.begin()
            for do in doings:
                do(machine)
                machine.the_pending_jobs_are_the_plan()
        finally:
            machine.teardown()
            runner.run(ground.close())


@pytest.mark.parametrize("word", ["fail", "snooze", "done", "cancel"])
def test_a_step_goes_on_that_hung_while_a_ladder_failed(database_url: TestDatabase, word: str) -> None:
    hangs = _wish("a", payload={"do": "hang"})
    _play(
        database_url,
        lambda machine: machine.set_agenda(
            SUBJECTS[0], [hangs], _ladder("fail_once", _wish("b", cells=2)), 12
        ),
        lambda machine: machine.let_one_go_on(0, word, 1),
    )


def test_a_ladder_that_waits_to_be_tried_again_runs_as_soon_as_it_is_stated_otherwise(
    database_url: TestDatabase,
) -> None:
    late = _wish("a", cells=0, late="run")
    _play(
        database_url,
        lambda machine: machine.set_agenda(SUBJECTS[0], [late], _ladder("fail_once"), 5),
        lambda machine: machine.cancel_by_subject(SUBJECTS[1], 1),
        lambda machine: machine.set_agenda(SUBJECTS[0], [late], {**_ladder("done"), "cells": 0}, 0),
    )


def test_a_step_expires_behind_another_before_a_ladder_is_tried_again(database_url: TestDatabase) -> None:
    first = _wish("b", cells=2, ordered=True)
    expires = _wish("a", ordered=True, expires_after=MINUTE)
    _play(
        database_url,
        lambda machine: machine.set_agenda(SUBJECTS[0], [first, expires], _ladder("fail_once"), 12),
    )


@pytest.mark.req("U-3", "U-10")
def test_pending_jobs_are_always_the_plan(database_url: TestDatabase) -> None:
    _explore(database_url, 8, 20, is_fixed=True)


@pytest.mark.req("U-3", "U-10")
def test_pending_jobs_are_always_the_plan_with_the_seed_of_the_day(database_url: TestDatabase) -> None:
    _explore(database_url, 6, 20)


@pytest.mark.slow
def test_pending_jobs_are_always_the_plan_at_length(database_url: TestDatabase) -> None:
    _explore(database_url, 80, 30, is_quick=False)
