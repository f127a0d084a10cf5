"""`/readyz` is anybody's to ask, and costs the work of the process nothing."""

from __future__ import annotations

import asyncio

import pytest

from tests.web.support import Site
from timebell import process as process_module
from timebell.process import Process


async def test_however_many_ask_the_database_is_asked_once_a_second(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    async def check_schema(*_: object) -> None:
        nonlocal asked
        asked += 1

    monkeypatch.setattr(process_module, "check_schema", check_schema)
    process = Process(site.bell.settings, on_ready=lambda _: None)
    assert await process.complaints() == ["starting"]
    process._bell = site.bell
    loop = asyncio.get_running_loop()
    now = loop.time()
    with monkeypatch.context() as patch:
        patch.setattr(loop, "time", lambda: now)
        assert await asyncio.gather(*(process.complaints() for _ in range(500))) == [[]] * 500
        assert await process.complaints() == []
    assert asked == 1
    process._stopping.set()
    assert await process.complaints() == ["stopping"]
