"""What a tenant asks for costs what its own rows cost, however many the others have."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from tests.store.insights_support import IDS, write
from tests.store.support import NOW
from tests.web.neighbours import NEIGHBOUR_ROWS, Reading, large_tables, settle_neighbours
from tests.web.notify_support import ORDER, SHIPPED, open_sandbox, pass_time
from tests.web.support import OTHER, Site
from tests.web.test_every_operation import OFFICE
from tests.web.twins import Change, twin_of
from timebell.testing.database import TestDatabase

LISTED = {
    "jobs",
    "job_log",
    "dead_jobs",
    "events",
    "queue_pauses",
    "schedules",
    "occurrences",
    "recipients",
    "templates",
    "notifications",
    "deliveries",
    "inbox",
    "outbox",
    "suppressions",
    "api_keys",
    "alerts",
    "tenants",
}


# Of these two tenants may have the same ids.
SHARED = {
    "agendas",
    "queue_pauses",
    "recipients",
    "addresses",
    "templates",
    "notifications",
    "deliveries",
    "inbox",
    "outbox",
    "suppressions",
    "api_keys",
}


async def furnish(site: Site) -> dict[str, Any]:
    """Some of everything that can be listed; answers with the ids."""
    numbers = itertools.count()

    async def made(method: str, path: str, body: Any) -> Any:
        once = {"idempotency-key": f"key-{next(numbers)}"}
        response = await site.ask(method, path, json=body, key=OTHER, headers=once)
        assert response.is_success, f"{path}: {response.text}"
        return response.json()

    people = [
        await made(
            "POST",
            "/v1/recipients",
            {"name": "Ada", "external_id": f"user-{number}", "email": f"ada-{number}@example.org"},
        )
        for number in range(3)
    ]
    person = people[0]["id"]
    await made("PUT", "/v1/templates/order.shipped", SHIPPED)
    tell = {"recipient_id": person, "template": "order.shipped", "context": ORDER, "subject": "order:1"}
    told = [
        await made("POST", "/v1/notifications", {**tell, "channels": [channel], **more})
        for channel in ("inbox", "email")
        for more in ({}, {"key": f"{channel}-1"}, {"due_at": "2027-09-01T09:00:00Z"})
    ]
    [example] = [route for route in site.routes if (route.method, route.path) == ("POST", "/v1/schedules")]
    schedule = await made("POST", "/v1/schedules", dict(example.example or {}))
    ring = {"kind": "office.ring", "payload": {}, "subject": "order:1"}
    for number in range(3):
        await made("POST", "/v1/jobs", {**ring, "key": f"ring-{number}", "delay": "P300D"})
        await made("POST", "/v1/jobs", ring)
        await made("POST", "/v1/jobs", {**ring, "kind": "office.fail"})
    await made("POST", "/v1/queues/mail/pause", {"reason": "as asked"})
    await made(
        "POST", "/v1/suppressions", {"channel": "email", "address": "no@example.org", "reason": "manual"}
    )
    for number in range(3):
        alert = {
            "id": IDS.new(),
            "tenant": OTHER,
            "app": "office",
            "rule": "office_is_hot",
            "severity": "warning",
        }
        alert |= {"subject": f"room:{number}", "detail": "hot", "is_of_engine": False, "is_by_hand": False}
        await write(
            site.tables, "alerts", **alert, seen_at=NOW, opened_at=NOW, closed_at=NOW if number else None
        )
    await pass_time(site)
    [done] = (await site.get("/v1/jobs?state=done&limit=1", key=OTHER)).json()["data"]
    [delivery] = (await site.get("/v1/deliveries?limit=1", key=OTHER)).json()["data"]
    [dead] = (await site.get("/v1/dead-jobs?limit=1", key=OTHER)).json()["data"]
    return {
        "person": person,
        "told": told[1]["id"],
        "waiting": told[2]["id"],
        "schedule": schedule["id"] if "id" in schedule else schedule["schedule"]["id"],
        "job": done["id"],
        "delivery": delivery["id"],
        "fingerprint": dead["fingerprint"],
    }


def asked_with(site: Site, ids: Mapping[str, Any]) -> tuple[dict[str, dict[str, object]], dict[str, object]]:
    """What the path of each read names, and what each parameter is asked with."""
    by_id = {
        "jobs": ids["job"],
        "schedules": ids["schedule"],
        "recipients": ids["person"],
        "notifications": ids["told"],
        "deliveries": ids["delivery"],
    }
    paths: dict[str, dict[str, object]] = {}
    for route in site.routes:
        parts = route.path.split("/")
        if "{id}" in route.path and parts[2] in by_id:
            paths[route.path] = {"id": by_id[parts[2]]}
        elif "{key}" in route.path:
            paths[route.path] = {"key": "order.shipped"}
        elif "{tenant}" in route.path:
            paths[route.path] = {"tenant": OTHER}
    values: dict[str, object] = {
        "kind": "office.ring",
        "queue": "default",
        "subject": "order:1",
        "key": "ring-1",
        "fingerprint": ids["fingerprint"],
        "owner": "nobody",
        "from_at": "2027-03-01T00:00:00Z",
        "before": "2028-03-01T00:00:00Z",
        "at": "2027-04-01T00:00:00Z",
        "correlation_id": "nowhere",
        "name": "queue.paused",
        "external_id": "user-1",
        "version": 1,
        "recipient_id": ids["person"],
        "notification_id": ids["told"],
        "template": "order.shipped",
        "topic": "orders",
        "channel": "email",
        "address": "no@example.org",
    }
    return paths, values


def changes_of(ids: Mapping[str, Any]) -> list[Change]:
    """What a tenant can do with what it has, the person last."""
    person = f"/v1/recipients/{ids['person']}"
    told = f"/v1/notifications/{ids['waiting']}"
    schedule = f"/v1/schedules/{ids['schedule']}"
    changes: list[tuple[str, str, Any]] = [
        ("POST", f"{person}/addresses", {"kind": "phone", "value": "+49 170 1234567"}),
        ("POST", f"{person}/opt-outs", {"topic": "news", "channel": "email"}),
        ("DELETE", f"{person}/opt-outs?topic=news&channel=email", None),
        ("PATCH", person, {"timezone": "Europe/Vienna"}),
        ("PUT", "/v1/templates/order.shipped", {**SHIPPED, "topic": "parcels"}),
        ("POST", "/v1/templates/order.shipped/repin", {"version": 2}),
        ("POST", "/v1/templates/order.shipped/use", {"version": 1}),
        ("POST", f"{told}/mend", {"context": {"order": "A-7"}}),
        ("POST", f"{told}/withdraw", {"reason": "not any more"}),
        ("POST", "/v1/notifications/withdraw", {"subject": "order:1", "reason": "not any more"}),
        ("POST", "/v1/jobs/cancel", {"subject": "order:1", "reason": "not any more"}),
        ("POST", "/v1/dead-jobs/revive", {"fingerprint": ids["fingerprint"]}),
        ("POST", "/v1/queues/mail/resume", {}),
        ("PATCH", schedule, {"start_local": "2027-03-05T18:00:00"}),
        ("POST", f"{schedule}/end", {"reason": "not any more"}),
        ("PATCH", "/v1/policy", {"default_timezone": "Europe/Berlin"}),
        ("DELETE", "/v1/suppressions?channel=email&address=no@example.org", None),
        ("POST", "/v1/clock/advance", {"by": "P1D"}),
        ("DELETE", person, None),
    ]
    inbox = [
        ("PATCH", f"/v1/inbox/{ids['told']}", {"status": "seen"}, ids["person"]),
        ("POST", "/v1/inbox/seen-all", {"up_to": 3}, ids["person"]),
    ]
    return [*inbox, *((*change, None) for change in changes)]


async def test_no_read_looks_at_the_rows_of_others(
    database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A route or a parameter that comes anew must be asked here too: whoever adds one says with what."""
    async with open_sandbox(database_url, apps=(OFFICE,)) as site:
        ids = await furnish(site)
        await settle_neighbours(database_url)
        large = await large_tables(database_url)
        assert {name for name in LISTED if large[name] < NEIGHBOUR_ROWS * 0.9} == set()
        paths, values = asked_with(site, ids)
        reading = Reading(site, monkeypatch, paths=paths, values=values, actor=ids["person"])
        await reading.all(site.routes)
    assert reading.too_far == []
    assert reading.count > 300


async def test_a_twin_is_neither_seen_nor_changed(database_url: TestDatabase) -> None:
    async with (
        open_sandbox(database_url, apps=(OFFICE,), has_wall=False) as site,
        twin_of(site, database_url) as twin,
    ):
        ids = await furnish(site)
        paths, values = asked_with(site, ids)
        asked = {"paths": paths, "values": values, "actor": ids["person"]}
        before = await twin.answers(site.routes, **asked)
        assert await twin.come() >= SHARED
        after = await twin.answers(site.routes, **asked)
        assert {name: answer for name, answer in after.items() if answer != before[name]} == {}
        await twin.is_left_alone_by(changes_of(ids))
