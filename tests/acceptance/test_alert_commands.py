"""`timebell alerts`: what is open, for people and for machines, and that somebody sees to it."""

from __future__ import annotations

import asyncpg

from tests.acceptance.processes import answer, assert_refused, command
from tests.store.insights_support import IDS
from timebell.testing.database import TestDatabase


async def opened(database: TestDatabase, *, is_closed: bool = False) -> str:
    owner = await asyncpg.connect(database.admin_url)
    id = IDS.new()
    await owner.execute(
        "INSERT INTO timebell.alerts (id, tenant, app, rule, severity, subject, detail, is_of_engine, is_by_hand, "
        "seen_at, opened_at, closed_at) VALUES ($1, 'default', 'engine', 'many_dead_jobs', 'critical', '', "
        "'101 dead jobs', true, false, now(), now(), CASE WHEN $2 THEN now() END)",
        id,
        is_closed,
    )
    await owner.close()
    return str(id)


async def test_alerts_are_listed_and_acknowledged(database_url: TestDatabase) -> None:
    there = {"DATABASE_URL": database_url.url}
    over, now = await opened(database_url, is_closed=True), await opened(database_url)
    assert [line["id"] for line in answer("alerts", **there)["data"]] == [now]
    assert [line["id"] for line in answer("alerts", "list", **there)["data"]] == [now, over]
    [line] = answer("alerts", "list", "--state", "closed", **there)["data"]
    assert (line["id"], line["rule"], line["severity"]) == (over, "many_dead_jobs", "critical")
    seen = answer("alerts", "acknowledge", now, "--actor", "ada", **there)
    assert (seen["id"], seen["acknowledged_by"]) == (now, "ada")
    again = command("alerts", "acknowledge", now, "--actor", "bob", **there)
    assert again.stdout == f"{now} was seen to by ada before.\n"
    shown = command("alerts", **there).stdout
    assert "101 dead jobs" in shown
    assert "ada" in shown
    assert_refused(command("alerts", "acknowledge", IDS.new(), **there), 1, "no alert")
