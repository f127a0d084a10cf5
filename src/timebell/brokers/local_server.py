"""A broker in this process: its exchanges and queues, which outlive whoever connects, and the faults it can show.

It does nothing by itself and knows no time, so that a test, or a simulation, decides what happens and when. Several
`LocalBroker` that are given one server are several processes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass
from heapq import merge
from itertools import count
from math import inf
from operator import attrgetter
from typing import Final, Literal, Protocol

from timebell.brokers.carrying import headers_bytes, why_not_carried
from timebell.brokers.contract import Away, Confirmed, Message, Published, Refused, Returned, Sort, Topology
from timebell.brokers.topics import matches
from timebell.errors import ConfigurationError

MESSAGES_MAX: Final = 1_000_000
BYTES_MAX: Final = 256 << 20

QueueSort = Literal["quorum", "classic"]
_NAMED: Final[dict[str, Sort]] = {"amq.topic": "topic", "amq.direct": "direct", "amq.fanout": "fanout"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What becomes of one published message: whether it arrives, what is answered, and how late.

    `lose` loses the message and `lose_confirm` only the answer; of both the publisher hears that the broker is away.
    """

    sort: Literal["arrive", "lose", "lose_confirm", "return", "refuse"] = "arrive"
    seconds: float = 0.0


ARRIVES: Final = Fate()


@dataclass(slots=True, kw_only=True, eq=False)
class Entry:
    """A message in one queue; `number` is its place there."""

    number: int
    message: Message
    is_redelivered: bool = False


class Link(Protocol):
    """Whoever connects. It is told at once, and acts when its own process is next at work."""

    def tell(self) -> None:
        """Something is different: look again at the server, and at the connection."""


