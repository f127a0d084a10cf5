"""The engine as whoever runs it sees it: well, not well, ended by a bug, stopped."""

from __future__ import annotations

import asyncio

import pytest

from tests.engine.support import Cluster
from tests.log_lines import kept_lines
from timebell import App, Handler, Job
from timebell.engine import Engine
from timebell.testing import harness
from timebell.testing.database import TestDatabase


async def test_an_engine_that_runs_has_no_complaint(database_url: TestDatabase) -> None:
    async with harness(database_url.url, [App(name="empty")]) as h:
        assert h.engine.complaints() == ["the engine is not running"]
        await h.engine.start()
        assert h.engine.complaints() == []


async def test_a_bug_in_a_loop_reaches_whoever_waits(
    database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process whose loop has died would otherwise live on and do a part of its work."""
    async with harness(database_url.url, [App(name="empty")]) as h:

        async def broken() -> None:
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(h.engine.worker, "look_around", broken)
        with pytest.raises(ZeroDivisionError):
            await h.engine.start()
        monkeypatch.undo()
        await h.engine.start()
        monkeypatch.setattr(h.engine.worker, "look_around", broken)
        async with asyncio.timeout(10):
            with kept_lines() as lines, pytest.raises(ZeroDivisionError, match="a bug"):
                await h.engine.wait()
        [line] = [each for each in lines if each["log_level"] == "error"]
        assert (line["event"], line["loop"]) == ("a loop failed, and has ended", "sweep")
        assert h.engine.complaints() == ["the sweep loop has ended"]


async def test_a_lease_that_could_not_be_renewed_in_time_has_a_new_connection_next_time(
    cluster: Cluster,
) -> None:
    """One that is half open answers nobody; kept, it would cost the node its life at every beat."""
    node = await cluster.node([App(name="empty")], lease_seconds=2, lease_margin_seconds=0.5)
    before = node.engine._lease_connection
    node.stage.hold("before", "renew_node")
    with pytest.raises(TimeoutError):
        await node.engine.beat()
    assert before is not None
    assert before.is_closed()
    await node.engine.beat()
    assert node.engine.node.may_start()


async def test_a_stopped_engine_is_told_nothing_more(database_url: TestDatabase) -> None:
    """The bell may outlive many engines, and would keep every one of them."""
    async with harness(database_url.url, [App(name="empty")]) as h:
        wakeups = h.bell.wakeups
        before = len(wakeups._watchers), len(wakeups._listeners)
        async with Engine(h.bell).running():
            assert (len(wakeups._watchers), len(wakeups._listeners)) == (before[0] + 1, before[1] + 1)
        assert (len(wakeups._watchers), len(wakeups._listeners)) == before


async def test_an_engine_may_be_stopped_twice(database_url: TestDatabase) -> None:
    """Whoever stops it on a signal need not know that somebody else did already."""
    async with harness(database_url.url, [App(name="empty")]) as h:
        await h.engine.start()
        await h.engine.stop()
        await h.engine.stop()
        assert h.engine.complaints() == ["the engine is not running"]


async def test_what_is_given_back_before_the_stop_is_not_begun_again(database_url: TestDatabase) -> None:
    """Two signals at once: the second finds an engine that has not begun to stop, whose loops go on meanwhile."""
    begun: list[int] = []
    has_begun = asyncio.Event()

    async def run(job: Job) -> None:
        begun.append(job.attempt)
        has_begun.set()
        await asyncio.Event().wait()

    waiting = App(name="t", handlers={"t.run": Handler(run=run, mode="plain")})
    async with harness(database_url.url, [waiting], stop_seconds=10) as h:
        await h.engine.start()
        async with h.bell.transaction() as tx:
            await h.bell.enqueue(tx, "t.run")
        async with asyncio.timeout(9):
            await has_begun.wait()
            h.engine.interrupt()
            # As many passes as the loops would make while the process closes its port.
            for _ in range(50):
                await h.engine.worker.look_around()
                h.engine.worker.sweep()
                await h.engine.worker.tick()
            await h.engine.stop()
    assert len(begun) == 1


async def test_who_stays_hears_at_once_that_a_node_has_come_or_gone(database_url: TestDatabase) -> None:
    """Without the word it would find out at its next beat, and what is due meanwhile would be late."""
    async with harness(database_url.url, [App(name="empty")]) as stays:
        await stays.bell.wakeups.listen()
        heard = asyncio.Event()
        stays.bell.wakeups.watch(heard.set)
        async with harness(database_url.url, [App(name="empty")]):
            async with asyncio.timeout(10):
                await heard.wait()
            heard.clear()
            await stays.engine.beat()
            assert len(stays.engine.node.owned) == 128
            async with asyncio.timeout(10):
                await heard.wait()
            heard.clear()
        async with asyncio.timeout(10):
            await heard.wait()
        await stays.engine.beat()
        assert len(stays.engine.node.owned) == 256
