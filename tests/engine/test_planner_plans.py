"""Plan guards: beside a hundred thousand schedules that need nothing, the planner touches those that need something."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any
from uuid import UUID

import pytest_asyncio

from tests.engine.support import Owner
from tests.engine.test_plans import NOW, PLAN_MODES, explain, pages
from tests.query_plans import queries_of

ENGINE = queries_of("engine")
KERNEL = queries_of("kernel")
SCHEDULES = 100_000
DUE = 20
# A descent of an index for each row that a statement is about, and what the row itself takes.
PAGES_A_ROW = 50


@pytest_asyncio.fixture
async def crowded(owner: Owner) -> Owner:
    """Every schedule has an occurrence behind it and one ahead. Twenty of them must be planned."""
    await owner.connection.execute(f"""
        INSERT INTO timebell.schedules (id, tenant, recurrence, timezone, start_local, steps, planned_until, plan_at,
            settled_until, timezone_version, created_at, updated_at)
        SELECT gen_random_uuid(), 'default', 'FREQ=DAILY', CASE WHEN n % 1000 = 0 THEN 'UTC' ELSE 'Europe/Berlin' END,
            timestamp '2026-01-01 09:00', '[{{"key": "due", "kind": "t.act", "offset": 0}}]',
            timestamptz '{NOW}' + interval '60 days',
            timestamptz '{NOW}' + CASE WHEN n <= {DUE} THEN interval '0' ELSE n * interval '1 minute' END,
            timestamptz '{NOW}' - interval '1 day', '2026a', timestamptz '{NOW}', timestamptz '{NOW}'
        FROM generate_series(1, {SCHEDULES}) AS n;
        INSERT INTO timebell.occurrences (schedule_id, original_local, id, tenant, local, occurs_at, revision,
            timezone_version, created_at)
        SELECT s.id, at AT TIME ZONE 'UTC', gen_random_uuid(), 'default', at AT TIME ZONE 'UTC', at, 1, '2026a', at
        FROM timebell.schedules s,
            (VALUES (timestamptz '{NOW}' - interval '1 hour'), (timestamptz '{NOW}' + interval '1 day')) AS o(at);
        INSERT INTO timebell.jobs (id, tenant, queue, kind, subject, run_at, due_at, payload, step)
        SELECT gen_random_uuid(), 'default', 'default', 't.act', 'occurrence:' || id, occurs_at, occurs_at, '{{}}',
            'due'
        FROM timebell.occurrences WHERE occurs_at > timestamptz '{NOW}';
        INSERT INTO timebell.agenda_done (tenant, subject, step, due_at, state, finished_at)
        SELECT 'default', 'occurrence:' || id, 'due', occurs_at, 'expired', occurs_at
        FROM timebell.occurrences WHERE occurs_at < timestamptz '{NOW}';
        INSERT INTO timebell.timezones (timezone, version, sha256, data_version, updated_at)
        SELECT zone, '2026a', 'x', '2026a', now()
        FROM unnest(ARRAY['UTC', 'Europe/Berlin']) AS z(zone);
        ANALYZE timebell.schedules, timebell.occurrences, timebell.timezones, timebell.jobs, timebell.agenda_done;
    """)
    return owner


async def arguments_of(owner: Owner) -> dict[str, dict[str, Any]]:
    ids = [
        row["id"] for row in await owner.rows("SELECT id FROM timebell.schedules WHERE plan_at <= $1", NOW)
    ]
    assert len(ids) == DUE
    return {
        "claim_schedules": {"limit": 500, "now": NOW},
        "read_next_plan": {},
        "miss_occurrences": {"schedule_ids": ids, "over_ats": [NOW] * DUE, "now": NOW},
        "settle_schedules": {
            "ids": ids,
            "planned_untils": [NOW + timedelta(days=61)] * DUE,
            "plan_ats": [NOW + timedelta(days=1)] * DUE,
            "states": ["active"],
            "state_reasons": [],
            "settled_untils": [NOW],
            "revisions": [1],
            "edited_at": None,
            "timezone_version": "2026b",
        },
        "park_schedules": {"ids": ids, "reasons": ["bad"] * DUE, "now": NOW},
        "mark_schedules": {
            "timezone": "Europe/Berlin",
            "after": UUID(int=0),
            "limit": DUE,
            "now": NOW,
            "timezone_version": "2026b",
        },
        "read_overrides": {"schedule_ids": ids},
        "prune_occurrences": {
            "after": NOW - timedelta(days=1),
            "after_id": UUID(int=0),
            "days": 0,
            "limit": DUE,
            "now": NOW,
        },
    }


async def test_the_planner_touches_only_what_needs_it(crowded: Owner) -> None:
    arguments = await arguments_of(crowded)
    complaints = []
    for mode, name in product(PLAN_MODES, arguments):
        await crowded.connection.execute(f"SET plan_cache_mode = {mode}")
        query = ENGINE.get(name) or KERNEL[name]
        touched = pages(await explain(crowded, query, arguments[name]))
        if touched > PAGES_A_ROW * DUE:
            complaints.append(f"{name} touches {touched} pages, {mode}")
    assert complaints == []


async def test_the_guard_itself_notices_a_walk(crowded: Owner) -> None:
    await crowded.connection.execute("DROP INDEX timebell.schedules_plan")
    arguments = await arguments_of(crowded)
    touched = pages(await explain(crowded, ENGINE["claim_schedules"], arguments["claim_schedules"]))
    assert touched > PAGES_A_ROW * DUE
