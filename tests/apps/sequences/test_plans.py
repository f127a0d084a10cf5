"""What each statement costs beside many messages of others and of its own tenant: along the indexes, and bounded."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import orjson
import pytest

from tests.query_plans import nodes
from timebell.apps.sequences.store import SequenceStore
from timebell.db.queries import Query
from timebell.testing.database import TestDatabase

# Tables are thousands of times as large in life, and reading one costs so much more.
READING = {"seq_page_cost": "100", "plan_cache_mode": "force_generic_plan"}
LARGE = (
    "messages",
    "subjects",
    "subject_people",
    "enrolments",
    "jobs",
    "notifications",
    "deliveries",
    "agendas",
)
NOW = datetime.fromisoformat("2027-03-15T08:00:00+00:00")
START = datetime.fromisoformat("0001-01-01T00:00:00+00:00")
ZERO, FIRST, RARE = (UUID(int=number) for number in range(3))
# So many subjects, each with messages for five days to come; one in a hundred is of a neighbour. Of one thousandth the
# messages are due, and one thousandth concerns somebody who is seldom concerned.
FILL = """
    INSERT INTO sequences.sequences (tenant, id, name, trigger_event, is_active, created_at, updated_at)
    SELECT t, id, 'one', 'booking_created', true, $2::timestamptz, $2 FROM unnest(ARRAY['large', 'small']) t,
        unnest(ARRAY['00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000002']::uuid[]) id;
"""
SUBJECTS = """
    WITH made AS (
        SELECT n, CASE WHEN n % 100 = 0 THEN 'small' ELSE 'large' END AS tenant, timebell.new_id() AS id,
            CASE WHEN n % 1000 = 7 THEN $3::uuid ELSE $2::uuid END AS person,
            CASE WHEN n % 1000 = 7 THEN 'cancelled' ELSE 'created' END AS status
        FROM generate_series(1, $1::integer) n
    ), subjects AS (
        INSERT INTO sequences.subjects (tenant, subject, id, is_booking, status, starts_at, ends_at, timezone, dates_at,
            created_at, updated_at)
        SELECT tenant, 'booking:' || id, id, true, status, $4::timestamptz + interval '30 days',
            $4::timestamptz + interval '31 days', 'UTC', $4, $4 - interval '300 days', $4 - interval '300 days'
        FROM made RETURNING tenant, subject
    ), people AS (
        INSERT INTO sequences.subject_people (tenant, subject, recipient_id, role, ordinal)
        SELECT tenant, 'booking:' || id, person, 'guest', 0 FROM made
    ), enrolments AS (
        INSERT INTO sequences.enrolments (tenant, subject, sequence_id, version, event_at, created_at)
        SELECT tenant, 'booking:' || id, person, 1, $4, $4 FROM made
    ), messages AS (
        INSERT INTO sequences.messages (tenant, id, subject, sequence_id, entry, step, recipient_id, channel, template,
            due_at, status, job_id, created_at)
        SELECT tenant, timebell.new_id(), 'booking:' || id, person, 1, 'day_' || d, person, 'email', 'note',
            $4::timestamptz + CASE WHEN n % 1000 = 7 THEN interval '-1 hour' ELSE d * interval '1 day' END,
            CASE WHEN n % 2 = 0 THEN 'sent' ELSE 'scheduled' END, timebell.new_id(), $4
        FROM made, generate_series(1, $5::integer) d RETURNING tenant, job_id, subject, due_at, status, recipient_id
    ), notifications AS (
        INSERT INTO timebell_notify.notifications (tenant, id, recipient_id, template, topic, class, urgency, route,
            context, due_at, state, created_at)
        SELECT tenant, job_id, recipient_id, 'note', 'general', 'transactional', 'normal', '{}', '{}', due_at, 'sent',
            $4
        FROM messages WHERE status = 'sent'
    ), deliveries AS (
        INSERT INTO timebell_notify.deliveries (tenant, id, notification_id, recipient_id, channel, provider, address,
            state, created_at, updated_at)
        SELECT tenant, timebell.new_id(), job_id, recipient_id, 'email', 'log', 'a@example.org', 'sent', $4, $4
        FROM messages WHERE status = 'sent'
    )
    INSERT INTO timebell.jobs (id, tenant, queue, kind, subject, run_at, due_at, payload)
    SELECT job_id, tenant, 'sequences.messages', 'notify.deliver', subject, due_at, due_at, '{}' FROM messages
    WHERE status = 'scheduled'
