"""For receivers of `ScheduleDue`: a message that comes again is known by what fired and when it was to.

Whoever fires may die after the broker has the message and before that is written down, so it is sent again: the same
`tenant`, `id` and `scheduled_for`, and maybe another `fired_at`. An `id` alone is not enough, since a recurring one
comes with each of its occurrences. Where to remember is the receiver's choice, best in the transaction of the effect.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Final, NamedTuple, overload

import orjson

from timebell.errors import InvalidInput

_TYPE: Final = "ScheduleDue"


class Key(NamedTuple):
    """What a duplicate has in common with its original."""

    tenant: str
    id: str
    scheduled_for: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A `ScheduleDue` as it came. `occurrence` is which one of a recurring job it is, None of one that fires once."""

    id: str
    tenant: str
    scheduled_for: datetime
    fired_at: datetime
    occurrence: str | None = None
    payload: Any = None

    @property
    def key(self) -> Key:
        return Key(self.tenant, self.id, self.scheduled_for)


# Notes a message, and answers whether it had not been noted before. One of the two, as the receiver works.
Seen = Callable[[Due], bool]
AsyncSeen = Callable[[Due], Awaitable[bool]]
Body = bytes | bytearray | memoryview | str | Mapping[str, Any]


@overload
def dedupe(body: Body, seen: AsyncSeen) -> Awaitable[Due | None]: ...
@overload
def dedupe(body: Body, seen: Seen) -> Due | None: ...
def dedupe(body: Body, seen: Seen | AsyncSeen) -> Due | Awaitable[Due | None] | None:
    """The message, or None if it came before. To be awaited where `seen` is.

    `InvalidInput` is raised for what is no `ScheduleDue`.
    """
    due = read_due(body)
    is_new = seen(due)
    if inspect.isawaitable(is_new):
        return _once_known(due, is_new)
    return due if is_new else None


async def _once_known(due: Due, is_new: Awaitable[bool]) -> Due | None:
    return due if await is_new else None


def read_due(body: Body) -> Due:
    """The body of a message, or the object that was read from it."""
    if not isinstance(body, Mapping):
        try:
            body = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise InvalidInput(f"the body is not JSON: {str(error)[:200]}", field="body") from None
    if not isinstance(body, Mapping) or body.get("type", _TYPE) != _TYPE:
        raise InvalidInput(f"is no {_TYPE}; take only such messages here", field="body")
    return Due(
        id=_text(body, "id"),
        tenant=_text(body, "tenant"),
        scheduled_for=_instant(body, "scheduled_for"),
        fired_at=_instant(body, "fired_at"),
        occurrence=body.get("occurrence"),
        payload=body.get("payload"),
    )


class LastSeen:
    """Remembers the last so many messages in this process, for trying out: a restart forgets them all.

    What is noted counts as done. Where the effect fails, `forget` it, so that it is passed when it comes again.
    """

    def __init__(self, most: int = 100_000) -> None:
        if most < 1:
            raise InvalidInput(f"{most} is too few; give 1 or more", field="most")
        self._most = most
        self._keys: OrderedDict[Key, None] = OrderedDict()
        # Receivers of some clients work in threads.
        self._lock = Lock()

    def __call__(self, due: Due) -> bool:
        with self._lock:
            is_new = due.key not in self._keys
            self._keys[due.key] = None
            self._keys.move_to_end(due.key)
            if len(self._keys) > self._most:
                self._keys.popitem(last=False)
        return is_new

    def __len__(self) -> int:
        return len(self._keys)

    def forget(self, due: Due) -> None:
        with self._lock:
            self._keys.pop(due.key, None)


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"is missing; a {_TYPE} has one", field=name)
    return value


def _instant(body: Mapping[str, Any], name: str) -> datetime:
    text = _text(body, name)
    try:
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is not None:
            return instant.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidInput(f"{text[:50]!r} is no instant with an offset", field=name)
