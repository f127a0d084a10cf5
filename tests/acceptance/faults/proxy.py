"""A TCP proxy that misbehaves on demand: it cuts, stalls, slows and crumbles connections, or swallows replies."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

Direction = Literal["requests", "replies"]
_CHUNK_BYTES = 65_536
_CONNECT_SECONDS = 5.0
_CLOSE_SECONDS = 2.0
_RESET = struct.pack("ii", 1, 0)


@dataclass(slots=True, eq=False)
class Link:
    """One connection through the proxy: the client's end and the server's."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    is_stalled: bool = False
    flows: list[asyncio.Task[None]] = field(default_factory=list)


class Proxy:
    """Listens on a port of its own and hands everything on, within the faults that are set at the moment.

    The attributes may be changed at any time and hold for every connection, those that are open included:
    `delay` seconds for each piece, pieces of `slice_bytes` with `slice_delay` seconds between them,
    `lose_replies` to let requests through and nothing back, and `is_refusing` for new connections.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._listener: asyncio.Server | None = None
        self._links: set[Link] = set()
        self._accepting: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.port = 0
        self.delay = 0.0
        self.slice_bytes = _CHUNK_BYTES
        self.slice_delay = 0.0
        self.lose_replies = False
        self.is_refusing = False
        self.lost_bytes = 0

    async def start(self) -> Proxy:
        self._listener = await asyncio.start_server(self._accepted, "127.0.0.1", self.port or None)
        self.port = int(self._listener.sockets[0].getsockname()[1])
        return self

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self.abort()
        self._flowing.set()
        flows = [flow for link in self._links for flow in link.flows]
        if flows:
            await asyncio.wait(flows, timeout=_CLOSE_SECONDS)
        # Whoever accepted a connection has yet to say goodbye to both of its ends.
        if self._accepting:
            await asyncio.wait(self._accepting, timeout=_CLOSE_SECONDS)

    async def __aenter__(self) -> Proxy:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def aim(self, port: int) -> None:
        """Lead new connections to another server; those that are open stay where they are."""
        self._port = port

    def pause(self) -> None:
        """Stall everything, new connections too: both ends see an open connection that says nothing."""
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    def half_open(self) -> int:
        """Stall for ever the connections that are open now; new ones flow. Answers with how many they are."""
        for link in self._links:
            link.is_stalled = True
        return len(self._links)

    def drop(self) -> None:
        """End every connection in order, as a firewall or a restarted pooler would."""
        for link in [link for link in self._links if not link.is_stalled]:
            link.client.close()
            link.server.close()

    def abort(self) -> None:
        """Reset every connection."""
        for link in list(self._links):
            for writer in (link.client, link.server):
                raw = writer.get_extra_info("socket")
                if raw is not None:
                    with suppress(OSError):
                        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()

    def heal(self) -> None:
        """Behave from now on; what was stalled by `half_open` stays so."""
        self.delay = self.slice_delay = 0.0
        self.slice_bytes = _CHUNK_BYTES
        self.lose_replies = self.is_refusing = False
        self.resume()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepting = asyncio.create_task(self._accept(reader, writer))
        self._accepting.add(accepting)
        accepting.add_done_callback(self._accepting.discard)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.is_refusing:
                raise ConnectionRefusedError
            async with asyncio.timeout(_CONNECT_SECONDS):
                there, back = await asyncio.open_connection(self._host, self._port)
        except (OSError, TimeoutError):
            await _end(writer)
            return
        link = Link(client=writer, server=back)
        self._links.add(link)
        link.flows = [
            asyncio.create_task(self._flow(link, reader, back, "requests")),
            asyncio.create_task(self._flow(link, there, writer, "replies")),
        ]
        await asyncio.wait(link.flows, return_when=asyncio.FIRST_COMPLETED)
        # Half a connection is of no use to PostgreSQL; but of one that stalls neither end hears from the other.
        if not link.is_stalled:
            writer.close()
            back.close()
        await asyncio.wait(link.flows)
        self._links.discard(link)
        await _end(writer)
        await _end(back)

    async def _flow(
        self, link: Link, source: asyncio.StreamReader, target: asyncio.StreamWriter, way: Direction
    ) -> None:
        """Hand on until one of the ends is gone."""
        with suppress(OSError):
            while data := await source.read(_CHUNK_BYTES):
                await self._hand_on(link, data, target, way)

    async def _hand_on(self, link: Link, data: bytes, target: asyncio.StreamWriter, way: Direction) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)
        for start in range(0, len(data), self.slice_bytes):
            await self._flowing.wait()
            if link.is_stalled or (way == "replies" and self.lose_replies):
                self.lost_bytes += len(data) - start
                return
            target.write(data[start : start + self.slice_bytes])
            if self.slice_delay:
                await asyncio.sleep(self.slice_delay)
        await target.drain()


async def _end(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()
