"""What setting an agenda changes, decided step by step and for any agenda at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timebell.rules.agenda import (
    CUT_OFF,
    UNPAID,
    Late,
    OwedStep,
    Reconciled,
    UnfinishedStep,
    begin,
    reconcile,
)

NOW = datetime(2027, 3, 1, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
LATER = NOW + HOUR
EARLIER = NOW - HOUR
QUICK = settings(max_examples=50, deadline=None)
LISTS = ("kept", "changed", "moved", "added", "withdrawn", "too_late", "skipped", "done", "cut_off")


def owed(key: str = "a", due_at: datetime = LATER, **options: Any) -> OwedStep:
    defaults = {"expires_at": None, "late": "skip", "grace": timedelta(0), "once": False, "content": "same"}
    return OwedStep(key=key, due_at=due_at, **{**defaults, **options})


def job(key: str = "a", due_at: datetime = LATER, number: int = 1, **options: Any) -> UnfinishedStep:
    defaults = {"expires_at": None, "is_started": False, "content": "same"}
    return UnfinishedStep(job_id=UUID(int=number), key=key, due_at=due_at, **{**defaults, **options})


def decided(
    steps: list[OwedStep],
    jobs: list[UnfinishedStep] | None = None,
    done: list[tuple[str, datetime, str]] | None = None,
) -> dict[str, int]:
    """How many are in each list that is not empty."""
    change = reconcile(steps, jobs or [], done or [], NOW)
    return {name: len(getattr(change, name)) for name in LISTS if getattr(change, name)}


STARTED: dict[str, Any] = {"is_started": True}
ONCE: dict[str, Any] = {"once": True}
TABLE: dict[
    str, tuple[list[OwedStep], list[UnfinishedStep], list[tuple[str, datetime, str]], dict[str, int]]
] = {
    "nothing is owed and nothing was": ([], [], [], {}),
    "a new step": ([owed()], [], [], {"added": 1}),
    "the same step": ([owed()], [job()], [], {"kept": 1}),
    "another time": ([owed()], [job(due_at=LATER + HOUR)], [], {"moved": 1}),
    "other content": ([owed()], [job(content="other")], [], {"changed": 1}),
    "another expiry": ([owed(expires_at=LATER + HOUR)], [job()], [], {"changed": 1}),
    "another time and content": ([owed()], [job(due_at=LATER + HOUR, content="other")], [], {"moved": 1}),
    "no longer stated": ([], [job()], [], {"withdrawn": 1}),
    "another key": ([owed("b")], [job()], [], {"added": 1, "withdrawn": 1}),
    "it runs": ([owed()], [job(**STARTED)], [], {"kept": 1}),
    "it runs with other content": ([owed()], [job(content="other", **STARTED)], [], {"kept": 1}),
    "it runs and moves": ([owed()], [job(due_at=EARLIER, **STARTED)], [], {"added": 1, "too_late": 1}),
    "it runs and is not stated": ([], [job(**STARTED)], [], {"too_late": 1}),
    "it runs, moves, and is owed once": ([owed(**ONCE)], [job(due_at=EARLIER, **STARTED)], [], {"kept": 1}),
    "it runs beside its new time": (
        [owed()],
        [job(due_at=EARLIER, number=1, **STARTED), job(number=2)],
        [],
        {"kept": 1, "too_late": 1},
    ),
    "it moves back to when it runs": (
        [owed(due_at=EARLIER)],
        [job(due_at=EARLIER, number=1, **STARTED), job(number=2)],
        [],
        {"kept": 1, "withdrawn": 1},
    ),
    "done at this time": ([owed()], [], [("a", LATER, "done")], {"done": 1}),
    "done at another time": ([owed()], [], [("a", EARLIER, "done")], {"added": 1}),
    "done once": ([owed(**ONCE)], [], [("a", EARLIER, "done")], {"done": 1}),
    "cancelled once": ([owed(**ONCE)], [], [("a", EARLIER, "cancelled")], {"done": 1}),
    "dead once": ([owed(**ONCE)], [], [("a", EARLIER, "dead")], {"done": 1}),
    "skipped, so still owed once": ([owed(**ONCE)], [], [("a", EARLIER, "skipped")], {"added": 1}),
    "expired, so still owed once": ([owed(**ONCE)], [], [("a", EARLIER, "expired")], {"added": 1}),
    "skipped at this time": ([owed(**ONCE)], [], [("a", LATER, "skipped")], {"done": 1}),
    "cut off at this time": ([owed()], [], [("a", LATER, CUT_OFF)], {"added": 1}),
    "cut off at this time, and left": ([owed(cut_off="leave")], [], [("a", LATER, CUT_OFF)], {"cut_off": 1}),
    "cut off at a time that has passed": (
        [owed(due_at=EARLIER)],
        [],
        [("a", EARLIER, CUT_OFF)],
        {"skipped": 1},
    ),
    "cut off, and run late": (
        [owed(due_at=EARLIER, late="run")],
        [],
        [("a", EARLIER, CUT_OFF)],
        {"added": 1},
    ),
    "cut off, so still owed once": ([owed(**ONCE)], [], [("a", EARLIER, CUT_OFF)], {"added": 1}),
    "cut off, owed once, and left": (
        [owed(cut_off="leave", **ONCE)],
        [],
        [("a", EARLIER, CUT_OFF)],
        {"cut_off": 1},
    ),
    "cut off once and done at another time": (
        [owed(**ONCE)],
        [],
        [("a", EARLIER, CUT_OFF), ("a", LATER + HOUR, "done")],
        {"done": 1},
    ),
    "cut off at another time": ([owed(cut_off="leave")], [], [("a", EARLIER, CUT_OFF)], {"added": 1}),
    "another step was done": ([owed(**ONCE)], [], [("b", LATER, "done")], {"added": 1}),
    "done, and its new time falls away": (
        [owed()],
        [job(due_at=LATER + HOUR)],
        [("a", LATER, "done")],
        {"done": 1, "withdrawn": 1},
    ),
    "late": ([owed(due_at=EARLIER)], [], [], {"skipped": 1}),
    "late but already waiting": ([owed(due_at=EARLIER)], [job(due_at=EARLIER)], [], {"kept": 1}),
    "moved into the past": ([owed(due_at=EARLIER)], [job()], [], {"skipped": 1, "withdrawn": 1}),
    "moved into the past and run": ([owed(due_at=EARLIER, late="run")], [job()], [], {"moved": 1}),
    "two jobs for one step": ([owed()], [job(number=1), job(number=2)], [], {"kept": 1, "withdrawn": 1}),
    "two runs of one step": (
        [owed()],
        [job(number=1, **STARTED), job(number=2, **STARTED)],
        [],
        {"kept": 1, "too_late": 1},
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_what_becomes_of_a_step(name: str) -> None:
    steps, jobs, done, expected = TABLE[name]
    assert decided(steps, jobs, done) == expected


def test_the_newer_of_two_jobs_counts() -> None:
    change = reconcile([owed()], [job(number=1, due_at=LATER), job(number=2, due_at=EARLIER)], [], NOW)
    assert [old.job_id.int for _, old in change.moved] == [2]
    assert [old.job_id.int for old in change.withdrawn] == [1]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (owed(due_at=NOW), None),
        (owed(due_at=NOW - timedelta(microseconds=1)), "late"),
        (owed(due_at=EARLIER, late="run"), None),
        (owed(due_at=EARLIER, late="grace", grace=HOUR), None),
        (owed(due_at=EARLIER, late="grace", grace=HOUR - timedelta(microseconds=1)), "late"),
        (owed(due_at=EARLIER, late="run", expires_at=NOW), "expired"),
        (owed(due_at=EARLIER, late="run", expires_at=NOW + timedelta(microseconds=1)), None),
        (owed(due_at=EARLIER, expires_at=NOW + HOUR), "late"),
        (owed(due_at=LATER, expires_at=NOW), "expired"),
    ],
)
def test_when_it_is_too_late_for_a_step(step: OwedStep, reason: str | None) -> None:
    change = reconcile([step], [], [], NOW)
    assert [why for _, why in change.skipped] == ([] if reason is None else [reason])
    assert len(change.added) == (1 if reason is None else 0)


KEYS = st.sampled_from("abcd")
INSTANTS = st.integers(-3, 3).map(lambda hours: NOW + hours * HOUR)
CONTENTS = st.sampled_from(["same", "other"])
LATES: st.SearchStrategy[Late] = st.sampled_from(["skip", "run", "grace"])
STEPS = st.lists(
    st.builds(
        owed,
        key=KEYS,
        due_at=INSTANTS,
        expires_at=st.none() | INSTANTS,
        late=LATES,
        grace=st.integers(0, 3).map(lambda hours: hours * HOUR),
        once=st.booleans(),
        cut_off=st.sampled_from(["run", "leave"]),
        content=CONTENTS,
    ),
    unique_by=lambda step: step.key,
    max_size=4,
)
JOBS = st.lists(
    st.builds(
        job,
        key=KEYS,
        due_at=INSTANTS,
        number=st.integers(1, 1_000),
        is_started=st.booleans(),
        content=CONTENTS,
    ),
    unique_by=lambda unfinished: unfinished.job_id,
    max_size=8,
)
STATES = st.sampled_from(["done", "dead", "cancelled", "skipped", "expired", CUT_OFF])
ENDS = st.lists(st.tuples(KEYS, INSTANTS, STATES), unique_by=lambda end: end[:2], max_size=6)


def jobs_in(change: Reconciled) -> list[UUID]:
    pairs = [*change.kept, *change.changed, *change.moved]
    return [old.job_id for old in [*(old for _, old in pairs), *change.withdrawn, *change.too_late]]


def steps_in(change: Reconciled) -> list[str]:
    paired = [step for step, _ in [*change.kept, *change.changed, *change.moved]]
    ended = [step for step, _ in [*change.skipped, *change.done]]
    return [step.key for step in [*paired, *change.added, *ended, *change.cut_off]]


@given(steps=STEPS)
@QUICK
def test_beginning_is_setting_where_there_was_nothing(steps: list[OwedStep]) -> None:
    added, skipped = begin(steps, NOW)
    change = reconcile(steps, (), (), NOW)
    assert (tuple(added), tuple(skipped)) == (change.added, change.skipped)


@given(steps=STEPS, jobs=JOBS, ends=ENDS)
@QUICK
def test_every_job_and_every_step_is_in_exactly_one_list(
    steps: list[OwedStep], jobs: list[UnfinishedStep], ends: list[tuple[str, datetime, str]]
) -> None:
    change = reconcile(steps, jobs, ends, NOW)
    assert sorted(jobs_in(change)) == sorted(unfinished.job_id for unfinished in jobs)
    assert sorted(steps_in(change)) == sorted(step.key for step in steps)


@given(steps=STEPS, jobs=JOBS, ends=ENDS)
@QUICK
def test_what_each_list_promises(
    steps: list[OwedStep], jobs: list[UnfinishedStep], ends: list[tuple[str, datetime, str]]
) -> None:
    change = reconcile(steps, jobs, ends, NOW)
    assert all(step.key == old.key for step, old in [*change.kept, *change.changed, *change.moved])
    assert all(step.due_at == old.due_at for step, old in change.changed)
    assert all(step.due_at != old.due_at for step, old in change.moved)
    assert not any(old.is_started for _, old in [*change.changed, *change.moved])
    assert not any(old.is_started for old in change.withdrawn)
    assert all(old.is_started for old in change.too_late)
    ended_at = {(key, due_at) for key, due_at, state in ends if state != CUT_OFF}
    paid = {key for key, _, state in ends if state not in UNPAID and state != CUT_OFF}
    cut_off_at = {(key, due_at) for key, due_at, state in ends if state == CUT_OFF}
    assert not any((step.key, step.due_at) in cut_off_at for step, _ in change.done if not step.once)
    assert all(step.cut_off == "leave" for step in change.cut_off)
    for step in [*change.added, *(step for step, _ in change.moved)]:
        assert (step.key, step.due_at) not in ended_at, "what came to an end is not done again"
        assert not (step.once and step.key in paid)
        assert step.cut_off == "run" or (step.key, step.due_at) not in cut_off_at
        assert step.due_at >= NOW or step.late != "skip"
        assert step.expires_at is None or step.expires_at > NOW


@given(steps=STEPS, jobs=JOBS, ends=ENDS)
@QUICK
def test_setting_the_same_again_changes_nothing(
    steps: list[OwedStep], jobs: list[UnfinishedStep], ends: list[tuple[str, datetime, str]]
) -> None:
    first = reconcile(steps, jobs, ends, NOW)
    waiting = [step for step, old in first.kept if not old.is_started]
    waiting += [step for step, _ in [*first.changed, *first.moved]] + list(first.added)
    afterwards = [
        job(step.key, step.due_at, 2_000 + number, expires_at=step.expires_at, content=step.content)
        for number, step in enumerate(waiting)
    ]
    running = [old for _, old in first.kept if old.is_started]
    planned = {(step.key, step.due_at) for step in waiting if step.key in first.again}
    remembered = [end for end in ends if end[:2] not in planned]
    remembered += [(step.key, step.due_at, "skipped") for step, _ in first.skipped]
    again = reconcile(steps, [*running, *afterwards], remembered, NOW)
    assert len(again.kept) == len(afterwards) + len(running)
    assert len(again.done) == len(first.done) + len(first.skipped)
    changes = [*again.changed, *again.moved, *again.added, *again.withdrawn, *again.skipped]
    assert changes == []
