"""`/api/schedules` and `/api/tasks` as a client sees them, with the names and words of the source."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
import pytest_asyncio

from tests.apps.reminders.support import DAY, NOW, WEEK
from tests.web.support import Site, open_site, problem
from timebell.apps.reminders import APP
from timebell.notify import Notify, notify_app
from timebell.testing import Harness, ManualClock, harness
from timebell.testing.database import TestDatabase

REPORT: dict[str, Any] = {
    "kind": "task",
    "title": "Submit report",
    "tz": "Europe/Berlin",
    "start_local": "2026-03-06T17:00:00",
    "show_before_minutes": 1440,
    "muted_offsets_min": [720],
}
WEEKLY = {**REPORT, "rrule": "FREQ=WEEKLY"}


@dataclass(slots=True, kw_only=True)
class Client:
    """Ada's client; `bench` moves the clock and pays what is due."""

    site: Site
    bench: Harness
    ada: UUID
    bob: UUID

    async def ask(self, method: str, path: str, json: Any = None, **options: Any) -> httpx2.Response:
        if json is not None:
            options["json"] = json
        return await self.site.ask(method, path, **{"actor": self.ada, **options})

    async def create(self, **given: Any) -> dict[str, Any]:
        response = await self.ask("POST", "/api/schedules", {**WEEKLY, **given})
        assert response.status_code == 201, response.text
        row: dict[str, Any] = response.json()
        return row

    async def data(self, path: str, **options: Any) -> list[dict[str, Any]]:
        response = await self.ask("GET", path, **options)
        assert response.status_code == 200, response.text
        found: list[dict[str, Any]] = response.json()["data"]
        return found

    async def inbox(self) -> list[tuple[int, datetime]]:
        lines = (await Notify(self.bench.bell).inbox.list(self.ada, limit=500)).lines
        return [(line.payload["offset_minutes"], line.due_at) for line in lines]


@asynccontextmanager
async def open_client(database: TestDatabase) -> AsyncIterator[Client]:
    clock = ManualClock(NOW)
    async with (
        harness(database.url, [notify_app([]), APP], clock=clock) as bench,
        open_site(database, apps=(APP,), clock=clock) as site,
    ):
        async with bench.bell.transaction() as tx:
            people = [await Notify(bench.bell).recipients.add(tx, name=name) for name in ("Ada", "Bob")]
        yield Client(site=site, bench=bench, ada=people[0].id, bob=people[1].id)


@pytest_asyncio.fixture
async def client(reminders_database: TestDatabase) -> AsyncIterator[Client]:
    async with open_client(reminders_database) as opened:
        yield opened


@pytest.mark.req("R-6.1", "R-2.2", "R-3.1")
async def test_a_schedule_is_planned_at_once_and_answered_with_what_that_added(client: Client) -> None:
    response = await client.ask("POST", "/api/schedules", REPORT)
    assert response.status_code == 201
    assert response.headers["etag"] == '"rev-1"'
    row = response.json()
    assert row | REPORT == row
    assert row["user_id"] == str(client.ada)
    assert (row["active"], row["rev"], row["rrule"], row["until_local"]) == (True, 1, None, None)
    assert row["notify_offsets_min"] == [2880, 1440, 720, 360, 180]
    assert row["last_materialized_until"] > "2026-05-01T"
    (added,) = row["diff"]["added"]
    assert (added["occurs_at"], added["offsets_min"]) == ("2026-03-06T16:00:00Z", [2880, 1440, 360, 180])
    assert not any(row["diff"][name] for name in ("kept", "moved", "withdrawn", "too_late"))
    (task,) = await client.data("/api/tasks", params={"visible": "all"})
    assert (task["due_at"], task["visible_from"]) == ("2026-03-06T16:00:00Z", "2026-03-05T16:00:00Z")
    assert (task["schedule_id"], task["occurrence_id"]) == (row["id"], added["occurrence_id"])
    assert await client.data("/api/tasks") == []


