"""A client of the inbox stream while its server is stopped and killed, again and again."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import UUID

import httpx2
import pytest

from tests.acceptance.faults.waiting import until
from tests.acceptance.processes import Process
from tests.acceptance.streaming import KEY, Server, somebody
from timebell.testing.database import TestDatabase


class Client:
    """Follows an inbox as the standard says of an EventSource: when it is cut off, or a stream ends, it comes back
    after the time that it was told, with the last id that it has. Any status but 200 is the end of it."""

    def __init__(self, port: int, person: UUID) -> None:
        self.seen: list[int] = []
        self.connections = 0
        self.reasons: Counter[str] = Counter()
        self.failed: int | None = None
        self._retry_seconds = 1.0
        self._last = ""
        self._url = f"http://127.0.0.1:{port}/v1/inbox/stream?after=0"
        self._headers = {
            "accept": "text/event-stream",
            "authorization": f"Bearer {KEY}",
            "timebell-actor": str(person),
        }

    def has_more_than(self, count: int) -> bool:
        assert self.failed is None, f"answered {self.failed}, after which nobody comes again"
        return len(self.seen) > count

    async def run(self) -> None:
        async with httpx2.AsyncClient(timeout=httpx2.Timeout(20.0)) as http:
            while self.failed is None:
                with suppress(httpx2.HTTPError):
                    await self._follow(http)
                await asyncio.sleep(self._retry_seconds)

    async def _follow(self, http: httpx2.AsyncClient) -> None:
        headers = {**self._headers, "last-event-id": self._last} if self._last else self._headers
        async with http.stream("GET", self._url, headers=headers) as response:
            if response.status_code != 200 or "event-stream" not in response.headers["content-type"]:
                self.failed = response.status_code
                return
            self.connections += 1
            message: dict[str, str] = {}
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                if line:
                    message[name] = value
                else:
                    self._take(message)
                    message = {}

    def _take(self, message: dict[str, str]) -> None:
        if "retry" in message:
            self._retry_seconds = int(message["retry"]) / 1_000
        self._last = message.get("id", self._last)
        if "data" not in message:
            return
        content = json.loads(message["data"])
        if message.get("event") == "end":
            self.reasons[content["reason"]] += 1
        else:
            assert content["seq"] == int(self._last), "a message of another kind"
            self.seen.append(content["seq"])


@pytest.mark.parametrize(
    ("kills", "each"), [(2, 20), pytest.param(10, 100, marks=pytest.mark.slow)], ids=["some", "many"]
)
async def test_what_the_client_has_is_what_the_table_has(
    database_url: TestDatabase, place: Path, processes: list[Process], kills: int, each: int
) -> None:
    server = Server(database_url, place, processes)
    async with somebody(database_url) as source:
        process = await server.start()
        client = Client(server.port, source.person)
        following = asyncio.create_task(client.run())
        try:
            for number in range(kills):
                # No process before this one can have shown what is told from here on. So the client follows this one,
                # and is in the middle of it when the process goes.
                before = source.told
                await source.tell(each // 2)
                await until(partial(client.has_more_than, before), 120, "an entry from this process")
                meanwhile = asyncio.create_task(source.tell(each // 2))
                if number % 2:
                    await asyncio.to_thread(process.end)
                else:
                    assert await asyncio.to_thread(process.stop) == 0, process.words
                await meanwhile
                process = await server.start()
            await source.tell(each)
            await until(partial(client.has_more_than, source.told - 1), 120, "everything")
        finally:
            following.cancel()
        lines = await source.notify.inbox.read_after(source.person, 0)
        while len(lines) < source.told:
            more = await source.notify.inbox.read_after(source.person, lines[-1].seq)
            assert more, "the table has fewer than were told"
            lines += more
    assert client.seen == [line.seq for line in lines] == list(range(1, source.told + 1))
    assert client.connections > kills, "every process had it"
    assert client.reasons["stopping"] >= kills / 2
    assert process.stop() == 0, process.words
