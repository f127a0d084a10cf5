"""One attempt under way, as those who launch, run and watch it know it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from timebell.engine.ledger.entry import JobEntry
from timebell.kernel.app import Handler


@dataclass(slots=True, eq=False)
class Running:
    """One attempt under way. `version` is the row's now: one more than was read where the start was marked. `error` is
    what was raised in it, until that was told."""

    entry: JobEntry
    handler: Handler
    version: int
    number: int
    started_at: datetime
    deadline: float
    timeout_seconds: float
    is_marked: bool = False
    launched_at: float = 0.0
    # Whether it is one of those of which only so many run at once over all nodes.
    is_permitted: bool = False
    has_begun: bool = False
    has_timed_out: bool = False
    has_answered: bool = False
    # Why it is given back before its end, once it is.
    interruption: str | None = None
    activity: asyncio.Future[Any] | None = None
    error: BaseException | None = None
    # Whether the transaction is gone that it is to run in.
    is_lost: Callable[[], bool] = lambda: False
