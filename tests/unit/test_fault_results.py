"""The table of faults is made of the lines that the tests leave."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from tests.acceptance.faults import results
from tests.acceptance.faults.results import (
    BEGIN,
    END,
    PAGE,
    ROOT,
    Result,
    Run,
    add_begin,
    add_end,
    add_result,
    add_tests,
    filled,
    is_done,
    load_runs,
    table,
)

RESULT = Result(
    number="F1",
    fault="a node dies",
    injection="kill -9",
    jobs=1_000,
    lost=0,
    early=0,
    duplicated=0,
    recovery_seconds=3.04,
    date="2026-11-15",
    commit="abc1234",
)


def run(*results: Result, commit: str = "abc1234", outcome: str = "passed") -> Run:
    return Run(commit=commit, outcome=outcome, results=[replace(each, commit=commit) for each in results])


def test_runs_of_one_fault_share_a_row() -> None:
    slow = replace(RESULT, lost=1, recovery_seconds=7.0, load=3.6)
    rows = table([run(RESULT), run(slow, outcome="failed")]).splitlines()
    assert rows[2:] == [
        "| F1 a node dies | kill -9 | 2 | 2,000 | 1 | 0 | 0 | 7.0 s | 4 | 2026-11-15 abc1234 |",
        "",
        "Every row is of commit abc1234; 2 of 2 tests ran, 1 failed.",
    ]


def test_rows_stand_in_the_order_of_their_numbers() -> None:
    later = replace(RESULT, number="F10", recovery_seconds=None, remark="drained")
    rows = table([run(later, replace(RESULT, number="F9"), RESULT)]).splitlines()
    assert [row.split()[1] for row in rows[2:5]] == ["F1", "F9", "F10"]
    assert "| – (drained) |" in rows[4]


def test_a_row_of_another_commit_is_marked_and_what_was_cut_off_is_left_out() -> None:
    older = run(RESULT, commit="0ld0ld0")
    cut_off = run(replace(RESULT, number="F3"), outcome="")
    rows = table([older, cut_off, Run(commit=""), run(replace(RESULT, number="F2"))]).splitlines()
    assert [row.split("|")[-2].strip() for row in rows[2:4]] == ["2026-11-15 0ld0ld0 †", "2026-11-15 abc1234"]
    assert rows[4:] == [
        "",
        "The rows are of commit abc1234, but for 1 that are of another commit and marked with †; 2 of 4 tests ran, "
        "0 failed.",
    ]


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    assert filled(f"one\n{BEGIN}\nold\n{END}\ntwo", "new") == f"one\n{BEGIN}\n\nnew\n\n{END}\ntwo"


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(SystemExit, match="needs a line"):
        filled("one", "new")


def test_the_page_has_its_marks() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.index(BEGIN) < page.index(END)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(results.RESULTS, str(tmp_path / "results"))
    return tmp_path / "results"


def test_the_last_run_of_each_test_counts(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first left a result and was cut off. The next one went to its end."""
    test, other, gone = (
        "faults/test_a.py::test_a[x y]",
        "faults/test_b.py::test_b",
        "faults/test_b.py::test_gone",
    )
    monkeypatch.setenv("PYTEST_CURRENT_TEST", f"{test} (call)")
    add_tests([test, gone])
    add_begin(gone)
    add_begin(test)
    add_result(RESULT)
    assert load_runs(file)[test].outcome == ""
    add_tests([test, other])
    add_begin(test)
    for _ in range(2):
        add_result(RESULT)
    add_end(test, "passed")
    runs = load_runs(file)
    assert list(runs) == [other, test]
    assert [each.jobs for each in runs[test].results] == [1_000, 1_000]
    assert (runs[test].outcome, runs[test].commit, runs[other]) == (
        "passed",
        results.commit(),
        Run(commit=""),
    )
    assert runs[test].results[0].load is not None


@pytest.mark.parametrize(
    ("outcome", "of", "here", "is_there"),
    [
        ("passed", "abc1234", "abc1234", True),
        ("failed", "abc1234", "abc1234", False),
        ("skipped", "abc1234", "abc1234", False),
        ("", "abc1234", "abc1234", False),
        ("passed", "abc1234", "0ld0ld0", False),
        ("passed", "abc1234-dirty", "abc1234-dirty", False),
    ],
)
def test_only_what_passed_on_this_very_commit_is_not_run_again(
    outcome: str, of: str, here: str, is_there: bool
) -> None:
    assert is_done(run(RESULT, commit=of, outcome=outcome), here) is is_there
    assert not is_done(None, here)


def test_a_run_that_was_cut_off_goes_on_where_it_was(tmp_path: Path) -> None:
    """As pytest is called for it: what passed is left out, what failed is tried again."""
    here, lines = results.commit(), []
    tests = {"test_left.py::test_passed": "passed", "test_left.py::test_failed": "failed"}
    for test, outcome in tests.items():
        lines += [{"test": test, "begin": here}, {"test": test, "end": outcome}]
    (tmp_path / "results").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    (tmp_path / "conftest.py").write_text(
        "from pathlib import Path\n"
        "from tests.acceptance.faults import conftest\n"
        "from tests.acceptance.faults.conftest import *\n"
        "conftest.HERE = Path(__file__).parent\n"
        f"conftest.commit = lambda: {here.removesuffix(results.DIRTY)!r}\n"
    )
    text = (tmp_path / "results").read_text().replace(results.DIRTY, "")
    (tmp_path / "results").write_text(text)
    written = "def test_passed(): assert 0\ndef test_failed(): pass\ndef test_new(): pass\n"
    (tmp_path / "test_left.py").write_text(written)
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-c", "/dev/null", "--resume"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        env={**os.environ, results.RESULTS: str(tmp_path / "results"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert "2 passed, 1 deselected" in done.stdout, done.stdout + done.stderr
    assert {test: run.outcome for test, run in load_runs(tmp_path / "results").items()} == {
        "test_left.py::test_passed": "passed",
        "test_left.py::test_failed": "passed",
        "test_left.py::test_new": "passed",
    }


def test_without_a_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(results.RESULTS, raising=False)
    monkeypatch.chdir(tmp_path)
    add_result(RESULT)
    assert list(tmp_path.iterdir()) == []
