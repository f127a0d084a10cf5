"""The lines that Timebell logs, kept and not printed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from timebell.logs import FACTS


class _Keeping(logging.Handler):
    def __init__(self, lines: list[dict[str, Any]]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        line = {
            **getattr(record, FACTS, {"event": record.getMessage()}),
            "log_level": record.levelname.lower(),
        }
        self._lines.append(line | ({"exc_info": record.exc_info} if record.exc_info else {}))


@contextmanager
def kept_lines(*names: str) -> Iterator[list[dict[str, Any]]]:
    """Each line with its facts, `event` and `log_level` among them; those of `names` too."""
    lines: list[dict[str, Any]] = []
    keeping = _Keeping(lines)
    loggers = [logging.getLogger(name) for name in ("timebell", *names)]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(keeping)
        logger.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.removeHandler(keeping)
            logger.setLevel(level)
