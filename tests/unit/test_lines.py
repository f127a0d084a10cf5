"""Lines to a reader who is slow, stuck or gone: neither waited for nor heard of."""

from __future__ import annotations

import logging
import os
import select
from collections.abc import Iterator
from contextlib import closing
from io import StringIO
from typing import TextIO

import pytest

from timebell.cli import lines
from timebell.cli.lines import Lines

Pipe = tuple[TextIO, Lines]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    reading, writing = os.pipe()
    reader, writer = os.fdopen(reading), os.fdopen(writing, "w")
    handler = Lines(writer)
    yield reader, handler
    reader.close()
    # With nobody to read it is soon done with what waits. Its number would otherwise be that of the next test's pipe.
    with handler._news:
        assert handler._news.wait_for(lambda: not (handler._waiting or handler._is_writing), 30)
    writer.close()


def say(handler: Lines, text: str) -> None:
    handler.handle(logging.LogRecord("timebell.trial", logging.INFO, "", 0, text, (), None))


def test_lines_are_written_in_order(pipe: Pipe) -> None:
    reader, handler = pipe
    for number in range(100):
        say(handler, f"line {number} \udcff")
    handler.flush()
    assert [reader.readline().split()[1] for _ in range(100)] == [str(number) for number in range(100)]


def test_a_reader_who_left_is_nobodys_error(pipe: Pipe, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither raised nor printed, which is what handlers do with what they cannot write."""
    reader, handler = pipe
    reader.close()
    for _ in range(3):
        say(handler, "to nobody")
        handler.flush()
    assert not handler._waiting, "it is dropped and not kept for ever"
    assert capfd.readouterr() == ("", "")


def test_a_reader_who_reads_no_more_is_not_waited_for(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(lines, "_WAITING_MAX", 50)
    reader, handler = pipe
    for number in range(200):
        say(handler, f"{number} " + "x" * 10_000)
    handler.flush()
    assert len(handler._waiting) <= 51
    monkeypatch.setattr(lines, "_FLUSH_SECONDS", 30.0)
    handler._is_stuck = False
    with closing(reader):
        written = [reader.readline() for _ in range(50)]
        assert [line.split()[0] for line in written] == [str(number) for number in range(50)]


def test_what_waits_for_a_reader_is_bounded_by_its_size(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line may be a long traceback."""
    monkeypatch.setattr(lines, "_WAITING_BYTES_MAX", 1_000_000)
    _, handler = pipe
    for _ in range(200):
        say(handler, "x" * 20_000)
        with handler._news:
            waiting = sum(map(len, handler._waiting))
        assert waiting <= 1_020_100, "the limit, the line that reached it, and how many were lost"


def test_a_stream_that_is_full_for_a_moment_loses_nothing(pipe: Pipe) -> None:
    """A terminal or a pipe that another process set to answer at once."""
    reader, handler = pipe
    os.set_blocking(handler._stream.fileno(), False)
    for number in range(100):
        say(handler, f"{number} " + "x" * 10_000)
    read = b""
    while read.count(b"\n") < 100:
        assert select.select([reader], [], [], 10)[0], "the rest was lost"
        read += os.read(reader.fileno(), 100_000)
    assert [line.split()[0] for line in read.splitlines()] == [b"%d" % number for number in range(100)]


def test_what_cannot_be_shown_is_said_so() -> None:
    stream = StringIO()
    handler = Lines(stream)
    handler.handle(logging.LogRecord("timebell.trial", logging.INFO, "", 0, "%d", ("no number",), None))
    assert stream.getvalue() == "a line could not be shown: timebell.trial INFO\n"
