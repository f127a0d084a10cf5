"""Idempotency keys: one execution for one key, whatever happens on the way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import httpx2
import pytest
import pytest_asyncio

from tests.web.bells import ROUTES
from tests.web.support import Site, open_site, problem
from timebell.clock import ManualClock
from timebell.kernel import Enqueue
from timebell.testing.database import TestDatabase

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
OTHER_ID = "01890a5d-ac96-774b-bcce-b302099a8058"


class Stop:
    """Stops whoever comes to a statement until the test lets go."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.reached = asyncio.Event()
        self.let_go = asyncio.Event()

    async def before(self, name: str) -> None:
        if name == self._name and not self.reached.is_set():
            self.reached.set()
            await self.let_go.wait()

    async def after(self, name: str) -> None:
        pass


@pytest_asyncio.fixture
async def site(database_url: TestDatabase) -> AsyncIterator[Site]:
    async with open_site(database_url, routes=ROUTES) as opened:
        yield opened


async def make(site: Site, name: str = "x", *, once: str = "k1", **options: Any) -> httpx2.Response:
    return await site.post("/api/bells", {"name": name}, headers={"idempotency-key": once}, **options)


async def job_count(site: Site) -> int:
    count: int = await site.tables.value("SELECT count(*) FROM timebell.jobs")
    return count


@pytest.mark.req("M-8.1")
async def test_a_change_of_state_needs_a_key(site: Site) -> None:
    async with site.bell.transaction() as tx:
        person = await site.surface.notify.recipients.add(tx, name="me")
    path = f"/api/bells/{ID}/ring"
    problem(await site.post(path, actor=person.id), 400, "idempotency_key_required")
    for wrong in ("", "a b", "x" * 256, '""'):
        refused = await site.post(path, actor=person.id, headers={"idempotency-key": wrong})
        assert refused.status_code == 400, wrong
    assert await job_count(site) == 0
    assert (await site.post(path, actor=person.id, headers={"idempotency-key": "k"})).status_code == 200


@pytest.mark.req("M-8.2")
async def test_a_key_belongs_to_one_request(site: Site) -> None:
    assert (await make(site)).status_code == 201
    problem(await make(site, "y"), 422, "idempotency_key_reused")
    ring = {"idempotency-key": "r"}
    async with site.bell.transaction() as tx:
        one, two = [await site.surface.notify.recipients.add(tx, name=name) for name in ("one", "two")]
    assert (await site.post(f"/api/bells/{ID}/ring", actor=one.id, headers=ring)).status_code == 200
    other_path = await site.post(f"/api/bells/{OTHER_ID}/ring", actor=one.id, headers=ring)
    problem(other_path, 422, "idempotency_key_reused")
    # Another person, another tenant and another operation have keys of their own.
    theirs = await site.post(f"/api/bells/{ID}/ring", actor=two.id, headers=ring)
    assert "idempotent-replayed" not in theirs.headers
    assert (await make(site, key="other")).headers.get("idempotent-replayed") is None
    assert (await make(site, "y", once="r")).status_code == 201
    # The order of names and the blanks between them are no difference.
    same = await site.ask(
        "POST",
        "/api/bells",
        content=b' { "name" :"x" } ',
        headers={"idempotency-key": '"k1"', "content-type": "application/json"},
    )
    assert same.headers["idempotent-replayed"] == "true"


