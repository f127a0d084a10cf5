"""The statements that write what became of a job, each about one job as its first start left it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from timebell.engine.store import EngineStore

Write = Callable[[EngineStore, Any, UUID, dict[str, object]], Awaitable[Any]]


def finish(store: EngineStore, session: Any, id: UUID, fence: dict[str, object]) -> Awaitable[Any]:
    return store.finish_jobs(session, ids=[id], version=1, started_ats=[None], fence=fence)


def end(store: EngineStore, session: Any, id: UUID, fence: dict[str, object]) -> Awaitable[Any]:
    unsaid = ("reasons", "error_classes", "errors", "fingerprints", "started_ats")
    columns: dict[str, list[Any]] = {
        "ids": [id],
        "versions": [1],
        "states": ["expired"],
        "attempts": [1],
        "cut_offs": [False],
        **{name: [None] for name in unsaid},
    }
    return store.end_jobs(session, columns=columns, fence=fence)


def retry(store: EngineStore, session: Any, id: UUID, fence: dict[str, object]) -> Awaitable[Any]:
    unsaid = ("run_ats", "reasons", "error_classes", "errors", "fingerprints", "cursors", "started_ats")
    columns: dict[str, list[Any]] = {
        "ids": [id],
        "versions": [1],
        "delays": [60.0],
        "attempts": [1],
        "tries": [1],
        **{name: [None] for name in unsaid},
    }
    return store.retry_jobs(session, columns=columns, fence=fence)


def start(store: EngineStore, session: Any, id: UUID, fence: dict[str, object]) -> Awaitable[Any]:
    return store.start_jobs(session, ids=[id], version=1, fence=fence)
