"""Sees to it that a broker has what we need, and that we may use it."""

from __future__ import annotations

from typing import Final

from timebell.brokers.contract import Topology
from timebell.brokers.rabbitmq.address import Address
from timebell.brokers.rabbitmq.refusals import Closed, Unreachable, refused_declaration
from timebell.brokers.rabbitmq.wire import Wire

_QUORUM: Final = {"x-queue-type": "quorum"}
# Bound by nobody.
_NO_KEY: Final = "timebell.nobody"


async def declare(wire: Wire, address: Address, topology: Topology) -> None:
    """On a channel of its own, since the first refusal closes it. Raises what refuses us for good."""
    if not topology.exchanges and not topology.queues:
        return
    channel = await wire.channel()

    async def ask(about: str, method: str, **arguments: object) -> None:
        try:
            await channel.call(method, **arguments)
        except Closed as closed:
            refusal = refused_declaration(address, closed, about, topology.names)
            raise refusal or Unreachable(closed.words) from closed

    try:
        for exchange in topology.exchanges:
            about = f"the exchange {exchange.name!r}"
            await ask(
                about,
                "exchange_declare",
                exchange=exchange.name,
                exchange_type=exchange.sort,
                durable=True,
            )
        for queue in topology.queues:
            about = f"the queue {queue.name!r}"
            await ask(about, "queue_declare", queue=queue.name, durable=True, arguments=_QUORUM)
            for key in queue.keys:
                await ask(about, "queue_bind", queue=queue.name, exchange=queue.exchange, routing_key=key)
        # To take back what was never bound needs the right to write, as publishing does, and leaves nothing behind.
        for name in dict.fromkeys(queue.exchange for queue in topology.queues if queue.keys):
            about = f"publishing to the exchange {name!r}"
            await ask(about, "exchange_unbind", destination=name, source=name, routing_key=_NO_KEY)
    finally:
        await channel.close()
