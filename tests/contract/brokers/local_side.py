"""The broker in one process, as the suite for brokers wants it."""

from __future__ import annotations

from datetime import timedelta

from timebell.brokers.local import LocalBroker
from timebell.brokers.local_server import LocalServer
from timebell.testing.broker_side import QUEUE
from timebell.testing.broker_suite import Fault


class LocalSide:
    """A server of its own, and whoever connects to it."""

    faults: frozenset[Fault] = frozenset({"stop", "cut", "block", "full", "delete", "otherwise"})
    # What it hands out is there as soon as it is anywhere.
    settling = timedelta(milliseconds=1)

    def __init__(self) -> None:
        self.server = LocalServer()

    def broker(self) -> LocalBroker:
        return LocalBroker(self.server)

    async def show(self, fault: Fault, queue: str = QUEUE) -> None:
        match fault:
            case "stop":
                self.server.stop()
            case "cut":
                self.server.cut()
            case "block":
                self.server.block()
            case "full":
                self.server.limit(queue, messages_max=0)
            case "delete":
                self.server.delete_queue(queue)
            case "otherwise":
                self.server.declare_queue(queue, "classic")

    async def mend(self, fault: Fault, queue: str = QUEUE) -> None:
        match fault:
            case "stop":
                self.server.start()
            case "block":
                self.server.unblock()
            case "full":
                self.server.limit(queue)
            case "cut" | "delete" | "otherwise":
                pass
