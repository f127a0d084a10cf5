"""`/v1/templates`: saved in versions, listed, chosen, previewed and tried."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.notify_support import ORDER, SHIPPED, UNHEARD_OF, open_sandbox, pass_time, person, save, tell
from tests.web.support import OTHER, Site, problem
from timebell.testing.database import TestDatabase

LOUDER = {**SHIPPED, "texts": [{**text, "body": text["body"] + "!"} for text in SHIPPED["texts"]]}
ONCE = {"idempotency-key": "once"}


async def preview(site: Site, *, name: str = "order.shipped", **body: Any) -> dict[str, Any]:
    asked = {"channel": "email", "context": ORDER, **body}
    response = await site.post(f"/v1/templates/{name}/preview", asked, key="read")
    assert response.status_code == 200, response.text
    shown: dict[str, Any] = response.json()
    return shown


@pytest.mark.req("D-2.3")
async def test_a_template_is_saved_in_versions_that_stay(site: Site) -> None:
    first = await save(site)
    assert (first["version"], first["topic"], first["is_shipped"]) == (1, "orders", False)
    assert first["created_by"].startswith("key:tb_")
    assert (await save(site))["version"] == 1
    assert (await save(site, texts=LOUDER["texts"]))["version"] == 2

    path = "/v1/templates/order.shipped"
    assert (await site.get(path, key="read")).json()["version"] == 2
    assert (await site.get(f"{path}?version=1")).json()["texts"] == first["texts"]
    problem(await site.get(f"{path}?version=9"), 404, "not_found")
    versions = (await site.get(f"{path}/versions?limit=1")).json()
    assert ([one["version"] for one in versions["data"]], versions["has_more"]) == ([2], True)
    rest = (await site.get(f"{path}/versions?cursor={versions['next_cursor']}")).json()
    assert ([one["version"] for one in rest["data"]], rest["has_more"]) == ([1], False)

    problem(await site.post(f"{path}/use", {"version": 1}), 400, "idempotency_key_required")
    chosen = await site.post(f"{path}/use", {"version": 1}, headers=ONCE)
    assert chosen.json() == {"key": "order.shipped", "version": 1}
    [line] = (await site.get("/v1/templates")).json()["data"]
    assert (line["key"], line["version"], line["is_current"]) == ("order.shipped", 1, True)


async def test_what_is_planned_moves_to_another_version_when_asked(site: Site) -> None:
    await save(site)
    ada = await person(site, email="ada@example.org")
    owed = await tell(site, ada["id"], due_at="2031-01-01T00:00:00Z")
    await save(site, texts=LOUDER["texts"])
    assert (await site.get(f"/v1/notifications/{owed}")).json()["template_version"] == 1
    moved = await site.post("/v1/templates/order.shipped/repin", {}, headers=ONCE)
    assert moved.json() == {"moved": 1}
    assert (await site.get(f"/v1/notifications/{owed}")).json()["template_version"] == 2


async def test_a_preview_shows_what_somebody_would_get(site: Site) -> None:
    await save(site)
    english = await preview(site)
    assert (english["language"], english["subject"]) == ("en", "Shipped")
    assert english["text"].strip() == "Order A-1042 is on its way."
    german = await preview(site, reader={"language": "de-AT"})
    assert (german["language"], german["subject"]) == ("de", "Unterwegs")
    ada = await person(site, language="de")
    assert (await preview(site, recipient_id=ada["id"]))["language"] == "de"
    sms = await preview(site, channel="sms")
    assert (sms["sms"]["encoding"], sms["sms"]["segments"]) == ("gsm7", 1)
    missing = await preview(site, context={})
    assert (missing["text"], missing["unrendered"]["reason"], missing["unrendered"]["names"]) == (
        None,
        "template_incomplete",
        ["order"],
    )
    unsaved = await preview(site, name="not.saved", draft=LOUDER)
    assert unsaved["text"].strip() == "Order A-1042 is on its way.!"
    assert (await preview(site, channel="push"))["unrendered"]["reason"] == "template_missing"
    assert [one["key"] for one in (await site.get("/v1/templates")).json()["data"]] == ["order.shipped"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (
            {"channel": "email", "context": ORDER, "reader": {"timezone": "Mars/Olympus"}},
            422,
            "unknown_timezone",
        ),
        ({"channel": "email", "reader": {"language": "klingonisch"}}, 422, "invalid_input"),
        ({"channel": "email", "recipient_id": UNHEARD_OF}, 404, "not_found"),
        ({"channel": "email", "recipient_id": UNHEARD_OF, "reader": {}}, 422, "invalid_input"),
        ({"channel": "email", "draft": SHIPPED, "version": 1}, 422, "invalid_input"),
        ({"channel": "email", "draft": {"texts": []}}, 422, "invalid_input"),
        (
            {"channel": "sms", "draft": {"texts": [{"channel": "sms", "language": "en", "body": "{{ x }}"}]}},
            422,
            "invalid_template",
        ),
    ],
)
async def test_what_cannot_be_previewed_is_refused(
    site: Site, body: dict[str, Any], status: int, code: str
) -> None:
    await save(site)
    problem(await site.post("/v1/templates/order.shipped/preview", body), status, code)
    problem(await site.post("/v1/templates/no.such/preview", {"channel": "email"}), 404, "not_found")


async def test_a_template_that_would_fail_is_refused_when_it_is_saved(site: Site) -> None:
    text = {"channel": "sms", "language": "en", "body": "Order {{ order }}"}
    refused = await site.ask("PUT", "/v1/templates/order.shipped", json={"texts": [text]})
    assert "order" in problem(refused, 422, "invalid_template")["detail"]
    problem(await site.ask("PUT", "/v1/templates/UPPER", json=SHIPPED), 422, "invalid_template")
    problem(await site.get("/v1/templates/no.such"), 404, "not_found")


async def test_what_is_refused_of_a_template_is_named_by_its_place(site: Site) -> None:
    sms = {"channel": "sms", "language": "en", "body": "Hi"}
    for body, pointer in (
        ({"texts": [sms, {**sms, "language": "de_at", "body": "{{ x }}"}]}, "/texts/1"),
        ({"texts": [sms, {**sms, "language": "de", "body": "{% no %}"}]}, "/texts/1/body"),
        ({"texts": [sms, {**sms, "language": "klingonisch"}]}, "/texts/1/language"),
        ({"texts": [sms], "variables": [{"name": "a"}, {"name": "b.c", "default": 1}]}, "/variables/1"),
    ):
        refused = await site.ask("PUT", "/v1/templates/order.shipped", json=body)
        assert problem(refused, 422, "invalid_template")["errors"][0]["pointer"] == pointer
        drafted = {"channel": "sms", "draft": body}
        refused = await site.post("/v1/templates/order.shipped/preview", drafted)
        assert problem(refused, 422, "invalid_template")["errors"][0]["pointer"] == f"/draft{pointer}"
    nowhere = {"channel": "sms", "draft": {"texts": [sms]}, "reader": {"timezone": "Mars/Olympus"}}
    refused = await site.post("/v1/templates/order.shipped/preview", nowhere)
    assert problem(refused, 422, "unknown_timezone")["errors"][0]["pointer"] == "/reader/timezone"


async def test_a_test_is_told_at_once(database_url: TestDatabase) -> None:
    async with open_sandbox(database_url) as site:
        await save(site)
        ada = await person(site, email="ada@example.org", quiet_hours={"start": "08:00", "end": "20:00"})
        sent = await site.post(
            "/v1/templates/order.shipped/test",
            {"recipient_id": ada["id"], "context": ORDER, "channels": ["email"]},
        )
        assert sent.status_code == 201, sent.text
        await pass_time(site)
        [mail] = (await site.get("/v1/outbox")).json()["data"]
        assert (mail["notification_id"], mail["to"]) == (sent.json()["id"], "ada@example.org")
        missing = await site.post("/v1/templates/order.shipped/test", {"recipient_id": UNHEARD_OF})
        problem(missing, 404, "not_found")


async def test_another_tenants_template_is_not_there(site: Site) -> None:
    await save(site, key=OTHER)
    problem(await site.get("/v1/templates/order.shipped"), 404, "not_found")
    assert (await site.get("/v1/templates")).json()["data"] == []
    problem(await site.get("/v1/templates/order.shipped?version=1"), 404, "not_found")
    assert (await site.get("/v1/templates/order.shipped/versions")).json()["data"] == []
