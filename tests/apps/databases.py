"""Databases with the tables of one app, made once and copied for each test."""

from __future__ import annotations

import asyncpg

from timebell.clock import ManualClock
from timebell.db.migrate import migrate
from timebell.db.pool import Database
from timebell.db.provision import ROLES
from timebell.kernel import App, Registry, Timebell
from timebell.loading import slices_of
from timebell.testing.database import DatabaseFactory


async def template_for(server: DatabaseFactory, app: App) -> str:
    """The name of a database that those of the tests are copies of."""
    made = await server.create(template=None)
    owner = await asyncpg.connect(made.owner_url, timeout=10)
    try:
        await migrate(owner, slices_of(Registry([app])), api_role=ROLES["api"], read_role=ROLES["read"])
    finally:
        await owner.close(timeout=10)
    if app.on_declare is not None:
        # Or every test would write anew what the app says to people.
        database = await Database.open(made.url)
        bell = Timebell(database, registry=Registry([app]), clock=ManualClock())
        try:
            await app.on_declare(bell)
        finally:
            await bell.close()
            await database.close()
    return made.name
