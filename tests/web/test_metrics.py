"""The metrics: every name that the specification gives, moved by what really happened."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from tests.engine.notify.stage import EMAIL, REMINDER, TITLE
from tests.web.support import Site, open_site
from timebell.db.pool import Database
from timebell.errors import ConfigurationError
from timebell.kernel import App, Dead, Done, Gauge, Job, Measure, Outcome, Queue, Retry, Step
from timebell.kernel.app import Handler
from timebell.kernel.aside import Aside
from timebell.kernel.insights.insights import Insights
from timebell.notify import Notify, notify_app
from timebell.providers.log import captured_providers
from timebell.testing import Harness, harness
from timebell.testing.database import TestDatabase
from timebell.web.server.figures import FigureReader
from timebell.web.server.metrics import Metrics

MINUTE = timedelta(minutes=1)
NAMES = (
    "occurrences_upserted",
    "jobs_upserted",
    "jobs_sent",
    "latency_ms",
)


async def act(job: Job) -> Outcome:
    """As the payload says; at the second attempt everything goes well."""
    match job.payload.get("answer"):
        case "retry" if job.attempt == 1:
            return Retry("not yet")
        case "dead":
            return Dead("never")
    return Done()


OFFICE = App(
    name="office", handlers={"office.act": Handler(run=act, queue="work")}, queues=[Queue(name="work")]
)


class Watched:
    """A node, and what its metrics say."""

    def __init__(self, h: Harness, metrics: Metrics) -> None:
        self.harness = h
        self.metrics = metrics

    async def read(self) -> dict[str, dict[tuple[str, ...], float]]:
        """By the name of the sample, and then by the values of its labels, in the order of their names."""
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families((await self.metrics.text()).decode()):
            for sample in family.samples:
                found.setdefault(sample.name, {})[tuple(dict(sorted(sample.labels.items())).values())] = (
                    sample.value
                )
        return found

    async def enqueue(self, **options: Any) -> Any:
        async with self.harness.bell.transaction() as tx:
            return await self.harness.bell.enqueue(tx, "office.act", **options)


@pytest_asyncio.fixture
async def watched(database_url: TestDatabase) -> AsyncIterator[Watched]:
    reader = await Database.open(database_url.read_url, size=2)
    async with harness(database_url.url, [OFFICE, notify_app(captured_providers())]) as h:
        figures = FigureReader(Insights(reader, h.clock), h.clock)
        yield Watched(h, Metrics(tallies=h.bell.tallies, engine=h.engine, figures=figures))
    await reader.close()


@pytest.mark.req("U-16", "R-9.2")
async def test_every_name_of_the_specification_is_there_from_the_start(watched: Watched) -> None:
    found = await watched.read()
    for name in NAMES:
        assert f"{name}_total" in found or f"{name}_bucket" in found, name
    assert found["timebell_database_up"] == {(): 1}


@pytest.mark.req("J-12.1", "U-16")
async def test_what_became_of_jobs_is_counted_by_queue(watched: Watched) -> None:
    for answer in ("done", "done", "dead", "retry"):
        await watched.enqueue(payload={"answer": answer})
    await watched.harness.advance(timedelta(hours=1))
    found = await watched.read()
    settled = found["timebell_jobs_settled_total"]
    assert settled == {("done", "work"): 3, ("dead", "work"): 1, ("retried", "work"): 1}
    assert found["timebell_jobs_done_after_retry_total"] == {("work",): 1}
    assert found["timebell_jobs_enqueued_total"] == {(): 4}
    assert found["timebell_job_lateness_seconds_count"] == {("work",): 4}
    assert found["timebell_job_duration_seconds_count"] == {("work",): 5}
    assert found["timebell_queue_dead"][("work",)] == 1


@pytest.mark.req("A-9.4", "U-16")
async def test_lateness_is_spread_over_its_bounds(watched: Watched) -> None:
    await watched.enqueue(due_at=watched.harness.clock.now + MINUTE)
    watched.harness.clock.move(by=MINUTE + timedelta(seconds=3))
    await watched.harness.run_due()
    buckets = (await watched.read())["timebell_job_lateness_seconds_bucket"]
    assert (buckets["2", "work"], buckets["5", "work"], buckets["+Inf", "work"]) == (0, 1, 1)
    assert (await watched.read())["timebell_job_lateness_seconds_sum"][("work",)] == pytest.approx(3)


async def test_what_waits_beside_the_loop_is_counted_for_the_whole_process(watched: Watched) -> None:
    """A process has several places of each sort: those of its node, of its API, and of what sends mail."""
    aside, other, goes_on = watched.harness.bell.aside, Aside(), threading.Event()
    watched.metrics.asides += [aside, other]
    under_way = [
        asyncio.create_task(place.short.run("a", "texts", goes_on.wait)) for place in (aside, other, other)
    ]
    await asyncio.sleep(0)
    try:
        found = await watched.read()
        assert found["timebell_aside_running"] == {("short", "texts"): 2}
        assert found["timebell_aside_waiting"] == {("short", "texts"): 1}
    finally:
        goes_on.set()
    await asyncio.gather(*under_way)
    assert (await watched.read())["timebell_aside_running"] == {("short", "texts"): 0}
    other.close()


async def test_what_was_not_committed_is_not_counted(watched: Watched) -> None:
    async def undone() -> None:
        async with watched.harness.bell.transaction() as tx:
            await watched.harness.bell.enqueue(tx, "office.act")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await undone()
    assert (await watched.read())["timebell_jobs_enqueued_total"] == {(): 0}
    first = await watched.enqueue(key="once")
    again = await watched.enqueue(key="once")
    assert (first.created, again.created) == (True, False)
    assert (await watched.read())["timebell_jobs_enqueued_total"] == {(): 1}


@pytest.mark.req("U-16")
async def test_what_is_cancelled_or_withdrawn_is_counted(watched: Watched) -> None:
    bell, due_at = watched.harness.bell, watched.harness.clock.now + MINUTE
    job = await watched.enqueue(due_at=due_at)
    async with bell.transaction() as tx:
        await bell.cancel(tx, id=job.id)
        await bell.cancel(tx, id=job.id)
        steps = [Step(key=name, kind="office.act", at=due_at) for name in ("a", "b")]
        await bell.set_agenda(tx, subject="meeting:1", anchor=due_at, steps=steps)
    async with bell.transaction() as tx:
        await bell.clear_agenda(tx, subject="meeting:1", reason="denied")
    found = await watched.read()
    assert (found["timebell_jobs_enqueued_total"][()], found["timebell_jobs_cancelled_total"][()]) == (3, 3)


@pytest.mark.req("S-6.3", "A-9.2")
async def test_depth_is_what_the_tables_hold(watched: Watched) -> None:
    now = watched.harness.clock.now
    for _ in range(3):
        await watched.enqueue(due_at=now)
    for _ in range(2):
        await watched.enqueue(due_at=now + MINUTE)
    watched.harness.clock.move(by=timedelta(seconds=30))
    found = await watched.read()
    assert (found["timebell_queue_due"][("work",)], found["timebell_queue_future"][("work",)]) == (3, 2)
    assert found["timebell_queue_late_seconds"][("work",)] == pytest.approx(30)
    assert found["timebell_nodes"] == {(): 1}
    assert found.get("timebell_kind_left", {}) == {}


async def test_jobs_that_nobody_can_run_are_counted_by_kind(watched: Watched) -> None:
    for _ in range(3):
        await watched.enqueue(due_at=watched.harness.clock.now)
    async with watched.harness.bell.database.transaction() as session:
        await session.execute("UPDATE timebell.nodes SET kinds = '{}'")
    found = await watched.read()
    assert found["timebell_kind_left"] == {("office.act",): 3}


@pytest.mark.req("R-9.2", "A-9.4", "J-12.1")
async def test_what_was_told_is_counted_by_channel_and_timed(watched: Watched) -> None:
    h = watched.harness
    notify = Notify(h.bell)
    async with h.bell.transaction() as tx:
        recipient = await notify.recipients.add(tx, name="Ada", email=EMAIL)
        await notify.templates.save(tx, REMINDER)
        due_at = h.clock.now + MINUTE
        await notify.tell(tx, recipient=recipient.id, template=REMINDER.key, context=TITLE, due_at=due_at)
    await h.advance(2 * MINUTE)
    found = await watched.read()
    states = {
        (channel, state): count for (channel, _, state), count in found["timebell_deliveries_total"].items()
    }
    assert states == {("email", "suppressed"): 1}
    assert found["jobs_sent_total"] == {(): 1}
    assert found["latency_ms_bucket"][("2000",)] == 1


@pytest.mark.req("R-9.2")
async def test_what_was_planned_is_counted(watched: Watched) -> None:
    h = watched.harness
    async with h.bell.transaction() as tx:
        await h.bell.schedules.create(
            tx,
            timezone="UTC",
            recurrence="FREQ=DAILY",
            start_local=(h.clock.now + MINUTE).replace(tzinfo=None),
            steps=[Step(key="act", kind="office.act", offset=timedelta(0))],
        )
    found = await watched.read()
    planned = found["occurrences_upserted_total"][()]
    tables = await count(h, "SELECT count(*) FROM timebell.occurrences")
    assert planned == found["jobs_upserted_total"][()] == tables > 10
    await h.advance(timedelta(days=10))
    assert (await watched.read())["occurrences_upserted_total"][()] == await count(
        h, "SELECT count(*) FROM timebell.occurrences"
    )


async def count(h: Harness, statement: str) -> int:
    async with h.bell.database.connection() as session:
        found: int = await session.connection.fetchval(statement)
    return found


async def test_without_its_database_the_process_still_tells_what_it_counted(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any, **__: Any) -> None:
        raise asyncpg.CannotConnectNowError("away")

    monkeypatch.setattr(Insights, "depth", away)
    found = await watched.read()
    assert found["timebell_database_up"] == {(): 0}
    assert found["timebell_jobs_enqueued_total"] == {(): 0}
    assert "timebell_queue_due" not in found


async def test_the_database_is_asked_once_however_often_the_page_is(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    real = Insights.depth

    async def counted(self: Insights, *arguments: Any) -> Any:
        asked.append(1)
        return await real(self, *arguments)

    monkeypatch.setattr(Insights, "depth", counted)
    for _ in range(3):
        await watched.read()
    assert len(asked) == 1


class TestRequests:
    @pytest.mark.req("U-16")
    async def test_requests_are_counted_by_route_and_never_by_path(self, site: Site) -> None:
        for path in ("/v1/tenants", "/v1/tenants?limit=1", "/nowhere/1", "/nowhere/2"):
            await site.get(path, key="admin")
        await site.get("/v1/tenants", key=None)
        counts = site.surface.requests.counts
        assert counts["GET", "/v1/tenants", 200] == 2
        assert counts["GET", "/v1/tenants", 401] == 1
        assert counts["GET", "(none)", 404] == 2
        assert sum(spread.count for spread in site.surface.requests.durations.values()) == 5
        page = (await Metrics(requests=site.surface.requests).text()).decode()
        assert 'timebell_http_requests_total{method="GET",route="/v1/tenants",status="401"} 1.0' in page


@pytest_asyncio.fixture
async def site(database_url: TestDatabase) -> AsyncIterator[Site]:
    async with open_site(database_url) as opened:
        yield opened


async def test_what_an_app_counts_and_shows_is_there_under_its_own_names(watched: Watched) -> None:
    metrics, tallies = watched.metrics, watched.harness.bell.tallies
    metrics.apps = [
        App(
            name="post",
            measures=[
                Measure(name="letters", about="Letters that were posted."),
                Measure(name="letters_lost", about="Letters that were lost.", labels=("where",)),
                Measure(name="letter_seconds", about="How long a letter took.", sort="histogram"),
            ],
            gauges=[
                Gauge(name="letters_waiting", about="Letters.", of=lambda depths: depths["work"].due_count),
                Gauge(name="letters_elsewhere", about="Nobody knows.", of=lambda _: None),
            ],
        )
    ]
    found = await watched.read()
    assert (found["letters_total"], found["letter_seconds_count"]) == ({(): 0}, {(): 0})
    assert "letters_elsewhere" not in found
    tallies.add("letters", by=2)
    tallies.add("letters_lost", "at sea")
    tallies.note("letter_seconds", 0.7)
    found = await watched.read()
    assert (found["letters_total"], found["letters_lost_total"]) == ({(): 2}, {("at sea",): 1})
    assert (found["letter_seconds_bucket"]["0.5",], found["letter_seconds_bucket"]["1",]) == (0, 1)
    assert found["letters_waiting"] == {(): 0}


async def test_what_a_node_holds_is_shown(watched: Watched) -> None:
    watched.metrics.holds = watched.harness.bell.holds
    watched.harness.bell.holds.hold("work", "the broker is away")
    assert (await watched.read())["timebell_queue_held"] == {("work",): 1}


@pytest.mark.parametrize("name", ["Letters", "1st", "a-b", "", "a" * 101])
def test_a_measure_has_a_name_that_can_be_shown(name: str) -> None:
    with pytest.raises(ConfigurationError, match="use lower case"):
        Measure(name=name, about="")
