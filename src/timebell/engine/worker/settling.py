"""Settlements: the decision about how a job goes on after an attempt, and the columns in which many are written.

The ids that a statement gives back are the truth: what does not come back was moved, cancelled or taken over,
and this node has nothing more to say about it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from timebell.engine.ledger.entry import JobEntry
from timebell.errors import InvalidInput
from timebell.kernel.jobs import Cancel, Dead, Retry, Snooze, encode_payload
from timebell.kernel.models import JobState, check_duration, check_instant
from timebell.rules.backoff import ErrorClass, RetryPolicy, counts_as_attempt, decide_retry

_ERROR_MAX = 4_000
_REASON_MAX = 1_000
_CURSOR_BYTES_MAX = 65_536
_DELAY_MAX = timedelta(days=3_660)
_NOT_NOW = timedelta(seconds=1)
_NOT_TELLING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27,}|\d+")


@dataclass(slots=True, kw_only=True)
class Settlement:
    """The decision about one attempt: how the job goes on, or how it ended."""

    entry: JobEntry
    verdict: Literal["done", "retry", "end"]
    version: int
    state: JobState = "done"
    reason: str | None = None
    error_class: ErrorClass | None = None
    error: str | None = None
    fingerprint: str | None = None
    attempt: int = 0
    tried: int = 0
    run_at: datetime | None = None
    delay: float = 0.0
    cursor: str | None = None
    started_at: datetime | None = None
    is_cut_off: bool = False
    is_given_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The facts that a decision about one attempt needs."""

    entry: JobEntry
    version: int
    number: int
    started_at: datetime
    now: datetime
    policy: RetryPolicy
    fraction: float


def fingerprint(kind: str, error: str) -> str:
    """Errors that differ only in numbers, ids and addresses are one failure."""
    first_line = _storable(error.splitlines()[0] if error else "", _ERROR_MAX)
    telling = _NOT_TELLING.sub("#", first_line)
    return hashlib.sha256(f"{kind}\x1f{telling}".encode()).hexdigest()[:16]


def _storable(text: str, length_max: int) -> str:
    """PostgreSQL stores neither NUL nor half a character, and an outcome must not make its own statement fail."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "?")[:length_max]


def decide(attempt: Attempt, outcome: object) -> Settlement:
    """How the job goes on after an outcome other than done; one that is no outcome is a bug."""
    entry = attempt.entry
    facts: dict[str, Any] = {"entry": entry, "version": attempt.version, "started_at": attempt.started_at}
    counted: dict[str, Any] = {**facts, "attempt": attempt.number, "tried": attempt.number}
    uncounted: dict[str, Any] = {**facts, "attempt": attempt.number - 1, "tried": attempt.number}
    try:
        _check(outcome)
    except InvalidInput as refusal:
        error = f"the handler answered {type(outcome).__name__}: {refusal}"
        return _dead(counted, entry, error, "permanent", "bad outcome")
    match outcome:
        case Snooze(until=until, delay=delay, cursor=cursor, reason=reason):
            return Settlement(
                verdict="retry",
                reason=_storable(reason, _REASON_MAX),
                run_at=until,
                delay=_snooze_delay(delay, cursor).total_seconds(),
                cursor=None if cursor is None else encode_payload(cursor, _CURSOR_BYTES_MAX),
                **uncounted,
            )
        case Cancel(reason=reason):
            return Settlement(
                verdict="end", state="cancelled", reason=_storable(reason, _REASON_MAX), **counted
            )
        case Dead(reason=reason):
            return _dead(counted, entry, reason, "permanent", reason)
        case Retry(error=error, error_class=error_class, after=after):
            return _retry(attempt, counted, uncounted, error, error_class, after)
        case _:
            raise AssertionError("checked above")


def _snooze_delay(delay: timedelta | None, cursor: object) -> timedelta:
    """A continuation goes on at once; a handler that only says "not now" must not spin."""
    if delay is None:
        return timedelta(0) if cursor is not None else _NOT_NOW
    return min(max(delay, timedelta(0)), _DELAY_MAX)


def _check(outcome: object) -> None:
    """A handler's answer is input like any other, and there is no caller left to hear that it was refused."""
    match outcome:
        case Snooze(until=until, delay=delay, cursor=cursor, reason=reason):
            check_instant("until", until)
            check_duration("delay", delay)
            _check_text("reason", reason)
            if cursor is not None:
                encode_payload(cursor, _CURSOR_BYTES_MAX, field="cursor")
        case Cancel(reason=reason) | Dead(reason=reason):
            _check_text("reason", reason)
        case Retry(error=error, error_class=error_class, after=after):
            _check_text("error", error)
            check_duration("after", after)
            if error_class not in get_args(ErrorClass):
                names = ", ".join(get_args(ErrorClass))
                raise InvalidInput(f"{error_class!r:.100} is none of {names}", field="error_class")
        case _:
            raise InvalidInput("is no outcome; answer Done, Retry, Snooze, Cancel, Dead or nothing")


