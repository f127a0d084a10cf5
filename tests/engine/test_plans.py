"""Plan guards: beside a hundred thousand future jobs every hot statement goes by its index, whatever it is given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.engine.support import Owner
from tests.query_plans import queries_of
from timebell.db.queries import Query

ENGINE = dict(queries_of("engine"))
KERNEL = dict(queries_of("kernel"))
NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
FUTURE = 100_000
BATCH = 500
FIRST_ID = UUID(int=0)
PLAN_MODES = ("force_generic_plan", "force_custom_plan")
# How many places each statement looks up; the others look up a job for each of twenty ids, and its neighbours.
_KINDS = {"visited_kinds": [None] * 256, "left_kinds": ["other.kind"]}
LOOKUPS = {"read_due": 512, "read_next_due": 512, "unpark_jobs": 256}
LOOKUPS_OF_OTHERS = 100
PAGES_A_LOOKUP = 5

BLAME = {
    "are_marked": [True] * 20,
    "is_blind": False,
    "alone_from": 2,
    "crashes_max": 5,
    "starts_max": 20,
    "unproven_starts_max": 10,
}


def pages_max(name: str) -> int:
    """What a statement may touch by its index. A walk would touch more each day; these bounds do not grow."""
    return PAGES_A_LOOKUP * LOOKUPS.get(name, LOOKUPS_OF_OTHERS)


def pages(plan: Mapping[str, Any]) -> int:
    touched: int = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return touched


@pytest_asyncio.fixture
async def crowded(owner: Owner) -> Owner:
    """A table with many future jobs, about two thousand subjects, and twenty jobs that are due."""
    await owner.connection.execute(f"""
        INSERT INTO timebell.jobs
            (id, tenant, queue, kind, subject, run_at, due_at, payload, step, revision, step_order)
        SELECT gen_random_uuid(), 'default', 'default', 't.act', 's:' || n % 2000,
            timestamptz '{NOW}' + (n + 10) * interval '1 minute', timestamptz '{NOW}', '{{}}',
            CASE WHEN n % 50 = 0 THEN 'a' END, CASE WHEN n % 50 = 0 THEN 1 END, CASE WHEN n % 50 = 0 THEN 1 END
        FROM generate_series(1, {FUTURE}) AS n;
        INSERT INTO timebell.jobs (id, tenant, queue, kind, subject, run_at, due_at, payload)
        SELECT gen_random_uuid(), 'default', 'default', 't.act', 'due:' || n, timestamptz '{NOW}' - interval '1 second',
            timestamptz '{NOW}', '{{}}'
        FROM generate_series(1, 20) AS n;
        UPDATE timebell.slots SET owner = 1, epoch = 1;
        ANALYZE timebell.jobs, timebell.slots, timebell.agendas, timebell.job_keys;
    """)
    return owner


async def due(owner: Owner) -> list[dict[str, Any]]:
    return await owner.rows(
        "SELECT id, slot, subject FROM timebell.jobs WHERE subject LIKE 'due:%' ORDER BY id"
    )


def widen(value: object) -> object:
    """As much for a whole batch as there is for twenty."""
    return value[:1] * BATCH if isinstance(value, list) and len(value) == 20 else value


def columns(count: int, **values: object) -> dict[str, object]:
    return {name: [value] * count for name, value in values.items()}


async def arguments_of(owner: Owner) -> dict[str, Mapping[str, object]]:
    """What each statement is given by a node that owns every slot and has twenty jobs at hand."""
    jobs = await due(owner)
    ids = [job["id"] for job in jobs]
    one = ids[0]
    fence: dict[str, object] = {
        "slots": [job["slot"] for job in jobs],
        "epochs": [1] * len(jobs),
        "incarnation": 1,
        "lock_timeout": "50ms",
        "now": NOW,
    }
    visits: dict[str, object] = {
        "visited_slots": fence["slots"],
        "visited_epochs": [2] * len(jobs),
    }
    ending = columns(20, versions=1, states="dead", attempts=1, cut_offs=False) | columns(
        20, reasons=None, error_classes=None, errors=None, fingerprints=None, started_ats=None
    )
    retrying = columns(20, versions=1, delays=60.0, attempts=1, tries=1) | columns(
        20,
        run_ats=None,
        reasons=None,
        error_classes=None,
        errors=None,
        fingerprints=None,
        cursors=None,
        started_ats=None,
    )
    lost = {name: fence[name] for name in ("slots", "epochs", "incarnation")} | BLAME
    places = [(slot, lane) for slot in range(256) for lane in (0, 1)]
    return {
        "read_due": {
            "slots": [slot for slot, _ in places],
            "lanes": [lane for _, lane in places],
            "from_ats": [NOW - timedelta(seconds=5)] * len(places),
            "from_ids": [FIRST_ID] * len(places),
            "until": NOW,
            "now": NOW,
            "per_slot": 8,
            "tenant": None,
            "passed_over": None,
            "queue": None,
            "visited_kinds": None,
            "left_kinds": None,
        },
        "start_jobs": {"ids": ids, "version": 1, **fence, **visits},
        "finish_jobs": {"ids": ids, "version": 1, "firsts": [1], "started_ats": [None], **fence},
        "end_jobs": {"ids": ids, **ending, **fence, **visits},
        "retry_jobs": {"ids": ids, **retrying, **fence, **visits},
        "lock_job": {"id": one, "version": 1, "epoch": 1, "incarnation": 1, "now": NOW},
        "lock_free_jobs": {"ids": ids},
        "give_back_jobs": {"ids": ids, "versions": [1] * 20, "incarnation": 1},
        "recover_jobs": {"ids": ids, "now": NOW, **lost},
        "beat_job": {"id": one, "version": 1, "incarnation": 1, "cursor": None},
        "park_jobs": {
            "ids": ids,
            **{name: fence[name] for name in ("slots", "epochs", "incarnation")},
            **visits,
        },
        "unpark_jobs": {"slots": list(range(256)), "held": [], "per_slot": 4, "limit": 1000, **_KINDS},
        "read_next_due": {"after": NOW},
        "read_payload": {"id": one, "version": 1},
        "confirm_jobs": {"ids": ids, "versions": [1] * 20},
    }


HOT = [
    "read_due",
    "start_jobs",
    "finish_jobs",
    "end_jobs",
    "retry_jobs",
    "lock_job",
    "lock_free_jobs",
    "give_back_jobs",
    "recover_jobs",
    "beat_job",
    "park_jobs",
    "unpark_jobs",
    "read_next_due",
    "read_payload",
    "confirm_jobs",
]


async def explain(owner: Owner, query: Query, arguments: Mapping[str, object]) -> dict[str, Any]:
    """The plan as it is carried out, undone afterwards. Prepared, so that the plan may be the generic one."""
    connection = owner.connection
    transaction = connection.transaction()
    await transaction.start()
    try:
        # Planned as the role of the nodes: the wall between tenants is part of its plans.
        await connection.execute("SET LOCAL ROLE timebell")
        statement = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query.text}"
        (row,) = await connection.fetch(statement, *query.arguments(arguments))
        plan: dict[str, Any] = json.loads(row[0])[0]["Plan"]
        return plan
    finally:
        await transaction.rollback()


def walks(plan: Mapping[str, Any]) -> list[str]:
    """Where the plan walks a whole table of jobs."""
    here = [plan["Relation Name"]] if plan["Node Type"] == "Seq Scan" else []
    below = [each for child in plan.get("Plans", ()) for each in walks(child)]
    return [name for name in (*here, *below) if name == "jobs"]


def indexes(plan: Mapping[str, Any]) -> set[str]:
    below = {each for child in plan.get("Plans", ()) for each in indexes(child)}
    return below | ({plan["Index Name"]} if "Index Name" in plan else set())


@pytest.mark.req("R-2.4")
async def test_no_hot_statement_walks_the_table(crowded: Owner) -> None:
    """What is due is found by the index of what is owed, in which nothing else ever is."""
    arguments = await arguments_of(crowded)
    complaints = []
    for mode, name in product(PLAN_MODES, HOT):
        await crowded.connection.execute(f"SET plan_cache_mode = {mode}")
        plan = await explain(crowded, (KERNEL | ENGINE)[name], arguments[name])
        if walks(plan):
            complaints.append(f"{name} walks the whole table, {mode}")
        if pages(plan) > pages_max(name):
            complaints.append(f"{name} touches {pages(plan)} pages, {mode}")
        if name == "read_due" and "jobs_due" not in indexes(plan):
            complaints.append(f"{name} goes by {indexes(plan)}, {mode}")
    assert complaints == []


async def test_a_full_batch_does_not_walk_the_table_either(crowded: Owner) -> None:
    """Many at once look as if reading everything were cheaper, and more so with a price for each."""
    jobs = await crowded.rows(
        f"SELECT id, slot FROM timebell.jobs WHERE subject IS NOT NULL ORDER BY id LIMIT {BATCH}"
    )
    ids, slots = [job["id"] for job in jobs], sorted({job["slot"] for job in jobs})
    fence = {"slots": slots, "epochs": [1] * len(slots), "visited_slots": [], "visited_epochs": []}
    complaints = []
    for mode, (name, given) in product(PLAN_MODES, (await arguments_of(crowded)).items()):
        if "ids" not in given:
            continue
        widened = {key: widen(value) for key, value in given.items()}
        arguments = widened | {key: value for key, value in fence.items() if key in given} | {"ids": ids}
        if name == "recover_jobs":
            arguments |= {"slots": [job["slot"] for job in jobs], "epochs": [1] * BATCH}
        await crowded.connection.execute(f"SET plan_cache_mode = {mode}")
        if walks(await explain(crowded, (KERNEL | ENGINE)[name], arguments)):
            complaints.append(f"{name}, {mode}")
    assert complaints == []


async def test_the_guard_itself_notices_a_walk(crowded: Owner) -> None:
    query = Query(name="walk", text="SELECT count(*) FROM timebell.jobs WHERE attempt = 0", parameters=())
    plan = await explain(crowded, query, {})
    assert walks(plan) == ["jobs"]
    assert pages(plan) > pages_max("walk")


def looks(plan: Mapping[str, Any], table: str) -> int:
    """How often a plan goes to a table."""
    here = plan["Actual Loops"] if plan.get("Relation Name") == table else 0
    return here + sum(looks(child, table) for child in plan.get("Plans", ()))


async def test_what_was_asked_to_be_cancelled_is_read_once_for_a_batch(crowded: Owner) -> None:
    """It stands in the way of every start and is almost always nothing."""
    arguments = await arguments_of(crowded)
    for mode, name in product(PLAN_MODES, ("start_jobs", "retry_jobs", "lock_job", "beat_job")):
        await crowded.connection.execute(f"SET plan_cache_mode = {mode}")
        plan = await explain(crowded, (KERNEL | ENGINE)[name], arguments[name])
        # Once where a job begins, and once more where what it is told is read.
        assert looks(plan, "cancel_requests") <= 2, f"{name}, {mode}"


async def test_a_cancel_goes_by_its_index(crowded: Owner) -> None:
    """Its statements stand in a function; what they touch tells how they went."""
    (job, *_) = await due(crowded)
    query = Query(
        name="cancel",
        text="SELECT * FROM timebell.cancel_or_request('default', $1, NULL, NULL, $2, 'no', NULL, NULL, 1000, $3)",
        parameters=("id", "subject", "now"),
    )
    for mode, named_by in product(PLAN_MODES, ("id", "subject")):
        await crowded.connection.execute(f"SET plan_cache_mode = {mode}")
        arguments = {"id": None, "subject": None, "now": NOW, named_by: job[named_by]}
        # The first call reads the catalogue for the function's own plans.
        await explain(crowded, query, arguments)
        plan = await explain(crowded, query, arguments)
        assert plan["Actual Rows"] == 1
        assert pages(plan) < pages_max("cancel"), f"by {named_by}, {mode}"


async def test_a_bounded_sweep_is_cheap_beside_dead_entries_that_a_snapshot_keeps(
    crowded: Owner, caller: Any
) -> None:
    """Failure 9: from the beginning of time the same read walks every one of them."""
    await crowded.connection.execute(f"""
        INSERT INTO timebell.jobs (id, tenant, queue, kind, run_at, due_at, payload)
        SELECT gen_random_uuid(), 'default', 'default', 't.act', timestamptz '{NOW}' - interval '1 hour',
            timestamptz '{NOW}', '{{}}' FROM generate_series(1, 50000)
    """)
    await caller.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await caller.execute("SELECT count(*) FROM timebell.jobs")
    await crowded.connection.execute(
        "DELETE FROM timebell.jobs WHERE run_at < $1", NOW - timedelta(minutes=1)
    )
    bounded = dict((await arguments_of(crowded))["read_due"])
    unbounded = {**bounded, "from_ats": [datetime(1970, 1, 1, tzinfo=UTC)] * 512}
    costs = []
    for arguments in (bounded, unbounded):
        plan = await explain(crowded, ENGINE["read_due"], arguments)
        assert plan["Actual Rows"] == 20
        costs.append(pages(plan))
    assert costs[0] < pages_max("read_due")
    assert costs[1] > 10 * costs[0]
