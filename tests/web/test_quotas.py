"""How much a tenant may have: what is too much is refused and writes nothing, many at once as well as
one alone, and the others do not notice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.web.support import OTHER, Site, open_site, problem
from timebell.clock import ManualClock
from timebell.testing.database import TestDatabase
from timebell.web.server.metrics import Metrics

JOB = {"kind": "office.ring", "payload": {"guest": "Ada"}, "delay": "P1D"}
# More than the time for which a count is good while little is left.
LATER = timedelta(seconds=2)


@pytest_asyncio.fixture
async def site(database_url: TestDatabase) -> AsyncIterator[Site]:
    clock = ManualClock()
    async with open_site(
        database_url,
        clock=clock,
        tenant_jobs_max=5,
        tenant_payload_bytes_max=2_000,
        tenant_schedules_max=2,
        tenant_recipients_max=2,
    ) as opened:
        yield opened


def move(site: Site, by: timedelta = LATER) -> None:
    clock = site.surface.bell.clock
    assert isinstance(clock, ManualClock)
    clock.move(by)


async def enqueue(site: Site, count: int = 1, *, key: str = OTHER, **job: Any) -> httpx2.Response:
    return await site.post("/v1/jobs/bulk", {"jobs": [{**JOB, **job}] * count}, key=key)


def refused(response: httpx2.Response, quota: str, limit: int) -> dict[str, Any]:
    content = problem(response, 429, "quota_exceeded")
    assert (content["quota"], content["limit"]) == (quota, limit)
    assert f"{quota}: this tenant may have {limit}" in content["detail"]
    assert "ask whoever runs the server" in content["detail"]
    assert int(response.headers["retry-after"]) > 0
    return content


async def jobs_of(site: Site, tenant: str = OTHER) -> int:
    count: int = await site.tables.value("SELECT count(*) FROM timebell.jobs WHERE tenant = $1", tenant)
    return count


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs/bulk"])
async def test_one_who_has_too_many_jobs_waits_and_the_other_goes_on(site: Site, path: str) -> None:
    assert (await enqueue(site, 5)).status_code == 200
    move(site)
    body = JOB if path == "/v1/jobs" else {"jobs": [JOB]}
    for headers in ({}, {"idempotency-key": "k1"}):
        refused(await site.post(path, body, key=OTHER, headers=headers), "pending_jobs", 5)
    assert await jobs_of(site) == 5
    assert (await enqueue(site, 50, key="write")).status_code == 200, "whoever runs the server has no quota"
    # What was refused for now is no answer for ever.
    await site.tables.value("DELETE FROM timebell.jobs WHERE tenant = $1 RETURNING 1", OTHER)
    move(site)
    once = await site.post(path, body, key=OTHER, headers={"idempotency-key": "k1"})
    assert once.status_code in (200, 201)
    assert await jobs_of(site) == 1


async def test_a_request_that_is_too_much_at_once_writes_nothing(site: Site) -> None:
    refused(await enqueue(site, 6), "pending_jobs", 5)
    assert await jobs_of(site) == 0


async def test_what_was_written_elsewhere_counts_too(site: Site) -> None:
    """Another process took the rest."""
    assert (await enqueue(site)).status_code == 200
    async with site.bell.transaction(tenant=OTHER) as tx:
        for _ in range(4):
            await site.bell.enqueue(tx, "office.ring", {})
    assert await jobs_of(site) == 5, "a program that enqueues by itself meets no quota"
    move(site)
    refused(await enqueue(site), "pending_jobs", 5)


async def test_payloads_count_by_their_size(site: Site) -> None:
    refused(await enqueue(site, 3, payload={"text": "x" * 900}), "payload_bytes", 2_000)
    assert (await enqueue(site, 1, payload={"text": "x" * 900})).status_code == 200


async def test_schedules_and_recipients_are_bounded_for_apps_too(site: Site) -> None:
    schedule = {
        "timezone": "UTC",
        "start_local": "2030-01-01T10:00:00",
        "steps": [{"key": "a", "kind": "office.ring", "offset": "PT0S"}],
    }
    for path, body, quota, leave in (
        ("/v1/schedules", schedule, "schedules", ("POST", "/end")),
        ("/v1/recipients", {"name": "Ada"}, "recipients", ("DELETE", "")),
    ):
        for _ in range(2):
            made = await site.post(path, body, key=OTHER)
            assert made.status_code == 201
        refused(await site.post(path, body, key=OTHER), quota, 2)
        move(site)
        refused(await site.post(path, body, key=OTHER), quota, 2)
        # What has ended, and who was erased, makes room.
        verb, end = leave
        once = {"idempotency-key": quota}
        gone = await site.ask(verb, f"{path}/{made.json()['id']}{end}", key=OTHER, headers=once, json={})
        assert gone.status_code == 200, gone.text
        move(site)
        assert (await site.post(path, body, key=OTHER)).status_code == 201


async def test_the_operator_gives_a_tenant_more_and_takes_it_back(site: Site) -> None:
    path = f"/v1/tenants/{OTHER}/quotas"
    problem(await site.ask("PATCH", path, json={"pending_jobs": 100}, key=OTHER), 403, "default_tenant_only")
    set_ = await site.ask("PATCH", path, json={"pending_jobs": 100, "schedules": 0}, key="admin")
    assert set_.status_code == 200, set_.text
    move(site, timedelta(seconds=10))
    assert (await enqueue(site, 50)).status_code == 200
    own = {one["name"]: one for one in (await site.get(path, key="admin")).json()["quotas"]}
    assert own["pending_jobs"] == {"name": "pending_jobs", "limit": 100, "used": 50, "is_own": True}
    assert own["schedules"]["limit"] == 0
    assert own["recipients"] == {"name": "recipients", "limit": 2, "used": 0, "is_own": False}
    await site.ask("PATCH", path, json={"pending_jobs": None}, key="admin")
    move(site, timedelta(seconds=10))
    refused(await enqueue(site), "pending_jobs", 5)
    problem(
        await site.ask("PATCH", "/v1/tenants/nobody/quotas", json={"schedules": 1}, key="admin"),
        404,
        "not_found",
    )
    problem(await site.ask("PATCH", path, json={"schedules": -1}, key="admin"), 422, "invalid_input")


async def test_a_tenant_sees_its_own_quotas_and_no_others(site: Site) -> None:
    await enqueue(site, 3)
    usage = (await site.get("/v1/usage", key=OTHER)).json()
    assert usage["tenant"] == OTHER
    found = {one["name"]: (one["used"], one["limit"]) for one in usage["quotas"]}
    assert found["pending_jobs"] == (3, 5)
    assert found["payload_bytes"][1] == 2_000
    assert found["requests_per_minute"] == (None, 60_000)
    for tenant in ("default", OTHER):
        problem(await site.get(f"/v1/tenants/{tenant}/quotas", key=OTHER), 403, "default_tenant_only")
    mine = (await site.get("/v1/usage", key="read")).json()
    assert {one["limit"] for one in mine["quotas"]} == {None}


async def test_the_keys_of_a_tenant_share_what_it_may_ask_for(database_url: TestDatabase) -> None:
    async with open_site(database_url, tenant_requests_per_minute=3) as site:
        second = (await site.post("/v1/keys", {"name": "second", "scope": "read"}, key=OTHER)).json()["key"]
        for key in (OTHER, second):
            assert (await site.get("/v1/usage", key=key)).status_code == 200
        answered = await site.get("/v1/usage", key=second)
        assert problem(answered, 429, "rate_limited")["detail"].startswith("this tenant has made 3 requests")
        assert (await site.get("/v1/usage", key="read")).status_code == 200


async def test_the_metrics_count_refusals_without_naming_tenants(site: Site) -> None:
    await enqueue(site, 5)
    move(site)
    await enqueue(site)
    text = (await Metrics(quotas=site.surface.quotas).text()).decode()
    assert 'timebell_quota_refusals_total{quota="pending_jobs"} 1.0' in text
    assert 'timebell_tenants_near_quota{quota="pending_jobs"} 1.0' in text
    assert OTHER not in text


async def test_a_process_that_just_started_lets_nobody_past_a_quota(database_url: TestDatabase) -> None:
    """The first request of a tenant has it counted. Those that come meanwhile wait for the count, too."""
    async with open_site(database_url, tenant_jobs_max=5, tenant_requests_per_minute=10) as site:
        async with site.bell.transaction(tenant=OTHER) as tx:
            for _ in range(5):
                await site.bell.enqueue(tx, "office.ring", {})
        answers = await asyncio.gather(*(enqueue(site) for _ in range(20)))
        assert {answer.status_code for answer in answers} == {429}
        codes = [answer.json()["code"] for answer in answers]
        # On a slow machine the minute goes on meanwhile, and gives back some of it.
        assert 10 <= codes.count("quota_exceeded") < 20
        assert codes.count("quota_exceeded") + codes.count("rate_limited") == 20
        assert await jobs_of(site) == 5


async def test_nobody_waits_for_a_count_while_much_is_left(
    database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_site(database_url, clock=ManualClock()) as site:
        assert (await enqueue(site)).status_code == 200
        store, counting = site.surface.quotas._store, asyncio.Event()
        read_usage = store.read_usage

        async def slowly(*given: Any, **options: Any) -> Any:
            await counting.wait()
            return await read_usage(*given, **options)

        monkeypatch.setattr(store, "read_usage", slowly)
        move(site, timedelta(minutes=5))
        async with asyncio.timeout(30):
            assert (await enqueue(site)).status_code == 200
        counting.set()


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs/bulk"])
async def test_what_stands_there_already_is_no_more(site: Site, path: str) -> None:
    """A job that is stated again under its key writes nothing, so it may be stated at the quota, too."""
    jobs = [{**JOB, "key": f"k{number}"} for number in range(5)]
    assert (await site.post("/v1/jobs/bulk", {"jobs": jobs}, key=OTHER)).status_code == 200
    move(site)
    body = jobs[0] if path == "/v1/jobs" else {"jobs": jobs}
    for _ in range(3):
        assert (await site.post(path, body, key=OTHER)).status_code in (200, 201)
    other = {**JOB, "key": "another"}
    refused(
        await site.post(path, other if path == "/v1/jobs" else {"jobs": [other]}, key=OTHER),
        "pending_jobs",
        5,
    )


async def test_single_jobs_that_come_together_are_refused_each_alone(site: Site) -> None:
    answers = await asyncio.gather(*(site.post("/v1/jobs", JOB, key=OTHER) for _ in range(9)))
    assert sorted(answer.status_code for answer in answers) == [201] * 5 + [429] * 4
    assert await jobs_of(site) == 5


async def test_a_trial_takes_nothing_of_a_quota(site: Site) -> None:
    schedule = {
        "timezone": "UTC",
        "start_local": "2030-01-01T10:00:00",
        "steps": [{"key": "a", "kind": "office.ring", "offset": "PT0S"}],
    }
    for _ in range(3):
        assert (await site.post("/v1/schedules?dry_run=true", schedule, key=OTHER)).status_code == 201
    for _ in range(2):
        assert (await site.post("/v1/schedules", schedule, key=OTHER)).status_code == 201
    refused(await site.post("/v1/schedules?dry_run=true", schedule, key=OTHER), "schedules", 2)
