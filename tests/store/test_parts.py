"""Parts of a transaction that are undone, while the rest of it stands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from tests.store.support import Tables
from timebell.errors import InvalidInput
from timebell.kernel import Timebell, Transaction


async def events(tables: Tables) -> list[str]:
    return [row["name"] for row in await tables.rows("SELECT name FROM timebell.events ORDER BY id")]


async def refused(bell: Timebell, tx: Transaction) -> None:
    """A part that Timebell refuses."""
    async with tx.all_or_nothing():
        await bell.record(tx, "part.within")
        await bell.enqueue(tx, "Not a kind")


async def failing(bell: Timebell, tx: Transaction) -> None:
    """A part that the database refuses."""
    async with tx.all_or_nothing():
        await bell.record(tx, "part.within")
        await tx.session.execute("SELECT 1 / 0")


async def nested(bell: Timebell, tx: Transaction) -> None:
    """A part that is refused after one within it failed."""
    async with tx.all_or_nothing():
        await bell.record(tx, "part.outer")
        with pytest.raises(asyncpg.DivisionByZeroError):
            await failing(bell, tx)
        await bell.enqueue(tx, "Not a kind")


@pytest.mark.parametrize(
    ("part", "error"),
    [(refused, InvalidInput), (failing, asyncpg.DivisionByZeroError), (nested, InvalidInput)],
)
async def test_what_is_refused_is_undone_and_the_rest_stands(
    bell: Timebell,
    tables: Tables,
    part: Callable[[Timebell, Transaction], Awaitable[None]],
    error: type[Exception],
) -> None:
    """Parts within each other have one name in the database, and each goes back to its own beginning."""
    async with bell.transaction() as tx:
        await bell.record(tx, "part.before")
        with pytest.raises(error):
            await part(bell, tx)
        await bell.record(tx, "part.after")
    assert await events(tables) == ["part.before", "part.after"]
