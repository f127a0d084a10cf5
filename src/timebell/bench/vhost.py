"""A virtual host lent to a bench: what it declares there is gone afterwards, and nothing else is touched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from timebell.errors import ConfigurationError, TimebellError

if TYPE_CHECKING:
    from timebell.brokers.rabbitmq.wire import Wire


@asynccontextmanager
async def lent_vhost(url: str, *, queues: Sequence[str], exchanges: Sequence[str]) -> AsyncIterator[None]:
    """Refuses one that has something under these names: it may be somebody's, and would be emptied."""
    named = [("queue", name) for name in queues] + [("exchange", name) for name in exchanges]
    async with _connected(url) as wire:
        for noun, name in named:
            if await _is_there(wire, noun, name):
                raise ConfigurationError(
                    f"broker_url: the {noun} {name!r} is there already; give a virtual host that nobody uses"
                )
    try:
        yield
    finally:
        async with _connected(url) as wire:
            channel = await wire.channel()
            for noun, name in named:
                await channel.call(f"{noun}_delete", **{noun: name})
            await channel.close()


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Wire]:
    """Only who measures a broker needs what speaks to one."""
    from timebell.brokers.rabbitmq.address import read_address
    from timebell.brokers.rabbitmq.refusals import Unreachable
    from timebell.brokers.rabbitmq.wire import connect

    address = read_address(url)
    try:
        wire = await connect(address, address.hosts[0], "bench")
    except Unreachable as error:
        raise TimebellError(f"bench: the broker at {address.hosts[0]} is away: {error}") from error
    try:
        yield wire
    finally:
        await wire.close()


async def _is_there(wire: Wire, noun: str, name: str) -> bool:
    """On a channel of its own, since the broker closes it where there is no such thing."""
    from timebell.brokers.rabbitmq.refusals import NOT_FOUND, Closed

    channel = await wire.channel()
    try:
        await channel.call(f"{noun}_declare", **{noun: name}, passive=True)
    except Closed as closed:
        if closed.code == NOT_FOUND:
            return False
        raise TimebellError(
            f"bench: the broker does not tell of the {noun} {name!r}: {closed.words}"
        ) from closed
    await channel.close()
    return True
