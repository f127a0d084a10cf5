"""The small parts of the command line: what is masked, how values look, what a check reports."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from timebell.cli.check import _report
from timebell.cli.printing import error_line, plain, print_fields, print_line, print_table, text
from timebell.kernel.insights.records import JobLine
from timebell.logs import without_passwords

AT = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
LINE = JobLine(
    id=UUID(int=7),
    tenant="t",
    kind="a.b",
    queue="q",
    state="done",
    due_at=AT,
    attempt=1,
    started_at=AT,
)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("see postgresql://me:secret@host:5432/db now", "see postgresql://me:***@host:5432/db now"),
        ("postgresql://:s3cr%40t@h/d and amqp://u:p@q/", "postgresql://:***@h/d and amqp://u:***@q/"),
        ("http://127.0.0.1:8080/readyz", "http://127.0.0.1:8080/readyz"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
    ],
)
def test_passwords_do_not_reach_the_log(given: str, shown: str) -> None:
    assert without_passwords(given) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (True, "yes"),
        (1234.5, "1,234.5"),
        (3.0, "3"),
        (AT + timedelta(microseconds=1_500), "2026-01-05 09:00:00.001Z"),
        (["a", 2], "a, 2"),
        (timedelta(0), "PT0S"),
        (timedelta(days=-2, hours=-1), "-PT49H"),
        (timedelta(minutes=90, seconds=1.5), "PT1H30M1.5S"),
        (timedelta(seconds=100), "PT1M40S"),
        ({"a": UUID(int=1)}, '{"a":"00000000-0000-0000-0000-000000000001"}'),
    ],
)
def test_how_a_value_looks(value: object, shown: str) -> None:
    assert text(value) == shown


def test_a_record_becomes_a_mapping_in_the_order_of_its_fields() -> None:
    assert list(plain(LINE))[:3] == ["id", "tenant", "kind"]
    assert plain((LINE,))[0]["id"] == str(UUID(int=7))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [40, 80, 100, 120])
def test_a_narrow_terminal_breaks_nothing_within_a_word(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    id, cursor = str(UUID(int=7)), "c" * 60
    row = (id, "cancelled", "office.remind", "default", AT, 1, "meeting:1", "said no, " * 9 + "twice")
    print_table(["id", "state", "kind", "queue", "due", "attempt", "subject", "reason"], [row], empty="")
    print_line(f"There is more: --cursor {cursor}")
    words = {id, "cancelled", "office.remind", "2026-01-05", "09:00:00.000Z", "meeting:1", "twice", cursor}
    assert words <= set(terminal.getvalue().split())


def test_a_terminal_takes_no_orders_from_what_it_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    order = "\x1b]0;owned\x07\x1b[2J\x9b31m"
    print_table(["subject", "detail"], [(order, {"said": order})], empty="")
    print_fields([("subject", order)])
    print_line(order)
    shown = capsys.readouterr().out
    assert shown.count("owned") == 4
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)


def test_a_check_reports_the_late_and_the_early() -> None:
    lines = [replace(LINE, started_at=AT + timedelta(milliseconds=number)) for number in range(-1, 99)]
    report = _report(120, 10.0, lines)
    assert (report.jobs, report.finished, report.early) == (120, 100, 1)
    assert (report.p50_ms, report.p99_ms, report.max_ms) == (48.0, 97.0, 98.0)


def test_a_check_without_a_job_that_ran_has_no_figures() -> None:
    report = _report(10, 1.0, [replace(LINE, state="expired", started_at=None)])
    assert (report.finished, report.p50_ms, report.max_ms) == (0, None, None)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (None, None),
        ("timed out after 30 s", "timed out after 30 s"),
        (
            "NameError: name 'gest' is not defined\n  File \"/srv/app/office.py\", line 12, in ring\n    call(gest)",
            "NameError: name 'gest' is not defined (office.py:12)",
        ),
        (
            'KeyError: 7\n  File "/srv/a.py", line 1, in one\n    two()\n  File "C:\\b.py", line 22, in two\n    x[7]',
            "KeyError: 7 (b.py:22)",
        ),
    ],
)
def test_an_error_in_a_table_is_one_line_with_its_place(error: str | None, line: str | None) -> None:
    assert error_line(error) == line
