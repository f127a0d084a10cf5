"""`/v1/schedules`: made, tried before, changed in whole or in part, and answered with what that changed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.store.support import StillClock
from tests.web.support import OTHER, Site, open_site, problem
from timebell.rules.previewing import preview
from timebell.rules.recurrence import check_recurrence
from timebell.testing.database import TestDatabase

UNHEARD_OF = "01890a5d-ac96-774b-bcce-b302099a8057"
WEEKLY: dict[str, Any] = {
    "timezone": "Europe/Berlin",
    "start_local": "2027-03-05T17:00:00",
    "recurrence": "FREQ=WEEKLY",
    "steps": [
        {"key": "before", "kind": "office.ring", "offset": "-PT1H"},
        {
            "key": "at",
            "kind": "office.post",
            "offset": "PT0S",
            "payload": {"step": 1},
            "expires_after": "P1D",
        },
    ],
    "payload": {"report": 7},
    "owner": "user:1",
    "subject": "report:7",
}


@pytest_asyncio.fixture
async def site(database_url: TestDatabase) -> AsyncIterator[Site]:
    """It is Monday the first of March 2027, and stays so."""
    async with open_site(database_url, clock=StillClock()) as opened:
        yield opened


def once(key: str) -> dict[str, str]:
    return {"idempotency-key": key}


async def make(site: Site, **changes: Any) -> dict[str, Any]:
    response = await site.post("/v1/schedules", {**WEEKLY, **changes})
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    return made


def answered(response: httpx2.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    content: dict[str, Any] = response.json()
    assert response.headers["etag"] == f'"rev-{content["revision"]}"'
    return content


def locals_of(lines: list[dict[str, Any]]) -> list[str]:
    return [line["original_local"] for line in lines]


async def test_a_schedule_is_planned_at_once_and_shown_as_it_is(site: Site) -> None:
    body = {**WEEKLY, "correlation_id": None}
    response = await site.post("/v1/schedules", body, headers={"x-correlation-id": "cause-1"})
    assert response.status_code == 201, response.text
    made = response.json()
    assert response.headers["etag"] == '"rev-1"'
    for name in ("timezone", "start_local", "recurrence", "payload", "owner", "subject"):
        assert made[name] == WEEKLY[name], name
    assert (made["state"], made["revision"], made["correlation_id"]) == ("active", 1, "cause-1")
    [before, at] = made["steps"]
    assert (before["offset"], before["late"], at["offset"], at["expires_after"]) == (
        "-PT1H",
        "skip",
        "PT0S",
        "PT24H",
    )
    added = made["diff"]["added"]
    assert locals_of(added)[:5] == [f"2027-03-{day:02}T17:00:00" for day in (5, 12, 19, 26)] + [
        "2027-04-02T17:00:00"
    ]
    assert [one["occurs_at"] for one in added[3:5]] == ["2027-03-26T16:00:00Z", "2027-04-02T15:00:00Z"]
    assert made["first_occurrence"]["original_local"] == "2027-03-05T17:00:00"
    jobs = await site.tables.jobs()
    assert len(jobs) == 2 * len(added)
    assert {job["correlation_id"] for job in jobs} == {"cause-1"}
    assert jobs[0]["due_at"] == datetime(2027, 3, 5, 15, tzinfo=UTC)

    read = await site.get(f"/v1/schedules/{made['id']}", key="read")
    assert answered(read) == {name: made[name] for name in read.json()}
    fresh = {"if-none-match": read.headers["etag"]}
    assert (await site.get(f"/v1/schedules/{made['id']}", headers=fresh)).status_code == 304


async def test_a_dry_run_tells_everything_and_keeps_nothing(site: Site) -> None:
    tried = await site.post("/v1/schedules?dry_run=true", WEEKLY)
    assert tried.status_code == 201
    assert len(tried.json()["diff"]["added"]) > 3
    assert await site.tables.value("SELECT count(*) FROM timebell.schedules") == 0
    made = await make(site)
    path = f"/v1/schedules/{made['id']}"
    moved = answered(
        await site.ask("PATCH", f"{path}?dry_run=true", json={"start_local": "2027-03-05T18:00:00"})
    )
    assert len(moved["diff"]["added"]) == len(moved["diff"]["withdrawn"]) == len(made["diff"]["added"])
    assert answered(await site.post(f"{path}/end?dry_run=true"))["state"] == "ended"
    unchanged = (await site.get(path)).json()
    assert (unchanged["revision"], unchanged["state"]) == (1, "active")
    assert await site.tables.value("SELECT count(*) FROM timebell.events WHERE name LIKE 'schedule.%'") == 1


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"timezone": "Mars/Olympus"}, "unknown_timezone", "/timezone"),
        ({"recurrence": "FREQ=SECONDLY"}, "recurrence_error", "/recurrence"),
        ({"recurrence": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}, "recurrence_error", "/recurrence"),
        ({"recurrence": None, "start_local": "2027-02-01T10:00:00"}, "invalid_input", "/start_local"),
        ({"start_local": "2027-03-05T17:00:00Z"}, "invalid_input", "/start_local"),
        ({"steps": []}, "invalid_input", "/steps"),
        (
            {"steps": [{"key": "a", "kind": "office.ring", "offset": "1h"}]},
            "invalid_input",
            "/steps/0/offset",
        ),
        ({"steps": [{"key": "a", "kind": "nobody.knows", "offset": "PT0S"}]}, "unknown_kind", "/steps"),
        ({"steps": [{"key": "a", "kind": "Ring!", "offset": "PT0S"}]}, "invalid_input", "/steps/0/kind"),
        (
            {"steps": [{"key": "a", "kind": "notify.deliver", "offset": "PT0S"}]},
            "invalid_input",
            "/steps/0/kind",
        ),
        (
            {"steps": [{"key": "a", "kind": "office.ring", "offset": "PT0S", "grace": "PT1H"}]},
            "invalid_input",
            "/steps/0/grace",
        ),
        ({"steps": [{"key": "a", "kind": "office.ring", "offset": "PT0S"}] * 2}, "invalid_input", "/steps"),
        ({"exdates": ["2027-03-05T17:00:00Z"]}, "invalid_input", "/exdates/0"),
        ({"grace": "P400D"}, "invalid_input", "/grace"),
        ({"owner": ""}, "invalid_input", "/owner"),
        ({"state": "paused"}, "invalid_input", "/state"),
    ],
)
async def test_schedules_that_are_refused(
    site: Site, changes: dict[str, Any], code: str, pointer: str
) -> None:
    content = problem(await site.post("/v1/schedules", {**WEEKLY, **changes}), 422, code)
    assert [error["pointer"] for error in content["errors"]] == [pointer]
    assert await site.tables.value("SELECT count(*) FROM timebell.schedules") == 0


async def test_lists_of_schedules(site: Site) -> None:
    made = [(await make(site, owner=f"user:{n % 2}", subject=f"s:{n}"))["id"] for n in range(4)]
    await site.post("/v1/schedules", WEEKLY, key=OTHER)
    await site.post(f"/v1/schedules/{made[1]}/pause", headers=once("a"))

    async def ids(query: str) -> list[str]:
        page = (await site.get(f"/v1/schedules?{query}", key="read")).json()
        return [one["id"] for one in page["data"]]

    assert await ids("") == made
    assert await ids("owner=user:1") == [made[1], made[3]]
    assert await ids("subject=s:2") == [made[2]]
    assert await ids("state=paused") == [made[1]]
    first = (await site.get("/v1/schedules?limit=3")).json()
    assert first["has_more"]
    assert await ids(f"cursor={first['next_cursor']}") == made[3:]
    for query in ("state=lost", "owner=a&subject=b", "sort=-id"):
        problem(await site.get(f"/v1/schedules?{query}"), 422, "invalid_input")


async def test_an_edit_changes_what_is_to_come_and_tells_what(site: Site) -> None:
    made = await make(site, until_local="2027-03-31T00:00:00", exdates=["2027-03-12T17:00:00"])
    path = f"/v1/schedules/{made['id']}"
    assert locals_of(made["diff"]["added"]) == [f"2027-03-{day:02}T17:00:00" for day in (5, 19, 26)]
    edited = answered(await site.ask("PATCH", path, json={"exdates": [], "owner": None}))
    assert (edited["revision"], edited["owner"], edited["exdates"]) == (2, None, [])
    assert locals_of(edited["diff"]["added"]) == ["2027-03-12T17:00:00"]
    assert locals_of(edited["diff"]["kept"]) == [f"2027-03-{day:02}T17:00:00" for day in (5, 19, 26)]
    one_off = answered(await site.ask("PATCH", path, json={"recurrence": None, "until_local": None}))
    assert locals_of(one_off["diff"]["withdrawn"]) == [f"2027-03-{day:02}T17:00:00" for day in (12, 19, 26)]
    [event] = (await site.get(f"/v1/events?subject=schedule:{made['id']}&limit=1&sort=-id")).json()["data"]
    assert (event["name"], event["data"]["withdrawn"]) == ("schedule.edited", 3)
    assert event["actor"].startswith("key:tb_live_")
    for name in ("timezone", "start_local", "steps", "payload", "exdates", "on_gap"):
        problem(await site.ask("PATCH", path, json={name: None}), 422, "invalid_input")
    problem(await site.ask("PATCH", path, json={"correlation_id": "x"}), 422, "invalid_input")


async def test_what_was_changed_meanwhile_is_not_changed_unseen(site: Site) -> None:
    path = f"/v1/schedules/{(await make(site))['id']}"
    stale = {"if-match": '"rev-1"'}
    changes = {"payload": {"report": 8}}
    assert answered(await site.ask("PATCH", path, json=changes, headers=stale))["revision"] == 2
    refused = await site.ask("PATCH", path, json={"payload": {}}, headers=stale)
    problem(refused, 412, "revision_conflict")
    assert refused.headers["etag"] == '"rev-2"'
    problem(await site.post(f"{path}/end", headers={**once("a"), **stale}), 412, "revision_conflict")
    occurrence = f"{path}/occurrences/2027-03-12T17:00:00"
    problem(await site.ask("DELETE", occurrence, headers=stale), 412, "revision_conflict")
    answers = await asyncio.gather(
        *(
            site.ask("PATCH", path, json={"payload": {"n": n}}, headers={"if-match": '"rev-2"'})
            for n in range(5)
        )
    )
    assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412, 412]


async def test_one_occurrence_is_skipped_moved_and_restored(site: Site) -> None:
    made = await make(site, until_local="2027-03-31T00:00:00")
    path = f"/v1/schedules/{made['id']}/occurrences"
    skipped = answered(await site.ask("PATCH", f"{path}/2027-03-12T17:00:00", json={"skip": True}))
    assert locals_of(skipped["diff"]["withdrawn"]) == ["2027-03-12T17:00:00"]
    to = {"start_local": "2027-03-20T09:00:00", "payload": {"late": True}}
    moved = answered(await site.ask("PATCH", f"{path}/2027-03-19T17:00:00", json=to))
    [one] = moved["diff"]["moved"]
    assert (one["occurs_at"], one["was_at"]) == ("2027-03-20T08:00:00Z", "2027-03-19T16:00:00Z")
    page = (await site.get(f"{path}?from_at=2027-03-10T00:00:00Z", key="read")).json()["data"]
    assert [(line["local"], line["state"]) for line in page if line["state"] != "skipped"] == [
        ("2027-03-20T09:00:00", "planned"),
        ("2027-03-26T17:00:00", "planned"),
    ]
    before = (await site.get(f"{path}?before=2027-03-10T00:00:00Z", key="read")).json()["data"]
    assert locals_of(before) == ["2027-03-05T17:00:00"]
    restored = answered(await site.ask("DELETE", f"{path}/2027-03-12T17:00:00"))
    assert locals_of(restored["diff"]["added"]) == ["2027-03-12T17:00:00"]
    problem(await site.ask("DELETE", f"{path}/2027-03-12T17:00:00"), 404, "not_found")
    for body in (
        {},
        {"skip": True, "start_local": "2027-03-13T09:00:00"},
        {"start_local": "2027-02-13T09:00:00"},
    ):
        problem(await site.ask("PATCH", f"{path}/2027-03-12T17:00:00", json=body), 422, "invalid_input")
    problem(await site.ask("PATCH", f"{path}/2027-03-13T17:00:00", json={"skip": True}), 422, "invalid_input")
    problem(await site.ask("PATCH", f"{path}/friday", json={"skip": True}), 404, "not_found")
    problem(
        await site.ask("PATCH", f"{path}/2027-03-12T17:00:00?fold=2", json={"skip": True}),
        422,
        "invalid_input",
    )


async def test_a_split_goes_on_as_a_new_schedule(site: Site) -> None:
    made = await make(site, until_local="2027-03-31T00:00:00")
    body = {"original_local": "2027-03-19T17:00:00", "start_local": "2027-03-19T18:00:00"}
    rest = answered(await site.post(f"/v1/schedules/{made['id']}/split", body))
    assert (rest["parent_id"], rest["start_local"]) == (made["id"], "2027-03-19T18:00:00")
    assert rest["id"] != made["id"]
    assert rest["split_from"]["id"] == made["id"]
    assert locals_of(rest["diff"]["added"]) == ["2027-03-19T18:00:00", "2027-03-26T18:00:00"]
    assert locals_of(rest["diff"]["withdrawn"]) == ["2027-03-19T17:00:00", "2027-03-26T17:00:00"]
    problem(await site.post(f"/v1/schedules/{made['id']}/split", {}), 422, "invalid_input")


async def test_pausing_resuming_and_ending(site: Site) -> None:
    path = f"/v1/schedules/{(await make(site))['id']}"
    problem(await site.post(f"{path}/pause"), 400, "idempotency_key_required")
    problem(await site.post(f"{path}/resume", headers=once("a")), 409, "schedule_active")
    paused = answered(await site.post(f"{path}/pause", {"reason": "on holiday"}, headers=once("b")))
    assert (paused["state"], paused["state_reason"]) == ("paused", "on holiday")
    assert await site.tables.jobs() == []
    again = await site.post(f"{path}/pause", {"reason": "on holiday"}, headers=once("b"))
    assert (again.headers["idempotent-replayed"], again.json()) == ("true", paused)
    assert again.headers["etag"] == f'"rev-{paused["revision"]}"'
    resumed = answered(await site.ask("POST", f"{path}/resume", headers=once("c")))
    assert (resumed["state"], len(resumed["diff"]["added"])) == ("active", len(paused["diff"]["withdrawn"]))
    ended = answered(await site.ask("POST", f"{path}/end", headers=once("d")))
    assert (ended["state"], ended["first_occurrence"]) == ("ended", None)
    assert (await site.get(path)).json()["state"] == "ended"
    for verb in ("pause", "resume", "end"):
        problem(await site.ask("POST", f"{path}/{verb}", headers=once("e")), 409, "schedule_ended")
    problem(await site.ask("PATCH", path, json={"owner": None}), 409, "schedule_ended")


async def test_one_that_is_over_goes_on_with_a_later_end(site: Site) -> None:
    path = f"/v1/schedules/{(await make(site))['id']}"
    await site.tables.rows(
        "UPDATE timebell.schedules SET state = 'ended', state_reason = 'over', plan_at = NULL"
    )
    problem(await site.ask("POST", f"{path}/pause", headers=once("a")), 409, "schedule_ended")
    assert answered(await site.ask("PATCH", path, json={"owner": "user:2"}))["state"] == "active"


async def test_what_is_not_there_is_not_found(site: Site) -> None:
    path = f"/v1/schedules/{UNHEARD_OF}"
    problem(await site.get(path), 404, "not_found")
    problem(await site.get(f"{path}/occurrences"), 404, "not_found")
    problem(await site.ask("PATCH", path, json={}), 404, "not_found")
    problem(await site.ask("POST", f"{path}/end", headers=once("a")), 404, "not_found")


async def test_a_recurrence_is_tried_without_a_schedule(site: Site) -> None:
    body = {
        "recurrence": "FREQ=WEEKLY",
        "timezone": "Europe/Berlin",
        "start_local": "2027-03-21T02:30:00",
        "count": 2,
    }
    response = await site.post("/v1/schedules/preview", body, key="read")
    assert response.status_code == 200, response.text
    seen = response.json()
    assert [line["at"] for line in seen["occurrences"]] == ["2027-03-21T01:30:00Z", "2027-03-28T01:30:00Z"]
    assert (seen["occurrences"][1]["adjusted"], seen["has_more"]) == ("gap", True)
    assert "later" in seen["occurrences"][1]["note"]
    without = (
        await site.post("/v1/schedules/preview", {"recurrence": "every PT15M", "count": 1}, key="read")
    ).json()
    assert without["start_local"] == "2027-03-01T09:01:00"
    for wrong in ({"recurrence": "FREQ=NEVER"}, {"recurrence": "FREQ=DAILY", "count": 1001}, {}):
        response = await site.post("/v1/schedules/preview", wrong)
        problem(response, 422, response.json()["code"])


FAR = ("0001-01-01T00:00:00", "1899-01-01T00:00:00", "2300-06-01T00:00:00", "9999-12-31T23:59:59.999999")


@pytest.mark.parametrize("local", FAR)
async def test_times_at_the_ends_of_time_are_answered_and_never_fail(site: Site, local: str) -> None:
    made = await make(site, exdates=["2027-04-09T17:00:00"], rdates=["2027-04-10T17:00:00"])
    path = f"/v1/schedules/{made['id']}"
    one = {**WEEKLY, "recurrence": None}
    answers = [
        await site.ask("PATCH", f"{path}/occurrences/{local}", json={"skip": True}),
        await site.ask("PATCH", f"{path}/occurrences/2027-03-12T17:00:00", json={"start_local": local}),
        await site.ask("DELETE", f"{path}/occurrences/{local}"),
        await site.post(f"{path}/split", {"original_local": local}),
        await site.post(f"{path}/split", {"original_local": "2027-03-19T17:00:00", "start_local": local}),
        await site.ask("PATCH", path, json={"start_local": local}),
        await site.post("/v1/schedules", {**one, "start_local": local}),
    ]
    for number, answer in enumerate(answers):
        assert answer.status_code in (404, 422), f"{number}: {answer.text}"
    for body in ({"until_local": local}, {"exdates": [local]}, {"rdates": [local]}):
        answer = await site.ask("PATCH", f"{path}?dry_run=true", json=body)
        assert answer.status_code in (200, 422), f"{body}: {answer.text}"
    preview = {"recurrence": "FREQ=DAILY", "start_local": local, "timezone": "Pacific/Kiritimati"}
    assert (await site.post("/v1/schedules/preview", preview)).status_code in (200, 422)


async def test_what_may_take_long_is_found_out_beside_the_loop(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recurrence may cost a fifth of a second, and whoever may only read can ask for many."""
    on_the_loop: list[bool] = []

    def noted(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            on_the_loop.append(threading.current_thread() is threading.main_thread())
            return work(*given, **named)

        return run

    monkeypatch.setattr("timebell.web.v1.schedules.preview", noted(preview))
    monkeypatch.setattr("timebell.kernel.schedules.terms.check_recurrence", noted(check_recurrence))
    asked = {"recurrence": "every PT15M", "count": 1}
    assert (await site.post("/v1/schedules/preview", asked, key="read")).status_code == 200
    await make(site)
    assert on_the_loop == [False, False]
