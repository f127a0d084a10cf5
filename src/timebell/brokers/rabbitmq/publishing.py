"""Publishing over one connection after another."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from functools import partial
from typing import Any, Final

from timebell.brokers.contract import Away, Heard, Message, Published, Refused
from timebell.brokers.rabbitmq.frames import published
from timebell.brokers.rabbitmq.outlets import Call, Outlet, Window
from timebell.brokers.rabbitmq.refusals import Closed, Unreachable
from timebell.brokers.rabbitmq.wire import Wire

PUBLISH_SECONDS: Final = 10.0
OUTLETS_MAX: Final = 64
_NOBODY: Final = "timebell.nobody"


class Publisher:
    """Hands messages over on one connection. `on_lack` hears of an exchange whose messages come back, or which is not
    there."""

    def __init__(self, wire: Wire, on_lack: Callable[[str], None], seconds: float = PUBLISH_SECONDS) -> None:
        self._wire = wire
        self._seconds = seconds
        self._on_lack = on_lack
        self._window = Window()
        self._outlets: dict[str, Outlet] = {}
        self._opening: dict[str, asyncio.Task[Outlet]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        # By when each is to be answered, and how much had come from the broker as it began.
        self._calls: deque[tuple[float, int, Call]] = deque()
        self._expiry: asyncio.TimerHandle | None = None
        self.is_blocked = False

    async def publish(self, messages: Sequence[Message], heard: Heard | None = None) -> list[Published]:
        """Hand these over in their order, and answer for each."""
        call = Call(len(messages), heard)
        self._await_in_time(call)
        for place, message in enumerate(messages):
            outlet = self._outlets.get(message.exchange)
            if outlet is None or outlet.is_worn or self._window.is_full:
                outlet = await self._wait_for_outlet(message.exchange, call, place)
                if call.done.done():
                    break
            if outlet is not None:
                outlet.send(message, call, place)
        await call.done
        return [answer for answer in call.answers if answer is not None]

    def close(self, reason: str) -> None:
        """The connection was lost. What was on its way was answered for; what had yet to leave is now."""
        while self._calls:
            self._calls.popleft()[2].expire(Away(reason))
        if self._expiry is not None:
            self._expiry.cancel()

    def _await_in_time(self, call: Call) -> None:
        """One handle serves all: each call has as long as the others, so they are over in their order."""
        calls = self._calls
        while calls and not calls[0][2].left:
            calls.popleft()
        calls.append((self._loop.time() + self._seconds, self._wire.received_bytes, call))
        if self._expiry is None:
            self._expiry = self._loop.call_later(self._seconds, self._expire)

    def _expire(self) -> None:
        """A queue may confirm nothing for long. But where nothing at all came, the connection leads nowhere: what is
        sent over it may arrive all the same, and would be sent again and again. And a broker that is blocked reads what
        was sent when it is not any more; whoever is told now that it is away may have it cancelled by then."""
        calls, now = self._calls, self._loop.time()
        is_left = is_silent = False
        would_be_heard = self._seconds > self._wire.silence_seconds
        while calls and (calls[0][0] <= now or not calls[0][2].left):
            _, received_bytes, call = calls.popleft()
            is_left = is_left or bool(call.left)
            is_silent = is_silent or bool(call.left and received_bytes == self._wire.received_bytes)
            call.expire(Away(f"no confirm within {self._seconds:g} s"))
        self._expiry = self._loop.call_at(calls[0][0], self._expire) if calls else None
        if is_left and self.is_blocked:
            self._wire.give_up("it was blocked for too long with messages on their way")
        elif is_silent and would_be_heard:
            self._wire.give_up("nothing came from it in time")

    async def _wait_for_outlet(self, exchange: str, call: Call, place: int) -> Outlet | None:
        """Once there is room and a channel; None where this one has its answer already."""
        await self._wait_for_room(call)
        if call.done.done():
            return None
        outlet = self._outlets.get(exchange)
        if outlet is not None and outlet.is_worn:
            self._drop(outlet)
            outlet = None
        try:
            return outlet or await self._opened(exchange)
        except Unreachable as error:
            call.answer(place, Away(str(error)))
        except Closed as closed:
            call.answer(place, Away(closed.words))
        except _TooMany as error:
            call.answer(place, Refused(str(error)))
        return None

    async def _wait_for_room(self, call: Call) -> None:
        while self._window.is_full and not call.done.done():
            room = asyncio.ensure_future(self._window.room.wait())
            waits: tuple[asyncio.Future[Any], ...] = (room, call.done)
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                room.cancel()
        if self._window.is_full:
            # A broker that says nothing of so much in so long is none, and its silence would be in the way for ever.
            self._wire.give_up("it confirmed nothing in time")

    async def _opened(self, exchange: str) -> Outlet:
        """Those who ask for the same wait for one channel, and outlive each other."""
        opening = self._opening.get(exchange)
        if opening is None:
            self._make_room()
            opening = self._opening[exchange] = asyncio.create_task(self._open(exchange), context=Context())
            opening.add_done_callback(partial(self._has_opened, exchange))
        await asyncio.wait({opening})
        return opening.result()

    def _has_opened(self, exchange: str, opening: asyncio.Task[Outlet]) -> None:
        del self._opening[exchange]
        # Nobody may be waiting any more to hear of it.
        if not opening.cancelled():
            opening.exception()

    async def _open(self, exchange: str) -> Outlet:
        outlet = Outlet(exchange, self._window, self._on_lack)

        def on_closed(why: Closed | Unreachable) -> None:
            if self._outlets.get(exchange) is outlet:
                del self._outlets[exchange]
            outlet.end(why)
            if isinstance(why, Closed):
                self._on_lack(exchange)

        channel = await self._wire.channel(on_closed)
        await channel.call("confirm_delivery", ack_nack_callback=lambda _frame: None)
        outlet.start(channel)
        self._outlets[exchange] = outlet
        return outlet

    def _make_room(self) -> None:
        if len(self._outlets) + len(self._opening) < OUTLETS_MAX:
            return
        idle = next((each for each in self._outlets.values() if each.is_idle), None)
        if idle is None:
            raise _TooMany(f"{OUTLETS_MAX} exchanges are published to at once already; try again later")
        self._drop(idle)

    def _drop(self, outlet: Outlet) -> None:
        del self._outlets[outlet.exchange]
        closing = asyncio.create_task(outlet.close(), context=Context())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


async def knock(wire: Wire) -> None:
    """Have a broker that is blocked say so. It tells nobody before they publish, and thousands of messages would be on
    their way by then; this one is for nobody. It says so before it closes the channel, or does not close it."""
    channel = await wire.channel()
    message = Message(exchange="", routing_key=_NOBODY, body=b"")
    channel.write(published(channel.number, message, channel.frame_bytes_max), 2)
    await channel.close()


class _TooMany(Exception):
    """More exchanges at once than there are channels for them."""
