"""The stages of a job in the memory of a node: which may follow which, and that nothing stays behind in the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timebell.engine.ledger.entry import (
    CHOSEN,
    OVER,
    PARKING,
    RETURNING,
    RUNNING,
    SETTLING,
    STARTING,
    WAITING,
    JobEntry,
    Stage,
)
from timebell.engine.ledger.ledger import JobLedger
from timebell.engine.ledger.places import Places
from timebell.engine.worker.marks import LostMarks

NOW = datetime(2027, 3, 1, 9, 0, tzinfo=UTC)
_numbers = count(1)

Move = Callable[[JobLedger, JobEntry], None]

MOVES: Mapping[str, tuple[Stage, Move]] = {
    "parking": (PARKING, lambda ledger, entry: ledger.parking([entry])),
    "starting": (STARTING, lambda ledger, entry: ledger.starting([entry])),
    "running": (RUNNING, lambda ledger, entry: ledger.running(entry)),
    "settling": (SETTLING, lambda ledger, entry: ledger.settling(entry)),
    "returning": (RETURNING, lambda ledger, entry: ledger.returning(entry)),
    "forget": (OVER, lambda ledger, entry: ledger.forget(entry)),
    "retire": (OVER, lambda ledger, entry: ledger.retire([entry])),
}
# By which moves an entry that was read comes to each stage.
WAYS: Mapping[Stage, Sequence[str]] = {
    WAITING: (),
    CHOSEN: ("choose",),
    PARKING: ("choose", "parking"),
    STARTING: ("choose", "starting"),
    RUNNING: ("choose", "starting", "running"),
    SETTLING: ("choose", "running", "settling"),
    RETURNING: ("choose", "starting", "returning"),
    OVER: ("choose", "running", "settling", "retire"),
}
MAY_FOLLOW: Mapping[Stage, set[Stage]] = {
    WAITING: {OVER},
    CHOSEN: {PARKING, STARTING, RUNNING, SETTLING, OVER},
    PARKING: {OVER},
    STARTING: {RUNNING, SETTLING, RETURNING, OVER},
    RUNNING: {SETTLING, RETURNING, OVER},
    SETTLING: {OVER},
    RETURNING: {OVER},
    OVER: set(),
}


def row(**values: Any) -> dict[str, Any]:
    return {
        "id": UUID(int=next(_numbers)),
        "version": 1,
        "slot": 0,
        "lane": 1,
        "run_at": NOW,
        "tenant": "acme",
        "queue": "default",
        "priority": 0,
        "crash_count": 0,
        "payload": "{}",
        "cursor": None,
        "has_cursor": False,
        **values,
    }


def choose(ledger: JobLedger, number: int = 1_000) -> list[JobEntry]:
    ledger.promote(NOW)
    return ledger.choose(number, {}, lambda entry: True, Places(1_000_000, 1.0))


def empty() -> JobLedger:
    return JobLedger(total_max=1_000, pair_max=1_000, bytes_max=1_000_000)


def brought_to(stage: Stage) -> tuple[JobLedger, JobEntry]:
    ledger = empty()
    ledger.accept(row())
    (entry,) = ledger._entries.values()
    for name in WAYS[stage]:
        if name == "choose":
            assert choose(ledger) == [entry]
        else:
            MOVES[name][1](ledger, entry)
    assert entry.stage == stage
    return ledger, entry


@pytest.mark.parametrize("before", WAYS)
@pytest.mark.parametrize("name", MOVES)
def test_what_may_follow_and_what_is_refused(before: Stage, name: str) -> None:
    ledger, entry = brought_to(before)
    counted = {} if before == OVER else {before: 1}
    assert ledger.by_stage() == counted
    after, move = MOVES[name]
    if after in MAY_FOLLOW[before]:
        move(ledger, entry)
        assert entry.stage == after
        assert ledger.by_stage() == ({} if after == OVER else {after: 1})
    else:
        with pytest.raises(AssertionError, match=f"is {before}, and cannot be {after} next"):
            move(ledger, entry)
        assert entry.stage == before
        assert ledger.by_stage() == counted


@pytest.mark.parametrize("stage", [stage for stage in WAYS if stage != WAITING])
def test_only_what_waits_is_chosen(stage: Stage) -> None:
    ledger, entry = brought_to(stage)
    assert choose(ledger) == []
    assert not ledger.is_waiting(entry.id)


@pytest.mark.parametrize("stage", [stage for stage in WAYS if stage not in (WAITING, OVER)])
def test_a_slot_that_leaves_takes_only_what_waits(stage: Stage) -> None:
    """What was chosen here goes on, and is not begun beside itself when the slot comes back."""
    ledger, entry = brought_to(stage)
    ledger.drop_slots({0})
    assert entry.stage == stage
    assert ledger.knows(entry.id)


def test_a_later_version_ends_the_one_that_waits_and_leaves_the_one_that_runs() -> None:
    ledger, first, running = empty(), row(), row()
    for each in (running, first):
        ledger.accept(each)
    (entry,) = choose(ledger, 1)
    assert entry.id == running["id"]
    ledger.running(entry)
    waiting = ledger._entries[first["id"]]
    for each in (running, first):
        assert ledger.accept({**each, "version": 2})
    assert (waiting.stage, entry.stage) == (OVER, RUNNING)
    assert ledger.by_stage() == {WAITING: 2, RUNNING: 1}
    ledger.settling(entry)
    ledger.retire([entry])
    assert sorted(each.version for each in choose(ledger)) == [2, 2], "the later version is still there"


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(st.integers(1, 2), min_size=1, max_size=12))
def test_whatever_way_jobs_go_the_ledger_is_empty_in_the_end(
    data: st.DataObject, versions: list[int]
) -> None:
    """Some are read anew at a later version meanwhile, and some end while a read is open."""
    ledger, open_reads = empty(), 0
    rows = [row(version=version) for version in versions]
    for each in rows:
        ledger.accept(each)
    chosen = choose(ledger, data.draw(st.integers(0, len(rows))))
    for each in rows:
        if data.draw(st.booleans()):
            ledger.accept({**each, "version": 3})
    begun = [entry for entry in chosen if entry.stage is not OVER]
    while begun:
        if data.draw(st.booleans()):
            ledger.read_begins()
            open_reads += 1
        entry = data.draw(st.sampled_from(begun))
        after = data.draw(st.sampled_from(sorted(MAY_FOLLOW[entry.stage])))
        data.draw(st.sampled_from([move for stage, move in MOVES.values() if stage == after]))(ledger, entry)
        begun = [each for each in begun if each.stage is not OVER]
    ledger.drop_slots({0})
    for _ in range(open_reads):
        ledger.read_ends()
    assert choose(ledger) == []
    assert (ledger.by_stage(), ledger._entries, ledger._retired, len(ledger)) == ({}, {}, [], 0)


def test_a_mark_that_a_later_one_takes_the_place_of_is_over() -> None:
    """Others brought the job back meanwhile, and it was read, begun and lost once more."""
    ledger, first = empty(), row()
    shared: Any = SimpleNamespace(
        ledger=ledger,
        database=None,
        store=None,
        node=SimpleNamespace(owned={0: object()}),
        bell=SimpleNamespace(wakeups=None),
        timekeeper=SimpleNamespace(monotonic=lambda: 0.0),
    )
    seen: list[datetime] = []
    reader: Any = SimpleNamespace(revisit=lambda slot, run_at, seconds: seen.append(run_at))
    marks = LostMarks(shared, reader)
    asked = []
    for version in (1, 3):
        ledger.accept({**first, "version": version})
        (entry,) = choose(ledger)
        ledger.starting([entry])
        marks.add(entry)
        asked.append(marks._lost[entry.id])
    assert ledger.by_stage() == {RETURNING: 1}
    marks._resolved([asked[0]])
    assert (len(marks), seen) == (1, []), "an answer about the earlier one says nothing about the later"
    marks._resolved([asked[1]])
    assert (len(marks), seen) == (0, [NOW])
    assert (ledger.by_stage(), ledger._entries) == ({}, {})


def test_how_many_are_under_way() -> None:
    ledger = empty()
    for _ in range(3):
        ledger.accept(row())
    first, second, third = choose(ledger)
    ledger.starting([first, second])
    ledger.running(third)
    assert (ledger.starting_count, ledger.under_way_count) == (2, 3)
    ledger.running(first)
    assert (ledger.starting_count, ledger.under_way_count) == (1, 3)
    for entry in (first, third):
        ledger.settling(entry)
    assert (ledger.starting_count, ledger.under_way_count) == (1, 1)
