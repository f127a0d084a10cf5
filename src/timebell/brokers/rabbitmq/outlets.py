"""The ways to publish: one channel for each exchange, since the broker closes a channel for the first wrong word on it.

Confirms come by number and returns do not: the broker sends a message back and then confirms it. But it sends them back
in the order in which they were published, so each belongs to the first that is like it and comes after the one that was
returned last. Two that are like each other in everything are not told apart, and nobody could.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from timebell.brokers.carrying import why_not_carried
from timebell.brokers.contract import Away, Confirmed, Heard, Message, Published, Refused, Returned
from timebell.brokers.rabbitmq.frames import FRAME_OVERHEAD, Unfit, content_properties, published
from timebell.brokers.rabbitmq.reading import Contents, Return, Verdict
from timebell.brokers.rabbitmq.refusals import ACCESS_REFUSED, NOT_FOUND, Closed, Unreachable
from timebell.brokers.rabbitmq.wire import Channel

# What is not answered yet, by all outlets together. Whoever comes later waits until there is room.
UNANSWERED_MAX: Final = 10_000
UNANSWERED_BYTES_MAX: Final = 64 * 1024 * 1024

_CONFIRMED: Final = Confirmed()


class Call:
    """One call that waits for its answers."""

    __slots__ = ("_heard", "answers", "done", "left")

    def __init__(self, count: int, heard: Heard | None = None) -> None:
        self._heard = heard
        self.answers: list[Published | None] = [None] * count
        self.left = count
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(self, place: int, answer: Published) -> None:
        if self.answers[place] is None:
            self.answers[place] = answer
            self.left -= 1
            if self._heard is not None:
                self._heard(place, answer)
            if not self.left and not self.done.done():
                self.done.set_result(None)

    def expire(self, answer: Published) -> None:
        for place, known in enumerate(self.answers):
            if known is None:
                self.answer(place, answer)


class Window:
    """How much waits for an answer. What nobody waits for any more still counts, until the broker has spoken of it."""

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self.is_full = False
        self.room = asyncio.Event()
        self.room.set()

    def enter(self, size: int) -> None:
        self.count += 1
        self.size += size
        if self.count >= UNANSWERED_MAX or self.size >= UNANSWERED_BYTES_MAX:
            self.is_full = True
            self.room.clear()

    def leave(self, size: int) -> None:
        self.count -= 1
        self.size -= size
        if self.is_full and self.count < UNANSWERED_MAX and self.size < UNANSWERED_BYTES_MAX:
            self.is_full = False
            self.room.set()


class _Sent(NamedTuple):
    message: Message
    call: Call
    place: int
    size: int


class Outlet:
    """The way to one exchange."""

    def __init__(self, exchange: str, window: Window, on_unroutable: Callable[[str], None]) -> None:
        self.exchange = exchange
        self._window = window
        self._on_unroutable = on_unroutable
        self._channel: Channel | None = None
        self._contents = Contents(UNANSWERED_BYTES_MAX)
        self._unanswered: dict[int, _Sent] = {}
        self._returned: dict[int, str] = {}
        self._next = self._oldest = 1
        self._returned_to = 0
        self._doubt = 0
        self._has_refused = False

    @property
    def is_idle(self) -> bool:
        return not self._unanswered

    @property
    def is_worn(self) -> bool:
        """A channel remembers of a quorum queue that it was full, and may not hear that it is not any more."""
        return self._has_refused and not self._unanswered

    def start(self, channel: Channel) -> None:
        self._channel = channel
        channel.look(self._take_frame)

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()

    def send(self, message: Message, call: Call, place: int) -> None:
        channel = self._channel
        if channel is None or not channel.is_open:
            call.answer(place, Away("the channel was closed"))
            return
        try:
            frames = published(channel.number, message, channel.frame_bytes_max)
        except Unfit as error:
            call.answer(place, Refused(why_not_carried(message) or str(error)))
            return
        size = len(frames)
        self._unanswered[self._next] = _Sent(message, call, place, size)
        self._next += 1
        self._window.enter(size)
        room = channel.frame_bytes_max - FRAME_OVERHEAD
        channel.write(frames, 2 - -len(message.body) // room)

    def end(self, why: Closed | Unreachable) -> None:
        """The channel is closed. It was for this exchange alone, so what the broker says of it goes for all that was on
        its way; unless it speaks of some keys only."""
        unanswered, self._unanswered = self._unanswered, {}
        for sent in unanswered.values():
            self._window.leave(sent.size)
            sent.call.answer(sent.place, self._answer_to(why, sent.message))

    def _answer_to(self, why: Closed | Unreachable, message: Message) -> Published:
        if isinstance(why, Unreachable):
            return Away(str(why))
        if why.code == NOT_FOUND:
            return Refused(f"there is no exchange {self.exchange!r} ({why.words})")
        is_meant = "topic '" not in why.words or f"topic '{message.routing_key}'" in why.words
        if why.code == ACCESS_REFUSED and is_meant:
            return Refused(f"this user may not publish to the exchange {self.exchange!r} ({why.words})")
        return Away(why.words)

    def _take_frame(self, kind: int, payload: bytes) -> bool:
        taken = self._contents.take(kind, payload)
        if isinstance(taken, bool):
            return taken
        if isinstance(taken, Verdict):
            self._settle(taken)
        elif isinstance(taken, Return):
            self._return(taken)
        return True

    def _settle(self, verdict: Verdict) -> None:
        first = self._oldest if verdict.is_multiple else verdict.tag
        # Zero stands for all that there are.
        last = verdict.tag or self._next - 1
        for tag in range(first, last + 1):
            sent = self._unanswered.pop(tag, None)
            if sent is not None:
                self._window.leave(sent.size)
                sent.call.answer(sent.place, self._answer(tag, is_taken=verdict.is_taken))
        if verdict.is_multiple:
            self._oldest = last + 1

    def _answer(self, tag: int, *, is_taken: bool) -> Published:
        if tag in self._returned:
            return Returned(self._returned.pop(tag))
        if is_taken:
            return _CONFIRMED
        self._has_refused = True
        return Refused("the broker could not take it; its queue may be full")

    def _return(self, returned: Return) -> None:
        tag = self._returned_tag(returned)
        if tag is not None:
            self._returned[tag] = f"no queue is bound for it ({returned.reason})"
            self._returned_to = tag
            self._on_unroutable(self.exchange)

    def _returned_tag(self, returned: Return) -> int | None:
        """The first that is like it, and that comes after the one that was returned last."""
        first = max(self._returned_to + 1, self._oldest)
        for is_like in _LIKENESSES[self._doubt :]:
            for tag in range(first, self._next):
                sent = self._unanswered.get(tag)
                if sent is not None and is_like(sent.message, returned):
                    return tag
            # A broker may be told to change what passes through it; what it sends back was ours all the same.
            self._doubt = min(self._doubt + 1, len(_LIKENESSES) - 1)
        return None


def _is_same(message: Message, returned: Return) -> bool:
    return _has_same_body(message, returned) and content_properties(message) == returned.properties


def _has_same_body(message: Message, returned: Return) -> bool:
    return _has_same_key(message, returned) and message.body == returned.body


def _has_same_key(message: Message, returned: Return) -> bool:
    return message.routing_key == returned.routing_key


_LIKENESSES: Final = (_is_same, _has_same_body, _has_same_key)
