"""`/v1/notifications`, `/v1/deliveries`, `/v1/outbox`: told, looked at, explained, withdrawn, mended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.web.notify_support import ORDER, UNHEARD_OF, open_sandbox, pass_time, person, save, tell
from tests.web.support import OTHER, Site, problem
from timebell.testing.database import TestDatabase

LATER = "2027-03-02T09:00:00Z"


@pytest_asyncio.fixture
async def sandbox(database_url: TestDatabase) -> AsyncIterator[Site]:
    async with open_sandbox(database_url) as opened:
        await save(opened)
        yield opened


async def act(site: Site, id: str, verb: str, body: Any = None, **options: Any) -> Any:
    headers = {"idempotency-key": f"{verb}-{id}"}
    return await site.post(f"/v1/notifications/{id}/{verb}", body, headers=headers, **options)


@pytest.mark.req("U-13")
async def test_what_is_asked_for_is_told_when_it_is_due_and_can_be_followed(sandbox: Site) -> None:
    ada = await person(sandbox, email="ada@example.org")
    asked = {"recipient_id": ada["id"], "template": "order.shipped", "context": ORDER}
    body = {**asked, "channels": ["email"], "also": ["inbox"], "subject": "order:1042", "due_at": LATER}
    response = await sandbox.post("/v1/notifications", body, headers={"x-correlation-id": "cause-1"})
    assert response.status_code == 201, response.text
    id = response.json()["id"]
    await pass_time(sandbox, "PT23H")
    assert (await sandbox.get(f"/v1/notifications/{id}")).json()["state"] == "pending"
    report = await pass_time(sandbox, "PT1H")
    assert (report["sent"], report["failed"]) == (2, 0)

    story = (await sandbox.get(f"/v1/notifications/{id}", key="read")).json()
    assert (story["state"], story["due_at"], story["correlation_id"]) == ("sent", LATER, "cause-1")
    assert (story["channels"], story["also"]) == (["email"], ["inbox"])
    assert {one["channel"]: one["state"] for one in story["deliveries"]} == {
        "email": "suppressed",
        "inbox": "sent",
    }
    assert story["decisions"]

    [mail] = (await sandbox.get(f"/v1/outbox?recipient_id={ada['id']}&channel=email")).json()["data"]
    assert {name: mail[name] for name in ("channel", "to", "subject", "at", "template", "reason")} == {
        "channel": "email",
        "to": "ada@example.org",
        "subject": "Shipped",
        "at": LATER,
        "template": "order.shipped",
        "reason": "demo",
    }
    assert (mail["notification_id"], mail["recipient_id"]) == (id, ada["id"])
    assert "A-1042" in mail["body"]
    assert (await sandbox.get(f"/v1/outbox?recipient_id={UNHEARD_OF}")).json()["data"] == []
    assert (await sandbox.get("/v1/outbox?sort=-at")).json()["data"] == [mail]

    lines = (await sandbox.get(f"/v1/deliveries?notification_id={id}&channel=email")).json()["data"]
    assert [(one["state"], one["attempt_count"]) for one in lines] == [("suppressed", 1)]
    whole = (await sandbox.get(f"/v1/deliveries/{lines[0]['id']}")).json()
    assert (whole["content"]["subject"], whole["attempts"][0]["answer"]) == ("Shipped", "sent")
    newest = (await sandbox.get("/v1/deliveries?sort=-created_at")).json()["data"]
    oldest = (await sandbox.get("/v1/deliveries")).json()["data"]
    assert (newest, len(newest)) == (oldest[::-1], 2)

    told = (await sandbox.get(f"/v1/notifications/{id}/explanation")).json()
    assert told["summary"]
    assert all(line["text"] and line["at"] for line in told["story"])


async def test_a_key_has_it_told_once(sandbox: Site) -> None:
    ada = await person(sandbox)
    asked = {"recipient_id": ada["id"], "template": "order.shipped", "context": ORDER, "key": "order:1042"}
    first, again = [(await sandbox.post("/v1/notifications", asked)).json() for _ in range(2)]
    assert (first["created"], again["created"], first["id"] == again["id"]) == (True, False, True)


@pytest.mark.parametrize(
    ("changes", "status", "field"),
    [
        ({"recipient_id": UNHEARD_OF}, 404, None),
        ({"template": "no.such"}, 404, None),
        ({"recipient_id": "ada"}, 422, "/recipient_id"),
        ({"channels": ["pigeon"]}, 422, "/channels"),
        ({"channels": []}, 422, "/channels"),
        ({"channels": ["email"], "also": ["email"]}, 422, "/channels"),
        ({"due_at": "2027-03-02T09:00:00"}, 422, "/due_at"),
        ({"due_at": "0001-01-01T00:00:00Z"}, 422, "/due_at"),
        ({"guard": "no.such"}, 422, "/guard"),
        ({"digest": {"key": "daily", "closes": "NEVER", "template": "order.shipped"}}, 422, None),
        ({"urgency": "hysterical"}, 422, "/urgency"),
        ({"context": {"data": "x" * 70_000}}, 422, "/context"),
    ],
)
async def test_what_cannot_be_told_is_refused(
    sandbox: Site, changes: dict[str, Any], status: int, field: str | None
) -> None:
    ada = await person(sandbox)
    body = {"recipient_id": ada["id"], "template": "order.shipped", "context": ORDER, **changes}
    response = await sandbox.post("/v1/notifications", body)
    assert response.status_code == status, response.text
    if field is not None:
        assert response.json()["errors"][0]["pointer"].startswith(field)
    assert (await sandbox.get("/v1/notifications")).json()["data"] == []


async def test_of_many_each_is_taken_or_refused_by_itself(sandbox: Site) -> None:
    ada = await person(sandbox)
    good = {"recipient_id": ada["id"], "template": "order.shipped", "context": ORDER}
    bad = [
        {**good, "recipient_id": UNHEARD_OF},
        {**good, "urgency": "hysterical"},
        {**good, "template": "no.such"},
    ]
    body = {"notifications": [good, bad[0], good, bad[1], bad[2], good]}
    response = await sandbox.post("/v1/notifications/bulk", body)
    assert response.status_code == 200, response.text
    results = response.json()
    assert [one["index"] for one in results["data"]] == list(range(6))
    assert [one["refusal"] and one["refusal"]["status"] for one in results["data"]] == [
        None,
        404,
        None,
        422,
        404,
        None,
    ]
    assert results["data"][3]["refusal"]["errors"][0]["pointer"] == "/notifications/3/urgency"
    assert results["refused_count"] == 3
    ids = [one["id"] for one in results["data"] if one["id"]]
    page = (await sandbox.get("/v1/notifications?limit=2")).json()
    rest = (await sandbox.get(f"/v1/notifications?cursor={page['next_cursor']}")).json()
    assert [one["id"] for one in page["data"] + rest["data"]] == sorted(ids)
    back = (await sandbox.get("/v1/notifications?sort=-created_at")).json()["data"]
    assert [one["id"] for one in back] == sorted(ids, reverse=True)
    problem(await sandbox.post("/v1/notifications/bulk", {"notifications": []}), 422, "invalid_input")


async def test_the_list_is_of_a_recipient_a_subject_or_a_state(sandbox: Site) -> None:
    ada, eve = await person(sandbox), await person(sandbox, name="Eve")
    first = await tell(sandbox, ada["id"], subject="order:1")
    await pass_time(sandbox)
    second = await tell(sandbox, eve["id"], subject="order:2", due_at=LATER)
    for query, ids in (
        (f"recipient_id={ada['id']}", [first]),
        ("subject=order:2", [second]),
        ("state=pending", [second]),
        ("template=order.shipped", [first, second]),
        ("template=no.such", []),
    ):
        page = (await sandbox.get(f"/v1/notifications?{query}")).json()
        assert [one["id"] for one in page["data"]] == ids, query
    problem(await sandbox.get("/v1/notifications?cursor=nonsense"), 422, "invalid_input")


async def test_it_is_withdrawn_until_it_is_told(sandbox: Site) -> None:
    ada = await person(sandbox)
    id = await tell(sandbox, ada["id"], due_at=LATER)
    problem(await sandbox.post(f"/v1/notifications/{id}/withdraw"), 400, "idempotency_key_required")
    withdrawn = await act(sandbox, id, "withdraw", {"reason": "the order was cancelled"})
    assert withdrawn.json()["answer"] == "cancelled"
    again = await act(sandbox, id, "withdraw", {"reason": "the order was cancelled"})
    assert again.headers["idempotent-replayed"] == "true"
    assert (await sandbox.get(f"/v1/notifications/{id}")).json()["state"] == "withdrawn"
    told = await tell(sandbox, ada["id"])
    await pass_time(sandbox)
    assert (await act(sandbox, told, "withdraw")).json()["answer"] == "already_final"
    assert (await pass_time(sandbox, "P2D"))["sent"] == 0


@pytest.mark.req("U-3")
async def test_all_about_a_subject_is_withdrawn_and_its_other_jobs_stay(sandbox: Site) -> None:
    ada = await person(sandbox)
    told = await tell(sandbox, ada["id"], subject="order:1")
    await pass_time(sandbox)
    owed = [await tell(sandbox, ada["id"], subject="order:1", due_at=LATER) for _ in range(2)]
    other = await tell(sandbox, ada["id"], subject="order:2", due_at=LATER)
    asked = {"kind": "office.ring", "due_at": LATER, "subject": "order:1"}
    ring = (await sandbox.post("/v1/jobs", asked)).json()
    path, body = "/v1/notifications/withdraw", {"subject": "order:1", "reason": "it was cancelled"}
    problem(await sandbox.post(path, body), 400, "idempotency_key_required")
    once = {"idempotency-key": "once"}
    assert (await sandbox.post(path, body, headers=once, key=OTHER)).json() == {"data": []}
    answers = (await sandbox.post(path, body, headers=once)).json()["data"]
    assert sorted((one["id"], one["answer"]) for one in answers) == [(id, "cancelled") for id in sorted(owed)]
    states = {one["id"]: one["state"] for one in (await sandbox.get("/v1/notifications")).json()["data"]}
    assert states == {told: "sent", **dict.fromkeys(owed, "withdrawn"), other: "pending"}
    assert (await sandbox.get(f"/v1/jobs/{ring['id']}")).json()["state"] == "pending"


async def test_only_notifications_are_withdrawn_or_released_here(sandbox: Site) -> None:
    made = await sandbox.post("/v1/jobs", {"kind": "office.ring", "due_at": LATER})
    for verb in ("withdraw", "release", "mend"):
        body = {"context": ORDER} if verb == "mend" else None
        problem(await act(sandbox, made.json()["id"], verb, body), 404, "not_found")
    assert (await sandbox.get(f"/v1/jobs/{made.json()['id']}")).json()["state"] == "pending"


@pytest.mark.req("A-4.3")
async def test_what_lacks_a_value_waits_for_a_person_and_is_mended(sandbox: Site) -> None:
    ada = await person(sandbox)
    id = await tell(sandbox, ada["id"], context={})
    await pass_time(sandbox)
    [waiting] = (await sandbox.get("/v1/notifications/attention")).json()["data"]
    assert (waiting["id"], waiting["reason"], waiting["settled_at"]) == (id, "template_incomplete", None)
    released = await act(sandbox, id, "release")
    assert released.json() == {"id": id, "is_released": True}
    await pass_time(sandbox)
    later = await tell(sandbox, ada["id"], context={}, due_at=LATER)
    for one, is_released in ((id, True), (later, False)):
        mended = await act(sandbox, one, "mend", {"context": ORDER})
        assert mended.json() == {"id": one, "is_released": is_released}
    await pass_time(sandbox)
    assert (await sandbox.get(f"/v1/notifications/{id}")).json()["state"] == "sent"
    assert (await sandbox.get("/v1/notifications/attention")).json()["data"] == []


async def test_why_not_says_what_stands_in_the_way(sandbox: Site) -> None:
    ada = await person(sandbox, email="ada@example.org", channel_preference="email")
    path = f"/v1/why-not?recipient_id={ada['id']}&template=order.shipped"
    assert (await sandbox.get(path)).json()["answer"] == "told"
    await sandbox.post(f"/v1/recipients/{ada['id']}/opt-outs", {})
    refused = (await sandbox.get(f"{path}&at=2027-03-02T09:00:00%2B01:00")).json()
    assert (refused["answer"], refused["at"]) == ("not_told", "2027-03-02T08:00:00Z")
    assert refused["story"]
    unknown = await sandbox.get(f"/v1/why-not?recipient_id={UNHEARD_OF}&template=order.shipped")
    assert unknown.json()["answer"] == "not_told"


@pytest.mark.parametrize("at", ["0001-01-01T00:00:01Z", "9999-12-31T23:59:59Z"])
@pytest.mark.parametrize("timezone", ["Pacific/Kiritimati", "Pacific/Niue"])
async def test_an_instant_at_the_end_of_time_is_one_like_others(
    sandbox: Site, at: str, timezone: str
) -> None:
    """`9999-12-31` is how many say never, and on the recipient's clock it may be out of the calendar."""
    hours = {"start": "08:00", "end": "07:00"}
    ada = await person(sandbox, email="ada@example.org", timezone=timezone, quiet_hours=hours)
    why = await sandbox.get(f"/v1/why-not?recipient_id={ada['id']}&template=order.shipped&at={at}")
    assert why.status_code == 200, why.text
    for changes in ({"due_at": at}, {"expires_at": at}, {"due_at": at, "expires_at": at}):
        id = await tell(sandbox, ada["id"], channels=["email"], **changes)
        await pass_time(sandbox)
        told = await sandbox.get(f"/v1/notifications/{id}/explanation")
        assert (told.status_code, (await sandbox.get(f"/v1/notifications/{id}")).status_code) == (200, 200)


async def test_what_is_another_tenants_is_not_there(sandbox: Site) -> None:
    ada = await person(sandbox, email="ada@example.org")
    id = await tell(sandbox, ada["id"], channels=["email"])
    await pass_time(sandbox)
    [delivery] = (await sandbox.get("/v1/deliveries")).json()["data"]
    for noun in ("notifications", "deliveries", "outbox", "notifications/attention"):
        assert (await sandbox.get(f"/v1/{noun}", key=OTHER)).json()["data"] == []
    for path in (f"notifications/{id}", f"notifications/{id}/explanation", f"deliveries/{delivery['id']}"):
        problem(await sandbox.get(f"/v1/{path}", key=OTHER), 404, "not_found")
    for verb in ("withdraw", "release", "mend"):
        body: dict[str, Any] | None = {"context": {}} if verb == "mend" else None
        problem(await act(sandbox, id, verb, body, key=OTHER), 404, "not_found")
    asked = {"recipient_id": ada["id"], "template": "order.shipped"}
    problem(await sandbox.post("/v1/notifications", asked, key=OTHER), 404, "not_found")
