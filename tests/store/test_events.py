"""Events are facts with an actor: added and read, never changed."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import asyncpg
import pytest

from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.errors import InvalidInput, NaiveInstant, PayloadTooLarge
from timebell.kernel import Timebell


@pytest.mark.req("U-20")
async def test_an_event_says_what_happened_to_what_when_and_by_whom(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction(tenant="acme") as tx:
        id = await bell.record(
            tx,
            "booking.cancelled",
            {"reason": "ill", "seats": [1, 2]},
            subject="booking:1",
            actor="maria",
            correlation_id="c-1",
            occurred_at=NOW - HOUR,
        )
    (row,) = await tables.rows("SELECT * FROM timebell.events")
    assert (row["id"], row["tenant"], row["name"]) == (id, "acme", "booking.cancelled")
    assert (row["subject"], row["actor"], row["correlation_id"]) == ("booking:1", "maria", "c-1")
    assert json.loads(row["data"]) == {"reason": "ill", "seats": [1, 2]}
    assert row["occurred_at"] == NOW - HOUR
    assert row["recorded_at"] is not None


async def test_an_event_happens_now_unless_told_otherwise(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    async with bell.transaction() as tx:
        await bell.record(tx, "booking.made")
    clock.now = None
    async with bell.transaction() as tx:
        await bell.record(tx, "booking.paid")
        began = await tx.connection.fetchval("SELECT now()")
    rows = await tables.rows("SELECT name, occurred_at, data, actor FROM timebell.events ORDER BY id")
    assert rows == [
        {"name": "booking.made", "occurred_at": NOW, "data": "{}", "actor": None},
        {"name": "booking.paid", "occurred_at": began, "data": "{}", "actor": None},
    ]


CHANGES = [
    "UPDATE timebell.events SET actor = 'nobody'",
    "DELETE FROM timebell.events",
    "TRUNCATE timebell.events",
    "MERGE INTO timebell.events e USING (SELECT 1) x ON true WHEN MATCHED THEN DELETE",
    "INSERT INTO timebell.events SELECT * FROM timebell.events ON CONFLICT (id) DO UPDATE SET actor = 'x'",
    "ALTER TABLE timebell.events DISABLE TRIGGER ALL",
    "DROP TABLE timebell.events",
]


@pytest.mark.req("U-20")
async def test_nothing_changes_an_event_afterwards(
    bell: Timebell, tables: Tables, subtests: pytest.Subtests
) -> None:
    async with bell.transaction() as tx:
        await bell.record(tx, "booking.made", actor="maria")
    before = await tables.rows("SELECT * FROM timebell.events")
    for statement in CHANGES:
        with subtests.test(statement), pytest.raises(asyncpg.InsufficientPrivilegeError):
            await tables.rows(statement)
    assert await tables.rows("SELECT * FROM timebell.events") == before


REFUSED: list[tuple[dict[str, Any], type[InvalidInput], str]] = [
    ({"name": "cancelled"}, InvalidInput, "name: 'cancelled' is not of the form app.verb"),
    ({"name": None}, InvalidInput, "name: None is not of the form"),
    ({"data": []}, InvalidInput, "data: must be a mapping"),
    ({"data": {"x": object()}}, InvalidInput, "data: cannot be written as JSON"),
    ({"data": {"x": "\x00"}}, InvalidInput, "data: must not contain a NUL"),
    ({"data": {"x": "a" * 65_536}}, PayloadTooLarge, "data: 65544 bytes, the limit is 65536"),
    ({"subject": ""}, InvalidInput, "subject: must have 1 to 200 characters"),
    ({"actor": "a" * 201}, InvalidInput, "actor: must have 1 to 200 characters"),
    ({"correlation_id": "\x00"}, InvalidInput, "correlation_id: must not contain a NUL"),
    ({"occurred_at": datetime(2027, 3, 1)}, NaiveInstant, "occurred_at: .* has no offset"),
]


async def test_bad_input_records_nothing(bell: Timebell, tables: Tables, subtests: pytest.Subtests) -> None:
    async with bell.transaction() as tx:
        for asked, error, text in REFUSED:
            with subtests.test(text), pytest.raises(error, match=text):
                await bell.record(tx, **{"name": "booking.made", **asked})
        await bell.record(tx, "booking.made")
    assert (await tables.counts())["events"] == 1
