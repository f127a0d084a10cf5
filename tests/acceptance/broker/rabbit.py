"""Brokers of a test's own, for those that kill them, and databases with the tables of the scheduler."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from weakref import WeakKeyDictionary

from tests.apps.databases import template_for
from tests.contract.brokers.rabbit_server import RabbitServer, launch
from tests.packages import need_program
from timebell.apps.scheduler import with_broker
from timebell.testing.database import DatabaseFactory, TestDatabase

_templates: WeakKeyDictionary[DatabaseFactory, str] = WeakKeyDictionary()


@contextmanager
def own_rabbit(place: Path) -> Iterator[RabbitServer]:
    """One that nobody else uses. It starts meanwhile: `wait` until it is ready."""
    need_program("rabbitmq-server")
    folder = place / "rabbit"
    launch(folder)
    try:
        yield RabbitServer(folder)
    finally:
        # Its keeper ends it as soon as it finds nothing to keep.
        (folder / "known.json").unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def scheduler_database(server: DatabaseFactory) -> AsyncIterator[TestDatabase]:
    """A database of the test's own, with the tables of the scheduler."""
    if server not in _templates:
        _templates[server] = await template_for(server, with_broker(None))
    database = await server.create(template=_templates[server])
    try:
        yield database
    finally:
        await server.drop(database)