async def test_what_is_sent_to_an_operation_without_a_body_is_not_minded(site: Site) -> None:
    async with site.bell.transaction() as tx:
        person = await site.surface.notify.recipients.add(tx, name="me")
    answers = [
        await site.ask(
            "POST",
            f"/api/bells/{ID}/ring",
            actor=person.id,
            content=b"[" * deep + b"]" * deep,
            headers={"idempotency-key": "k"},
        )
        for deep in (500, 0)
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[1].headers["idempotent-replayed"] == "true"


@pytest.mark.req("M-8.3")
async def test_the_first_answer_is_given_again_for_a_day(database_url: TestDatabase) -> None:
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    async with open_site(database_url, routes=ROUTES, clock=clock) as site:
        first = await make(site)
        assert first.headers["idempotency-expires"] == "2026-03-02T00:00:00Z"
        clock.move(timedelta(hours=24) - timedelta(seconds=1))
        again = await make(site)
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert again.headers["idempotent-replayed"] == "true"
        assert again.headers["etag"] == first.headers["etag"]
        assert again.headers["idempotency-expires"] == first.headers["idempotency-expires"]
        assert await job_count(site) == 1
        clock.move(timedelta(seconds=1))
        new = await make(site)
        assert "idempotent-replayed" not in new.headers
        assert new.json()["id"] != first.json()["id"]
        assert await job_count(site) == 2


@pytest.mark.req("M-8.4")
async def test_a_second_request_while_the_first_runs_is_told_so(database_url: TestDatabase) -> None:
    stop = Stop("insert_jobs")
    async with open_site(database_url, routes=ROUTES, gate=stop) as site:
        first = asyncio.create_task(make(site))
        async with asyncio.timeout(10):
            await stop.reached.wait()
        refused = await make(site)
        problem(refused, 409, "idempotency_key_in_use")
        assert refused.headers["retry-after"] == "1"
        stop.let_go.set()
        assert (await first).status_code == 201
        assert (await make(site)).headers["idempotent-replayed"] == "true"
        assert await job_count(site) == 1


@pytest.mark.req("M-8.5")
async def test_what_fails_frees_the_key(site: Site) -> None:
    for _ in range(2):
        assert (await make(site, "fail")).status_code == 500
    assert await job_count(site) == 0
    assert await site.tables.value("SELECT count(*) FROM timebell_web.replies") == 0
    problem(await make(site, "", once="k2"), 422, "invalid_input")
    assert (await make(site, once="k2")).status_code == 201


@pytest.mark.req("M-8.5")
async def test_whoever_dies_with_a_key_leaves_it_free(database_url: TestDatabase) -> None:
    stop = Stop("insert_jobs")
    async with open_site(database_url, routes=ROUTES, gate=stop) as site:
        first = asyncio.create_task(make(site))
        async with asyncio.timeout(10):
            await stop.reached.wait()
        # The process is gone, as its database sees it.
        admin = await asyncpg.connect(database_url.admin_url)
        gone = await admin.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')"
        )
        await admin.close()
        assert gone == 1
        assert (await make(site)).status_code == 201
        stop.let_go.set()
        assert (await first).status_code == 503
        assert await job_count(site) == 1


async def test_a_refusal_for_good_is_given_again_and_writes_nothing(site: Site) -> None:
    first = await make(site, "refuse")
    problem(first, 409, "bell_refused")
    again = await make(site, "refuse")
    assert (again.status_code, again.content) == (409, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    assert (await make(site, "unknown", once="k2")).status_code == 404
    assert await job_count(site) == 0


async def test_a_dry_run_does_not_use_the_key_up(site: Site) -> None:
    dry = await site.post("/api/bells?dry_run=true", {"name": "x"}, headers={"idempotency-key": "k1"})
    assert dry.status_code == 201
    assert "idempotent-replayed" not in (await make(site)).headers


async def hammer(site: Site, keys: int, times: int) -> None:
    """One execution for each key; the others hear the same answer, or that it is under way."""
    answers: dict[str, list[httpx2.Response]] = {}

    async def one(once: str) -> None:
        answers.setdefault(once, []).append(await make(site, once, once=once))

    for number in range(keys):
        await asyncio.gather(*(one(f"k{number}") for _ in range(times)))
    assert await job_count(site) == keys
    for found in answers.values():
        new = [
            each for each in found if "idempotent-replayed" not in each.headers and each.status_code == 201
        ]
        assert len(new) == 1
        counts = Counter(each.status_code for each in found)
        assert counts.keys() <= {201, 409}, counts
        assert {each.json()["id"] for each in found if each.status_code == 201} == {new[0].json()["id"]}


async def test_requests_with_one_key_at_once_are_executed_once(site: Site) -> None:
    await hammer(site, keys=5, times=50)


@pytest.mark.slow
async def test_many_keys_under_pressure_are_executed_once_each(site: Site) -> None:
    await hammer(site, keys=200, times=50)


class LostAnswer:
    """Once it is armed, the answer to the next commit of jobs is lost on its way. What is only read meanwhile, by
    whoever looks which kinds can be run, is answered."""

    def __init__(self) -> None:
        self.is_armed = False
        self.has_written = False
        self.readers: set[asyncio.Task[Any] | None] = set()

    async def before(self, name: str) -> None:
        """Nothing is lost before it was said."""

    async def after(self, name: str) -> None:
        if name == "insert_jobs":
            self.has_written = True
        elif name.startswith("read_"):
            self.readers.add(asyncio.current_task())
        is_lost = self.is_armed and self.has_written and asyncio.current_task() not in self.readers
        if name == "COMMIT" and is_lost:
            self.is_armed = False
            raise ConnectionResetError


async def test_jobs_that_came_together_are_not_written_again_when_the_answer_is_lost(
    database_url: TestDatabase,
) -> None:
    lost = LostAnswer()
    async with open_site(database_url, gate=lost) as site:
        lost.is_armed = True
        answers = await asyncio.gather(
            *(site.surface.jobs.enqueue("default", Enqueue(kind="office.ring")) for _ in range(3)),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers] == [ConnectionResetError] * 3
        assert await job_count(site) == 3
