"""Places that tenants share: none of them has all, and those who wait take turns."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from timebell.db.turns import Turns
from timebell.errors import TooManyAtOnce

SECONDS = 10.0


class Crowd:
    """Requests that keep their places until they are told to leave."""

    def __init__(self, places: int) -> None:
        self.turns = Turns(places)
        self.inside: list[str] = []
        self._leaving: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, *names: str, seconds: float = SECONDS) -> None:
        """Each is the tenant and a number, such as a1."""
        for name in names:
            self._leaving[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._stay(name, seconds))
        await self.settle()

    async def _stay(self, name: str, seconds: float) -> None:
        async with self.turns.place(name[0], seconds):
            self.inside.append(name)
            await self._leaving[name].wait()
            self.inside.remove(name)

    async def leave(self, name: str) -> None:
        self._leaving[name].set()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def go_home(self) -> None:
        for event in self._leaving.values():
            event.set()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


@pytest.mark.parametrize(("places", "share"), [(1, 1), (2, 1), (4, 3), (10, 8), (20, 15)])
def test_a_share_leaves_something_to_others(places: int, share: int) -> None:
    assert Turns(places).share == share


async def test_one_tenant_never_has_all_places() -> None:
    crowd = Crowd(4)
    await crowd.come("a1", "a2", "a3", "a4", "a5")
    assert crowd.inside == ["a1", "a2", "a3"]
    await crowd.come("b1")
    assert crowd.inside == ["a1", "a2", "a3", "b1"]
    await crowd.leave("b1")
    assert crowd.inside == ["a1", "a2", "a3"]
    await crowd.leave("a1")
    assert crowd.inside == ["a2", "a3", "a4"]
    await crowd.go_home()


async def test_tenants_that_wait_take_turns() -> None:
    """However many requests of one of them came first."""
    crowd = Crowd(4)
    await crowd.come("a1", "a2", "a3", "b1", "a4", "a5", "b2", "b3", "c1")
    for leaving, coming in (("a1", "a4"), ("a2", "b2"), ("a3", "c1"), ("a4", "a5"), ("b1", "b3")):
        await crowd.leave(leaving)
        assert crowd.inside[-1] == coming
    await crowd.go_home()
    assert crowd.inside == []


async def test_who_waits_too_long_is_told_whose_fault_it_is() -> None:
    crowd = Crowd(2)
    await crowd.come("a1", "b1")
    with pytest.raises(TooManyAtOnce, match="1 requests of this tenant"):
        async with crowd.turns.place("a", 0):
            pass
    with pytest.raises(TimeoutError):
        async with crowd.turns.place("c", 0):
            pass
    await crowd.leave("a1")
    # Nobody who gave up keeps a place, or stands in the way of who comes later.
    await crowd.come("a2", "c1")
    assert crowd.inside == ["b1", "a2"]
    await crowd.leave("b1")
    assert crowd.inside == ["a2", "c1"]
    await crowd.go_home()


async def test_who_gives_up_in_the_moment_of_the_turn_hands_it_on() -> None:
    crowd = Crowd(2)
    await crowd.come("a1", "a2", "a3")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(SECONDS))
        crowd._leaving["a1"].set()
        await asyncio.sleep(0)
        crowd.tasks["a2"].cancel()
        await crowd.settle()
        assert crowd.inside == ["a3"]
        await crowd.go_home()


async def test_only_so_many_may_wait() -> None:
    crowd = Crowd(1)
    await crowd.come(*(f"a{number}" for number in range(26)))
    with pytest.raises(TooManyAtOnce, match="25 wait"):
        async with crowd.turns.place("a", SECONDS):
            pass
    await crowd.go_home()
    async with crowd.turns.place("a", 0):
        pass
