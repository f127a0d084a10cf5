"""`/v1/jobs`: enqueue one or many, find them again, read what happened, cancel."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from tests.web.support import OTHER, Site, problem

UNHEARD_OF = "01890a5d-ac96-774b-bcce-b302099a8057"
ONCE = {"idempotency-key": "once"}


async def make(site: Site, **body: Any) -> str:
    response = await site.post("/v1/jobs", {"kind": "office.ring", **body})
    assert response.status_code == 201, response.text
    assert response.headers["location"] == f"/v1/jobs/{response.json()['id']}"
    id: str = response.json()["id"]
    return id


@pytest.mark.parametrize("headers", [{}, ONCE])
async def test_a_job_is_enqueued_as_it_was_asked_for(site: Site, headers: dict[str, str]) -> None:
    """Whether it shares its statement with others or has a transaction of its own."""
    body = {
        "kind": "office.post",
        "payload": {"guest": 7, "names": ["é", "😀"]},
        "due_at": "2031-03-29T10:00:00+02:00",
        "subject": "guest:7",
        "key": "welcome",
        "key_lifetime": "P1D",
        "queue": "slow",
        "expires_at": "2031-03-30T10:00:00Z",
        "priority": 5,
        "urgency": "critical",
        "max_attempts": 3,
        "guard": "office.is_open",
    }
    response = await site.post("/v1/jobs", body, headers={"x-correlation-id": "cause-1", **headers})
    assert response.status_code == 201, response.text
    made = response.json()
    assert made["created"] is True
    row = await site.tables.job(UUID(made["id"]))
    assert row["tenant"] == "default"
    assert row["due_at"] == datetime(2031, 3, 29, 8, tzinfo=UTC)
    for name in ("kind", "subject", "key", "queue", "priority", "urgency", "max_attempts", "guard"):
        assert row[name] == body[name], name
    assert row["correlation_id"] == "cause-1"

    job = (await site.get(f"/v1/jobs/{made['id']}", key="read")).json()
    assert (job["state"], job["due_at"], job["run_at"]) == (
        "pending",
        "2031-03-29T08:00:00Z",
        "2031-03-29T08:00:00Z",
    )
    assert "tenant" not in job
    same = await site.post("/v1/jobs", body)
    assert same.json() == {"id": made["id"], "created": False}
    other = {**body, "payload": {"guest": 8}}
    problem(await site.post("/v1/jobs", other), 409, "key_conflict")


async def test_jobs_that_come_together_are_written_together_and_refused_alone(site: Site) -> None:
    bodies: list[dict[str, Any]] = [
        {"kind": "office.ring", "delay": "PT1H", "key": f"k{n % 8}"} for n in range(24)
    ]
    bodies += [{"kind": "nobody.knows"}, {"kind": "office.ring", "queue": "unheard-of"}]
    answers = await asyncio.gather(*(site.post("/v1/jobs", body) for body in bodies))
    assert [answer.status_code for answer in answers] == [201] * 24 + [422] * 2
    assert len({answer.json()["id"] for answer in answers[:24]}) == 8
    assert sum(answer.json()["created"] for answer in answers[:24]) == 8
    assert problem(answers[24], 422, "unknown_kind")["errors"][0]["pointer"] == "/kind"
    assert problem(answers[25], 422, "unknown_queue")["errors"][0]["pointer"] == "/queue"
    assert len(await site.tables.jobs()) == 8


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/kind"),
        ({"kind": "ring"}, "/kind"),
        ({"kind": "office.ring", "delay": "P1M"}, "/delay"),
        ({"kind": "office.ring", "delay": "-PT1H"}, "/delay"),
        ({"kind": "office.ring", "delay": "P36500D"}, "/delay"),
        ({"kind": "office.ring", "delay": "PT1H", "due_at": "2031-01-01T00:00:00Z"}, "/delay"),
        ({"kind": "office.ring", "due_at": "2031-01-01T00:00:00"}, "/due_at"),
        ({"kind": "office.ring", "due_at": 1900000000}, "/due_at"),
        ({"kind": "office.ring", "expires_at": "2001-01-01T00:00:00Z"}, "/expires_at"),
        ({"kind": "office.ring", "key_lifetime": "PT1H"}, "/key_lifetime"),
        ({"kind": "office.ring", "priority": 101}, "/priority"),
        ({"kind": "office.ring", "priority": "1"}, "/priority"),
        ({"kind": "office.ring", "urgency": "asap"}, "/urgency"),
        ({"kind": "office.ring", "subject": ""}, "/subject"),
        ({"kind": "office.ring", "tenant": "other"}, "/tenant"),
        ({"kind": "office.ring", "payload": []}, "/payload"),
        ({"kind": "office.ring", "payload": {"a": "x" * 70_000}}, "/payload"),
    ],
)
async def test_jobs_that_are_refused(site: Site, body: dict[str, Any], pointer: str) -> None:
    response = await site.post("/v1/jobs", body)
    content = problem(response, 422, response.json()["code"])
    assert [error["pointer"] for error in content["errors"]] == [pointer]
    assert await site.tables.jobs() == []


@pytest.mark.parametrize("kind", ["notify.deliver", "notify.apply_reports", "timebell.check"])
async def test_timebells_own_kinds_are_refused(site: Site, kind: str) -> None:
    """Nobody checks their payloads again, and there are routes that write them."""
    content = problem(await site.post("/v1/jobs", {"kind": kind}), 422, "invalid_input")
    [error] = content["errors"]
    assert error["pointer"] == "/kind"
    assert "POST /v1/notifications" in error["message"]
    bulk = (await site.post("/v1/jobs/bulk", {"jobs": [{"kind": kind}, {"kind": "office.ring"}]})).json()
    assert [line["refusal"] is None for line in bulk["data"]] == [False, True]
    assert bulk["data"][0]["refusal"]["errors"][0]["pointer"] == "/jobs/0/kind"
    assert [job["kind"] for job in await site.tables.jobs()] == ["office.ring"]


async def test_of_many_jobs_each_is_taken_or_refused_by_itself(site: Site) -> None:
    await make(site, key="taken", payload={"a": 1})
    jobs: list[Any] = [{"kind": "office.ring", "delay": "PT1H", "subject": f"s:{n}"} for n in range(300)]
    jobs[7] = {"kind": "office.ring", "delay": "soon"}
    jobs[8] = "no job"
    jobs[9] = {"kind": "office.ring", "delay": "PT1H", "due_at": "2031-01-01T00:00:00Z"}
    jobs[120] = {"kind": "nobody.knows"}
    jobs[200] = {"kind": "office.ring", "key": "taken", "payload": {"a": 2}}
    jobs[201] = {"kind": "office.ring", "key": "taken", "payload": {"a": 1}}
    jobs[250] = jobs[251] = {"kind": "office.ring", "key": "twice", "delay": "PT1H"}
    response = await site.post("/v1/jobs/bulk", {"jobs": jobs})
    assert response.status_code == 200, response.text
    content = response.json()
    assert [result["index"] for result in content["data"]] == list(range(300))
    refused = {result["index"]: result["refusal"] for result in content["data"] if result["refusal"]}
    assert content["refused_count"] == len(refused) == 5
    assert {index: (refusal["status"], refusal["code"]) for index, refusal in refused.items()} == {
        7: (422, "invalid_input"),
        8: (422, "invalid_input"),
        9: (422, "invalid_input"),
        120: (422, "unknown_kind"),
        200: (409, "key_conflict"),
    }
    assert refused[7]["errors"][0]["pointer"] == "/jobs/7/delay"
    assert refused[9]["errors"][0]["pointer"] == "/jobs/9/delay"
    assert refused[120]["errors"][0]["pointer"] == "/jobs/120/kind"
    results = content["data"]
    assert results[201]["created"] is False
    assert [results[250]["created"], results[251]["created"]] == [True, False]
    assert results[250]["id"] == results[251]["id"]
    rows = {str(row["id"]): row["subject"] for row in await site.tables.jobs()}
    assert rows[results[0]["id"]] == "s:0"
    assert len(rows) == 300 - 5 - 1


@pytest.mark.parametrize("jobs", [[], [{"kind": "office.ring"}] * 1001, {}])
async def test_too_few_or_too_many_at_once(site: Site, jobs: Any) -> None:
    content = problem(await site.post("/v1/jobs/bulk", {"jobs": jobs}), 422, "invalid_input")
    assert content["errors"][0]["pointer"] == "/jobs"


async def test_many_jobs_are_sent_once_with_an_idempotency_key(site: Site) -> None:
    body = {"jobs": [{"kind": "office.ring"}, {"kind": "nobody.knows"}]}
    first = await site.post("/v1/jobs/bulk", body, headers=ONCE)
    again = await site.post("/v1/jobs/bulk", body, headers=ONCE)
    assert (first.status_code, again.content) == (200, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    assert len(await site.tables.jobs()) == 1


async def listed(site: Site, query: str) -> list[str]:
    """The ids of a whole list, read in small pages."""
    found: list[str] = []
    cursor = ""
    for _ in range(20):
        response = await site.get(f"/v1/jobs?limit=2&{query}{cursor}", key="read")
        assert response.status_code == 200, response.text
        page = response.json()
        assert page["has_more"] == (page["next_cursor"] is not None)
        found += [job["id"] for job in page["data"]]
        if not page["has_more"]:
            return found
        cursor = f"&cursor={page['next_cursor']}"
    raise AssertionError("it has no end")


async def test_lists_of_jobs_are_in_order_and_filtered(site: Site) -> None:
    ring = [await make(site, delay="PT1H", subject=f"s:{n % 2}", key=f"k{n}") for n in range(5)]
    post = await make(site, kind="office.post", delay="PT1H")
    await site.post("/v1/jobs", {"kind": "office.ring"}, key=OTHER)
    everything = [*ring, post]
    assert await listed(site, "") == everything
    assert await listed(site, "sort=-created_at") == everything[::-1]
    assert await listed(site, "kind=office.post") == [post]
    assert await listed(site, "queue=mail") == [post]
    assert await listed(site, "subject=s:1") == [ring[1], ring[3]]
    assert await listed(site, "subject=s:1&sort=-created_at") == [ring[3], ring[1]]
    assert await listed(site, "key=k2") == [ring[2]]
    assert await listed(site, "state=running") == []
    assert await listed(site, "state=pending&kind=office.ring") == ring
    await site.tables.start(UUID(ring[4]))
    await site.tables.start(UUID(ring[0]))
    await site.tables.rows("UPDATE timebell.jobs SET run_at = now() WHERE started_by IS NOT NULL")
    assert await listed(site, "state=running") == [ring[0], ring[4]]
    assert await listed(site, "state=running&sort=-created_at") == [ring[4], ring[0]]
    for id in ring:
        await site.tables.finish(UUID(id))
    assert await listed(site, "state=finished") == ring
    assert await listed(site, "state=done&sort=-created_at") == ring[::-1]
    assert await listed(site, "state=finished&subject=s:0") == [ring[0], ring[2], ring[4]]
    assert await listed(site, "state=cancelled") == []
    assert await listed(site, "") == [post]


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=501", "limit=x", "cursor=x", "state=lost", "sort=due_at", "tenant=other", "kind="],
)
async def test_lists_that_are_refused(site: Site, query: str) -> None:
    problem(await site.get(f"/v1/jobs?{query}", key="read"), 422, "invalid_input")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/v1/jobs?cursor=x", "?cursor"),
        ("/v1/recipients?cursor=x", "?cursor"),
        ("/v1/events/stream?after=x", "?after"),
    ],
)
async def test_a_parameter_that_only_the_list_can_judge_is_named_as_one(
    site: Site, path: str, place: str
) -> None:
    refused = problem(await site.get(path), 422, "invalid_input")
    assert [each["pointer"] for each in refused["errors"]] == [place]
    assert refused["detail"].startswith(f"{place}: ")


async def test_a_cursor_leads_on_in_one_direction(site: Site) -> None:
    for _ in range(2):
        await make(site, delay="PT1H")
    cursor = (await site.get("/v1/jobs?limit=1")).json()["next_cursor"]
    problem(await site.get(f"/v1/jobs?limit=1&sort=-created_at&cursor={cursor}"), 422, "invalid_input")


async def test_the_journey_of_a_job(site: Site) -> None:
    id = await make(site, delay="PT1H", subject="guest:7")
    response = await site.get(f"/v1/jobs/{id}/journey", key="read")
    assert response.status_code == 200, response.text
    journey = response.json()
    assert journey["job"]["id"] == id
    assert [entry["what"] for entry in journey["entries"]] == ["enqueued", "due"]
    assert (journey["agenda"], journey["is_cut"]) == (None, False)
    cancelled = await site.post(f"/v1/jobs/{id}/cancel", {"reason": "the guest left"}, headers=ONCE)
    assert cancelled.json() == {"id": id, "answer": "cancelled", "state": "cancelled"}
    last = (await site.get(f"/v1/jobs/{id}/journey", key="read")).json()["entries"][-1]
    assert (last["what"], last["reason"]) == ("cancelled", "the guest left")
    assert last["details"]["actor"].startswith("key:tb_live_")


async def test_what_is_not_there_is_not_found(site: Site) -> None:
    problem(await site.get(f"/v1/jobs/{UNHEARD_OF}"), 404, "not_found")
    problem(await site.get("/v1/jobs/no-id"), 404, "not_found")
    problem(await site.get(f"/v1/jobs/{UNHEARD_OF}/journey"), 404, "not_found")
    problem(await site.post(f"/v1/jobs/{UNHEARD_OF}/cancel", headers=ONCE), 404, "not_found")


async def test_a_cancel_needs_a_key_and_may_come_without_a_body(site: Site) -> None:
    id = await make(site, delay="PT1H")
    refused = await site.ask("POST", f"/v1/jobs/{id}/cancel")
    problem(refused, 400, "idempotency_key_required")
    first = await site.ask("POST", f"/v1/jobs/{id}/cancel", headers=ONCE)
    assert first.json() == {"id": id, "answer": "cancelled", "state": "cancelled"}
    assert (await site.ask("POST", f"/v1/jobs/{id}/cancel", headers=ONCE)).content == first.content
    again = await site.ask("POST", f"/v1/jobs/{id}/cancel", headers={"idempotency-key": "another"})
    assert again.json() == {"id": id, "answer": "already_final", "state": "cancelled"}


async def test_a_running_job_is_told_and_the_answer_is_true(site: Site) -> None:
    id = await make(site)
    await site.tables.start(UUID(id))
    response = await site.post(f"/v1/jobs/{id}/cancel", headers=ONCE)
    assert response.json()["answer"] == "too_late"


async def test_jobs_are_cancelled_by_key_and_by_subject(site: Site) -> None:
    keyed = await make(site, key="welcome", delay="PT1H")
    about = [await make(site, subject="guest:7", delay="PT1H") for _ in range(2)]
    theirs = (await site.post("/v1/jobs", {"kind": "office.ring", "subject": "guest:7"}, key=OTHER)).json()[
        "id"
    ]
    by_key = await site.post("/v1/jobs/cancel", {"kind": "office.ring", "key": "welcome"}, headers=ONCE)
    assert [(one["id"], one["answer"]) for one in by_key.json()["data"]] == [(keyed, "cancelled")]
    headers = {"idempotency-key": "two"}
    by_subject = await site.post("/v1/jobs/cancel", {"subject": "guest:7"}, headers=headers)
    assert sorted(one["id"] for one in by_subject.json()["data"]) == sorted(about)
    headers = {"idempotency-key": "three"}
    assert (await site.post("/v1/jobs/cancel", {"subject": "nobody"}, headers=headers)).json() == {"data": []}
    assert [str(row["id"]) for row in await site.tables.jobs()] == [theirs]


@pytest.mark.parametrize(
    "body", [{}, {"key": "k"}, {"kind": "office.ring"}, {"subject": "a", "kind": "a.b", "key": "k"}]
)
async def test_a_cancel_that_does_not_say_what(site: Site, body: dict[str, Any]) -> None:
    problem(await site.post("/v1/jobs/cancel", body, headers=ONCE), 422, "invalid_input")
