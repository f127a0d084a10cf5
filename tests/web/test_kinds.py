"""Kinds that an app keeps from tenants: nobody asks for their jobs over HTTP, in whatever way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.web.support import OTHER, Site, open_site, problem
from timebell.brokers.local import LocalBroker
from timebell.errors import ConfigurationError
from timebell.kernel import App, Done, Job, Outcome, Registry
from timebell.testing.database import TestDatabase


async def ring(job: Job) -> Outcome:
    return Done()


def for_the_first(tenant: str) -> str | None:
    return None if tenant == "default" else "is for the tenant default alone"


APP = App(
    name="office", handlers={"office.ring": ring, "office.call": ring}, refuses={"office.call": for_the_first}
)
CALL = {"kind": "office.call", "delay": "P1D"}
SCHEDULE = {"timezone": "Europe/Berlin", "start_local": "2031-03-05T17:00:00", "recurrence": "FREQ=WEEKLY"}


def step(kind: str) -> dict[str, Any]:
    return {"key": kind, "kind": kind, "offset": "PT0S"}


@pytest_asyncio.fixture
async def site(database_url: TestDatabase) -> AsyncIterator[Site]:
    async with open_site(database_url, apps=(APP,)) as opened:
        yield opened


@pytest.mark.parametrize("headers", [{}, {"idempotency-key": "once"}])
async def test_one_job(site: Site, headers: dict[str, str]) -> None:
    refused = problem(await site.post("/v1/jobs", CALL, key=OTHER, headers=headers), 403, "kind_refused")
    assert refused["detail"] == "kind: is for the tenant default alone"
    assert [error["pointer"] for error in refused["errors"]] == ["/kind"]
    assert await site.tables.jobs() == []
    assert (await site.post("/v1/jobs", CALL, headers=headers)).status_code == 201


async def test_of_many_jobs_those_are_refused(site: Site) -> None:
    body = {"jobs": [CALL, {"kind": "office.ring"}, CALL]}
    results = (await site.post("/v1/jobs/bulk", body, key=OTHER)).json()
    assert results["refused_count"] == 2
    assert [each["refusal"] and each["refusal"]["status"] for each in results["data"]] == [403, None, 403]
    assert results["data"][2]["refusal"]["errors"][0]["pointer"] == "/jobs/2/kind"
    assert (await site.post("/v1/jobs/bulk", body)).json()["refused_count"] == 0


async def test_the_steps_of_schedules(site: Site) -> None:
    asked = {**SCHEDULE, "steps": [step("office.ring"), step("office.call")]}
    refused = problem(await site.post("/v1/schedules", asked, key=OTHER), 403, "kind_refused")
    assert [error["pointer"] for error in refused["errors"]] == ["/steps/1/kind"]
    assert (await site.post("/v1/schedules", asked)).status_code == 201
    fine = await site.post("/v1/schedules", {**SCHEDULE, "steps": [step("office.ring")]}, key=OTHER)
    path = f"/v1/schedules/{fine.json()['id']}"
    steps = {"steps": [step("office.call")]}
    problem(await site.ask("PATCH", path, json=steps, key=OTHER), 403, "kind_refused")
    split = {"original_local": "2031-03-12T17:00:00", **steps}
    problem(await site.post(f"{path}/split", split, key=OTHER), 403, "kind_refused")
    assert (await site.ask("PATCH", path, json={"owner": "ada"}, key=OTHER)).status_code == 200


@pytest.mark.parametrize(
    ("settings", "statuses"),
    [
        ({}, [201, 403]),
        ({"broker_tenant": OTHER}, [403, 201]),
        ({"broker_trusts_tenant": True}, [201, 201]),
    ],
)
async def test_the_broker_is_one_tenants_unless_all_are_trusted(
    database_url: TestDatabase, settings: dict[str, Any], statuses: list[int]
) -> None:
    body = {"kind": "broker.publish", "payload": {"exchange": "x", "routing_key": "y", "body": 7}}
    async with open_site(database_url, broker=LocalBroker(), **settings) as site:
        answers = [await site.post("/v1/jobs", body, key=key) for key in ("write", OTHER)]
    assert [answer.status_code for answer in answers] == statuses
    for answer in answers:
        if answer.status_code == 403:
            assert "broker_trusts_tenant" in problem(answer, 403, "kind_refused")["detail"]


async def test_a_server_without_a_broker_refuses_the_same(site: Site) -> None:
    """Another process may have one, and would be asked in vain."""
    body = {"kind": "broker.publish", "payload": {"exchange": "x", "routing_key": "y", "body": 7}}
    problem(await site.post("/v1/jobs", body, key=OTHER), 403, "kind_refused")
    problem(await site.post("/v1/jobs", body), 422, "unknown_kind")


def test_one_app_refuses_a_kind() -> None:
    with pytest.raises(ConfigurationError, match=r"the refusal of the kind 'office\.call' is already"):
        Registry([APP, App(name="other", refuses={"office.call": for_the_first})])
