"""`/v1/queues`: how much lies where, and who may hold it back."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.web.support import OTHER, Site, problem


def once(key: str) -> dict[str, str]:
    return {"idempotency-key": key}


async def queues(site: Site, key: str = "read") -> dict[str, dict[str, Any]]:
    response = await site.get("/v1/queues", key=key)
    assert response.status_code == 200, response.text
    return {queue["name"]: queue for queue in response.json()["data"]}


async def test_queues_with_their_limits_and_what_lies_in_them(site: Site) -> None:
    for _ in range(2):
        await site.post("/v1/jobs", {"kind": "office.post"})
    await site.post("/v1/jobs", {"kind": "office.post", "delay": "PT1H"})
    running = (await site.post("/v1/jobs", {"kind": "office.post"})).json()["id"]
    await site.tables.start(UUID(running))
    await site.post("/v1/jobs", {"kind": "office.post"}, key=OTHER)
    found = await queues(site)
    assert list(found) == sorted(found)
    mail = found["mail"]
    assert (mail["rate_per_second"], mail["concurrency"], mail["pauses"]) == (5.0, None, [])
    counts = ("due_count", "started_count", "parked_count", "future_count", "future_accuracy")
    assert [mail["depth"][name] for name in counts] == [2, 1, 0, 1, "exact"]
    assert mail["depth"]["oldest_due_at"] is not None
    theirs = (await queues(site, OTHER))["mail"]["depth"]
    assert [theirs[name] for name in counts] == [1, 0, 0, 0, "exact"]
    assert found["slow"]["concurrency"] == 1


async def test_lists_of_queues_have_pages(site: Site) -> None:
    names = list(await queues(site))
    first = (await site.get("/v1/queues?limit=2")).json()
    assert ([queue["name"] for queue in first["data"]], first["has_more"]) == (names[:2], True)
    rest = (await site.get(f"/v1/queues?cursor={first['next_cursor']}")).json()
    assert ([queue["name"] for queue in rest["data"]], rest["has_more"]) == (names[2:], False)


async def test_a_tenant_pauses_and_resumes_for_itself(site: Site) -> None:
    path = "/v1/queues/mail"
    problem(await site.post(f"{path}/pause"), 400, "idempotency_key_required")
    paused = await site.post(f"{path}/pause", {"reason": "the provider is down"}, headers=once("a"))
    assert paused.json() == {"queue": "mail", "everyone": False, "is_paused": True}
    [pause] = (await queues(site))["mail"]["pauses"]
    assert (pause["everyone"], pause["reason"]) == (False, "the provider is down")
    assert pause["actor"].startswith("key:tb_live_")
    assert (await queues(site, OTHER))["mail"]["pauses"] == []
    for key, was_paused in (("b", True), ("c", False)):
        resumed = await site.ask("POST", f"{path}/resume", headers=once(key))
        assert resumed.json() == {
            "queue": "mail",
            "everyone": False,
            "is_paused": False,
            "was_paused": was_paused,
        }
    events = (await site.get("/v1/events?subject=queue:mail", key="read")).json()["data"]
    assert [event["name"] for event in events] == ["queue.paused", "queue.resumed"]
    assert (events[0]["data"]["reason"], events[0]["actor"]) == ("the provider is down", pause["actor"])


async def test_only_an_admin_of_the_default_tenant_pauses_for_everyone(site: Site) -> None:
    path, body = "/v1/queues/mail/pause", {"everyone": True}
    problem(await site.post(path, body, headers=once("a")), 403, "scope_missing")
    problem(await site.post(path, body, key=OTHER, headers=once("a")), 403, "default_tenant_only")
    assert (await site.post(path, body, key="admin", headers=once("a"))).status_code == 200
    [seen] = (await queues(site, OTHER))["mail"]["pauses"]
    assert (seen["everyone"], seen["actor"]) == (True, None)
    [own] = (await queues(site, "admin"))["mail"]["pauses"]
    assert own["actor"].startswith("key:tb_live_")
    resume = "/v1/queues/mail/resume"
    assert (await site.post(resume, key=OTHER, headers=once("b"))).json()["was_paused"] is False
    assert (await site.post(resume, key="admin", headers=once("b"))).json()["was_paused"] is False
    problem(await site.post(resume, body, key=OTHER, headers=once("c")), 403, "default_tenant_only")
    assert (await site.post(resume, body, key="admin", headers=once("c"))).json()["was_paused"] is True
    assert (await queues(site, OTHER))["mail"]["pauses"] == []


async def test_a_queue_that_is_not_there(site: Site) -> None:
    for name in ("unheard-of", "UPPER", "x" * 300, "a%20b"):
        for verb in ("pause", "resume"):
            response = await site.post(f"/v1/queues/{name}/{verb}", headers=once(name[:20] + verb))
            problem(response, 404, "not_found")
