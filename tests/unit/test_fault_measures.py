"""What the tests of faults read from a history."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.acceptance.faults.measures import longest_still, most_at_once
from tests.history import Op, Record

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(milliseconds: int, op: Op, job: str = "", node: str = "ada", *, until: int | None = None) -> Record:
    instant = BEGIN + timedelta(milliseconds=milliseconds)
    ended = instant if until is None else BEGIN + timedelta(milliseconds=until)
    key = "pause" if op == "fault" else job
    return Record(op=op, key=key, node=node, invoked_at=instant, answered_at=ended, job_id=job or None)


def test_a_handler_runs_from_its_start_to_its_last_sign() -> None:
    one_after_the_other = [
        at(0, "start", "a"),
        at(50, "sign", "a"),
        at(60, "start", "b", "bob"),
        at(90, "sign", "b", "bob"),
        # It was interrupted long after its last step, and ran no more.
        at(100, "end", "a"),
    ]
    assert most_at_once(one_after_the_other) == 1
    assert most_at_once([*one_after_the_other, at(70, "sign", "a")]) == 2
    assert most_at_once([]) == 0


def test_one_job_on_two_nodes_is_two_that_run() -> None:
    records = [
        at(0, "start", "a"),
        at(10, "start", "a", "bob"),
        at(20, "sign", "a"),
        at(30, "sign", "a", "bob"),
    ]
    assert most_at_once(records) == 2


def test_the_step_in_which_a_process_was_stopped_is_no_further_one() -> None:
    records = [
        at(0, "start", "a"),
        at(40, "sign", "a"),
        at(50, "fault", until=9_000),
        at(5_000, "start", "b", "bob"),
        at(9_500, "sign", "b", "bob"),
        at(9_001, "sign", "a"),
    ]
    assert most_at_once(records) == 1
    assert most_at_once([*records, at(9_003, "sign", "a")]) == 2, "a second step"


def test_how_long_nobody_ran_after_a_fault() -> None:
    records = [at(0, "start", "a"), at(50, "fault", until=100), at(350, "start", "b"), at(400, "fault")]
    assert longest_still(records) == 0.25
