"""The dependencies that the parts of one worker share: database, statements, node, clock, ledger and counters."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from timebell.config import Settings
from timebell.db.pool import Database
from timebell.engine.ledger.ledger import JobLedger
from timebell.engine.node.node import Node
from timebell.engine.node.timekeeper import Timekeeper
from timebell.engine.store import EngineStore
from timebell.engine.worker.background import Background
from timebell.engine.worker.counters import Counters
from timebell.kernel.bell import Timebell


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """`woken` lets the worker make its next pass at once."""

    bell: Timebell
    store: EngineStore
    node: Node
    timekeeper: Timekeeper
    ledger: JobLedger
    counters: Counters
    background: Background
    woken: asyncio.Event

    @classmethod
    def of(cls, bell: Timebell, node: Node, store: EngineStore, timekeeper: Timekeeper) -> Dependencies:
        woken = asyncio.Event()
        return cls(
            bell=bell,
            store=store,
            node=node,
            timekeeper=timekeeper,
            ledger=JobLedger.within(bell.settings),
            counters=Counters(),
            background=Background(bell.clock, woken),
            woken=woken,
        )

    @property
    def database(self) -> Database:
        return self.bell.database

    @property
    def settings(self) -> Settings:
        return self.bell.settings