@pytest.mark.req("R-3.1", "R-2.2")
async def test_what_is_left_out_has_its_default(client: Client) -> None:
    bare = {name: REPORT[name] for name in ("kind", "title", "tz", "start_local")}
    row = (await client.ask("POST", "/api/schedules", bare)).json()
    assert (row["show_before_minutes"], row["muted_offsets_min"]) == (0, [])
    assert row["notify_offsets_min"] == [2880, 1440, 720, 360, 180]
    problem(await client.ask("POST", "/api/schedules", {**bare, "kind": "x"}), 422, "invalid_input")


@pytest.mark.req("R-6.4")
@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"rrule": "FREQ=NEVER"}, "/rrule"),
        ({"rrule": "FREQ=SECONDLY"}, "/rrule"),
        ({"rrule": None, "start_local": "2026-03-01T09:00:00"}, "/start_local"),
        ({"rrule": "FREQ=DAILY;COUNT=2", "start_local": "2026-02-01T09:00:00"}, "/rrule"),
        ({"tz": "Europe/Atlantis"}, "/tz"),
        ({"start_local": "2026-03-06T17:00:00Z"}, "/start_local"),
        ({"start_local": "2026-02-30T17:00:00"}, "/start_local"),
        ({"title": "  "}, "/title"),
        ({"notify_offsets_min": [-1]}, "/notify_offsets_min/0"),
        ({"notify_offsets_min": list(range(21))}, "/notify_offsets_min"),
        ({"notify_offsets_min": ["60"]}, "/notify_offsets_min/0"),
        ({"show_before_minutes": 1.5}, "/show_before_minutes"),
        ({"color": "red"}, "/color"),
    ],
)
async def test_what_cannot_be_is_refused_by_its_name(
    client: Client, given: dict[str, Any], pointer: str
) -> None:
    content = problem(await client.ask("POST", "/api/schedules", {**WEEKLY, **given}), 422, _code(pointer))
    assert [error["pointer"] for error in content["errors"]] == [pointer]
    assert await client.data("/api/schedules") == []


def _code(pointer: str) -> Any:
    return {"/rrule": "recurrence_error", "/tz": "unknown_timezone"}.get(pointer, "invalid_input")


@pytest.mark.req("R-6.2")
async def test_an_edit_is_merged_and_answers_the_difference(client: Client) -> None:
    made = await client.create()
    path = f"/api/schedules/{made['id']}"
    response = await client.ask("PATCH", path, {"start_local": "2026-03-06T18:00:00"})
    assert response.status_code == 200
    row = response.json()
    assert (row["rev"], row["title"], row["rrule"]) == (2, "Submit report", "FREQ=WEEKLY")
    assert len(row["diff"]["added"]) == len(row["diff"]["withdrawn"]) == len(made["diff"]["added"])
    tasks = await client.data("/api/tasks", params={"visible": "all"})
    assert [task["due_at"] for task in tasks] == [one["occurs_at"] for one in row["diff"]["added"]]
    moved = (await client.ask("PATCH", path, {"tz": "Europe/London"})).json()
    assert len(moved["diff"]["moved"]) == len(tasks)
    assert moved["diff"]["moved"][0]["was_at"] == "2026-03-06T17:00:00Z"
    assert (await client.ask("PATCH", path, {"until_local": "2026-03-20T18:00:00"})).json()["rev"] == 4
    assert len(await client.data("/api/tasks", params={"visible": "all"})) == 3
    assert (await client.ask("PATCH", path, {"until_local": None})).json()["until_local"] is None
    refused = problem(await client.ask("PATCH", path, {"title": None}), 422, "invalid_input")
    assert [error["pointer"] for error in refused["errors"]] == ["/title"]


async def test_somebody_elses_edit_is_not_overwritten(client: Client) -> None:
    made = await client.create()
    path = f"/api/schedules/{made['id']}"
    first = await client.ask("PATCH", path, {"title": "A"}, headers={"if-match": '"rev-1"'})
    assert first.headers["etag"] == '"rev-2"'
    late = await client.ask("PATCH", path, {"title": "B"}, headers={"if-match": '"rev-1"'})
    problem(late, 412, "revision_conflict")
    known = await client.ask("GET", path, headers={"if-none-match": '"rev-2"'})
    assert known.status_code == 304


