"""A connection that comes back by itself, for as long as it is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from timebell.brokers.rabbitmq.address import Address, Host
from timebell.brokers.rabbitmq.refusals import Unreachable
from timebell.brokers.rabbitmq.wire import Wire, connect
from timebell.clock import Chance
from timebell.errors import ConfigurationError
from timebell.logs import Logger

log = Logger("timebell.brokers")

PAUSE_SECONDS_MIN: Final = 0.2
PAUSE_SECONDS_MAX: Final = 5.0
# Whoever was refused has to wait for a person.
REFUSED_SECONDS: Final = 15.0
# One that lasted as long is no sign of trouble, and the next is tried for as soon as at first.
_LASTING_SECONDS: Final = 5.0


class Pauses:
    """How long to wait before the next try: longer each time, and never quite as long as others do."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._seconds = PAUSE_SECONDS_MIN

    def next(self) -> float:
        seconds = self._seconds
        self._seconds = min(2 * seconds, PAUSE_SECONDS_MAX)
        return seconds * (0.5 + self._chance.fraction() / 2)

    def start_over(self) -> None:
        self._seconds = PAUSE_SECONDS_MIN


class Outage:
    """Tells once that the broker is away, and once that it is back, however many connections notice it."""

    def __init__(self) -> None:
        self._down: set[object] = set()
        self._told: str | None = None

    def begin(self, link: object, host: Host, reason: str) -> None:
        self._down.add(link)
        if self._told is None:
            log.warning(
                "the broker is away; it is tried again until it is back", host=str(host), reason=reason
            )
            self._told = reason

    def refused(self, link: object, host: Host, refusal: str) -> None:
        self._down.add(link)
        if self._told != refusal:
            log.warning("the broker refuses us; it is tried again", host=str(host), reason=refusal)
            self._told = refusal

    def end(self, link: object, host: Host) -> None:
        self._down.discard(link)
        if self._told is not None and not self._down:
            log.info("the broker is back", host=str(host))
            self._told = None


class Link:
    """Keeps one connection. `prepare` has it made ready before it counts as there, and `on_change` hears whenever it is
    there, or is not any more."""

    def __init__(
        self,
        address: Address,
        name: str,
        *,
        outage: Outage,
        chance: Chance,
        prepare: Callable[[Wire], Awaitable[None]],
        on_change: Callable[[], None],
        on_blocked: Callable[[str | None], None] = lambda _reason: None,
    ) -> None:
        self._address = address
        self._name = name
        self._outage = outage
        self._chance = chance
        self._prepare = prepare
        self._on_change = on_change
        self._on_blocked = on_blocked
        # The nodes of a cluster share those who connect.
        self._turn = int(chance.fraction() * len(address.hosts))
        self._keeping: asyncio.Task[None] | None = None
        self._there = asyncio.Event()
        # How the first try ended that had an end: it is there, or refuses us.
        self._first: asyncio.Future[None] | None = None
        self.wire: Wire | None = None
        self.why_away = "the broker was not opened yet"

    async def open(self, seconds: float) -> None:
        """Begin, and wait so long at most for the first connection. Raises what refuses us for good."""
        if self._keeping is None:
            self._first = asyncio.get_running_loop().create_future()
            self._keeping = asyncio.create_task(self._keep(), name=f"timebell broker {self._name}")
        first = self._first
        assert first is not None
        await asyncio.wait({first}, timeout=seconds)
        # Nobody waits for it any more, so a refusal is told in a line from here on.
        self._settle(None)
        if (refusal := first.exception()) is not None:
            await self.close("the broker refuses us")
            raise refusal

    async def there(self) -> Wire:
        """The connection, as soon as there is one."""
        while self.wire is None:
            await self._there.wait()
        return self.wire

    async def close(self, reason: str) -> None:
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait({keeping})
        self.why_away = reason
        self._settle(None)

    async def _keep(self) -> None:
        pauses = Pauses(self._chance)
        while True:
            host = self._address.hosts[self._turn % len(self._address.hosts)]
            try:
                if await self._once(host) > _LASTING_SECONDS:
                    pauses.start_over()
                self._outage.begin(self, host, self.why_away)
            except Unreachable as error:
                self.why_away = str(error)
                self._outage.begin(self, host, self.why_away)
            except ConfigurationError as refusal:
                if self._settle(refusal):
                    return
                self.why_away = str(refusal)
                self._outage.refused(self, host, self.why_away)
                await asyncio.sleep(REFUSED_SECONDS)
            except Exception as error:
                self.why_away = type(error).__name__
                log.error(
                    "connecting to the broker failed; it is tried again", host=str(host), exc_info=error
                )
            # Another node of the cluster is there at once, perhaps.
            self._turn += 1
            await asyncio.sleep(pauses.next())

    async def _once(self, host: Host) -> float:
        """Connect, and stay until it is lost. Answers for how many seconds it was there."""
        wire = await connect(self._address, host, self._name, self._on_blocked)
        try:
            await self._prepare(wire)
            if not wire.is_open:
                raise Unreachable(wire.lost.result())
            began = asyncio.get_running_loop().time()
            self.wire = wire
            self._there.set()
            self._outage.end(self, host)
            self._settle(None)
            self._on_change()
            wire.lost.add_done_callback(lambda lost: self._lose(lost.result()))
            await asyncio.wait({wire.lost})
            return asyncio.get_running_loop().time() - began
        finally:
            self._lose("the broker was closed")
            await wire.close()

    def _settle(self, refusal: ConfigurationError | None) -> bool:
        """Whether somebody waited to hear how the first try went."""
        first = self._first
        if first is None or first.done():
            return False
        if refusal is None:
            first.set_result(None)
        else:
            first.set_exception(refusal)
        return True

    def _lose(self, reason: str) -> None:
        """Whoever waits for an answer over this connection hears at once that none will come."""
        if self.wire is not None:
            self.wire = None
            self.why_away = reason
            self._there.clear()
            self._on_change()
