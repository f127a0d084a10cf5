from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import asyncpg
import pytest

from tests.migration.made_up import MakeSlice, write_package
from timebell.db.migrate import Slice
from timebell.testing.database import TestDatabase

Connect = Callable[[str], Awaitable[asyncpg.Connection]]

_numbers = count(1)


@pytest.fixture
def make_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeSlice:
    """Makes a slice `demo` out of files; made again, it stands for another version of the same slice."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(files: Mapping[str, str | bytes], *, name: str = "demo", schema: str = "demo") -> Slice:
        package = f"made_up_{next(_numbers)}_of_{name}"
        write_package(tmp_path, package, files)
        return Slice(name=name, schema=schema, package=package)

    return make


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Connections that are closed when the test ends."""
    async with AsyncExitStack() as open_connections:

        async def open_one(url: str) -> asyncpg.Connection:
            connection = await asyncpg.connect(url, timeout=10, command_timeout=30)
            open_connections.push_async_callback(connection.close, timeout=10)
            return connection

        yield open_one


@pytest.fixture
async def owner(empty_database: TestDatabase, connect: Connect) -> asyncpg.Connection:
    """The role that migrates, on a database in which nothing has been made yet."""
    return await connect(empty_database.owner_url)