@pytest.mark.req("R-6.3")
async def test_a_schedule_that_is_deleted_can_be_read_and_is_not_active(client: Client) -> None:
    made = await client.create()
    path = f"/api/schedules/{made['id']}"
    for _ in range(2):
        response = await client.ask("DELETE", path)
        assert (response.status_code, response.content) == (204, b"")
    row = (await client.ask("GET", path)).json()
    assert (row["active"], row["rev"]) == (False, 2)
    assert await client.data("/api/tasks", params={"visible": "all"}) == []
    assert await client.data(f"{path}/occurrences") == []
    assert await client.data("/api/schedules", params={"active": "true"}) == []
    assert [one["id"] for one in await client.data("/api/schedules", params={"active": "false"})] == [
        made["id"]
    ]
    problem(await client.ask("PATCH", path, {"title": "Again"}), 409, "schedule_deleted")
    await client.bench.advance(8 * WEEK)
    assert await client.inbox() == []


async def test_a_schedule_that_is_over_goes_on_with_a_later_time_until_it_is_deleted(client: Client) -> None:
    made = await client.create(rrule=None, notify_offsets_min=[0])
    path = f"/api/schedules/{made['id']}"
    await client.bench.advance(2 * WEEK)
    assert (await client.ask("GET", path)).json()["active"] is False
    later = await client.ask("PATCH", path, {"start_local": "2026-03-20T17:00:00"})
    assert later.json()["active"] is True
    await client.bench.advance(2 * WEEK)
    assert (await client.ask("DELETE", path)).status_code == 204
    problem(await client.ask("PATCH", path, {"start_local": "2026-05-01T17:00:00"}), 409, "schedule_deleted")


@pytest.mark.req("R-6.5", "X-R21")
async def test_one_occurrence_is_skipped_moved_and_brought_back(client: Client) -> None:
    made = await client.create()
    path = f"/api/schedules/{made['id']}/occurrences"
    before = await client.data(path)
    assert before[0] | {"original_local": "2026-03-06T17:00:00", "state": "planned", "rev": 1} == before[0]
    skipped = (await client.ask("PATCH", f"{path}/{before[1]['original_local']}", {"skip": True})).json()
    assert [one["original_local"] for one in skipped["diff"]["withdrawn"]] == ["2026-03-13T17:00:00"]
    moved = await client.ask(
        "PATCH", f"{path}/{before[2]['original_local']}", {"start_local": "2026-03-21T09:00:00"}
    )
    assert moved.json()["diff"]["moved"][0]["occurs_at"] == "2026-03-21T08:00:00Z"
    after = {one["original_local"]: one for one in await client.data(path)}
    assert after["2026-03-13T17:00:00"]["state"] == "skipped"
    assert after["2026-03-20T17:00:00"]["local"] == "2026-03-21T09:00:00"
    tasks = await client.data("/api/tasks", params={"visible": "all"})
    assert [task["due_at"][:10] for task in tasks[:2]] == ["2026-03-06", "2026-03-21"]
    back = await client.ask("PATCH", f"{path}/2026-03-13T17:00:00", {"skip": False})
    assert back.status_code == 200
    assert (await client.data(path))[1]["state"] == "planned"
    for wrong in ({}, {"skip": True, "start_local": "2026-03-21T09:00:00"}):
        problem(await client.ask("PATCH", f"{path}/2026-03-13T17:00:00", wrong), 422, "invalid_input")
    problem(await client.ask("PATCH", f"{path}/yesterday", {"skip": True}), 404, "not_found")


