"""RabbitMQ: one connection to publish over, and another to take over.

A broker that is short of memory or of disk stops reading from those who publish. What is taken and acknowledged must
not have to wait for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Final

from timebell.brokers.contract import Heard, Intake, Message, Published, Topology, all_away
from timebell.brokers.rabbitmq.address import read_address
from timebell.brokers.rabbitmq.declaring import declare
from timebell.brokers.rabbitmq.intake import DELETED_SECONDS, RabbitIntake
from timebell.brokers.rabbitmq.link import Link, Outage, Pauses
from timebell.brokers.rabbitmq.publishing import PUBLISH_SECONDS, Publisher, knock
from timebell.brokers.rabbitmq.refusals import Unreachable
from timebell.brokers.rabbitmq.wire import Wire
from timebell.clock import Chance
from timebell.errors import ConfigurationError
from timebell.logs import Logger

log = Logger("timebell.brokers")

# How long starting waits to hear whether the broker refuses us. One that is not there by then is waited for beside.
OPEN_SECONDS: Final = 5.0
# What somebody deleted is declared anew this often at most, and not before all who took from it have heard of it.
MEND_SECONDS: Final = 5.0


class RabbitBroker:
    """One process's way to RabbitMQ."""

    def __init__(
        self, url: str, *, chance: Chance | None = None, publish_seconds: float = PUBLISH_SECONDS
    ) -> None:
        self._address = read_address(url)
        self._publish_seconds = publish_seconds
        self._chance = chance or Chance()
        self._topology = Topology()
        self._watchers: list[Callable[[bool], None]] = []
        self._intakes: list[RabbitIntake] = []
        self._publisher: Publisher | None = None
        self._mending: asyncio.Task[None] | None = None
        self._why_blocked: str | None = None
        self._is_there = False
        self._is_closed = False
        outage = Outage()
        self._publishing = Link(
            self._address,
            "publishing",
            outage=outage,
            chance=self._chance,
            prepare=self._prepare,
            on_change=self._changed,
            on_blocked=self._blocked,
        )
        self._taking = Link(
            self._address,
            "taking",
            outage=outage,
            chance=self._chance,
            prepare=_as_it_is,
            on_change=lambda: None,
        )

    @property
    def is_there(self) -> bool:
        return self._is_there

    def watch(self, changed: Callable[[bool], None]) -> None:
        self._watchers.append(changed)

    async def open(self, topology: Topology) -> None:
        """Each who opens it adds what they need. What is refused is forgotten, and the others go on."""
        self._check_open()
        before = self._topology
        self._topology += topology
        wire = self._publishing.wire
        try:
            if wire is None:
                await self._publishing.open(OPEN_SECONDS)
            else:
                await declare(wire, self._address, topology)
        except Unreachable as error:
            log.debug("it is declared once the broker is back", reason=str(error))
        except ConfigurationError:
            self._topology = before
            raise

    async def publish(self, messages: Sequence[Message], heard: Heard | None = None) -> Sequence[Published]:
        publisher = self._publisher
        if publisher is None or not self._is_there:
            return all_away(len(messages), self._why_away(), heard)
        return await publisher.publish(messages, heard) if messages else []

    @asynccontextmanager
    async def intake(self, queue: str, *, prefetch: int, body_bytes_max: int) -> AsyncIterator[Intake]:
        self._check_open()
        intake = RabbitIntake(
            queue, self._address, self._topology.names, prefetch=prefetch, body_bytes_max=body_bytes_max
        )
        # One that cannot be published to now is not waited for.
        await self._taking.open(OPEN_SECONDS if self._publishing.wire is not None else 0)
        self._intakes.append(intake)
        try:
            await intake.start(self._taking, self._declare, Pauses(self._chance))
            yield intake
        finally:
            self._intakes.remove(intake)
            await intake.end()

    async def close(self) -> None:
        self._is_closed = True
        if self._mending is not None:
            self._mending.cancel()
            await asyncio.wait({self._mending})
        for intake in list(self._intakes):
            await intake.end()
        await asyncio.gather(
            self._taking.close("the broker was closed"), self._publishing.close("the broker was closed")
        )

    async def _prepare(self, wire: Wire) -> None:
        was_blocked, self._why_blocked = self._why_blocked is not None, None
        await self._declare(wire)
        if was_blocked:
            await knock(wire)

    async def _declare(self, wire: Wire) -> None:
        await declare(wire, self._address, self._topology)

    def _changed(self) -> None:
        """The connection is there, or is not any more. What was handed over on it was answered for by then."""
        wire = self._publishing.wire
        if self._publisher is not None:
            self._publisher.close(self._publishing.why_away)
        self._publisher = None if wire is None else Publisher(wire, self._lacks, self._publish_seconds)
        if self._publisher is not None:
            self._publisher.is_blocked = self._why_blocked is not None
        self._notice()

    def _blocked(self, reason: str | None) -> None:
        if reason is not None:
            log.warning("the broker takes nothing for now", reason=reason)
        elif self._why_blocked is not None:
            log.info("the broker takes messages again")
        self._why_blocked = reason
        if self._publisher is not None:
            self._publisher.is_blocked = reason is not None
        self._notice()

    def _notice(self) -> None:
        """Tell the watchers if it is there now and was not, or the other way round."""
        is_there = self._publisher is not None and self._why_blocked is None
        if is_there != self._is_there:
            self._is_there = is_there
            for changed in self._watchers:
                changed(is_there)

    def _why_away(self) -> str:
        if self._publisher is not None and self._why_blocked is not None:
            return f"the broker takes nothing for now: {self._why_blocked}"
        return self._publishing.why_away

    def _lacks(self, exchange: str) -> None:
        """Something came back. If it is for an exchange of ours somebody may have deleted what was bound to it."""
        is_ours = any(one.name == exchange for one in self._topology.exchanges)
        if is_ours and (self._mending is None or self._mending.done()) and not self._is_closed:
            self._mending = asyncio.create_task(self._mend(), context=Context())

    async def _mend(self) -> None:
        await asyncio.sleep(DELETED_SECONDS)
        wire = self._publishing.wire
        try:
            if wire is not None:
                await self._declare(wire)
        except Unreachable as error:
            log.debug("what is missing could not be declared", reason=str(error))
        except ConfigurationError as refusal:
            log.warning("what is missing could not be declared", reason=str(refusal))
        await asyncio.sleep(MEND_SECONDS)

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the broker was closed; make another one")


async def _as_it_is(_wire: Wire) -> None:
    """Whoever takes declares what it needs by itself."""
