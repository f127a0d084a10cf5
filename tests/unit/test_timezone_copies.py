"""Copies of the timezone data are compared by what clocks will show, not by their names."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

from timebell.cli.timezone_copies import OwnCopy, own_copy, system_offsets, system_version, told

NOW = datetime(2026, 6, 1, tzinfo=UTC)
OURS = own_copy(NOW)


def copied(folder: Path, **names: str) -> Path:
    """A folder as a system has it, in which a name leads to the data of another timezone."""
    for name, source in names.items():
        region, city = source.split("/")
        (folder / "Europe").mkdir(exist_ok=True)
        data = (resources.files("tzdata.zoneinfo") / region / city).read_bytes()
        (folder / "Europe" / name).write_bytes(data)
    return folder


def test_every_week_of_two_years_is_looked_at() -> None:
    berlin = OURS.offsets["Europe/Berlin"]
    assert len(berlin) == len(OURS.moments) == 104
    assert set(berlin) == {3600, 7200}
    assert "CET" not in OURS.offsets


def test_a_timezone_that_differs_is_found(tmp_path: Path) -> None:
    folder = copied(tmp_path, Berlin="Europe/Berlin", Paris="Europe/London", Rome="Europe/Vienna")
    theirs = system_offsets(OURS, folder)
    assert theirs is not None
    assert set(theirs) == {"Europe/Berlin", "Europe/Paris", "Europe/Rome"}
    assert OURS.differing(theirs) == ["Europe/Paris"]


def test_a_single_week_is_enough_to_differ() -> None:
    offsets = list(OURS.offsets["Europe/Berlin"])
    offsets[50] += 3600
    assert OURS.differing({"Europe/Berlin": offsets}) == ["Europe/Berlin"]


def test_what_is_no_timezone_data_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Berlin").write_bytes(b"nothing of the kind")
    assert system_offsets(OURS, tmp_path) == {}
    assert system_offsets(OURS, tmp_path / "absent") is None


def test_the_version_of_a_system(tmp_path: Path) -> None:
    assert system_version(tmp_path) is None
    (tmp_path / "tzdata.zi").write_text("# version 2025b\n# more\n")
    assert system_version(tmp_path) == "2025b"


def test_only_a_few_are_named() -> None:
    assert told(["a", "b"]) == "a, b"
    assert told(list("abcdefg")) == "a, b, c, d, e and 2 more"


def test_nothing_differs_from_itself() -> None:
    assert OwnCopy(moments=OURS.moments, offsets=OURS.offsets).differing(OURS.offsets) == []