async def test_what_follows_is_moved_by_a_new_schedule_or_left_out(client: Client) -> None:
    made = await client.create()
    path = f"/api/schedules/{made['id']}/occurrences"
    count = len(await client.data("/api/tasks", params={"visible": "all"}))
    response = await client.ask(
        "PATCH",
        f"{path}/2026-03-20T17:00:00",
        {"start_local": "2026-03-20T08:00:00"},
        params={"scope": "following"},
    )
    assert response.status_code == 200
    rest = response.json()
    assert (rest["split_from"], rest["start_local"]) == (made["id"], "2026-03-20T08:00:00")
    assert len(await client.data(path)) == 2
    assert len(await client.data("/api/tasks", params={"visible": "all"})) == count
    ending = await client.ask(
        "PATCH",
        f"/api/schedules/{rest['id']}/occurrences/2026-03-27T08:00:00",
        {"skip": True},
        params={"scope": "following"},
    )
    assert ending.json()["until_local"] == "2026-03-27T07:59:59"
    assert len(await client.data("/api/tasks", params={"visible": "all"})) == 3
    # What is not there, be it behind the end or long ago, can be left out by nobody.
    for none in ("2026-04-10T08:00:00", "2025-03-20T08:00:00"):
        refused = await client.ask(
            "PATCH",
            f"/api/schedules/{rest['id']}/occurrences/{none}",
            {"skip": True},
            params={"scope": "following"},
        )
        problem(refused, 422, "invalid_input")
    assert len(await client.data("/api/tasks", params={"visible": "all"})) == 3


async def test_a_dry_run_answers_and_keeps_nothing(client: Client) -> None:
    response = await client.ask("POST", "/api/schedules", WEEKLY, params={"dry_run": "true"})
    assert response.status_code == 201
    assert len(response.json()["diff"]["added"]) > 7
    assert await client.data("/api/schedules") == []
    assert await client.data("/api/tasks", params={"visible": "all"}) == []


async def test_the_same_request_is_carried_out_once(client: Client) -> None:
    headers = {"idempotency-key": "one"}
    first = await client.ask("POST", "/api/schedules", WEEKLY, headers=headers)
    second = await client.ask("POST", "/api/schedules", WEEKLY, headers=headers)
    assert second.headers["idempotent-replayed"] == "true"
    assert first.json() == second.json()
    assert len(await client.data("/api/schedules")) == 1


