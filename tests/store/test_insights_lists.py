"""The lists: dead jobs and their causes, jobs by state, and one job wherever it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import asyncpg
import orjson
import pytest

from tests.store.insights_support import IDS, MINUTE, SECOND, ago, bury, enqueue, log, write
from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.db.pool import Database
from timebell.errors import InvalidInput
from timebell.kernel import Timebell
from timebell.kernel.insights.insights import Insights
from timebell.kernel.insights.records import ListedState
from timebell.kernel.paging import Page, decode_cursor
from timebell.testing.database import TestDatabase


@pytest.fixture
def insights(bell: Timebell, database: Database, clock: StillClock) -> Insights:
    return Insights(database, clock)


async def all_pages(
    ask: Callable[..., Awaitable[Page[Any]]], *arguments: object, pages_max: int = 50, **options: object
) -> list[list[Any]]:
    pages: list[list[Any]] = []
    cursor: str | None = None
    for _ in range(pages_max):
        page = await ask(*arguments, cursor=cursor, **options)
        pages.append(list(page.lines))
        cursor = page.next_cursor
        if cursor is None:
            return pages
    raise AssertionError(f"more than {pages_max} pages")


def ids(page: Page[Any]) -> list[UUID]:
    return [line.id for line in page.lines]


@pytest.mark.req("U-7", "J-13.3")
async def test_a_dead_job_is_listed_whole(insights: Insights, tables: Tables) -> None:
    id = await bury(
        tables,
        kind="office.post",
        queue="mail",
        subject="guest:1",
        payload='{"to": "ann"}',
        reason="out of attempts",
        error_class="transient",
        error="no answer",
        fingerprint="f1",
        correlation_id="c1",
        max_attempts=3,
    )
    (line,) = (await insights.dead("default")).lines
    assert (line.id, line.kind, line.queue, line.subject) == (id, "office.post", "mail", "guest:1")
    assert (line.payload, line.error, line.attempt, line.correlation_id) == (
        {"to": "ann"},
        "no answer",
        3,
        "c1",
    )
    assert (line.reason, line.error_class, line.fingerprint) == ("out of attempts", "transient", "f1")
    assert (line.died_at, line.due_at, line.created_at) == (NOW, ago(HOUR), ago(2 * HOUR))
    assert orjson.loads(orjson.dumps(line))["id"] == str(id)


async def test_dead_jobs_by_filter_and_page(insights: Insights, tables: Tables) -> None:
    first = await bury(tables, died_at=ago(3 * SECOND), kind="office.post", fingerprint="f1")
    second = await bury(tables, died_at=ago(SECOND), queue="mail", fingerprint="f1")
    third = await bury(tables, died_at=ago(SECOND), fingerprint="f2")
    await bury(tables, tenant="other", fingerprint="f1")
    assert ids(await insights.dead("default")) == [third, second, first]
    assert ids(await insights.dead("default", kind="office.post")) == [first]
    assert ids(await insights.dead("default", queue="mail")) == [second]
    assert ids(await insights.dead("default", fingerprint="f1")) == [second, first]
    assert ids(await insights.dead("default", fingerprint="f1", queue="default")) == [first]
    assert ids(await insights.dead("default", fingerprint="f3")) == []
    pages = await all_pages(insights.dead, "default", limit=1)
    assert [[line.id for line in page] for page in pages] == [[third], [second], [first]]
    pages = await all_pages(insights.dead, "default", fingerprint="f1", limit=1)
    assert [[line.id for line in page] for page in pages] == [[second], [first]]


async def test_a_page_looks_at_a_bounded_number_of_dead_jobs(
    insights: Insights, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timebell.kernel.insights.insights.LOOK_MAX", 2)
    rare = await bury(tables, died_at=ago(HOUR), queue="mail")
    for seconds in range(4):
        await bury(tables, died_at=ago(seconds * SECOND))
    pages = await all_pages(insights.dead, "default", queue="mail")
    assert [[line.id for line in page] for page in pages] == [[], [], [rare]]


@pytest.mark.req("J-13.5")
async def test_failures_are_grouped_by_what_killed(insights: Insights, tables: Tables) -> None:
    for minutes in (30, 20, 10):
        last = await bury(
            tables,
            died_at=ago(minutes * MINUTE),
            fingerprint="f2",
            kind="office.post",
            error_class="transient",
            error=f"no answer {minutes}",
        )
    nameless = await bury(tables, died_at=ago(MINUTE))
    other = await bury(tables, tenant="other", died_at=ago(2 * MINUTE), fingerprint="f2")
    single = await bury(tables, died_at=ago(HOUR), fingerprint="f1")
    groups = (await insights.failures()).lines
    assert [(group.tenant, group.fingerprint, group.example_id, group.job_count) for group in groups] == [
        ("default", None, nameless, 1),
        ("other", "f2", other, 1),
        ("default", "f2", last, 3),
        ("default", "f1", single, 1),
    ]
    assert (groups[2].first_died_at, groups[2].last_died_at) == (ago(30 * MINUTE), ago(10 * MINUTE))
    assert (groups[2].kind, groups[2].error_class, groups[2].error) == (
        "office.post",
        "transient",
        "no answer 10",
    )
    assert [group.example_id for group in (await insights.failures("other")).lines] == [other]
    assert (await insights.failures("nobody")).lines == ()
    pages = await all_pages(insights.failures, limit=1)
    assert [[group.example_id for group in page] for page in pages] == [[nameless], [other], [last], [single]]


async def test_failures_are_counted_up_to_a_bound(
    insights: Insights, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timebell.kernel.insights.insights.ALIKE_MAX", 2)
    for seconds in range(3):
        await bury(tables, died_at=ago(seconds * SECOND), fingerprint="f1")
    await bury(tables, fingerprint="f2")
    await bury(tables, fingerprint="f2")
    counted = {
        group.fingerprint: (group.job_count, group.is_at_least) for group in (await insights.failures()).lines
    }
    assert counted == {"f1": (2, True), "f2": (2, False)}


async def test_unfinished_jobs_by_state_and_filter(insights: Insights, tables: Tables) -> None:
    future = await enqueue(tables, due_at=NOW + HOUR, subject="guest:1", kind="office.post", queue="mail")
    running = await enqueue(tables, started_by=7, started_at=NOW, attempt=1, subject="guest:1")
    parked = await enqueue(tables, lane=2, subject="guest:2")
    await enqueue(tables, tenant="other", subject="guest:1", started_by=7)
    await log(tables, subject="guest:1")

    async def listed(**filters: Any) -> list[UUID]:
        return ids(await insights.jobs("default", **filters))

    assert await listed() == [parked, running, future]
    assert await listed(state="pending") == [parked, future]
    assert await listed(state="running") == [running]
    assert await listed(state="running", queue="mail") == []
    assert await listed(kind="office.post") == [future]
    assert await listed(queue="default") == [parked, running]
    assert await listed(subject="guest:1") == [running, future]
    assert await listed(subject="guest:1", state="running") == [running]
    assert await listed(subject="guest:1", state="pending", kind="office.ring") == []
    lines = {line.id: line for line in (await insights.jobs("default")).lines}
    assert (lines[parked].state, lines[parked].reason) == ("pending", "parked")
    assert (lines[running].state, lines[running].started_at, lines[running].attempt) == ("running", NOW, 1)
    assert (lines[future].run_at, lines[future].reason) == (NOW + HOUR, None)


async def test_a_key_leads_to_its_jobs(insights: Insights, tables: Tables) -> None:
    found = {}
    for tenant, kind in [("default", "office.ring"), ("default", "office.post"), ("other", "office.ring")]:
        id = await enqueue(tables, tenant=tenant, kind=kind, key="k", subject="guest:1")
        await write(tables, "job_keys", tenant=tenant, kind=kind, key="k", job_id=id, fingerprint="")
        found[tenant, kind] = id
    await enqueue(tables, subject="guest:1")
    both = [found["default", "office.post"], found["default", "office.ring"]]
    assert ids(await insights.jobs("default", key="k")) == both
    assert ids(await insights.jobs("default", key="k", kind="office.ring")) == both[1:]
    assert ids(await insights.jobs("default", key="k", subject="guest:2")) == []
    assert ids(await insights.jobs("default", key="k", state="running")) == []
    assert ids(await insights.jobs("default", key="unheard of")) == []
    done = await log(tables, key="k")
    assert ids(await insights.jobs("default", state="done", key="k")) == [done]
    pages = await all_pages(insights.jobs, "default", key="k", limit=1)
    assert [[line.id for line in page] for page in pages] == [[both[0]], [both[1]]]


async def test_finished_jobs_show_what_became_of_them_last(insights: Insights, tables: Tables) -> None:
    done = await log(tables, subject="guest:1", key="k")
    retried = await log(tables, state="pending", reason="retry", version=2, subject="guest:1")
    revived = await log(tables, state="dead", reason="out of attempts", version=4, subject="guest:1")
    await log(tables, id=revived, state="pending", reason="revived", version=5, subject="guest:1")
    discarded = await log(tables, state="dead", reason="out of attempts", version=4, subject="guest:1")
    await log(tables, id=discarded, state="dead", reason="discarded", version=4, subject="guest:1")
    moved = await log(tables, state="cancelled", reason="denied", version=2, subject="guest:2", queue="mail")
    await log(tables, id=moved, state="pending", reason="moved", version=2, subject="guest:2", queue="mail")
    await log(tables, tenant="other", subject="guest:1")

    async def listed(state: ListedState = "finished", **filters: Any) -> list[UUID]:
        return ids(await insights.jobs("default", state=state, **filters))

    assert await listed() == [moved, discarded, done]
    assert await listed("done") == [done]
    assert await listed("cancelled") == [moved]
    assert await listed(subject="guest:1") == [discarded, done]
    assert await listed(subject="guest:1", key="k") == [done]
    assert await listed(queue="mail") == [moved]
    assert await listed("expired") == []
    assert retried not in await listed()
    last = {line.id: line for line in (await insights.jobs("default", state="finished")).lines}
    assert (last[discarded].state, last[discarded].reason) == ("dead", "discarded")
    assert last[done].created_at is not None, "the id says when it was made"


async def test_the_order_of_entries_is_that_of_versions(insights: Insights, tables: Tables) -> None:
    """A caller's transaction may have begun, and be logged, before the attempt that it cancels after."""
    early = await tables.value("SELECT now()")
    id = await log(tables, state="pending", reason="retry", version=2)
    await log(tables, id=id, state="cancelled", version=2, logged_at=early)
    line = await insights.job("default", id)
    assert line is not None
    assert line.state == "cancelled"
    assert ids(await insights.jobs("default", state="finished")) == [id]


