"""`/v1/policy` and `/v1/suppressions`: what a tenant decides, and where nothing is sent."""

from __future__ import annotations

import pytest

from tests.web.support import OTHER, Site, problem

ADDRESS = {"channel": "email", "address": "Ada@Example.org"}


async def test_a_policy_is_changed_in_part_and_by_revision(site: Site) -> None:
    before = await site.get("/v1/policy", key="read")
    assert (before.json()["revision"], before.headers["etag"]) == (0, '"rev-0"')
    body = {
        "default_timezone": "Europe/Berlin",
        "caps": [{"count": 5, "per_seconds": 86400, "channel": "sms"}],
        "on_quiet": {"time_bound": "drop"},
        "providers": {"email": ["resend", "smtp"]},
        "retry_delays_seconds": [1, 2.5],
    }
    changed = await site.ask("PATCH", "/v1/policy", json=body, key="admin", headers={"if-match": '"rev-0"'})
    assert changed.status_code == 200, changed.text
    after = changed.json()
    assert (after["default_timezone"], after["default_language"], after["revision"]) == (
        "Europe/Berlin",
        "en",
        1,
    )
    assert after["caps"] == [{"count": 5, "per_seconds": 86400.0, "channel": "sms"}]
    assert after["on_quiet"] == {"normal": "inbox_only", "time_bound": "drop"}
    assert (await site.get("/v1/policy", key="read")).json() == after
    stale = await site.ask("PATCH", "/v1/policy", json={}, key="admin", headers={"if-match": '"rev-0"'})
    problem(stale, 412, "revision_conflict")
    back = await site.ask("PATCH", "/v1/policy", json={"caps": None}, key="admin")
    assert (back.json()["caps"], back.json()["default_timezone"]) == ([], "Europe/Berlin")
    assert (await site.get("/v1/policy", key=OTHER)).json()["revision"] == 0
    made = await site.post("/v1/recipients", {"name": "Ada"})
    assert made.json()["timezone"] == "Europe/Berlin"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"caps": [{"count": 0, "per_seconds": 60}]}, "/caps/0/count"),
        ({"default_timezone": "Mars/Olympus"}, "/default_timezone"),
        ({"providers": {"pigeon": ["x"]}}, "/providers/pigeon"),
        ({"sender": {"email": "nobody"}}, "/sender/email"),
        ({"attempts_max": 21}, "/attempts_max"),
    ],
)
async def test_what_no_policy_can_say_is_refused(site: Site, body: dict[str, object], pointer: str) -> None:
    refused = await site.ask("PATCH", "/v1/policy", json=body, key="admin")
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["pointer"].startswith(pointer)


async def test_whatever_the_document_calls_a_sender_is_taken(site: Site) -> None:
    document = (await site.get("/openapi.json", key=None)).json()
    [sender, _] = document["components"]["schemas"]["PolicyEdit"]["properties"]["sender"]["anyOf"]
    said = dict.fromkeys(sender["propertyNames"]["enum"], "ada@example.org")
    changed = await site.ask("PATCH", "/v1/policy", json={"sender": said}, key="admin")
    assert changed.status_code == 200, changed.text
    assert changed.json()["sender"] == said


async def test_a_policy_is_decided_with_an_admin_key(site: Site) -> None:
    problem(await site.ask("PATCH", "/v1/policy", json={}, key="write"), 403, "scope_missing")


async def test_an_address_is_put_on_the_list_and_taken_off(site: Site) -> None:
    added = await site.post("/v1/suppressions", {**ADDRESS, "reason": "asked by phone"})
    assert (added.status_code, added.json()) == (201, {"is_new": True})
    assert (await site.post("/v1/suppressions", ADDRESS)).json() == {"is_new": False}
    await site.post(
        "/v1/suppressions", {"channel": "sms", "address": "+491701234567", "message_class": "marketing"}
    )
    page = (await site.get("/v1/suppressions?limit=1", key="read")).json()
    rest = (await site.get(f"/v1/suppressions?cursor={page['next_cursor']}")).json()
    lines = page["data"] + rest["data"]
    assert [(one["channel"], one["address"], one["message_class"]) for one in lines] == [
        ("email", "ada@example.org", None),
        ("sms", "+491701234567", "marketing"),
    ]
    assert (lines[0]["reason"], lines[0]["source"][:7]) == ("asked by phone", "key:tb_")
    found = (await site.get("/v1/suppressions?channel=email&address=ADA@example.org")).json()["data"]
    assert found == lines[:1]
    problem(await site.get("/v1/suppressions?channel=email"), 422, "invalid_input")
    assert (await site.get("/v1/suppressions", key=OTHER)).json()["data"] == []

    gone = "/v1/suppressions?channel=email&address=ada@example.org"
    problem(await site.ask("DELETE", gone, key=OTHER), 404, "not_found")
    assert (await site.ask("DELETE", gone)).status_code == 204
    problem(await site.ask("DELETE", gone), 404, "not_found")
    [event] = await site.tables.rows("SELECT actor FROM timebell.events WHERE name = 'suppression.removed'")
    assert event["actor"].startswith("key:tb_")
