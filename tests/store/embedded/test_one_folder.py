"""Programs that share one data folder: one of them starts the server, and the others find it, lose it and say so."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

import timebell
from tests.store.embedded.processes import Start, ask
from timebell.config import Settings
from timebell.errors import DataFolderInUse
from timebell.server import database_place

SECONDS = 60.0


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [words for words in caplog.messages if "the embedded server has ended" in words]


async def test_of_two_that_come_at_once_one_starts_the_server_and_both_have_it(used_folder: Path) -> None:
    inside, leave = list[bool](), asyncio.Event()

    async def come() -> None:
        async with database_place(Settings(data=used_folder), "either") as place:
            assert await ask(place.url, "SELECT 1") == 1
            inside.append(place.is_started_here)
            if len(inside) == 2:
                leave.set()
            await leave.wait()

    async with asyncio.timeout(SECONDS):
        await asyncio.gather(come(), come())
    assert sorted(inside) == [False, True]


async def test_who_is_to_start_the_server_does_not_wait_for_another(used_folder: Path, start: Start) -> None:
    await start(used_folder)
    with pytest.raises(DataFolderInUse, match="Stop that process first"):
        async with database_place(Settings(data=used_folder), "start"):
            pass


async def test_who_outlives_the_server_hears_why_the_database_is_away(
    used_folder: Path, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = await start(used_folder)
    caplog.set_level(logging.WARNING, "timebell.server")
    settings = Settings(data=used_folder, apps=())
    async with timebell.running(settings=settings, engine=False), asyncio.timeout(SECONDS):
        assert not said(caplog)
        await server.stop()
        while True:
            if said(caplog):
                break
            await asyncio.sleep(0.05)
    [words] = said(caplog)
    assert "start this program again, or let `timebell up` run beside it" in words
    assert str(used_folder) in words
