"""The table of faults is made of the lines that the tests leave."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.acceptance.faults import results
from tests.acceptance.faults.results import BEGIN, END, PAGE, Result, add_result, filled, load_results, table

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


def test_runs_of_one_fault_share_a_row() -> None:
    rows = table([RESULT, replace(RESULT, lost=1, recovery_seconds=7.0)]).splitlines()
    assert rows[2:] == ["| F1 a node dies | kill -9 | 2 | 2,000 | 1 | 0 | 0 | 7.0 s | 2026-11-15 abc1234 |"]


def test_rows_stand_in_the_order_of_their_numbers() -> None:
    later = replace(RESULT, number="F10", recovery_seconds=None, remark="drained")
    rows = table([later, replace(RESULT, number="F9"), RESULT]).splitlines()
    assert [row.split()[1] for row in rows[2:]] == ["F1", "F9", "F10"]
    assert "| – (drained) |" in rows[-1]


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    assert filled(f"one\n{BEGIN}\nold\n{END}\ntwo", "new") == f"one\n{BEGIN}\n\nnew\n\n{END}\ntwo"


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(SystemExit, match="needs a line"):
        filled("one", "new")


def test_the_page_has_its_marks() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.index(BEGIN) < page.index(END)


def test_results_are_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(results.RESULTS, str(tmp_path / "results"))
    for _ in range(2):
        add_result(RESULT)
    assert [each.jobs for each in load_results(tmp_path / "results")] == [1_000, 1_000]


def test_without_a_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(results.RESULTS, raising=False)
    monkeypatch.chdir(tmp_path)
    add_result(RESULT)
    assert list(tmp_path.iterdir()) == []
