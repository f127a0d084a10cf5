"""The log of the embedded server has a bound while the server runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from timebell.db.keeper import set_aside


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "postgres.log"


def test_a_log_that_has_grown_large_is_set_aside_and_goes_on(log: Path) -> None:
    writing = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for day in range(3):
            os.write(writing, b"old" * 50 + b"%d" % day * 100)
            set_aside(str(log), 100)
            assert log.read_bytes() == b""
            assert (log.parent / "postgres.log.old").read_bytes() == b"%d" % day * 100
        os.write(writing, b"new")
    finally:
        os.close(writing)
    assert log.read_bytes() == b"new", "whoever has it open writes at its new end"
    assert sorted(path.name for path in log.parent.iterdir()) == ["postgres.log", "postgres.log.old"]


def test_a_small_log_is_left_alone(log: Path) -> None:
    log.write_bytes(b"x" * 100)
    set_aside(str(log), 100)
    assert log.read_bytes() == b"x" * 100
    assert not (log.parent / "postgres.log.old").exists()


def test_nothing_that_goes_wrong_ends_the_keeper(log: Path) -> None:
    set_aside(str(log), 100)
    elsewhere = log.parent / "elsewhere"
    elsewhere.write_bytes(b"x" * 200)
    log.symlink_to(elsewhere)
    set_aside(str(log), 100)
    assert len(elsewhere.read_bytes()) == 200, "a link is not followed"
    log.unlink()
    log.write_bytes(b"x" * 200)
    (log.parent / "postgres.log.new").mkdir()
    set_aside(str(log), 100)
    assert log.read_bytes() == b"", "where there is no room for a copy, room is what is wanted"


def test_a_log_that_is_cut_off_by_hand_while_it_is_copied_is_no_trap(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper would look for what is gone for ever, and not hear that its server is to end."""
    log.write_bytes(b"x" * 200)
    copied, real = list[int](), os.pread

    def cut_off(source: int, length: int, offset: int) -> bytes:
        assert len(copied) < 3, "it copies nothing again and again"
        copied.append(length)
        os.truncate(log, 150)
        return real(source, length, offset)

    monkeypatch.setattr(os, "pread", cut_off)
    set_aside(str(log), 100)
    assert log.read_bytes() == b""
    assert (log.parent / "postgres.log.old").read_bytes() == b"x" * 50