class Subscription:
    """Somebody takes from a queue over one connection: what was handed out to them and not acknowledged."""

    def __init__(self, queue: LocalQueue, prefetch: int, deliver: Callable[[int, Entry], None]) -> None:
        self.held: dict[int, Entry] = {}
        self.is_over = False
        self._queue = queue
        self._prefetch = prefetch
        self._deliver = deliver

    @property
    def has_room(self) -> bool:
        return len(self.held) < self._prefetch

    def hand(self, tag: int, entry: Entry) -> None:
        self.held[tag] = entry
        self._deliver(tag, entry)

    def acknowledge(self, tags: Iterable[int]) -> None:
        """What it does not hold was acknowledged before, or came over another connection, and is left out."""
        self._queue.forget([entry for tag in tags if (entry := self.held.pop(tag, None)) is not None])

    def give_back(self, tags: Iterable[int]) -> None:
        self._queue.take_back([entry for tag in tags if (entry := self.held.pop(tag, None)) is not None])

    def end(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._queue.subscriptions.remove(self)
            self.give_back(list(self.held))


class LocalQueue:
    """Messages in the order in which they came. Those that come again stand where they stood."""

    def __init__(
        self, name: str, sort: QueueSort, *, tags: Iterator[int], messages_max: int, bytes_max: int
    ) -> None:
        self.name = name
        self.sort = sort
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self.ready: deque[Entry] = deque()
        self.subscriptions: deque[Subscription] = deque()
        self._bytes = 0
        self._count = 0
        self._numbers = count()
        self._tags = tags

    @property
    def entries(self) -> list[Entry]:
        held = [entry for subscription in self.subscriptions for entry in subscription.held.values()]
        return sorted([*held, *self.ready], key=_number)

    def put(self, message: Message) -> bool:
        """Whether there was room for it."""
        if self._count >= self.messages_max or self._bytes + _size(message) > self.bytes_max:
            return False
        self._count += 1
        self._bytes += _size(message)
        self.ready.append(Entry(number=next(self._numbers), message=message))
        self.hand_out()
        return True

    def hand_out(self) -> None:
        """To everybody in turn who has room."""
        while self.ready and (subscription := self._next()) is not None:
            subscription.hand(next(self._tags), self.ready.popleft())

    def _next(self) -> Subscription | None:
        for _ in range(len(self.subscriptions)):
            subscription = self.subscriptions[0]
            self.subscriptions.rotate(-1)
            if subscription.has_room:
                return subscription
        return None

    def forget(self, entries: Sequence[Entry]) -> None:
        self._count -= len(entries)
        self._bytes -= sum(_size(entry.message) for entry in entries)
        self.hand_out()

    def take_back(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            entry.is_redelivered = True
        returned = sorted(entries, key=_number)
        if returned and self.ready and returned[-1].number > self.ready[0].number:
            self.ready = deque(merge(returned, self.ready, key=_number))
        else:
            self.ready.extendleft(reversed(returned))
        self.hand_out()


# What is answered, and after how many seconds; or what will be, once it was read.
Answer = tuple[Published | asyncio.Future[Published], float]


class Connection:
    """One connection, from when it was made until it is lost. What is published over it while the broker is blocked,
    and has not said so yet, is read when it is not any more; unless the connection is lost before."""

    def __init__(self, server: LocalServer) -> None:
        self.is_open = True
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._server = server
        self._subscriptions: list[Subscription] = []
        self._unread: list[tuple[Message, asyncio.Future[Published], Context]] = []

    def declare(self, topology: Topology) -> None:
        self._server.declare(topology)

    def publish(self, message: Message) -> Answer:
        if not self.is_open:
            return Away("the connection was lost"), 0.0
        if not self._server.is_blocked:
            return self._server.publish(message)
        answer: asyncio.Future[Published] = self.ended.get_loop().create_future()
        self._unread.append((message, answer, copy_context()))
        return answer, inf

    def read_on(self) -> None:
        unread, self._unread = self._unread, []
        for message, answer, context in unread:
            answer.set_result(context.run(self._server.publish, message)[0])

    def subscribe(
        self, queue: str, *, prefetch: int, deliver: Callable[[int, Entry], None]
    ) -> Subscription | None:
        """None if there is no such queue."""
        found = self._server.queues.get(queue)
        if found is None:
            return None
        subscription = Subscription(found, prefetch, deliver)
        self._subscriptions = [one for one in self._subscriptions if not one.is_over] + [subscription]
        found.subscriptions.append(subscription)
        found.hand_out()
        return subscription

    def end(self) -> None:
        """What was not acknowledged comes again, to whoever is next."""
        if self.is_open:
            self.is_open = False
            self.ended.set_result(None)
            self._unread = []
            for subscription in self._subscriptions:
                subscription.end()


class LocalServer:
    """The broker itself. A queue that has so many messages, or so many bytes of them, refuses more.

    `fate` is asked about each message that is published, so that a test can have one lost.
    """

    def __init__(self, *, messages_max: int = MESSAGES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self.fate: Callable[[Message], Fate] = lambda message: ARRIVES
        self.queues: dict[str, LocalQueue] = {}
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._exchanges: dict[str, Sort] = dict(_NAMED)
        self._bindings: dict[str, dict[tuple[str, str], None]] = {}
        self._links: dict[Link, Connection | None] = {}
        # One row for all queues, so that a queue which is declared again gives out no tag twice.
        self._tags = count(1)
        self._is_up = True
        self._is_blocked = False

    @property
    def is_up(self) -> bool:
        return self._is_up

    @property
    def is_blocked(self) -> bool:
        return self._is_blocked

    def stop(self) -> None:
        """It goes away with every connection. What its queues hold is there when it is started again."""
        self._is_up = False
        self.cut()

    def start(self) -> None:
        self._is_up = True
        self._tell()

    def block(self) -> None:
        """Connections stay, and nothing more is read of what is published over them."""
        self._is_blocked = True
        self._tell()

    def unblock(self) -> None:
        self._is_blocked = False
        for connection in self._links.values():
            if connection is not None:
                connection.read_on()
        self._tell()

    def cut(self) -> None:
        """Every connection is lost, and can be made again."""
        for connection in self._links.values():
            if connection is not None:
                connection.end()
        self._tell()

    def limit(self, queue: str, *, messages_max: int | None = None, bytes_max: int | None = None) -> None:
        """What this queue may hold from now on; None is what every queue may."""
        found = self.queues[queue]
        found.messages_max = self._messages_max if messages_max is None else messages_max
        found.bytes_max = self._bytes_max if bytes_max is None else bytes_max

    def delete_queue(self, queue: str) -> None:
        """With all that it holds. Whoever takes from it is told."""
        found = self.queues.pop(queue)
        for bindings in self._bindings.values():
            for binding in [one for one in bindings if one[1] == queue]:
                del bindings[binding]
        for subscription in list(found.subscriptions):
            subscription.end()
        self._tell()

    def messages(self, queue: str) -> list[Message]:
        """What a queue holds, in order, with what was handed out and is not acknowledged."""
        return [entry.message for entry in self.queues[queue].entries]

    def declare_queue(self, name: str, sort: QueueSort = "quorum") -> None:
        found = self.queues.get(name)
        if found is None:
            self.queues[name] = LocalQueue(
                name,
                sort,
                tags=self._tags,
                messages_max=self._messages_max,
                bytes_max=self._bytes_max,
            )
        elif found.sort != sort:
            raise ConfigurationError(
                f"broker: the queue {name!r} is there as a {found.sort} queue and not as a {sort} one;"
                " delete it when it is empty, and start again"
            )

    def declare(self, topology: Topology) -> None:
        for exchange in topology.exchanges:
            sort = self._exchanges.setdefault(exchange.name, exchange.sort)
            if sort != exchange.sort:
                raise ConfigurationError(
                    f"broker: the exchange {exchange.name!r} is there as {sort} and not as {exchange.sort};"
                    " delete it, and start again"
                )
        for queue in topology.queues:
            self.declare_queue(queue.name)
            if queue.exchange not in self._exchanges:
                raise ConfigurationError(
                    f"broker: the queue {queue.name!r} is to be bound to the exchange {queue.exchange!r}, which is"
                    " not there; declare that too"
                )
            bindings = self._bindings.setdefault(queue.exchange, {})
            bindings.update({(key, queue.name): None for key in queue.keys})

    def connect(self, link: Link) -> Connection | None:
        """None if nobody is there. The link is told then, when somebody is."""
        connection = Connection(self) if self._is_up else None
        self._links[link] = connection
        return connection

    def leave(self, link: Link) -> None:
        connection = self._links.pop(link, None)
        if connection is not None:
            connection.end()

    def publish(self, message: Message) -> tuple[Published, float]:
        """The answer, and after how many seconds it comes."""
        fate = self.fate(message)
        match fate.sort:
            case "lose":
                return Away("the message was lost on its way"), fate.seconds
            case "return":
                return _returned(message), fate.seconds
            case "refuse":
                return Refused("the broker refused it"), fate.seconds
            case "lose_confirm":
                self._route(message)
                return Away("the answer was lost on its way"), fate.seconds
            case "arrive":
                return self._route(message), fate.seconds

    def _route(self, message: Message) -> Published:
        if (why := why_not_carried(message)) is not None:
            return Refused(why)
        if message.exchange and message.exchange not in self._exchanges:
            return Refused(f"there is no exchange {message.exchange!r}; declare it, or name another")
        queues = self._queues_for(message)
        if not queues:
            return _returned(message)
        full = [queue.name for queue in queues if not queue.put(message)]
        return Refused(f"the queue {full[0]!r} is full") if full else Confirmed()

    def _queues_for(self, message: Message) -> list[LocalQueue]:
        key = message.routing_key
        if not message.exchange:
            return [self.queues[key]] if key in self.queues else []
        sort = self._exchanges[message.exchange]
        bindings = self._bindings.get(message.exchange, {})
        bound = {queue: None for binding, queue in bindings if _is_bound(sort, binding, key)}
        return [self.queues[queue] for queue in bound]

    def _tell(self) -> None:
        for link in list(self._links):
            link.tell()


def _is_bound(sort: Sort, binding: str, key: str) -> bool:
    match sort:
        case "topic":
            return matches(binding, key)
        case "direct":
            return binding == key
        case "fanout":
            return True


def _returned(message: Message) -> Returned:
    return Returned(
        f"no queue is bound to the exchange {message.exchange!r} for the key {message.routing_key!r}"
    )


def _size(message: Message) -> int:
    return len(message.body) + headers_bytes(message)


_number = attrgetter("number")
