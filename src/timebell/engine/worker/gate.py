"""The last questions before a handler acts, asked with everything at hand that it needs."""

from __future__ import annotations

from timebell.engine.limits.limits import Limits
from timebell.engine.node.node import Node
from timebell.engine.node.timekeeper import Timekeeper
from timebell.engine.worker.running import Running
from timebell.engine.worker.threads import Threads

# What waited in memory for longer may have been cancelled or replaced long ago. It is longer than the read-ahead unless
# that was set to more; then plain jobs are marked too, which takes longer, and a cancel is kept all the same.
FRESH_SECONDS = 2.0


class NotToBeHad(Exception):
    """Somebody else holds the job, or it is no longer as it was read, or it cannot begin just now."""


class Gate:
    """Lets an attempt through when it may act, and then it acts at once."""

    def __init__(self, node: Node, limits: Limits, threads: Threads, timekeeper: Timekeeper) -> None:
        self._node = node
        self._limits = limits
        self._threads = threads
        self._timekeeper = timekeeper

    def lets_through(self, running: Running) -> bool:
        """Whether the attempt may act without waiting for anything; most may."""
        if not running.handler.is_async or running.entry.pair[1] in self._limits.paced:
            return False
        if not self._node.may_begin(running.entry.incarnation):
            raise NotToBeHad
        return True

    def lets_through_at_once(self, running: Running) -> bool:
        """Whether nothing at all has to be asked or read before the handler is called."""
        entry = running.entry
        if (
            running.is_permitted
            or entry.is_left_behind
            or entry.call is not None
            or entry.row["guard"] is not None
        ):
            return False
        return self.lets_through(running)

    async def wait(self, running: Running) -> None:
        """Wait for a thread, where the handler needs one, and for an instant of its queue's rate.

        A thread is waited for only where one is still taken up by an attempt whose time was over. Meanwhile the lease
        may run out and somebody else begin the job, or cancel it, so this is asked last.
        """
        asked = self._timekeeper.monotonic()
        if not running.handler.is_async:
            await self._threads.acquire()
        try:
            id, queue = running.entry.id, running.entry.pair[1]
            if queue in self._limits.paced and not await self._limits.instant(id, queue):
                raise NotToBeHad
            has_waited = self._timekeeper.monotonic() - asked
            if has_waited > FRESH_SECONDS and running.handler.mode == "plain" and not running.is_marked:
                raise NotToBeHad
            if running.is_lost() or not self._node.may_begin(running.entry.incarnation):
                raise NotToBeHad
        except BaseException:
            if not running.handler.is_async:
                self._threads.release()
            raise
