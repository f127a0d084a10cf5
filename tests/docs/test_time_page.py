"""The page about time is true: its recurrences are due when it says, and its example prints what it shows."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner

from tests.docs.markdown import blocks
from tests.shape.tree import ROOT
from timebell.cli.program import program
from timebell.rules.recurrence import occurrences

PAGE = (ROOT / "docs" / "explanation" / "time.md").read_text(encoding="utf-8")
BERLIN = ZoneInfo("Europe/Berlin")
ROWS = re.findall(
    r"^\| `(?P<recurrence>[^`]+)`(?: from (?P<start>[\d:]+))? \| (?P<gap>\d\d:\d\d\+.*?) \| (?P<fold>.*?) \|$",
    PAGE,
    re.MULTILINE,
)


def shown_on(recurrence: str, start: str, day: str) -> str:
    """What clocks show, and how many hours they are ahead of UTC, from midnight to five o'clock."""
    midnight = datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=BERLIN)
    found = occurrences(
        recurrence,
        start_local=datetime.fromisoformat(f"{day[:4]}-03-01T{start or '00:00'}"),
        timezone=BERLIN.key,
        after=midnight.astimezone(UTC) - timedelta(seconds=1),
        before=midnight.replace(hour=5).astimezone(UTC),
    )
    moments = [one.at.astimezone(BERLIN) for one in found]
    return ", ".join(f"{at:%H:%M}+{(at.utcoffset() or timedelta(0)) // timedelta(hours=1)}" for at in moments)


@pytest.mark.parametrize(("recurrence", "start", "gap", "fold"), ROWS)
def test_what_differs_when_clocks_change(recurrence: str, start: str, gap: str, fold: str) -> None:
    assert shown_on(recurrence, start, "2026-03-29") == gap
    assert shown_on(recurrence, start, "2026-10-25") == fold


def test_the_whole_table_is_read() -> None:
    assert len(ROWS) == 5


def test_the_example_prints_what_the_page_shows() -> None:
    command, shown = [block.code for block in blocks(PAGE) if block.language in {"sh", "text"}]
    arguments = [quoted or plain for quoted, plain in re.findall(r'"([^"]+)"|(\S+)', command)]
    printed = CliRunner().invoke(program, arguments[1:]).output
    assert [line.rstrip() for line in printed.splitlines()] == shown.splitlines()
