"""The contract of a broker: messages are handed to it and taken from it, with a word for what became of each.

Handing over is over when the broker has confirmed it. Taking is over when it was acknowledged; whatever is not comes
again. A broker that is away comes back by itself, and nothing is kept for it meanwhile: whoever publishes hears that it
is away, and whoever takes waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, Protocol

Header = str | int | bool | bytes | datetime | None
Sort = Literal["topic", "direct", "fanout"]
# The header that stands alone where those of a message could not be read; its value says why.
UNREADABLE_HEADERS: Final = "timebell-unreadable-headers"


@dataclass(slots=True, kw_only=True)
class Message:
    """What is handed to a broker: it outlives a restart, and comes back if no queue is bound for it.

    Nobody changes one; to have that enforced would double what it costs to make it.
    """

    exchange: str
    routing_key: str
    body: bytes
    content_type: str | None = "application/json"
    type: str | None = None
    message_id: str | None = None
    correlation_id: str | None = None
    timestamp: datetime | None = None
    headers: Mapping[str, Header] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The broker has it, and a queue too."""


@dataclass(frozen=True, slots=True)
class Returned:
    """No queue is bound for it. It tells of this message alone."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker did not take it: its queue is full, there is no such exchange, this user may not write there, or AMQP
    has no form for it. It tells of this message alone."""

    reason: str


@dataclass(frozen=True, slots=True)
class Away:
    """The broker is not there, is blocked, or was lost before it answered; the message may have arrived even so."""

    reason: str


Published = Confirmed | Returned | Refused | Away
Heard = Callable[[int, Published], None]


def all_away(count: int, reason: str, heard: Heard | None) -> Sequence[Published]:
    """The answer for all of a call that finds no broker."""
    answer = Away(reason)
    if heard is not None:
        for place in range(count):
            heard(place, answer)
    return [answer] * count


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Received:
    """What a broker handed to us. Of a body over the limit of whoever takes it only the beginning was kept, and
    `body_bytes` says how long it is."""

    queue: str
    exchange: str
    routing_key: str
    body: bytes
    body_bytes: int
    tag: int
    is_redelivered: bool = False
    content_type: str | None = None
    type: str | None = None
    message_id: str | None = None
    correlation_id: str | None = None
    timestamp: datetime | None = None
    headers: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Durable, as everything is that we declare."""

    name: str
    sort: Sort = "topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerQueue:
    """A quorum queue, bound by these keys."""

    name: str
    exchange: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """What must be there. Declared at start and whenever a connection is made anew."""

    exchanges: tuple[Exchange, ...] = ()
    queues: tuple[BrokerQueue, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (*(each.name for each in self.exchanges), *(each.name for each in self.queues))

    def __add__(self, other: Topology) -> Topology:
        return Topology(
            exchanges=tuple(dict.fromkeys((*self.exchanges, *other.exchanges))),
            queues=tuple(dict.fromkeys((*self.queues, *other.queues))),
        )


class Intake(Protocol):
    """Takes messages from one queue, as they come. After a lost connection it goes on by itself."""

    async def take(self, most: int) -> Sequence[Received]:
        """At least one, as soon as there is one, and at most so many that are there already.

        Whoever stops waiting loses nothing. It raises `RuntimeError` once the broker was closed.
        """

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """These are ours now. What came over a connection that was lost since is left out: it comes again. Saying so
        twice does no harm."""

    async def give_back(self, received: Sequence[Received]) -> None:
        """These are for others, or for later."""


class Broker(Protocol):
    """One process's way to a broker."""

    @property
    def is_there(self) -> bool:
        """Whether it can be published to now."""

    def watch(self, changed: Callable[[bool], None]) -> None:
        """Have it called whenever `is_there` changes, with what it is."""

    async def open(self, topology: Topology) -> None:
        """Connect, where that was not done, and declare. Called again with more, that is declared besides.

        Raises `ConfigurationError` with the remedy where the broker refuses us for good: the user, its rights, the
        virtual host, or something that is declared otherwise. One that is merely not there is tried until `close`.
        """

    async def publish(self, messages: Sequence[Message], heard: Heard | None = None) -> Sequence[Published]:
        """Hand these over and answer for each, within a deadline. Calls that come together share what they can.

        `heard` is told of each by its place, once and as soon as it is known: one may be confirmed long before another.
        """

    def intake(
        self, queue: str, *, prefetch: int, body_bytes_max: int
    ) -> AbstractAsyncContextManager[Intake]:
        """Take from a queue for as long as the block lasts; what was not acknowledged by then comes again."""

    async def close(self) -> None: ...