async def test_dead_jobs_are_those_that_wait_for_an_operator(insights: Insights, tables: Tables) -> None:
    id = await bury(tables, subject="guest:1", key="k", died_at=NOW, reason="out of attempts")
    await bury(tables, tenant="other", subject="guest:1")
    discarded = await log(tables, state="dead", reason="discarded")
    page = await insights.jobs("default", state="dead")
    assert ids(page) == [id]
    assert (page.lines[0].state, page.lines[0].finished_at, page.lines[0].reason) == (
        "dead",
        NOW,
        "out of attempts",
    )
    assert ids(await insights.jobs("default", state="dead", subject="guest:1", key="k")) == [id]
    assert ids(await insights.jobs("default", state="dead", subject="guest:2")) == []
    assert ids(await insights.jobs("default", state="finished")) == [discarded]


@pytest.mark.parametrize("state", ["unfinished", "pending", "running", "finished", "done"])
async def test_pages_show_every_job_once(insights: Insights, tables: Tables, state: ListedState) -> None:
    if state in ("finished", "done"):
        made = [await log(tables) for _ in range(7)]
    else:
        made = [await enqueue(tables, started_by=7 if state == "running" else None) for _ in range(7)]
    pages = await all_pages(insights.jobs, "default", state=state, limit=3)
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [line.id for page in pages for line in page] == made[::-1]


