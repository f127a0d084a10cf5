"""Wake-ups: hints that something became due in a slot, and announcements that who reads which slot has changed.
Everything works, slower, without them.

A hint is sent after the commit and outside the caller's transaction: NOTIFY inside it serialises the
commits of all writers. While one notification is on its way the hints that arrive wait and share the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from timebell.db.failures import DATABASE_ERRORS
from timebell.db.pool import Database
from timebell.db.queries import Query

WAKEUP = "timebell_wakeup"
_CHANGED = "changed"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOTIFY = Query(name="notify", text="SELECT pg_notify($1, $2)", parameters=("name", "text"))
_SLOTS_NAMED_MAX = 64
_EVERY_SLOT = -1
_ANSWER_SECONDS = 5.0

# The earliest instant from which a slot should be read again; slot -1 stands for all of them.
Hints = Mapping[int, datetime]
Listener = Callable[[Hints], Hints]


def encode(hints: Hints) -> str:
    """Hints as text: `slot:microseconds`, or one for every slot when they are too many to name."""
    if len(hints) > _SLOTS_NAMED_MAX:
        hints = {_EVERY_SLOT: min(hints.values())}
    return ",".join(
        f"{slot}:{(at - _EPOCH) // timedelta(microseconds=1)}" for slot, at in sorted(hints.items())
    )


def decode(text: str) -> dict[int, datetime]:
    """Hints from text; what cannot be read is dropped, for a hint may always be lost."""
    hints: dict[int, datetime] = {}
    for part in text.split(","):
        slot, _, microseconds = part.partition(":")
        with suppress(ValueError, OverflowError):
            hints[int(slot)] = _EPOCH + timedelta(microseconds=int(microseconds))
    return hints


def merge(into: dict[int, datetime], hints: Hints) -> None:
    """Keep the earliest instant of each slot."""
    for slot, at in hints.items():
        known = into.get(slot)
        if known is None or at < known:
            into[slot] = at


class Wakeups:
    """Hands hints to the listeners of this process first and sends the rest to the other nodes."""

    def __init__(self, database: Database, *, listen_url: str | None = None) -> None:
        self._database = database
        self._listen_url = listen_url
        self._listeners: list[Listener] = []
        self._watchers: list[Callable[[], None]] = []
        self._is_changed = False
        self._waiting: dict[int, datetime] = {}
        self._sending: asyncio.Task[None] | None = None
        self._connection: asyncpg.Connection | None = None

    def subscribe(self, listener: Listener) -> None:
        """A listener answers with the hints that it could not use itself."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        with suppress(ValueError):
            self._listeners.remove(listener)

    def hint(self, hints: Iterable[tuple[int, datetime]]) -> None:
        """Tell whoever reads these slots. Called after the commit; never fails and never waits."""
        merged: dict[int, datetime] = {}
        for slot, at in hints:
            merge(merged, {slot: at})
        rest = self._offer(merged)
        if rest:
            merge(self._waiting, rest)
            self._begin_sending()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Be told when another process announces that who reads what has changed."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Callable[[], None]) -> None:
        with suppress(ValueError):
            self._watchers.remove(watcher)

    def announce(self) -> None:
        """Tell the others that who reads what has changed, so that they need not find out by themselves."""
        self._is_changed = True
        self._begin_sending()

    def _begin_sending(self) -> None:
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    def _offer(self, hints: Hints) -> Hints:
        for listener in self._listeners:
            if hints:
                hints = listener(hints)
        return hints

    async def _send(self) -> None:
        while self._waiting or self._is_changed:
            if self._is_changed:
                self._is_changed, text = False, _CHANGED
            else:
                text = encode(self._waiting)
                self._waiting.clear()
            with suppress(*DATABASE_ERRORS):
                await self._database.run(_NOTIFY, name=WAKEUP, text=text)

    @property
    def is_listening(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    async def listen(self) -> None:
        """Hear the other nodes, on a connection of its own: a pooler would drop the LISTEN."""
        if self.is_listening and await self._is_worth_hearing():
            return
        connection = await self._database.dedicated(self._listen_url)
        try:
            await connection.add_listener(WAKEUP, self._heard)
        except BaseException:
            connection.terminate()
            raise
        self._connection = connection

    async def _is_worth_hearing(self) -> bool:
        """A connection that stalled says nothing for ever, and so does a server that is no longer the primary."""
        assert self._connection is not None
        try:
            is_read_only = await self._connection.fetchval(
                "SHOW transaction_read_only", timeout=_ANSWER_SECONDS
            )
        except DATABASE_ERRORS:
            is_read_only = "on"
        if is_read_only == "on":
            self._connection.terminate()
        return bool(is_read_only == "off")

    def _heard(self, _connection: Any, _pid: int, _name: str, text: object) -> None:
        if text == _CHANGED:
            for watcher in self._watchers:
                watcher()
        else:
            self._offer(decode(str(text)))

    async def close(self) -> None:
        if self._sending is not None:
            await self._sending
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(*DATABASE_ERRORS):
                await connection.close(timeout=2.0)
