"""The threads of handlers that are plain functions."""

from __future__ import annotations

import asyncio
import threading

import pytest

from timebell.engine.worker.threads import Threads


async def test_what_got_no_thread_is_not_run_later_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its attempt has failed by then, and may be made again somewhere else."""
    ran, ended = list[str](), list[int]()

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = Threads(1)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            await threads.acquire()
            with pytest.raises(RuntimeError, match="can't start"):
                await threads.run(lambda: ended.append(1), ran.append, "first")
        async with asyncio.timeout(30):
            await threads.acquire()
            await threads.run(lambda: ended.append(2), ran.append, "second")
        assert ran == ["second"]
        assert ended[0] == 1
    finally:
        threads.close()
