"""What the tests of the read model share: rows as the engine leaves them, written straight into the tables."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.store.support import NOW, Tables
from timebell.clock import Chance, Ids

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
IDS = Ids(Chance(20270301))


async def write(tables: Tables, table: str, **row: object) -> None:
    places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    await tables.rows(f"INSERT INTO timebell.{table} ({', '.join(row)}) VALUES ({places})", *row.values())


async def enqueue(tables: Tables, **values: object) -> UUID:
    """An unfinished job that is due now, unless told otherwise; what was started says by whom."""
    id = IDS.new()
    due_at = values.get("due_at", NOW)
    row: dict[str, object] = {
        "id": id,
        "tenant": "default",
        "queue": "default",
        "kind": "office.ring",
        "run_at": due_at,
        "due_at": due_at,
        "payload": "{}",
        **values,
    }
    await write(tables, "jobs", **row)
    return id


async def log(tables: Tables, **values: object) -> UUID:
    """One entry of the log: a first attempt that was done on time, unless told otherwise."""
    id = values.get("id") or IDS.new()
    row: dict[str, object] = {
        "tenant": "default",
        "queue": "default",
        "kind": "office.ring",
        "version": 1,
        "attempt": 1,
        "state": "done",
        "due_at": NOW,
        "started_at": NOW,
        "finished_at": NOW,
        **values,
        "id": id,
    }
    await write(tables, "job_log", **row)
    assert isinstance(id, UUID)
    return id


async def bury(tables: Tables, **values: Any) -> UUID:
    id = IDS.new()
    await tables.bury(id, **values)
    return id


def ago(by: timedelta) -> datetime:
    return NOW - by
