"""Names that hang: they cost their own tenant its places, and nobody else anything."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from itertools import count

import pytest
import pytest_asyncio

from timebell.kernel.look_ups import PLACES, PLACES_OF_ONE, LookUps

ADDRESS = ["192.0.2.7"]


class Resolver:
    """A system whose names hang as long as the test wants; `no...` does not exist."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.released = threading.Event()

    def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        if host.startswith("slow"):
            assert self.released.wait(60)
        if host.startswith("no"):
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return ADDRESS


@pytest_asyncio.fixture
async def resolver() -> AsyncIterator[Resolver]:
    made = Resolver()
    yield made
    made.released.set()


async def until(is_so: Callable[[], bool]) -> None:
    """For what happens in other threads."""
    async with asyncio.timeout(30):
        while True:
            if is_so():
                return
            await asyncio.sleep(0)


def ask(look_ups: LookUps, tenant: str, host: str) -> asyncio.Task[Sequence[str]]:
    return asyncio.create_task(look_ups(tenant, host))


async def test_hanging_names_of_one_tenant_leave_others_their_places(resolver: Resolver) -> None:
    look_ups = LookUps(resolver, seconds=60)
    hanging = [ask(look_ups, "a", f"slow{number}") for number in range(3 * PLACES)]
    await until(lambda: len(resolver.asked) >= PLACES_OF_ONE)
    for number in range(3 * PLACES):
        assert await asyncio.wait_for(look_ups("b", f"quick{number}"), 30) == ADDRESS
    assert sum(host.startswith("slow") for host in resolver.asked) == PLACES_OF_ONE
    for one in hanging:
        one.cancel()
    look_ups.close()


async def test_hanging_names_of_many_tenants_give_up_their_places_in_time(resolver: Resolver) -> None:
    """As many as take all the places: after the deadline these are somebody else's, though no thread has ended."""
    look_ups = LookUps(resolver, seconds=0.2)
    hanging = [ask(look_ups, f"a{number}", f"slow{number}") for number in range(PLACES)]
    assert all(isinstance(one, OSError) for one in await asyncio.gather(*hanging, return_exceptions=True))
    async with asyncio.timeout(30):
        for number in count():
            # On a busy machine a name that does not hang may be late as well.
            with suppress(OSError):
                assert await look_ups("b", f"quick{number}") == ADDRESS
                break
    assert not resolver.released.is_set()
    look_ups.close()


async def test_a_name_that_hangs_is_not_asked_again_until_it_answers(resolver: Resolver) -> None:
    look_ups = LookUps(resolver, seconds=0.05)
    for _ in range(3):
        with pytest.raises(OSError, match=r"in time|hangs"):
            await look_ups("a", "slow")
    await until(lambda: bool(resolver.asked))
    assert resolver.asked == ["slow"]
    resolver.released.set()
    async with asyncio.timeout(30):
        while resolver.asked == ["slow"]:
            try:
                assert await look_ups("a", "slow") == ADDRESS
            except OSError:
                await asyncio.sleep(0)
    look_ups.close()


async def test_a_name_that_is_not_known_is_remembered_for_a_moment(resolver: Resolver) -> None:
    look_ups = LookUps(resolver)
    for tenant in "ab":
        with pytest.raises(OSError, match="unknown"):
            await look_ups(tenant, "nowhere")
    assert resolver.asked == ["nowhere"]
    look_ups.close()


async def test_a_name_that_many_ask_for_at_once_is_asked_for_once(resolver: Resolver) -> None:
    look_ups = LookUps(resolver, seconds=60)
    asking = [ask(look_ups, tenant, "slow") for tenant in "abcabc"]
    await asyncio.sleep(0)
    asking.pop().cancel()
    resolver.released.set()
    assert await asyncio.gather(*asking) == [ADDRESS] * 5
    assert resolver.asked == ["slow"]
    look_ups.close()


async def test_an_address_is_nobodys_name(resolver: Resolver) -> None:
    look_ups = LookUps(resolver)
    for address in ("192.0.2.1", "2001:db8::1"):
        assert await look_ups("a", address) == [address]
    assert resolver.asked == []


async def test_the_system_is_asked_and_its_own_names_count() -> None:
    look_ups = LookUps()
    assert set(await look_ups("a", "localhost")) <= {"127.0.0.1", "::1"}
    look_ups.close()


async def test_who_gets_no_thread_is_refused_and_keeps_no_place(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    look_ups = LookUps(resolver, seconds=60)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for number in range(2 * PLACES_OF_ONE):
            with pytest.raises(OSError, match="there is no thread for it"):
                await asyncio.wait_for(look_ups("a", f"quick{number}"), 30)
    assert await asyncio.wait_for(look_ups("a", "another"), 30) == ADDRESS
    look_ups.close()