"""


async def fill(owner: Any, subjects: int, steps: int = 5) -> None:
    await owner.execute("SET session_replication_role = replica")
    await owner.execute(FILL.replace("$2", f"'{NOW.isoformat()}'"))
    await owner.execute(SUBJECTS, subjects, FIRST, RARE, NOW, steps, timeout=600)
    await owner.execute("RESET session_replication_role")
    await owner.execute("VACUUM (ANALYZE)", timeout=600)


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return f"'{text}'"


async def explained(owner: Any, query: Query, *, is_run: bool = False, **given: object) -> dict[str, Any]:
    """The plan for whatever arguments; with those that are given, where it is run."""
    await owner.execute(f"PREPARE noted AS {query.text}")
    try:
        values = ", ".join(literal(given.get(name)) for name in query.parameters)
        arguments = f"({values})" if query.parameters else ""
        how = "ANALYZE, BUFFERS OFF, " if is_run else ""
        text = await owner.fetchval(f"EXPLAIN ({how}FORMAT JSON) EXECUTE noted {arguments}", timeout=60)
        plan: dict[str, Any] = orjson.loads(text)[0]["Plan"]
        return plan
    finally:
        await owner.execute("DEALLOCATE noted")


def read_through(plan: dict[str, Any]) -> set[str]:
    """The large tables that are read from end to end."""
    read = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
    return read.intersection(LARGE)


def looked_at(plan: dict[str, Any]) -> int:
    """The most rows that any part of a plan took from a table, those that it then left out too."""
    left_out = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
    taken: int = max(
        round((node["Actual Rows"] + sum(node.get(name, 0) for name in left_out)) * node["Actual Loops"])
        for node in nodes(plan)
        if "Relation Name" in node
    )
    return taken


@pytest.mark.parametrize("role", ["timebell", "timebell_api"])
async def test_no_statement_goes_through_a_whole_table(sequences_database: TestDatabase, role: str) -> None:
    owner = await asyncpg.connect(sequences_database.admin_url, timeout=10, server_settings=READING)
    try:
        await fill(owner, 4_000)
        await owner.execute(f"SET ROLE {role}")
        found = {
            name: tables
            for name, query in SequenceStore.queries.items()
            if (tables := read_through(await explained(owner, query)))
        }
        assert found == {}
        if role == "timebell":
            whole = Query(name="whole", text="SELECT count(template) FROM sequences.messages", parameters=())
            assert read_through(await explained(owner, whole)) == {"messages"}
    finally:
        await owner.close(timeout=10)


PAGE: dict[str, object] = {"limit": 20, "look_max": 21}
# What each takes at most, with a hundred thousand messages of its own tenant around it.
BOUNDED: dict[str, tuple[dict[str, object], int]] = {
    "list_messages": (PAGE, 100),
    "list_messages_of_person": ({"person": RARE, **PAGE}, 200),
    "list_bookings": ({"limit": 20}, 100),
    "list_bookings_of_person": ({"person": RARE, "limit": 20}, 100),
    "list_bookings_of_status": ({"status": "cancelled", "limit": 20}, 100),
    "list_subjects_of_person": ({"person": RARE, "after": "", "limit": 50}, 100),
    "settle_messages": ({"after_at": START, "after": ZERO, "limit": 500}, 500),
    "list_pending": ({"before": NOW, "limit": 50}, 100),
    "read_next_tenant": ({"after": ""}, 1),
    "prune_subjects": ({"days": 180, "limit": 100}, 10),
    "list_enrolled": ({"sequence_id": FIRST, "version": 2, "after": "", "limit": 50}, 100),
}


@pytest.mark.req("A-8.3")
async def test_what_is_asked_costs_what_it_finds_and_not_what_there_is(
    sequences_database: TestDatabase,
) -> None:
    owner = await asyncpg.connect(sequences_database.admin_url, timeout=10, server_settings=READING)
    try:
        await fill(owner, 20_000)
        await owner.execute("SET ROLE timebell")
        for name, (given, most) in BOUNDED.items():
            query = SequenceStore.queries[name]
            plan = await explained(owner, query, is_run=True, tenant="large", now=NOW, **given)
            assert looked_at(plan) <= most, (name, looked_at(plan))
        pending = await explained(
            owner, SequenceStore.queries["list_pending"], tenant="large", before=NOW, limit=50
        )
        indexes = {node.get("Index Name") for node in nodes(pending)}
        assert "by_status_scheduled" in indexes
    finally:
        await owner.close(timeout=10)


@pytest.mark.slow
@pytest.mark.req("A-8.3")
async def test_the_pending_of_a_million_are_found_by_their_index(sequences_database: TestDatabase) -> None:
    owner = await asyncpg.connect(sequences_database.admin_url, timeout=10, server_settings=READING)
    try:
        await fill(owner, 125_000, 8)
        assert await owner.fetchval("SELECT count(*) FROM sequences.messages") == 1_000_000
        await owner.execute("SET ROLE timebell")
        query = SequenceStore.queries["list_pending"]
        plan = await explained(owner, query, is_run=True, tenant="large", before=NOW, limit=50)
        assert looked_at(plan) <= 100
        assert "by_status_scheduled" in {node.get("Index Name") for node in nodes(plan)}
        counting = SequenceStore.queries["count_messages"]
        plan = await explained(owner, counting, is_run=True, tenant="large", sequence_id=FIRST, now=NOW)
        assert plan["Actual Total Time"] < 5_000
    finally:
        await owner.close(timeout=10)


async def test_a_funnel_of_very_many_asks_only_what_is_due(sequences_database: TestDatabase) -> None:
    """A hundred thousand messages: what was settled, and what is to come, is counted off one index."""
    owner = await asyncpg.connect(sequences_database.admin_url, timeout=10, server_settings=READING)
    try:
        await fill(owner, 20_000)
        await owner.execute("SET ROLE timebell")
        query = SequenceStore.queries["count_messages"]
        plan = await explained(owner, query, is_run=True, tenant="large", sequence_id=FIRST, now=NOW)
        assert looked_at(plan) >= 90_000
        others = [node for node in nodes(plan) if node.get("Relation Name") in ("jobs", "notifications")]
        assert all(node["Actual Rows"] * node["Actual Loops"] <= 200 for node in others)
        messages = [node for node in nodes(plan) if node.get("Relation Name") == "messages"]
        assert "Index Only Scan" in {node["Node Type"] for node in messages}
    finally:
        await owner.close(timeout=10)
