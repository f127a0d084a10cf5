"""`/v1/alerts`: who sees what needs a person, page by page, and who sees to it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.store.insights_support import IDS, bury, write
from tests.store.support import NOW
from tests.web.support import OTHER, Site, open_site, problem
from timebell.client import Client
from timebell.clock import SandboxClock
from timebell.testing.database import TestDatabase

MINUTE = timedelta(minutes=1)
UNHEARD_OF = "01890a5d-ac96-774b-bcce-b302099a8057"


async def opened(site: Site, count: int = 1, **values: Any) -> list[str]:
    """Alerts, each a minute after the one before."""
    ids: list[str] = []
    for number in range(count):
        id = IDS.new()
        row = {
            "id": id,
            "tenant": "default",
            "app": "office",
            "rule": "office_is_hot",
            "severity": "warning",
            "subject": f"room:{id}",
            "detail": "30 degrees",
            "is_of_engine": False,
            "is_by_hand": False,
            "seen_at": NOW,
            "opened_at": NOW + number * MINUTE,
            **values,
        }
        await write(site.tables, "alerts", **row)
        ids.append(str(id))
    return ids


async def ids(site: Site, query: str = "", key: str = "read") -> list[str]:
    found: list[str] = []
    cursor = ""
    for _ in range(10):
        page = (await site.get(f"/v1/alerts?limit=2&{query}{cursor}", key=key)).json()
        found += [alert["id"] for alert in page["data"]]
        if not page["has_more"]:
            return found
        cursor = f"&cursor={page['next_cursor']}"
    raise AssertionError("it has no end")


def once(key: str) -> dict[str, str]:
    return {"idempotency-key": key}


async def test_alerts_are_listed_as_they_opened(site: Site) -> None:
    hot = await opened(site, 3)
    over = await opened(site, 2, closed_at=NOW + 9 * MINUTE)
    await opened(site, opened_at=None)
    both = [hot[0], over[0], hot[1], over[1], hot[2]]
    assert await ids(site) == both
    assert await ids(site, "sort=-opened_at") == [hot[2], over[1], hot[1], over[0], hot[0]]
    assert await ids(site, "state=open") == hot
    assert await ids(site, "state=open&sort=-opened_at") == hot[::-1]
    assert await ids(site, "state=closed") == over
    [first] = (await site.get("/v1/alerts?limit=1", key="read")).json()["data"]
    assert first == {
        "id": hot[0],
        "rule": "office_is_hot",
        "severity": "warning",
        "app": "office",
        "subject": f"room:{hot[0]}",
        "detail": "30 degrees",
        "opened_at": "2027-03-01T09:00:00Z",
        "closed_at": None,
        "acknowledged_by": None,
    }
    problem(await site.get("/v1/alerts?state=gone", key="read"), 422, "invalid_input")


async def test_a_tenant_sees_and_acknowledges_its_own_alone(site: Site) -> None:
    [ours] = await opened(site)
    [theirs] = await opened(site, tenant=OTHER)
    assert await ids(site, key="admin") == [ours]
    assert await ids(site, key=OTHER) == [theirs]
    for key, id in (("admin", theirs), (OTHER, ours)):
        answer = await site.post(f"/v1/alerts/{id}/acknowledge", key=key, headers=once(id))
        problem(answer, 404, "not_found")
    rows = await site.tables.rows("SELECT acknowledged_by FROM timebell.alerts")
    assert [row["acknowledged_by"] for row in rows] == [None, None]


async def test_what_is_about_the_installation_is_for_admins_of_the_first_tenant(site: Site) -> None:
    [late] = await opened(site, app="engine", rule="jobs_are_late", subject="", is_of_engine=True)
    [hot] = await opened(site)
    assert await ids(site, key="admin") == [late, hot]
    for key in ("read", "write"):
        assert await ids(site, key=key) == [hot]
    assert await ids(site, key=OTHER) == []
    path = f"/v1/alerts/{late}/acknowledge"
    problem(await site.post(path, key="write", headers=once("a")), 404, "not_found")
    answer = await site.post(path, key="admin", headers=once("a"))
    assert answer.status_code == 200, answer.text
    assert (answer.json()["subject"], answer.json()["acknowledged_by"][:4]) == (None, "key:")


async def test_a_key_that_only_reads_acknowledges_nothing(site: Site) -> None:
    [hot] = await opened(site)
    path = f"/v1/alerts/{hot}/acknowledge"
    problem(await site.post(path, key="read", headers=once("a")), 403, "scope_missing")
    problem(await site.post(path, key="write"), 400, "idempotency_key_required")
    problem(await site.post(f"/v1/alerts/{UNHEARD_OF}/acknowledge", headers=once("b")), 404, "not_found")


async def test_whoever_was_first_stays_and_it_is_recorded(site: Site) -> None:
    [hot] = await opened(site)
    path = f"/v1/alerts/{hot}/acknowledge"
    first = await site.post(path, headers=once("a"))
    again = await site.post(path, headers=once("a"))
    assert again.headers["idempotent-replayed"] == "true"
    other = await site.post(path, key="admin", headers=once("b"))
    assert first.json() == again.json() == other.json()
    events = (await site.get(f"/v1/events?subject=alert:{hot}", key="read")).json()["data"]
    assert [(event["name"], event["actor"]) for event in events] == [
        ("alert.acknowledged", first.json()["acknowledged_by"])
    ]
    assert first.json()["closed_at"] is None


async def test_what_no_question_closes_is_closed_by_being_acknowledged(site: Site) -> None:
    [lost] = await opened(site, is_by_hand=True)
    answer = await site.post(f"/v1/alerts/{lost}/acknowledge", headers=once("a"))
    assert answer.json()["closed_at"] is not None
    assert await ids(site, "state=open") == []
    events = (await site.get(f"/v1/events?subject=alert:{lost}", key="read")).json()["data"]
    assert [event["name"] for event in events] == ["alert.acknowledged", "alert.closed"]


async def test_the_client_lists_and_acknowledges(site: Site) -> None:
    hot = await opened(site, 2)
    async with Client("http://bell.test", site.keys["write"], transport=_through(site)) as client:
        listed = [alert async for alert in client.alerts.list(state="open", newest_first=True)]
        assert [str(alert.id) for alert in listed] == hot[::-1]
        seen = await client.alerts.acknowledge(UUID(hot[0]))
        assert (seen.acknowledged_by or "").startswith("key:")


def _through(site: Site) -> Any:
    return site.client._transport


@pytest.mark.parametrize("sort", ["opened_at", "-opened_at"])
async def test_a_page_looks_at_so_many_and_goes_on(
    site: Site, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    """What others may not see may lie between, and costs no more than a page."""
    monkeypatch.setattr("timebell.kernel.alerts.alerts._LOOK_MAX", 2)
    await opened(site, 5, app="engine", is_of_engine=True)
    [hot] = await opened(site, opened_at=NOW + 150 * timedelta(seconds=1))
    assert await ids(site, f"sort={sort}") == [hot]


async def test_a_sandbox_looks_after_each_advance_and_operators_hear_of_it(
    database_url: TestDatabase,
) -> None:
    """A job that nobody can do dies, and another is late since its queue is held here."""
    async with open_site(database_url, clock=SandboxClock(NOW)) as site:
        for _ in range(101):
            await bury(site.tables, died_at=NOW)
        made = await site.post("/v1/recipients", {"name": "Ada", "email": "ada@example.org"}, key="admin")
        told = (made.json()["id"],)
        site.bell.settings = replace(site.bell.settings, operations_recipients=told)
        assert (await site.post("/v1/clock/advance", {"by": "PT1M"}, key="admin")).status_code == 200
        [alert] = (await site.get("/v1/alerts?state=open", key="admin")).json()["data"]
        assert (alert["rule"], alert["opened_at"]) == ("many_dead_jobs", "2027-03-01T09:01:00Z")
        outbox = (await site.get("/v1/outbox", key="admin")).json()["data"]
        assert [each["subject"] for each in outbox] == ["Critical: many_dead_jobs"]
