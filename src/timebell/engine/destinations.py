"""The breakers as the starter asks them, and a handler that learns its destination only while it runs."""

from __future__ import annotations

from datetime import timedelta

from timebell.engine.breakers import Breakers
from timebell.engine.node import Node
from timebell.engine.timekeeper import Timekeeper
from timebell.kernel.destinations import Call
from timebell.rules.backoff import ErrorClass


class BreakerDestinations:
    """Gives leave to call, and learns what came of it."""

    def __init__(self, breakers: Breakers, node: Node, timekeeper: Timekeeper) -> None:
        self._breakers = breakers
        self._node = node
        self._timekeeper = timekeeper

    async def ask(self, destination: str) -> Call:
        now = self._timekeeper.now()
        passage = self._breakers.may_pass(destination, now)
        if passage == "pass":
            return Call(destination=destination)
        if passage == "probe" and await self._breakers.claim_probe(destination, now, self._node.incarnation):
            return Call(destination=destination, is_probe=True)
        return Call(destination=destination, held_until=self._breakers.hold_until(destination, now))

    async def answered(
        self, call: Call, error_class: ErrorClass | None, retry_after: timedelta | None = None
    ) -> None:
        if error_class is None:
            await self._breakers.succeeded(call.destination, probe=call.is_probe)
        else:
            await self._breakers.failed(
                call.destination,
                error_class,
                self._timekeeper.now(),
                probe=call.is_probe,
                # What a handler answers is told here before anybody has looked at it.
                retry_after=retry_after if isinstance(retry_after, timedelta) else None,
            )
