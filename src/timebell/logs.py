"""Log lines: records of the standard library's `logging` below `timebell`, with their facts beside the words.

A program that has Timebell inside decides about its lines as about those of any library; where it decided nothing,
Python itself shows warnings and errors on standard error. Only the command line sets anything up.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

from structlog.contextvars import get_contextvars

FACTS: Final = "timebell"
_FACT_CHARS_MAX: Final = 4_000
# It is looked for at `://` and not at each letter that may begin a scheme, of which a long text has many.
_PASSWORD: Final = re.compile(r"(?P<before>(?<=[a-z0-9+.-])://[^\s:/@]*+:)[^\s/@]++(?=@)")
# Of a line's writer: the method that was called, and the one that all of them use.
_STEPS: Final = 3

ErrorInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def without_passwords(text: str) -> str:
    """The text with the password of every URL in it masked."""
    return _PASSWORD.sub(r"\g<before>***", text)


class Logger:
    """One logger. Whatever becomes of a line, whoever wrote it goes on."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, /, **facts: Any) -> None:
        if self._logger.isEnabledFor(logging.DEBUG):
            self._write(logging.DEBUG, event, facts, None)

    def info(self, event: str, /, **facts: Any) -> None:
        if self._logger.isEnabledFor(logging.INFO):
            self._write(logging.INFO, event, facts, None)

    def warning(
        self, event: str, /, *, exc_info: BaseException | ErrorInfo | None = None, **facts: Any
    ) -> None:
        self._write(logging.WARNING, event, facts, exc_info)

    def error(
        self, event: str, /, *, exc_info: BaseException | ErrorInfo | None = None, **facts: Any
    ) -> None:
        self._write(logging.ERROR, event, facts, exc_info)

    def exception(self, event: str, /, **facts: Any) -> None:
        """An error, with the exception that is being handled."""
        self._write(logging.ERROR, event, facts, True)

    def _write(
        self, level: int, event: str, facts: dict[str, Any], error: BaseException | ErrorInfo | bool | None
    ) -> None:
        # What handles a line may be anybody's, and its failure must not become that of the work which is told of.
        with suppress(Exception):
            if not self._logger.isEnabledFor(level):
                return
            shown = {name: _shown(value) for name, value in (get_contextvars() | facts).items()}
            # A collector of errors puts those together whose words are the same before the facts come in.
            words = event.replace("%", "%%") + "%s"
            self._logger.log(
                level,
                words,
                _Told(shown),
                exc_info=error,
                extra={FACTS: {"event": event, **shown}},
                stacklevel=_STEPS,
            )


class _Told:
    """The facts in one line, written out only where somebody reads it."""

    __slots__ = ("_facts",)

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = facts

    def __str__(self) -> str:
        told = (f"{name}={_quoted(value)}" for name, value in self._facts.items() if value is not None)
        return "".join(f" {each}" for each in told)


def _shown(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    # A URL that was cut in the middle would not look like one any more.
    masked = without_passwords(value)
    return masked if len(masked) <= _FACT_CHARS_MAX else masked[:_FACT_CHARS_MAX] + "…"


def _quoted(value: Any) -> str:
    text = str(value)
    return text if text.isprintable() and text and not set(text) & {" ", "=", '"', "'"} else repr(text)
