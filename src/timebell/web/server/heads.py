"""Heads of requests: bounded in size and in time, and refused like everything else."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from timebell.web.operation.problems import MEDIA_TYPE, Problem

_HEAD_BYTES_MAX: Final = 65_536
_HEAD_SECONDS: Final = 10.0
HANG_UP: Final = "timebell.hang_up"


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's own protocol, which by itself would read a head for ever and keep all of it."""

    _is_in_head = True
    _head_bytes = 0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Most heads come whole, and then nothing is left to watch: neither a body nor the answer is a head.
        if not self._is_in_head or self.transport.is_closing():
            return
        self._head_bytes += len(data)
        if self._head_bytes > _HEAD_BYTES_MAX:
            self.send_400_response(f"the head of the request is over {_HEAD_BYTES_MAX} bytes; send less")
        else:
            self._arm()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        # Closing waits until everything is sent, for which who never reads has all the time in the world.
        self.scope["extensions"] = {HANG_UP: {"now": self.transport.abort}}

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._head_bytes = 0
        self._disarm()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        problem = Problem(400, "malformed_http", msg)
        body = orjson.dumps(problem.content(""))
        head = f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[400] + head.encode("ascii") + body)
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Whoever asks for another protocol is answered in this one, which is no news."""

    def _arm(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> Any:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()
