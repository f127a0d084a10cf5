"""The names at the broker, which other services know."""

from __future__ import annotations

from typing import Final

from timebell.brokers import BrokerQueue, Exchange, Topology

EXCHANGE: Final = "timebell"
DEAD: Final = "timebell.dead"
REQUESTS: Final = "timebell.requests"
CANCELS: Final = "timebell.cancels"

_DUE_KEY: Final = "schedule.due"


def topology(due_queue: str) -> Topology:
    """What must be there. With a queue for all that is due nothing is unroutable before the first receiver comes."""
    due = (BrokerQueue(name=due_queue, exchange=EXCHANGE, keys=(f"{_DUE_KEY}.#",)),) if due_queue else ()
    return Topology(
        exchanges=(Exchange(name=EXCHANGE), Exchange(name=DEAD)),
        queues=(
            BrokerQueue(name=REQUESTS, exchange=EXCHANGE, keys=("schedule.request",)),
            BrokerQueue(name=CANCELS, exchange=EXCHANGE, keys=("schedule.cancel",)),
            *due,
            BrokerQueue(name=DEAD, exchange=DEAD, keys=("#",)),
        ),
    )


def due_key(tenant: str) -> str:
    return f"{_DUE_KEY}.{tenant}"
