"""What Timebell chooses by now is warned of where somebody still names it, and has no effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from timebell.config import RETIRED, RULES, Settings, load_settings, warn_of_retired
from timebell.errors import ConfigurationError


def test_a_file_and_a_variable_that_name_one_are_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "timebell.toml"
    path.write_text("grid_ms = 5.0\nconcurrency = 7\n", encoding="utf-8")
    settings = load_settings(path, {"TIMEBELL_PLAN_BATCH": "not even a number"})
    assert settings == Settings(concurrency=7)
    assert dict(settings.retired) == {"grid_ms": "file", "plan_batch": "environment"}


def test_each_is_told_by_name_and_place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "timebell.toml"
    path.write_text("grid_ms = 5.0\n", encoding="utf-8")
    warn_of_retired(load_settings(path, {"TIMEBELL_HELD_JOBS_MAX": "9"}))
    words = "this is no longer a setting; Timebell chooses it"
    assert {(record.levelname, record.message) for record in caplog.records} == {
        ("WARNING", f"{words} setting=grid_ms source=file"),
        ("WARNING", f"{words} setting=held_jobs_max source=environment"),
    }


def test_they_are_no_settings_and_nothing_is_warned_of_by_itself() -> None:
    assert RETIRED.isdisjoint(RULES)
    assert load_settings(environ={}).retired == ()


@pytest.mark.parametrize("name", ["TIMEBELL_TUNING", "TIMEBELL_RETIRED"])
def test_a_name_that_never_was_one_is_still_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}: is no setting"):
        load_settings(environ={name: "x"})