async def test_a_cursor_is_not_disturbed_by_what_comes_and_goes(insights: Insights, tables: Tables) -> None:
    made = [await enqueue(tables) for _ in range(4)]
    first = await insights.jobs("default", limit=2)
    await enqueue(tables)
    await tables.rows("DELETE FROM timebell.jobs WHERE id = $1", made[2])
    second = await insights.jobs("default", limit=2, cursor=first.next_cursor)
    assert ids(first) + ids(second) == made[::-1]


@pytest.mark.parametrize(("state", "lengths"), [("unfinished", [1, 0, 1]), ("finished", [1, 0, 0, 1])])
async def test_a_page_looks_at_a_bounded_number_of_jobs(
    insights: Insights,
    tables: Tables,
    monkeypatch: pytest.MonkeyPatch,
    state: ListedState,
    lengths: list[int],
) -> None:
    monkeypatch.setattr("timebell.kernel.insights.insights.LOOK_MAX", 3)
    make = enqueue if state == "unfinished" else log
    mine = [await make(tables, tenant="small")]
    for _ in range(6):
        await make(tables, tenant="small", kind="office.book")
        await make(tables, tenant="large")
    mine.append(await make(tables, tenant="small"))
    pages = await all_pages(insights.jobs, "small", state=state, kind="office.ring")
    assert [line.id for page in pages for line in page] == mine[::-1]
    assert [len(page) for page in pages] == lengths


