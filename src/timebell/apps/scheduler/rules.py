"""Pure rules about requests: whether two are the same (idempotency), and what becomes of the second."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import orjson

from timebell.apps.scheduler.models import Asked, Known, Misfire, ScheduleCancel, ScheduleRequest
from timebell.rules.localtime import zone

Timing = tuple[datetime | None, str | None, str | None, datetime | None, str | None]

# So many may wait for each other at most; with one, each is overtaken by the next.
_ALL: Final = 1_000
_SECOND: Final = timedelta(seconds=1)


def timing_of(request: ScheduleRequest) -> Timing:
    """When it is to be. What is due once has no timezone, no start and no misfire."""
    if request.recurrence is None:
        return request.due_at, None, None, None, None
    return None, request.recurrence, request.timezone, request.start_at, request.misfire


def timing_of_known(known: Known) -> Timing:
    """The same of what was taken before. A start that nobody gave is not compared."""
    if known.recurrence is None:
        return known.due_at, None, None, None, None
    start_at = known.start_at if known.is_start_given else None
    return None, known.recurrence, known.timezone, start_at, known.misfire


def is_same_payload(one: str | None, other: str | None) -> bool:
    if one == other or one is None or other is None:
        return one == other
    return bool(orjson.loads(one) == orjson.loads(other))


Second = Literal["new", "same", "payload", "timing", "over", "withdrawn"]


def second(known: Known, request: ScheduleRequest) -> Second:
    """What a request is that comes under a name which is known: the same again, another payload or timing; or too late,
    since it is `over`, or was `withdrawn` before it came."""
    if known.status is None:
        return "withdrawn" if known.is_fresh else "new"
    is_same_timing = timing_of_known(known) == timing_of(request)
    if is_same_timing and known.is_same_payload:
        return "same"
    if known.status != "pending":
        return "over"
    return "payload" if is_same_timing else "timing"


def start_of(request: ScheduleRequest, now: datetime) -> datetime:
    """From when on a recurrence counts. Recurrences know whole seconds: without a start it is the first to come, so
    that no occurrence lies before the request for it."""
    if request.start_at is not None:
        return request.start_at
    whole = now.replace(microsecond=0)
    return whole if whole == now else whole + _SECOND


def local_start(start_at: datetime, timezone: str) -> datetime:
    """The wall time at which it starts."""
    return start_at.astimezone(zone(timezone)).replace(tzinfo=None, fold=0)


def catch_up_of(misfire: Misfire) -> dict[str, Any]:
    """The kernel's terms for what becomes of occurrences that nobody could publish in time.

    `fire_once` waits without end for its turn, unless the next occurrence is due; that is `all` of which one may wait.
    """
    match misfire:
        case "skip":
            return {"catch_up": "skip"}
        case "fire_all":
            return {"catch_up": "all", "catch_up_max": _ALL}
        case _:
            return {"catch_up": "all", "catch_up_max": 1}


def portions(asked: Sequence[Asked], *, recurrences: int, cancels: int) -> Iterator[slice]:
    """Parts of a batch, in its order, each with so many recurrences and so many cancels at most: to plan or to end one
    takes a while, and whoever takes in many of them must not hold a transaction open for minutes."""
    begin = planned = ended = 0
    for at, one in enumerate(asked):
        is_cancel = isinstance(one, ScheduleCancel)
        is_recurrence = isinstance(one, ScheduleRequest) and one.recurrence is not None
        if planned + is_recurrence > recurrences or ended + is_cancel > cancels:
            yield slice(begin, at)
            begin, planned, ended = at, 0, 0
        planned += is_recurrence
        ended += is_cancel
    yield slice(begin, len(asked))


def in_utc(value: Any) -> Any:
    """A driver may answer in its connection's zone."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def in_order(ids: Iterable[str]) -> list[str]:
    """Each once, as the database orders them: whoever takes several rows takes them in this order."""
    return sorted(set(ids), key=str.encode)
