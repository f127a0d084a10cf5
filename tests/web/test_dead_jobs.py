"""`/v1/dead-jobs`: what was given up, why, and what an operator does about it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.store.insights_support import bury
from tests.store.support import NOW
from tests.web.support import OTHER, Site, problem

UNHEARD_OF = "01890a5d-ac96-774b-bcce-b302099a8057"
MINUTE = timedelta(minutes=1)


async def buried(site: Site, count: int, **values: Any) -> list[str]:
    """Dead jobs, each a minute after the one before."""
    return [str(await bury(site.tables, died_at=NOW + n * MINUTE, **values)) for n in range(count)]


def once(key: str) -> dict[str, str]:
    return {"idempotency-key": key}


async def ids(site: Site, query: str) -> list[str]:
    found: list[str] = []
    cursor = ""
    for _ in range(10):
        page = (await site.get(f"/v1/dead-jobs?limit=2&{query}{cursor}", key="read")).json()
        found += [job["id"] for job in page["data"]]
        if not page["has_more"]:
            return found
        cursor = f"&cursor={page['next_cursor']}"
    raise AssertionError("it has no end")


async def test_dead_jobs_are_listed_as_they_died(site: Site) -> None:
    rung = await buried(
        site, 3, fingerprint="f1", error="no answer", error_class="OSError", payload='{"a": 1}'
    )
    posted = await buried(site, 1, kind="office.post", queue="mail", fingerprint="f2")
    await buried(site, 2, tenant=OTHER)
    assert await ids(site, "") == [rung[0], posted[0], rung[1], rung[2]]
    assert await ids(site, "sort=-died_at") == [rung[2], rung[1], posted[0], rung[0]]
    assert await ids(site, "fingerprint=f1") == rung
    assert await ids(site, "fingerprint=f1&sort=-died_at") == rung[::-1]
    assert await ids(site, "kind=office.post") == await ids(site, "queue=mail") == posted
    [first] = (await site.get("/v1/dead-jobs?limit=1", key="read")).json()["data"]
    assert (first["payload"], first["error"], first["died_at"]) == (
        {"a": 1},
        "no answer",
        "2027-03-01T09:00:00Z",
    )
    jobs = (await site.get("/v1/jobs?state=dead", key="read")).json()["data"]
    assert [job["id"] for job in jobs] == [rung[0], posted[0], rung[1], rung[2]]
    backwards = (await site.get("/v1/jobs?state=dead&sort=-created_at", key="read")).json()["data"]
    assert [job["id"] for job in backwards] == [rung[2], rung[1], posted[0], rung[0]]


async def test_causes_come_with_how_many_died_of_them(site: Site) -> None:
    await buried(site, 3, fingerprint="f1", error="no answer")
    [newest] = [str(await bury(site.tables, died_at=NOW + 9 * MINUTE, fingerprint="f2"))]
    await buried(site, 2, tenant=OTHER, fingerprint="f1")
    groups = (await site.get("/v1/dead-jobs/groups", key="read")).json()["data"]
    assert [(group["fingerprint"], group["job_count"]) for group in groups] == [("f2", 1), ("f1", 3)]
    assert groups[0]["example_id"] == newest
    assert "tenant" not in groups[0]


async def test_one_is_revived_with_another_payload(site: Site) -> None:
    [id] = await buried(site, 1, payload='{"a": 1}')
    problem(await site.post(f"/v1/dead-jobs/{id}/revive"), 400, "idempotency_key_required")
    body = {"payload": {"a": 2}}
    assert (await site.post(f"/v1/dead-jobs/{id}/revive", body, headers=once("a"))).json() == {"ids": [id]}
    job = await site.tables.job(UUID(id))
    assert (job["payload_text"], job["attempt"]) == ('{"a": 2}', 0)
    problem(await site.post(f"/v1/dead-jobs/{id}/revive", headers=once("b")), 404, "not_found")
    [entry] = await site.tables.log(UUID(id))
    assert (entry["reason"], entry["actor"][:12]) == ("revived", "key:tb_live_")


async def test_a_job_of_timebells_own_keeps_its_payload(site: Site) -> None:
    [id] = await buried(site, 1, kind="notify.deliver", queue="notify", payload='{"a": 1}')
    path, body = f"/v1/dead-jobs/{id}/revive", {"payload": {"a": 2}}
    content = problem(await site.post(path, body, headers=once("a")), 422, "invalid_input")
    assert [error["pointer"] for error in content["errors"]] == ["/payload"]
    assert (await site.post(path, headers=once("a"))).json() == {"ids": [id]}
    assert (await site.tables.job(UUID(id)))["payload_text"] == '{"a": 1}'


async def test_one_whose_key_stands_for_another_stays_dead(site: Site) -> None:
    [id] = await buried(site, 1, key="welcome")
    await site.post("/v1/jobs", {"kind": "office.ring", "key": "welcome", "delay": "PT1H"})
    problem(await site.post(f"/v1/dead-jobs/{id}/revive", headers=once("a")), 409, "key_conflict")
    assert await ids(site, "") == [id]


async def test_one_is_discarded(site: Site) -> None:
    [id] = await buried(site, 1)
    assert (await site.ask("POST", f"/v1/dead-jobs/{id}/discard", headers=once("a"))).json() == {"ids": [id]}
    assert await ids(site, "") == []
    for verb in ("revive", "discard"):
        problem(await site.ask("POST", f"/v1/dead-jobs/{id}/{verb}", headers=once("b")), 404, "not_found")
        path = f"/v1/dead-jobs/{UNHEARD_OF}/{verb}"
        problem(await site.ask("POST", path, headers=once("c")), 404, "not_found")


async def test_many_are_revived_at_a_rate_and_many_discarded(site: Site) -> None:
    alike = await buried(site, 4, fingerprint="f1")
    others = await buried(site, 2, kind="office.post")
    theirs = await buried(site, 1, tenant=OTHER, fingerprint="f1")
    body = {"fingerprint": "f1", "per_second": 0.1, "limit": 3}
    revived = (await site.post("/v1/dead-jobs/revive", body, headers=once("a"))).json()["ids"]
    assert sorted(revived) == sorted(alike[:3])
    jobs = sorted(await site.tables.jobs(), key=lambda job: job["run_at"])
    assert [jobs[n + 1]["run_at"] - jobs[n]["run_at"] for n in range(2)] == [timedelta(seconds=10)] * 2
    body = {"ids": [*others, *theirs, UNHEARD_OF]}
    discarded = (await site.post("/v1/dead-jobs/discard", body, headers=once("b"))).json()["ids"]
    assert sorted(discarded) == sorted(others)
    assert await ids(site, "") == [alike[3]]
    left = (await site.get("/v1/dead-jobs", key=OTHER)).json()["data"]
    assert [job["id"] for job in left] == theirs


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/ids"),
        ({"ids": []}, "/ids"),
        ({"ids": ["x"]}, "/ids/0"),
        ({"kind": "a.b", "per_second": 0}, "/per_second"),
        ({"kind": "a.b", "limit": 0}, "/limit"),
        ({"kind": "a.b", "payload": {}}, "/payload"),
    ],
)
async def test_what_is_refused(site: Site, body: dict[str, Any], pointer: str) -> None:
    response = await site.post("/v1/dead-jobs/revive", body, headers=once("a"))
    assert problem(response, 422, "invalid_input")["errors"][0]["pointer"] == pointer
