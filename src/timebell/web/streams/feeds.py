"""Feeds of streams: a table that grows at its end, read from a place, a page at a time, as Server-Sent Events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol
from uuid import UUID

import orjson

from timebell.errors import InvalidInput
from timebell.kernel.events import EventPlace, FollowedEvent, Following
from timebell.notify.inbox.inbox import Inbox
from timebell.notify.models import InboxLine

_PAGE: Final = 50
_SEQ_MAX: Final = 2**63 - 1
_RETRY_MS: Final = 1_000
BEAT: Final = b":\n\n"

Standing = Literal["same", "more", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """How far a tenant's tables go: the inboxes that somebody follows, and the events."""

    inboxes: Mapping[UUID, int]
    events: EventPlace | None


@dataclass(frozen=True, slots=True)
class Page:
    """A few messages, as they are sent."""

    messages: list[bytes]
    has_more: bool = False


class Feed(Protocol):
    """One reader of one table. `person` is whose inbox it is, None for the events."""

    @property
    def person(self) -> UUID | None: ...

    async def begin(self, given: str | None) -> bytes:
        """Take the place that a client gives, or the end where it gives none, and tell it which one that is."""
        ...

    async def read(self) -> Page: ...

    def standing(self, ends: Ends) -> Standing: ...


class InboxFeed:
    """A person's inbox. Its numbers have no gaps and rise with the commits, so a number alone is the place."""

    def __init__(self, inbox: Inbox, tenant: str, person: UUID, dump: Callable[[InboxLine], bytes]) -> None:
        self.person = person
        self._inbox = inbox
        self._tenant = tenant
        self._dump = dump
        self._seq = 0

    async def begin(self, given: str | None) -> bytes:
        ends = await self._inbox.read_ends([self.person], tenant=self._tenant)
        end = ends.get(self.person, 0)
        wanted = end if given is None else _seq_of(given)
        # A place that was never reached: the client has seen another table, such as one before a restore.
        is_lost = wanted > end
        self._seq = min(wanted, end)
        return _opening(str(self._seq), is_lost)

    async def read(self) -> Page:
        lines = await self._inbox.read_after(self.person, self._seq, tenant=self._tenant, limit=_PAGE)
        messages = []
        for line in lines:
            if line.seq != self._seq + 1:
                messages.append(_resync(str(line.seq - 1)))
            self._seq = line.seq
            messages.append(_message(str(line.seq), self._dump(line)))
        return Page(messages, has_more=len(lines) == _PAGE)

    def standing(self, ends: Ends) -> Standing:
        end = ends.inboxes.get(self.person)
        if end is None:
            return "gone"
        return "same" if end <= self._seq else "more"


class EventFeed:
    """The events of a tenant, in the order in which they came into sight."""

    person = None

    def __init__(self, following: Following, tenant: str, dump: Callable[[FollowedEvent], bytes]) -> None:
        self._following = following
        self._tenant = tenant
        self._dump = dump
        self._place = EventPlace(0)

    async def begin(self, given: str | None) -> bytes:
        end = await self._following.end(self._tenant)
        wanted = end.now if given is None else EventPlace.read(given)
        is_lost = not end.knows(wanted)
        self._place = end.now if is_lost else wanted
        return _opening(str(self._place), is_lost)

    async def read(self) -> Page:
        events, has_more = await self._following.after(self._tenant, self._place, limit=_PAGE)
        if events:
            self._place = events[-1].place
        return Page([_message(str(event.place), self._dump(event)) for event in events], has_more)

    def standing(self, ends: Ends) -> Standing:
        return "more" if ends.events is not None and ends.events > self._place else "same"


def _opening(place: str, is_lost: bool) -> bytes:
    """A message without data shows nothing and yet is remembered: a client that is cut off before anything has come
    still comes back to this place."""
    opening = f"retry: {_RETRY_MS}\nid: {place}\n\n".encode("ascii")
    return opening + _resync(place) if is_lost else opening


def _message(place: str, content: bytes) -> bytes:
    return b"id: " + place.encode("ascii") + b"\ndata: " + content + b"\n\n"


def _resync(place: str) -> bytes:
    """What the client has is not what is here, and no message can mend it: it has to read the list anew."""
    return b"event: resync\n" + _message(place, orjson.dumps({"after": place}))


def _seq_of(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= 19:
        return min(int(text), _SEQ_MAX)
    raise InvalidInput(
        "is no place; give the seq of the last entry that you saw, or 0 for all", field="after"
    )
