"""The log of failed attempts: a text beside the job, and lines in the log of whoever runs the engine.

A cause is told at full length once, and then counted: a handler that fails ten thousand times fails for one reason.
"""

from __future__ import annotations

import os
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

from timebell.engine.worker.settling import Settlement
from timebell.logs import Logger

log = Logger("timebell.attempts")

_OURS: Final = os.path.dirname(__file__)
_MESSAGE_CHARS_MAX: Final = 2_000
_FRAMES_MAX: Final = 5
_FRAME_CHARS_MAX: Final = 350
_CAUSES_MAX: Final = 1_000
_REMIND_SECONDS: Final = 60.0
_FORGET_SECONDS: Final = 3_600.0

Cause = tuple[str, str, str, bool]


def describe(error: BaseException) -> str:
    """The error, then where it was raised. Never a value of a variable: those are whatever a handler was given."""
    frames = traceback.format_tb(from_handler(error))[-_FRAMES_MAX:]
    where = "".join(
        frame if len(frame) <= _FRAME_CHARS_MAX else f"{frame[:_FRAME_CHARS_MAX]}…\n" for frame in frames
    )
    return f"{_words(error)}\n{where}".strip()


def from_handler(error: BaseException) -> TracebackType | None:
    """The traceback without the engine's own steps to the handler, which are the same for every error."""
    whole = found = error.__traceback__
    while found is not None and os.path.dirname(found.tb_frame.f_code.co_filename) == _OURS:
        found = found.tb_next
    return whole if found is None else found


def _words(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:
        message = "(its text cannot be made)"
    name = type(error).__name__
    return f"{name}: {message[:_MESSAGE_CHARS_MAX]}" if message else name


def _place(error: BaseException) -> str | None:
    """Where it was raised: the file, the line, the function. Asked at every failure, so no source is read for it."""
    last = from_handler(error)
    if last is None:
        return None
    while last.tb_next is not None:
        last = last.tb_next
    code = last.tb_frame.f_code
    return f"{code.co_filename}:{last.tb_lineno} in {code.co_name}"


@dataclass(slots=True)
class _Known:
    """A cause that was told: when, when at full length, and how often it came since."""

    told_at: float
    in_full_at: float
    error: str
    count: int = 0


class FailureLog:
    """Tells of failed attempts as warnings, and of those that end their job as errors."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._known: OrderedDict[Cause, _Known] = OrderedDict()

    def note(self, settlement: Settlement, error: BaseException | None) -> None:
        """An attempt failed: it raised `error`, or answered that it has to be made again."""
        is_dead = settlement.verdict == "end"
        if settlement.error is None or (is_dead and error is None):
            # What an outcome says about the end of a job is told when the job has ended.
            return
        words = settlement.error.splitlines()[0] if settlement.error else ""
        place = None if error is None else _place(error)
        raised = settlement.fingerprint or "" if error is None else type(error).__qualname__
        cause = (settlement.entry.row["kind"], raised, place or "", is_dead)
        now = self._monotonic()
        known = self._known.get(cause)
        if known is not None and now - known.in_full_at < _FORGET_SECONDS:
            known.count += 1
            known.error = words
            if now - known.told_at >= _REMIND_SECONDS:
                self._remind(cause, known)
            return
        if known is not None:
            self._let_go(cause, known)
        self._known[cause] = _Known(now, now, words)
        self._known.move_to_end(cause)
        if len(self._known) > _CAUSES_MAX:
            self._let_go(*self._known.popitem(last=False))
        tell = log.error if is_dead else log.warning
        facts = _facts(settlement, words, place)
        tell("an attempt failed", exc_info=None if error is None else _shown(error), **facts)

    def remind(self) -> None:
        """Say of what was only counted for a while how often it came."""
        ripe = self._monotonic() - _REMIND_SECONDS
        for cause, known in self._counted():
            if known.told_at <= ripe:
                self._remind(cause, known)

    def close(self) -> None:
        for cause, known in self._counted():
            self._let_go(cause, known)
        self._known.clear()

    def _counted(self) -> Iterator[tuple[Cause, _Known]]:
        return ((cause, known) for cause, known in list(self._known.items()) if known.count)

    def _remind(self, cause: Cause, known: _Known) -> None:
        self._let_go(cause, known)
        known.count, known.told_at = 0, self._monotonic()

    def _let_go(self, cause: Cause, known: _Known) -> None:
        if known.count:
            kind, _, place, is_dead = cause
            tell = log.error if is_dead else log.warning
            tell(
                "attempts failed as before", kind=kind, count=known.count, error=known.error, at=place or None
            )


def _facts(settlement: Settlement, words: str, place: str | None) -> dict[str, Any]:
    row = settlement.entry.row
    facts = {
        "job_id": str(row["id"]),
        "tenant": row["tenant"],
        "kind": row["kind"],
        "correlation_id": row["correlation_id"],
        "attempt": settlement.tried,
        "error": words,
        "at": place,
    }
    if settlement.verdict == "retry":
        facts["again_in_seconds"] = round(settlement.delay, 3)
    return facts


def _shown(error: BaseException) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    return type(error), error, from_handler(error)
