"""However many ask, one looks."""

from __future__ import annotations

import asyncio

import pytest

from timebell.web.operation.remembered import Remembered


async def test_those_who_ask_together_and_soon_after_share_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    gate = asyncio.Event()

    async def look() -> list[str]:
        nonlocal looks
        looks += 1
        await gate.wait()
        return []

    loop = asyncio.get_running_loop()
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now)
    asked = Remembered(look, 1.0)
    waiting = [asyncio.create_task(asked()) for _ in range(100)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    gate.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1:] == [[]] * 99
    assert await asked() == []
    assert looks == 1
    monkeypatch.setattr(loop, "time", lambda: now + 2.0)
    assert await asked() == []
    assert looks == 2


async def test_a_look_that_fails_is_taken_again() -> None:
    looks = 0

    async def look() -> int:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise OSError("away")
        return looks

    asked = Remembered(look, 1.0)
    with pytest.raises(OSError, match="away"):
        await asked()
    assert await asked() == 2


async def test_a_look_that_nobody_waits_for_any_more_is_taken_to_its_end() -> None:
    gate = asyncio.Event()

    async def look() -> list[int]:
        await gate.wait()
        return [1]

    asked = Remembered(look, 60.0)
    only = asyncio.create_task(asked())
    await asyncio.sleep(0)
    only.cancel()
    await asyncio.wait([only])
    gate.set()
    assert await asked() is await asked()
