"""A transaction that was given up half-way, and the connection that the next one gets."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from timebell.db.pool import Database
from timebell.testing.database import TestDatabase


class _GivesUp:
    """A caller whose patience ends right after a statement was carried out."""

    def __init__(self, statement: str) -> None:
        self._statement = statement

    async def before(self, name: str) -> None: ...

    async def after(self, name: str) -> None:
        if name == self._statement:
            raise asyncio.CancelledError


@pytest.mark.parametrize("statement", ["BEGIN", "COMMIT"])
async def test_what_was_given_up_leaves_no_transaction_behind(
    database_url: TestDatabase, statement: str
) -> None:
    """The driver would end it too, but complains about a bug of ours."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    database = await Database.open(database_url.url, size=1, gate=_GivesUp(statement))
    try:
        with pytest.raises(asyncio.CancelledError):
            async with database.transaction():
                pass
        async with database.connection() as session:
            assert not session.is_in_transaction()
    finally:
        await database.close()
        asyncio.get_running_loop().set_exception_handler(None)
    assert complaints == []


async def test_a_rollback_that_was_given_up_leaves_no_transaction_behind(
    database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that stops cancels what it does, and that may be the end of something that had failed already."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    is_rolling_back = asyncio.Event()
    execute = asyncpg.Connection.execute

    async def slow_rollback(self: Any, statement: str, *args: Any, **options: Any) -> str:
        if statement == "ROLLBACK":
            is_rolling_back.set()
            await asyncio.Event().wait()
        return await execute(self, statement, *args, **options)

    async def fail(database: Database) -> None:
        async with database.transaction():
            raise ValueError("on purpose")

    database = await Database.open(database_url.url, size=1)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(asyncpg.Connection, "execute", slow_rollback)
            failing = asyncio.create_task(fail(database))
            async with asyncio.timeout(20):
                await is_rolling_back.wait()
            failing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await failing
        async with database.connection() as session:
            assert not session.is_in_transaction()
    finally:
        await database.close()
        asyncio.get_running_loop().set_exception_handler(None)
    assert complaints == []
