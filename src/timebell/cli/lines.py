"""Lines to a stream whose reader may be slow, stuck or gone: none of that may hold up the process or reach its code."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections import deque
from contextlib import suppress
from typing import Final, TextIO

_WAITING_MAX: Final = 10_000
_WAITING_BYTES_MAX: Final = 8 * 1024 * 1024
_FLUSH_SECONDS: Final = 2.0


class Lines(logging.Handler):
    """A thread of its own writes. When too many lines wait for a reader the newest are counted instead of kept."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._lost = 0
        self._news = threading.Condition()
        self._is_writing = False
        self._is_stuck = False
        self._writer: threading.Thread | None = None
        # Past the stream's own buffer, whose lock a write that never ends would keep beyond the end of the process.
        self._file = _number_of(stream)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + "\n"
        except Exception:
            line = f"a line could not be shown: {record.name} {record.levelname}\n"
        if self._file is None:
            with suppress(Exception):
                self._stream.write(line)
            return
        with self._news:
            if len(self._waiting) >= _WAITING_MAX or self._waiting_bytes >= _WAITING_BYTES_MAX:
                self._lost += 1
                return
            if self._lost:
                self._add(f"{self._lost} lines were lost: nobody read them in time\n")
                self._lost = 0
            self._add(line)
            if self._writer is None:
                self._writer = threading.Thread(target=self._write, name="log lines", daemon=True)
                self._writer.start()
            self._news.notify_all()

    def _add(self, line: str) -> None:
        encoded = line.encode("utf-8", "backslashreplace")
        self._waiting.append(encoded)
        self._waiting_bytes += len(encoded)

    def flush(self) -> None:
        """Wait until what was said so far is written, though not for a reader who does not read."""
        if self._file is None:
            with suppress(Exception):
                self._stream.flush()
            return
        with self._news:
            seconds = 0.0 if self._is_stuck else _FLUSH_SECONDS
            is_written = self._news.wait_for(lambda: not (self._waiting or self._is_writing), seconds)
            self._is_stuck = not is_written

    def _write(self) -> None:
        assert self._file is not None
        while True:
            with self._news:
                self._is_writing = False
                self._news.notify_all()
                self._news.wait_for(lambda: self._waiting)
                self._is_writing = True
                lines = b"".join(self._waiting)
                self._waiting.clear()
                self._waiting_bytes = 0
            # A reader who is gone, a full disk: there is nobody left to be told.
            with suppress(OSError):
                _write_all(self._file, lines)


def _write_all(file: int, lines: bytes) -> None:
    while lines:
        try:
            lines = lines[os.write(file, lines) :]
        except BlockingIOError:
            # Whoever else has the terminal or the pipe may have set it to answer at once.
            select.select([], [file], [])


def _number_of(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None
