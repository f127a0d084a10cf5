"""A client of the inbox stream while its server is stopped and killed, again and again."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from uuid import UUID

import httpx2
import pytest

from tests.acceptance.processes import Process, clean_environment, free_port
from timebell.config import Settings
from timebell.db.pool import Database
from timebell.kernel import Timebell
from timebell.loading import registry_of
from timebell.notify import Notify, TemplateDraft, Text
from timebell.testing.database import TestDatabase

KEY = "tb_test_0123456789abcdef"
TEMPLATE = TemplateDraft(
    key="trial.reminder",
    topic="trial",
    texts=(Text(channel="inbox", language="en", subject="Soon", body="It is due."),),
)


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


async def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"waited {seconds:g} s in vain for {what}")


class Server:
    """`timebell up` on a database of the test's own, at one port."""

    def __init__(self, database: TestDatabase, place: Path, processes: list[Process]) -> None:
        self.port = free_port()
        self._place = place
        self._processes = processes
        self._environment = clean_environment(
            DATABASE_URL=database.url,
            TIMEBELL_API_URL=database.api_url,
            TIMEBELL_API_KEY=KEY,
            TIMEBELL_APPS="trial_app",
            TIMEBELL_LEASE_SECONDS="2",
            TIMEBELL_LEASE_MARGIN_SECONDS="0.5",
        )
        self._environment["PYTHONPATH"] += f":{place}"
        (place / "trial_app.py").write_text("from timebell import App\n\napp = App(name='trial')\n")

    async def start(self) -> Process:
        notes = self._place / f"process{len(self._processes)}"
        process = Process(notes, "up", "--port", self.port, port=self.port, environment=self._environment)
        self._processes.append(process)
        await asyncio.to_thread(process.wait_ready)
        return process


@asynccontextmanager
async def telling(database: TestDatabase) -> AsyncIterator[Timebell]:
    opened = await Database.open(database.url)
    bell = Timebell(opened, registry=registry_of(()), settings=Settings())
    await bell.declare()
    try:
        yield bell
    finally:
        await bell.close()
        await opened.close()


async def keep_telling(bell: Timebell, client: Client, person: UUID, count: int) -> None:
    """Some are always on their way, so that every kill finds the server in the middle of it."""
    notify = Notify(bell)
    for first in range(0, count, 10):
        await until(partial(client.has_more_than, first - 30), 120, "the client to keep up")
        async with bell.transaction() as tx:
            for _ in range(10):
                await notify.tell(tx, person, TEMPLATE.key, channels=("inbox",))


@pytest.mark.parametrize(
    ("kills", "told"), [(2, 40), pytest.param(10, 1_000, marks=pytest.mark.slow)], ids=["some", "many"]
)
async def test_what_the_client_has_is_what_the_table_has(
    database_url: TestDatabase, place: Path, processes: list[Process], kills: int, told: int
) -> None:
    server = Server(database_url, place, processes)
    async with telling(database_url) as bell:
        notify = Notify(bell)
        async with bell.transaction() as tx:
            await notify.templates.save(tx, TEMPLATE)
            person = (await notify.recipients.add(tx, name="Ada")).id
        process = await server.start()
        client = Client(server.port, person)
        following = asyncio.create_task(client.run())
        source = asyncio.create_task(keep_telling(bell, client, person, told))
        try:
            for number in range(kills):
                await until(partial(client.has_more_than, number * told // kills), 120, "some entries")
                if number % 2:
                    process.end()
                else:
                    assert await asyncio.to_thread(process.stop) == 0, process.words
                process = await server.start()
            await source
            await until(partial(client.has_more_than, told - 1), 120, "everything")
            # It may have had everything before the last kill, and comes back all the same.
            await until(lambda: client.connections > kills, 60, "the client to come back")
        finally:
            following.cancel()
            source.cancel()
        lines = await notify.inbox.read_after(person, 0)
        lines += await notify.inbox.read_after(person, len(lines))
    assert client.seen == [line.seq for line in lines] == list(range(1, told + 1))
    assert client.reasons["stopping"] >= kills / 2
    assert process.stop() == 0, process.words
