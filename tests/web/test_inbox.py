"""`/v1/inbox` and `/api/notifications`: the same entries at two addresses, each person's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest
import pytest_asyncio

from tests.web.notify_support import UNHEARD_OF, open_sandbox, pass_time, person, save, tell
from tests.web.support import OTHER, Site, problem
from timebell.testing.database import TestDatabase

PATHS = ("/v1/inbox", "/api/notifications")


@pytest_asyncio.fixture
async def sandbox(database_url: TestDatabase) -> AsyncIterator[Site]:
    async with open_sandbox(database_url) as opened:
        await save(opened)
        yield opened


@pytest.mark.req("R-6.5")
async def test_a_person_reads_and_marks_what_came(sandbox: Site) -> None:
    ada = (await person(sandbox))["id"]
    ids = []
    for number in range(3):
        context = {"order": f"A-{number}", "type": "order_news", "data": {"number": number}}
        ids.append(await tell(sandbox, ada, context=context))
        await pass_time(sandbox)
    pages = [(await sandbox.get(path, actor=ada, key="read")).json() for path in PATHS]
    assert pages[0] == pages[1]
    lines = pages[0]["data"]
    assert [line["id"] for line in lines] == ids
    assert [line["seq"] for line in lines] == [1, 2, 3]
    assert {
        name: lines[0][name] for name in ("type", "title", "description", "status", "payload", "due_at")
    } == {
        "type": "order_news",
        "title": "Shipped",
        "description": "Order A-0 is on its way.",
        "status": "unseen",
        "payload": {"number": 0},
        "due_at": "2027-03-01T09:00:00Z",
    }
    assert lines[0]["created_at"]
    for path in PATHS:
        assert (await sandbox.get(f"{path}/count", actor=ada)).json() == {"unseen": 3}

    seen = await sandbox.ask("PATCH", f"/api/notifications/{ids[0]}", actor=ada, json={"status": "seen"})
    assert (seen.status_code, seen.json()["status"]) == (200, "seen")
    put_away = await sandbox.ask("PATCH", f"/v1/inbox/{ids[1]}", actor=ada, json={"status": "archived"})
    assert put_away.json()["status"] == "archived"
    stored = await sandbox.tables.value("SELECT status FROM timebell_notify.inbox WHERE seq = 2")
    assert stored == "dismissed"
    for status, seqs in (("unseen", [3]), ("seen", [1]), ("archived", [2])):
        found = (await sandbox.get(f"/v1/inbox?status={status}", actor=ada)).json()["data"]
        assert [line["seq"] for line in found] == seqs
    newest = (await sandbox.get("/v1/inbox?sort=-seq&limit=2", actor=ada)).json()
    assert ([line["seq"] for line in newest["data"]], newest["next_cursor"]) == ([3, 2], "2")
    assert (await sandbox.get("/v1/inbox?sort=-created_at&limit=2", actor=ada)).json() == newest
    after = (await sandbox.get("/v1/inbox?cursor=2", actor=ada)).json()
    assert ([line["seq"] for line in after["data"]], after["has_more"]) == ([3], False)

    assert (await sandbox.post("/v1/inbox/seen-all", {"up_to": 2}, actor=ada)).json() == {"seen": 0}
    assert (await sandbox.post("/api/notifications/seen-all", actor=ada)).json() == {"seen": 1}
    assert (await sandbox.get("/v1/inbox/count", actor=ada)).json() == {"unseen": 0}


async def test_an_inbox_is_one_persons(sandbox: Site) -> None:
    ada, eve = (await person(sandbox))["id"], (await person(sandbox, name="Eve"))["id"]
    stranger = (await person(sandbox, key=OTHER))["id"]
    id = await tell(sandbox, ada)
    await pass_time(sandbox)
    for path in PATHS:
        problem(await sandbox.get(path), 400, "actor_required")
        for actor in (stranger, UNHEARD_OF, "ada"):
            problem(await sandbox.get(path, actor=actor), 403, "actor_unknown")
        assert (await sandbox.get(path, actor=eve)).json()["data"] == []
        assert (await sandbox.get(path, actor=stranger, key=OTHER)).json()["data"] == []
        for actor, key in ((eve, "write"), (stranger, OTHER)):
            answers = [
                await sandbox.ask("PATCH", f"{path}/{one}", actor=actor, key=key, json={"status": "seen"})
                for one in (id, UNHEARD_OF)
            ]
            said = [problem(answer, 404, "not_found")["detail"] for answer in answers]
            assert said[0].replace(id, UNHEARD_OF) == said[1]
        problem(
            await sandbox.ask("PATCH", f"{path}/{id}", actor=ada, key="read", json={"status": "seen"}),
            403,
            "scope_missing",
        )
    await sandbox.post("/v1/inbox/seen-all", actor=eve)
    assert (await sandbox.get("/v1/inbox/count", actor=ada)).json() == {"unseen": 1}


@pytest.mark.parametrize(
    "body", [{"status": "dismissed"}, {"status": "new"}, {}, {"status": "seen", "id": 1}]
)
async def test_a_status_is_one_of_three(sandbox: Site, body: dict[str, object]) -> None:
    ada = (await person(sandbox))["id"]
    response = await sandbox.ask("PATCH", f"/v1/inbox/{UNHEARD_OF}", actor=ada, json=body)
    problem(response, 422, "invalid_input")


async def test_a_persons_own_token_opens_their_inbox_and_no_more(sandbox: Site) -> None:
    ada = await person(sandbox)
    token, _ = sandbox.surface.tokens.make(
        "recipient", tenant="default", recipient=UUID(ada["id"]), seconds=60
    )
    await tell(sandbox, ada["id"])
    await pass_time(sandbox)
    [line] = (await sandbox.get("/api/notifications", key=token)).json()["data"]
    marked = await sandbox.ask("PATCH", f"/v1/inbox/{line['id']}", key=token, json={"status": "seen"})
    assert marked.status_code == 200
    for path in (f"/v1/recipients/{ada['id']}", "/v1/notifications", "/v1/outbox", "/v1/policy"):
        assert (await sandbox.get(path, key=token)).status_code == 403, path