@pytest.mark.parametrize("look_max", [1, 2, 3, 4, 5])
async def test_looking_never_stops_between_two_entries_of_a_job(
    insights: Insights, tables: Tables, monkeypatch: pytest.MonkeyPatch, look_max: int
) -> None:
    monkeypatch.setattr("timebell.kernel.insights.insights.LOOK_MAX", look_max)
    made = []
    for _ in range(3):
        id = await log(tables)
        if look_max > 2:
            await log(tables, id=id, state="pending", reason="retry", version=1)
        made.append(id)
    pages = await all_pages(insights.jobs, "default", state="finished")
    assert [line.id for page in pages for line in page] == made[::-1]


@pytest.mark.req("U-15")
async def test_one_job_is_found_wherever_it_is(insights: Insights, tables: Tables) -> None:
    pending = await enqueue(tables, tenant="a", due_at=NOW + HOUR)
    dead = await bury(tables, tenant="a", reason="out of attempts")
    await log(tables, id=dead, tenant="a", state="dead")
    done = await log(tables, tenant="a")
    await write(
        tables, "nodes", incarnation=7, node="north", version="1", started_at=NOW, lease_until=NOW + HOUR
    )
    running = await enqueue(tables, tenant="a", started_by=7, started_at=NOW)
    lines = [await insights.job("a", id) for id in (pending, dead, done, running)]
    assert [line.state for line in lines if line] == ["pending", "dead", "done", "running"]
    assert [line.node for line in lines if line] == [None, None, None, "north"]
    assert await insights.job("a", IDS.new()) is None
    for id in (pending, dead, done, running):
        assert await insights.job("b", id) is None
        assert await insights.journey("b", id) is None


