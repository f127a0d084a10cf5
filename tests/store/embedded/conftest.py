"""Data folders, and servers that are stopped when the test ends."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from tests.store.embedded.processes import SMALL, Start
from timebell.db.embedded import EmbeddedServer
from timebell.testing.run_folder import roomy_folder


@pytest.fixture
def new_folder() -> Iterator[Path]:
    """A data folder that does not exist yet.

    It is not below pytest's own folder, which pytest closes to other users whenever another run begins.
    """
    top = Path(tempfile.mkdtemp(prefix="timebell-embedded-", dir=roomy_folder()))
    yield top / "data"
    shutil.rmtree(top)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def pattern_folder() -> AsyncIterator[Path]:
    top = Path(tempfile.mkdtemp(prefix="timebell-embedded-", dir=roomy_folder()))
    server = await EmbeddedServer.start(top / "data", settings=SMALL)
    await server.stop()
    yield server.folder
    shutil.rmtree(top)


@pytest.fixture
def used_folder(pattern_folder: Path, new_folder: Path) -> Path:
    """A data folder on which a server has run before; a copy takes a tenth of the time of making one."""
    subprocess.run(["cp", "-a", pattern_folder, new_folder], check=True, timeout=60)
    return new_folder


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    started: list[EmbeddedServer] = []

    async def start_one(
        folder: Path, *, port: int | None = None, settings: Mapping[str, str] = SMALL
    ) -> EmbeddedServer:
        server = await EmbeddedServer.start(folder, port=port, settings={**SMALL, **settings})
        started.append(server)
        return server

    yield start_one
    for server in started:
        await server.stop()