def _check_text(field: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidInput(f"{value!r:.100} is not a text", field=field)


def _retry(
    attempt: Attempt,
    counted: dict[str, Any],
    uncounted: dict[str, Any],
    error: str,
    error_class: ErrorClass,
    after: timedelta | None,
) -> Settlement:
    entry = attempt.entry
    delay = decide_retry(
        attempt.policy,
        attempt=attempt.number,
        error_class=error_class,
        retry_after=after,
        elapsed=max(timedelta(0), attempt.now - entry.due_at),
        fraction=attempt.fraction,
    )
    if delay is None:
        reason = "permanent error" if error_class == "permanent" else "out of attempts"
        return _dead(counted, entry, error, error_class, reason)
    return Settlement(
        verdict="retry",
        reason="retry",
        error=_storable(error, _ERROR_MAX),
        error_class=error_class,
        fingerprint=fingerprint(entry.row["kind"], error),
        delay=delay.total_seconds(),
        **(counted if counts_as_attempt(error_class, retry_after=after) else uncounted),
    )


def _dead(
    facts: dict[str, Any], entry: JobEntry, error: str, error_class: ErrorClass, reason: str
) -> Settlement:
    return Settlement(
        verdict="end",
        state="dead",
        reason=_storable(reason, _REASON_MAX),
        error=_storable(error, _ERROR_MAX),
        error_class=error_class,
        fingerprint=fingerprint(entry.row["kind"], error),
        **facts,
    )


def end_unstarted(entry: JobEntry, state: JobState, reason: str) -> Settlement:
    """A job that ends without an attempt: expired, crashed too often, cancelled between two tries."""
    error = reason if state == "dead" else None
    return Settlement(
        verdict="end",
        entry=entry,
        version=entry.version,
        state=state,
        reason=reason,
        error=error,
        fingerprint=fingerprint(entry.row["kind"], reason) if error else None,
        attempt=entry.row["attempt"],
        tried=entry.row["attempt"],
        is_cut_off=state == "cancelled",
    )


def acquits(settlement: Settlement) -> bool:
    """Whether the attempt of a suspect came to an end of its own: it is not what its nodes died of."""
    if not settlement.entry.row["crash_count"]:
        return False
    return settlement.started_at is not None and not settlement.is_given_back


def snooze_unstarted(entry: JobEntry, until: datetime, reason: str) -> Settlement:
    """A job that waits without an attempt, for a destination that does not answer."""
    attempt = entry.row["attempt"]
    return Settlement(
        verdict="retry",
        entry=entry,
        version=entry.version,
        reason=reason,
        run_at=until,
        attempt=attempt,
        tried=attempt,
    )


def unstorable(settlement: Settlement, error: Exception) -> Settlement:
    """What a handler answered cannot be written; the job waits for an operator instead of being tried for ever."""
    return Settlement(
        verdict="end",
        entry=settlement.entry,
        version=settlement.version,
        state="dead",
        reason="its outcome could not be written",
        error=_storable(f"{type(error).__name__}: {error}", _ERROR_MAX),
        error_class="permanent",
        fingerprint=fingerprint(settlement.entry.row["kind"], "its outcome could not be written"),
        tried=settlement.tried,
        started_at=settlement.started_at,
    )


def end_columns(settlements: Sequence[Settlement]) -> dict[str, list[Any]]:
    return {
        "ids": [each.entry.id for each in settlements],
        "versions": [each.version for each in settlements],
        "states": [each.state for each in settlements],
        "reasons": [each.reason for each in settlements],
        "error_classes": [each.error_class for each in settlements],
        "errors": [each.error for each in settlements],
        "fingerprints": [each.fingerprint for each in settlements],
        "attempts": [each.tried for each in settlements],
        "started_ats": [each.started_at for each in settlements],
        "cut_offs": [each.is_cut_off for each in settlements],
    }


def retry_columns(settlements: Sequence[Settlement]) -> dict[str, list[Any]]:
    return {
        "ids": [each.entry.id for each in settlements],
        "versions": [each.version for each in settlements],
        "run_ats": [each.run_at for each in settlements],
        "delays": [each.delay for each in settlements],
        "attempts": [each.attempt for each in settlements],
        "tries": [each.tried for each in settlements],
        "reasons": [each.reason for each in settlements],
        "error_classes": [each.error_class for each in settlements],
        "errors": [each.error for each in settlements],
        "fingerprints": [each.fingerprint for each in settlements],
        "cursors": [each.cursor for each in settlements],
        "started_ats": [each.started_at for each in settlements],
    }


def cancelled_meanwhile(settlements: Iterable[Settlement]) -> list[Settlement]:
    """What did not come back from a retry may have been cancelled while it ran; then it ends so."""
    return [
        Settlement(
            verdict="end",
            entry=each.entry,
            version=each.version,
            state="cancelled",
            reason="cancelled while it ran",
            error_class=each.error_class,
            error=each.error,
            fingerprint=each.fingerprint,
            tried=each.tried,
            started_at=each.started_at,
            is_cut_off=True,
        )
        for each in settlements
    ]
