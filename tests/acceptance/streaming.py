"""A server that is started again and again at one port, and somebody who is told things meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

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


class Server:
    """`timebell up` on a database of the test's own, at one port, however often it is started."""

    def __init__(
        self, database: TestDatabase, place: Path, processes: list[Process], **variables: str
    ) -> None:
        self.port = free_port()
        self._place = place
        self._processes = processes
        self._environment = clean_environment(
            DATABASE_URL=database.url,
            TIMEBELL_API_URL=database.api_url,
            TIMEBELL_API_KEY=KEY,
            TIMEBELL_APPS="none",
            TIMEBELL_LEASE_SECONDS="2",
            TIMEBELL_LEASE_MARGIN_SECONDS="0.5",
            **variables,
        )

    async def start(self, **variables: str) -> Process:
        notes = self._place / f"process{len(self._processes)}"
        environment = {**self._environment, **variables}
        process = Process(notes, "up", "--port", self.port, port=self.port, environment=environment)
        self._processes.append(process)
        await asyncio.to_thread(process.wait_ready)
        return process


class Source:
    """Tells somebody, through the table alone, whether a server runs or not."""

    def __init__(self, bell: Timebell, person: UUID) -> None:
        self.told = 0
        self.person = person
        self.notify = Notify(bell)
        self._bell = bell

    async def tell(self, count: int) -> None:
        async with self._bell.transaction() as tx:
            for _ in range(count):
                await self.notify.tell(tx, self.person, TEMPLATE.key, channels=("inbox",))
        self.told += count


@asynccontextmanager
async def somebody(database: TestDatabase) -> AsyncIterator[Source]:
    opened = await Database.open(database.url)
    bell = Timebell(opened, registry=registry_of(()), settings=Settings())
    await bell.declare()
    try:
        async with bell.transaction() as tx:
            notify = Notify(bell)
            await notify.templates.save(tx, TEMPLATE)
            person = (await notify.recipients.add(tx, name="Ada")).id
        yield Source(bell, person)
    finally:
        await bell.close()
        await opened.close()