@pytest.mark.req("U-15")
@pytest.mark.parametrize(
    "state", ["unfinished", "pending", "running", "finished", "done", "dead", "cancelled"]
)
async def test_a_tenant_never_sees_another(insights: Insights, tables: Tables, state: ListedState) -> None:
    """Everything of both tenants has equal names; only the wall tells them apart."""
    theirs = set()
    for tenant in ("a", "b"):
        shared: dict[str, Any] = {"tenant": tenant, "subject": "guest:1", "key": "k"}
        made = [
            await enqueue(tables, **shared),
            await enqueue(tables, **shared, started_by=7),
            await log(tables, **shared),
            await log(tables, **shared, state="cancelled"),
            await bury(tables, **shared, fingerprint="f1"),
        ]
        named = made[1] if state == "running" else made[0]
        await write(
            tables, "job_keys", tenant=tenant, kind="office.ring", key="k", job_id=named, fingerprint=""
        )
        if tenant == "b":
            theirs = set(made)
    for subject, key in [(None, None), ("guest:1", None), (None, "k"), ("guest:1", "k")]:
        lines = (await insights.jobs("a", state=state, subject=subject, key=key)).lines
        assert lines
        assert {line.tenant for line in lines} == {"a"}
    assert {job.tenant for job in (await insights.dead("a")).lines} == {"a"}
    assert {job.tenant for job in (await insights.dead("a", fingerprint="f1")).lines} == {"a"}
    assert {group.example_id for group in (await insights.failures("a")).lines}.isdisjoint(theirs)


@pytest.mark.parametrize("value", ["", "x" * 201, "a\x00b"])
@pytest.mark.parametrize("field", ["subject", "kind", "queue", "key"])
async def test_bad_filters_are_refused(insights: Insights, field: str, value: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await insights.jobs("default", **{field: value})  # type: ignore[arg-type]
    assert refused.value.field == field


async def test_bad_questions_are_refused(insights: Insights) -> None:
    questions: list[tuple[str, Awaitable[Any]]] = [
        ("state", insights.jobs("default", state="failed")),  # type: ignore[arg-type]
        ("limit", insights.jobs("default", limit=0)),
        ("limit", insights.dead("default", limit=501)),
        ("limit", insights.failures(limit=-1)),
        ("cursor", insights.jobs("default", cursor="?")),
        ("cursor", insights.jobs("default", state="dead", cursor="?")),
        ("cursor", insights.dead("default", cursor="?")),
        ("cursor", insights.failures(cursor="?")),
        ("tenant", insights.jobs("")),
        ("tenant", insights.dead("")),
        ("tenant", insights.job("", IDS.new())),
        ("tenant", insights.journey("", IDS.new())),
        ("tenant", insights.depth("")),
        ("tenant", insights.failures("")),
        ("tenant", insights.queues("")),
        ("queue", insights.lateness(queue="")),
    ]
    for field, question in questions:
        with pytest.raises(InvalidInput) as refused:
            await question
        assert refused.value.field == field


async def test_one_lists_cursor_is_no_others(insights: Insights, tables: Tables) -> None:
    for _ in range(2):
        await bury(tables, fingerprint="f1")
    cursor = (await insights.dead("default", limit=1)).next_cursor
    assert cursor is not None
    assert decode_cursor("dead", cursor, dated=True).at == NOW
    with pytest.raises(InvalidInput):
        await insights.jobs("default", state="dead", cursor=cursor)


async def test_every_read_works_where_nothing_can_be_written(
    database_url: TestDatabase, bell: Timebell, clock: StillClock
) -> None:
    admin = await asyncpg.connect(database_url.admin_url)
    await admin.execute(
        f"ALTER ROLE timebell IN DATABASE {database_url.name} SET default_transaction_read_only = on"
    )
    await admin.close()
    database = await Database.open(database_url.url)
    try:
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            async with database.transaction() as session:
                await session.connection.execute("DELETE FROM timebell.jobs")
        reader = Insights(database, clock)
        await reader.depth()
        await reader.lateness()
        await reader.throughput()
        await reader.failures()
        await reader.dead("default")
        states: tuple[ListedState, ...] = ("unfinished", "running", "finished", "dead")
        for state in states:
            await reader.jobs("default", state=state)
            await reader.jobs("default", state=state, subject="s", key="k")
        await reader.journey("default", IDS.new())
        await reader.queues()
        await reader.nodes()
        await reader.breakers()
        await reader.health()
    finally:
        await database.close()
