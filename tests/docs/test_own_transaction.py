"""The page about a transaction of one's own shows what works, with each driver and in SQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import psycopg
import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from tests.docs.markdown import blocks
from tests.shape.tree import ROOT
from timebell import App, Timebell
from timebell.testing import assert_enqueued, harness
from timebell.testing.database import TestDatabase

PAGE = list(blocks((ROOT / "docs" / "howto" / "own-transaction.md").read_text(encoding="utf-8")))
ASYNCPG, PSYCOPG, SQLALCHEMY = [block.code for block in PAGE if block.language == "python"]
[SQL] = [block.code for block in PAGE if block.language == "sql"]


async def _nothing(_: object) -> None:
    pass


@pytest_asyncio.fixture
async def bell(database_url: TestDatabase) -> AsyncIterator[Timebell]:
    owner = await asyncpg.connect(database_url.owner_url)
    await owner.execute("CREATE TABLE public.orders (number integer PRIMARY KEY)")
    await owner.execute("GRANT ALL ON public.orders TO public")
    await owner.close()
    async with harness(database_url.url, [App(name="shop", handlers={"shop.remind": _nothing})]) as bench:
        yield bench.bell


async def order(code: str, connection: Any, bell: Timebell) -> None:
    names: dict[str, Any] = {}
    exec(code, names)
    await names["order"](connection, bell, 7)
    await assert_enqueued(bell, "shop.remind", subject="order:7")
    with pytest.raises(Exception, match="duplicate key"):
        await names["order"](connection, bell, 7)
    await assert_enqueued(bell, "shop.remind", count=1)


async def test_asyncpg(bell: Timebell, database_url: TestDatabase) -> None:
    connection = await asyncpg.connect(database_url.url)
    await order(ASYNCPG, connection, bell)
    await connection.close()


async def test_psycopg(bell: Timebell, database_url: TestDatabase) -> None:
    async with await psycopg.AsyncConnection.connect(database_url.url, autocommit=True) as connection:
        await order(PSYCOPG, connection, bell)


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_sqlalchemy(bell: Timebell, database_url: TestDatabase, driver: str) -> None:
    plain, _, _ = database_url.url.partition("?")
    engine = create_async_engine(plain.replace("postgresql://", f"postgresql+{driver}://", 1))
    async with AsyncSession(engine) as session:
        await order(SQLALCHEMY, session, bell)
    await engine.dispose()


async def test_sql(bell: Timebell, database_url: TestDatabase) -> None:
    begin, insert, enqueue, cancel, commit = SQL.strip().splitlines()
    connection = await asyncpg.connect(database_url.url)
    for statement in (begin, insert, enqueue):
        await connection.execute(statement)
    assert await connection.fetchval(cancel) == "cancelled"
    await connection.execute(commit)
    assert await connection.fetchval("SELECT count(*) FROM orders") == 1
    await connection.close()