@pytest.mark.req("R-7.1", "R-6.5")
async def test_tasks_are_written_down_listed_and_completed(client: Client) -> None:
    due = (NOW + DAY).isoformat().replace("+00:00", "Z")
    given = {"title": "Buy milk", "due_at": due, "show_before_due_time": 60}
    made = (await client.ask("POST", "/api/tasks", given)).json()
    assert made | given == made
    assert made["visible_from"] == (NOW + DAY - timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    timeless = (await client.ask("POST", "/api/tasks", {"title": "Some day"})).json()
    assert [task["id"] for task in await client.data("/api/tasks")] == [timeless["id"]]
    everything = await client.data("/api/tasks", params={"visible": "all"})
    assert everything == [made, timeless]
    newest = await client.data("/api/tasks", params={"visible": "all", "sort": "-created_at"})
    assert newest == everything[::-1]
    done = await client.ask("POST", f"/api/tasks/{made['id']}/complete")
    assert done.status_code == 200
    assert done.json()["completed_at"] == "2026-03-02T08:00:00Z"
    assert (await client.ask("GET", f"/api/tasks/{made['id']}")).json() == done.json()
    assert [task["id"] for task in await client.data("/api/tasks", params={"completed": "false"})] == [
        timeless["id"]
    ]


@pytest.mark.req("X-C10")
@pytest.mark.parametrize("due_at", ["2026-03-05T16:00:00", "0001-01-01T00:00:00Z"])
async def test_a_task_is_due_at_an_instant_of_our_time(client: Client, due_at: str) -> None:
    given = {"title": "Buy milk", "due_at": due_at, "show_before_due_time": 60}
    refused = problem(await client.ask("POST", "/api/tasks", given), 422, "invalid_input")
    assert [error["pointer"] for error in refused["errors"]] == ["/due_at"]


async def test_what_is_recorded_of_a_task_leads_back_to_the_request(client: Client) -> None:
    made = await client.ask("POST", "/api/tasks", {"title": "Buy milk"}, headers={"x-correlation-id": "c-1"})
    path = f"/api/tasks/{made.json()['id']}/complete"
    await client.ask("POST", path, headers={"x-correlation-id": "c-2"})
    subject = f"task:{made.json()['id']}"
    events = await client.data("/v1/events", params={"subject": subject}, actor=None)
    said = {event["name"]: event["correlation_id"] for event in events}
    assert said == {"task.created": "c-1", "task.completed": "c-2"}


async def test_tasks_come_in_pages(client: Client) -> None:
    ids = [
        (await client.ask("POST", "/api/tasks", {"title": f"{number}"})).json()["id"] for number in range(5)
    ]
    seen: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(3):
        page = (await client.ask("GET", "/api/tasks", params={"limit": "2", **cursor})).json()
        seen += [task["id"] for task in page["data"]]
        cursor = {"cursor": page["next_cursor"]} if page["has_more"] else {}
    assert sorted(seen) == sorted(ids)
    assert not cursor


@pytest.mark.req("R-6.5")
async def test_what_another_person_has_is_as_if_it_were_not(client: Client) -> None:
    made = await client.create()
    task = (await client.data("/api/tasks", params={"visible": "all"}))[0]
    asked = [
        ("GET", "/api/schedules/{}", made["id"], None),
        ("PATCH", "/api/schedules/{}", made["id"], {"title": "Mine"}),
        ("DELETE", "/api/schedules/{}", made["id"], None),
        ("GET", "/api/schedules/{}/occurrences", made["id"], None),
        ("PATCH", "/api/schedules/{}/occurrences/2026-03-06T17:00:00", made["id"], {"skip": True}),
        ("GET", "/api/tasks/{}", task["id"], None),
        ("POST", "/api/tasks/{}/complete", task["id"], None),
    ]
    for method, path, id, body in asked:
        answers = []
        for tried in (id, str(uuid4())):
            response = await client.ask(method, path.format(tried), body, actor=client.bob)
            content = problem(response, 404, "not_found")
            del content["correlation_id"]
            answers.append(str(content).replace(tried, "<id>"))
        assert answers[0] == answers[1]
    assert await client.data("/api/schedules", actor=client.bob) == []
    assert await client.data("/api/tasks", params={"visible": "all"}, actor=client.bob) == []
    problem(await client.ask("GET", "/api/tasks", actor=None), 400, "actor_required")
    problem(await client.ask("GET", "/api/tasks", key="other"), 403, "actor_unknown")


@pytest.mark.req("R-2.2")
async def test_who_is_erased_over_http_leaves_no_rows(client: Client) -> None:
    made = await client.create()
    await client.ask("PATCH", f"/api/schedules/{made['id']}/occurrences/2026-03-13T17:00:00", {"skip": True})
    response = await client.ask("DELETE", f"/v1/recipients/{client.ada}", actor=None)
    assert response.status_code < 300, response.text
    async with client.bench.bell.transaction() as tx:
        for table in ("timebell.schedules", "timebell.occurrences", "timebell.occurrence_overrides"):
            assert await tx.connection.fetchval(f"SELECT count(*) FROM {table}") == 0
        assert await tx.connection.fetchval("SELECT count(*) FROM reminders.tasks") == 0


async def test_nothing_that_a_person_wrote_is_left_anywhere_but_in_the_log(client: Client) -> None:
    await client.create(title="Water the orchids", kind="reminder")
    await client.ask("POST", "/api/tasks", {"title": "Buy orchids"}, headers={"idempotency-key": "k1"})
    await client.ask("POST", "/api/schedule-feed")
    await client.bench.advance(WEEK)
    await client.ask("DELETE", f"/v1/recipients/{client.ada}", actor=None)
    tables = await client.site.tables.rows(
        "SELECT format('%I.%I', n.nspname, c.relname) AS name FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND NOT c.relispartition "
        "AND (n.nspname = 'reminders' OR n.nspname LIKE 'timebell%')"
    )
    assert len(tables) > 30
    left = {
        table["name"]: count
        for table in tables
        if (
            count := await client.site.tables.value(
                f"SELECT count(*) FROM {table['name']} t WHERE to_jsonb(t)::text ~ '[oO]rchids' "
                "OR to_jsonb(t)::text LIKE '%' || encode('orchids', 'hex') || '%'"
            )
        )
    }
    assert left == {}
    assert await client.site.tables.value("SELECT count(*) FROM reminders.schedule_feeds") == 0


async def exported(client: Client, limit: int) -> dict[str, list[dict[str, Any]]]:
    document: dict[str, list[dict[str, Any]]] = {}
    cursor: str | None = None
    for _ in range(50):
        params = {"limit": limit, **({} if cursor is None else {"cursor": cursor})}
        page = (await client.site.get(f"/v1/recipients/{client.ada}/export", params=params)).json()
        for section, lines in page["document"].items():
            if section != "recipient":
                document.setdefault(section, []).extend(lines)
        cursor = page["next_cursor"]
        if cursor is None:
            break
    return document


@pytest.mark.parametrize("limit", [1, 2, 500])
async def test_everything_that_a_person_has_here_is_exported(client: Client, limit: int) -> None:
    weekly = await client.create(rrule="FREQ=WEEKLY;COUNT=2", title="Report")
    await client.ask(
        "PATCH", f"/api/schedules/{weekly['id']}/occurrences/2026-03-13T17:00:00", {"skip": True}
    )
    bought = (await client.ask("POST", "/api/tasks", {"title": "Buy milk"})).json()
    ended = await client.create(title="Over", kind="reminder")
    await client.ask("DELETE", f"/api/schedules/{ended['id']}")
    await client.ask("POST", "/api/tasks", {"title": "Not hers"}, actor=client.bob)
    lines = (await exported(client, limit))["reminders"]
    assert [line["id"] for line in lines] == sorted(line["id"] for line in lines)
    found = {line["id"]: line for line in lines}
    assert len(found) == len(lines) == 4
    assert {(line["is"], line["title"]) for line in lines} == {
        ("schedule", "Report"),
        ("task", "Report"),
        ("task", "Buy milk"),
        ("schedule", "Over"),
    }
    assert found[weekly["id"]]["overrides"] == [{"original_local": "2026-03-13T17:00:00", "new_local": None}]
    assert found[ended["id"]]["state"] == "ended"
    assert found[bought["id"]]["user_id"] == str(client.ada)


async def test_an_export_misses_none_of_many_bytes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of schedules ends its page early where these are large; the tasks behind them must not."""
    made = [(await client.create(title=f"Schedule {number}", kind="reminder"))["id"] for number in range(5)]
    made += [
        (await client.ask("POST", "/api/tasks", {"title": f"Task {number}"})).json()["id"]
        for number in range(3)
    ]
    monkeypatch.setattr("timebell.kernel.paging.PAGE_BYTES_MAX", 4_000)
    lines = (await exported(client, 500))["reminders"]
    assert [line["id"] for line in lines] == sorted(made)


@pytest.mark.req("R-7.3")
async def test_the_scenario_across_the_change_of_the_clocks(client: Client) -> None:
    """A weekly task over the last Sunday of March: each reminder once, at its instant; then an edit; then silence."""
    made = await client.create(start_local="2026-03-13T17:00:00")
    await client.bench.advance(8 * WEEK)
    fridays = [datetime.fromisoformat(one["occurs_at"]) for one in made["diff"]["added"]]
    assert {at.hour for at in fridays[:2]} == {16}
    assert {at.hour for at in fridays[3:]} == {15}
    owed = [(hours * 60, at - timedelta(hours=hours)) for at in fridays for hours in (48, 24, 6, 3)]
    told = await client.inbox()
    assert told == [one for one in owed if one[1] <= client.bench.clock.now]
    path = f"/api/schedules/{made['id']}"
    changed = (await client.ask("PATCH", path, {"start_local": "2026-03-13T19:30:00"})).json()
    assert changed["diff"]["added"]
    await client.bench.advance(WEEK)
    later = (await client.inbox())[len(told) :]
    assert len(set(later)) == len(later) == 4
    tasks = await client.data("/api/tasks", params={"visible": "all", "limit": "500"})
    due = [task["due_at"] for task in tasks]
    assert len(set(due)) == len(due)
    ahead = [one["occurs_at"] for one in await client.data(f"{path}/occurrences", params={"limit": "500"})]
    assert [at for at in due if datetime.fromisoformat(at) >= client.bench.clock.now] == ahead
    assert (await client.ask("DELETE", path)).status_code == 204
    count = len(await client.inbox())
    await client.bench.advance(8 * WEEK)
    assert len(await client.inbox()) == count
