"""A client of a stream in this process: what comes, message by message, and a hand on when it reads and leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

import orjson

from tests.web.support import Site
from timebell.notify.inbox.entries import InboxEntry, entry_columns
from timebell.notify.inbox.inbox_store import InboxStore
from timebell.notify.provider import Content
from timebell.web.server.heads import HANG_UP

_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message as a browser reads it. One without data is an `opening` or, if it is a comment, a `beat`."""

    kind: str
    id: str | None = None
    data: Any = None
    retry: int | None = field(default=None, compare=False)


@dataclass(slots=True)
class Listening:
    """An open stream. While `is_reading` is not set the client takes nothing, and the server's sends wait."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    last_id: str | None = None
    last_retry: int = 0
    rest: bytes = b""
    is_reading: asyncio.Event = field(default_factory=asyncio.Event)
    has_left: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    was_cut: bool = False
    coming: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)

    async def next(self) -> Message:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await self.coming.get()

    async def data(self, count: int) -> list[Message]:
        """The next messages that have something to say."""
        found: list[Message] = []
        while len(found) < count:
            message = await self.next()
            if message.kind not in ("beat", "opening"):
                found.append(message)
        return found

    async def over(self) -> None:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await self.is_over.wait()

    def take(self, body: bytes) -> None:
        *whole, self.rest = (self.rest + body).split(b"\n\n")
        for text in whole:
            message = _read(text.decode())
            self.last_id = message.id or self.last_id
            self.last_retry = message.retry or self.last_retry
            self.coming.put_nowait(message)

    def cut(self) -> None:
        self.was_cut = True
        self.has_left.set()


def _read(text: str) -> Message:
    if text.startswith(":"):
        return Message(kind="beat")
    fields = dict(line.split(": ", 1) for line in text.split("\n"))
    retry = int(fields["retry"]) if "retry" in fields else None
    if "data" not in fields:
        return Message(kind="opening", id=fields["id"], retry=retry)
    return Message(
        kind=fields.get("event", "message"),
        id=fields.get("id"),
        data=orjson.loads(fields["data"]),
        retry=retry,
    )


@asynccontextmanager
async def listening(
    site: Site,
    path: str,
    *,
    key: str | None = "read",
    actor: UUID | None = None,
    headers: Mapping[str, str] | None = None,
    **query: str,
) -> AsyncIterator[Listening]:
    """Opens a stream, and leaves it with the block. A refusal is one message with the problem in it."""
    sent = {"host": "bell.test", **(headers or {})}
    if key is not None:
        sent["authorization"] = f"Bearer {site.keys.get(key, key)}"
    if actor is not None:
        sent["timebell-actor"] = str(actor)
    heard = Listening()
    heard.is_reading.set()
    has_asked = False

    async def receive() -> dict[str, Any]:
        nonlocal has_asked
        if not has_asked:
            has_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await heard.has_left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        await heard.is_reading.wait()
        if message["type"] == "http.response.start":
            heard.status = message["status"]
            heard.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        elif heard.status == 200:
            heard.take(message["body"])
        else:
            heard.coming.put_nowait(Message(kind="refusal", data=orjson.loads(message["body"])))

    async def run() -> None:
        try:
            await site.app(scope, receive, send)
        finally:
            heard.is_over.set()

    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": urlencode(query).encode(),
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "client": ("127.0.0.1", 1),
        "server": ("bell.test", 80),
        "extensions": {HANG_UP: {"now": heard.cut}},
    }
    loop = asyncio.create_task(run())
    try:
        yield heard
    finally:
        heard.is_reading.set()
        heard.has_left.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await loop


async def add_person(site: Site, name: str = "Ada", *, tenant: str = "default") -> UUID:
    async with site.bell.transaction(tenant=tenant) as tx:
        return (await site.surface.notify.recipients.add(tx, name=name)).id


async def show(site: Site, person: UUID, *titles: str, tenant: str = "default") -> None:
    """Entries in an inbox, all in one transaction, as a worker puts them there."""
    at = datetime(2027, 3, 1, 9, tzinfo=UTC)
    entries = [
        InboxEntry(
            tenant=tenant,
            notification_id=uuid4(),
            job_version=1,
            recipient_id=person,
            content=Content(subject=title, text="line\none", data={}),
            language="en",
            type="reminder",
            priority="normal",
            payload={"title": title},
            subject=None,
            due_at=at,
        )
        for title in titles
    ]
    async with site.bell.transaction(tenant=tenant) as tx:
        columns = entry_columns(entries, [uuid4() for _ in entries])
        assert await InboxStore(site.bell.clock).show_entries(tx.session, columns=columns) == frozenset()


def titles(messages: list[Message]) -> list[str]:
    return [message.data["title"] for message in messages]
