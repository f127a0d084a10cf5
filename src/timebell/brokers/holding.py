"""Queues of jobs that wait while their broker is away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from timebell.brokers.contract import Broker, Topology
from timebell.kernel import Timebell

_AWAY = "the broker is away"


@asynccontextmanager
async def held_while_away(
    bell: Timebell, broker: Broker, queue: str, topology: Topology | None = None
) -> AsyncIterator[None]:
    """Connect, declare, and hold the queue in this process whenever the broker is not there."""
    is_over = False

    def changed(is_there: bool) -> None:
        if is_over:
            return
        if is_there:
            bell.holds.release(queue)
        else:
            bell.holds.hold(queue, _AWAY)

    await broker.open(topology or Topology())
    # Not before: of one that refuses us at the start nothing else is to be told.
    broker.watch(changed)
    changed(broker.is_there)
    try:
        yield
    finally:
        is_over = True
