"""`/api/scheduler/jobs`: what the two messages do, and how jobs stand, as a client sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
import pytest_asyncio

from tests.apps.scheduler.support import DAY, HOUR, MINUTE, NOW, Desk, desk, is_there
from tests.web.support import OTHER, Site, open_site, problem
from timebell.apps.scheduler import with_broker
from timebell.apps.scheduler.models import Taken
from timebell.apps.scheduler.service import Scheduler
from timebell.brokers import Heard, Message, Published
from timebell.errors import RevisionConflict
from timebell.notify import Notify
from timebell.testing.database import TestDatabase

JOBS = "/api/scheduler/jobs"
AT = "2025-07-10T09:00:00Z"
ONCE = {"id": "invoice-7", "at": AT, "payload": {"invoice": 7}}
DAILY = {"id": "daily", "rrule": "FREQ=DAILY", "dtstart": "2025-07-10T07:00:00Z", "tz": "Europe/Berlin"}
NO_TIMES = {"at": None, "rrule": None, "dtstart": None, "tz": None, "misfire": None, "next_run_at": None}
# What no path says as it is.
STRANGE_IDS = [
    "a/b",
    "/",
    "..",
    ".",
    "a b",
    "50% off",
    "?x=1#y",
    "é\u0301😀",
    "%2F",
    "a" * 200,
    "\u2028",
    "\ufffd",
]


@dataclass(slots=True, kw_only=True)
class Door:
    """A site, beside a process that publishes."""

    site: Site
    post: Desk

    async def ask(self, method: str, path: str = "", json: Any = None, **options: Any) -> httpx2.Response:
        if json is not None:
            options["json"] = json
        return await self.site.ask(method, f"{JOBS}{path}", **options)

    async def row(self, id: str) -> dict[str, Any]:
        response = await self.ask("GET", path_of(id))
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def create(self, **given: Any) -> dict[str, Any]:
        response = await self.ask("POST", json=given or ONCE)
        assert response.status_code == 201, response.text
        made: dict[str, Any] = response.json()
        return made

    async def events(self) -> list[tuple[str, str, dict[str, Any]]]:
        data = (await self.site.get("/v1/events")).json()["data"]
        return [
            (one["name"], one["actor"], one["data"]) for one in data if one["name"].startswith("scheduler.")
        ]

    def counted(self, name: str) -> int:
        """By the process that serves, which has an account of its own."""
        return self.site.surface.bell.tallies.counted[name][()]


def path_of(id: str) -> str:
    return "/" + (quote(id, safe="") if id.strip(".") else id.replace(".", "%2E"))


@asynccontextmanager
async def open_door(database: TestDatabase, **options: Any) -> AsyncIterator[Door]:
    """Over one connection: were a request to need two, it would wait for itself."""
    async with (
        desk(database) as post,
        open_site(
            database, apps=(with_broker(post.broker),), clock=post.clock, **{"connections": 1, **options}
        ) as site,
    ):
        yield Door(site=site, post=post)


@pytest_asyncio.fixture
async def door(scheduler_database: TestDatabase) -> AsyncIterator[Door]:
    async with open_door(scheduler_database) as opened:
        yield opened


@asynccontextmanager
async def publishing(post: Desk) -> AsyncIterator[asyncio.Event]:
    """Stops whoever publishes the next message; what is yielded lets it go on."""
    begun, goes_on = asyncio.Event(), asyncio.Event()
    publish = post.broker.publish

    async def held(messages: Sequence[Message], heard: Heard | None = None) -> Sequence[Published]:
        begun.set()
        await goes_on.wait()
        return await publish(messages, heard)

    post.broker.publish = held  # type: ignore[method-assign]
    running = asyncio.create_task(post.run_to(NOW + HOUR))
    try:
        async with asyncio.timeout(30):
            await begun.wait()
        yield goes_on
    finally:
        goes_on.set()
        await running
        post.broker.publish = publish  # type: ignore[method-assign]


async def test_a_job_is_asked_for_fires_and_is_done(door: Door) -> None:
    response = await door.ask("POST", json=ONCE)
    assert response.status_code == 201
    assert response.headers["location"] == f"{JOBS}/invoice-7"
    made = response.json()
    stamps = {name: made.pop(name) for name in ("created_at", "updated_at")}
    assert stamps == dict.fromkeys(stamps, "2025-07-10T08:00:00Z")
    pending = {**ONCE, **NO_TIMES, "status": "pending", "at": AT, "next_run_at": AT, "fire_count": 0}
    assert made == pending
    assert await door.row("invoice-7") == {**pending, **stamps}
    await door.post.run_to(NOW + HOUR)
    (due,) = door.post.dues()
    assert (due["id"], due["scheduled_for"], due["payload"]) == (
        "invoice-7",
        "2025-07-10T09:00:00.000000Z",
        {"invoice": 7},
    )
    done = {**pending, "status": "done", "next_run_at": None, "fire_count": 1}
    assert await door.row("invoice-7") == {**done, **stamps}


async def test_a_recurring_job_shows_when_it_fires_next(door: Door) -> None:
    made = await door.create(**DAILY)
    assert made | DAILY == made
    assert (made["status"], made["misfire"], made["at"]) == ("pending", "fire_once", None)
    assert made["next_run_at"] == "2025-07-11T07:00:00Z"
    await door.post.run_to(NOW + DAY)
    row = await door.row("daily")
    assert (row["status"], row["next_run_at"], row["fire_count"]) == ("pending", "2025-07-12T07:00:00Z", 1)


async def test_what_is_left_out_has_its_default(door: Door) -> None:
    made = await door.create(id="r", rrule="FREQ=HOURLY")
    assert (made["tz"], made["dtstart"], made["misfire"]) == ("UTC", "2025-07-10T08:00:00Z", "fire_once")
    assert made["payload"] is None
    far = await door.create(id="far", rrule="FREQ=YEARLY", dtstart="2031-02-03T04:05:06Z")
    assert far["next_run_at"] == "2031-02-03T04:05:06Z"


async def test_a_message_may_be_sent_as_it_is(door: Door) -> None:
    await door.create(type="ScheduleRequest", tenant="default", **ONCE)
    assert (await door.post.get("invoice-7")).status == "pending"
    await door.post.ask("invoice-7", at=AT, payload={"invoice": 7})
    assert door.post.counted("jobs_queued") == 0
    problem(await door.ask("POST", json={"type": "ScheduleCancel", **ONCE}), 422, "invalid_input")


_NUMBERS = '{"price":0.12345678901234567890,"many":123456789012345678901234567890,"tiny":1e-400,"plain":1.5}'


@pytest.mark.req("S-1.2")
@pytest.mark.parametrize(
    "payload", [_NUMBERS, f"[{_NUMBERS}]", "0.1000000000000000055511151231257827", "1e-400"]
)
async def test_numbers_are_kept_as_they_were_written_by_both_doors(door: Door, payload: str) -> None:
    bodies = [f'{{"id": "{id}", "at": "{AT}", "payload": {payload}}}' for id in ("a", "b")]
    response = await door.ask("POST", content=bodies[0], headers={"content-type": "application/json"})
    assert response.status_code == 201
    assert f'"payload":{payload}' in response.text
    said = f'{{"type": "ScheduleRequest", {bodies[1][1:]}'.encode()
    await door.post.send(Message(exchange="timebell", routing_key="schedule.request", body=said))
    await door.post.run_to(NOW + HOUR)
    published = [one.body.decode() for one in door.post.server.messages("timebell.due")]
    assert [f'"payload":{payload}' in body for body in published] == [True, True]


@pytest.mark.req("S-1.2")
async def test_what_nobody_knows_is_refused_here_and_ignored_in_a_message(door: Door) -> None:
    """Whoever calls hears of a slip at once. Who sends a message does not, and may be newer than whoever takes it."""
    response = await door.ask("POST", json={**ONCE, "mode": "new"})
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == ["/mode"]
    await door.post.ask("b", at=AT, mode="new")
    assert (await door.row("b"))["status"] == "pending"
    assert door.post.letters() == []


async def test_the_same_again_and_another_timing_are_200(door: Door) -> None:
    made = await door.create()
    again = await door.ask("POST", json=ONCE)
    assert (again.status_code, again.json()) == (200, made)
    later = await door.ask("POST", json={**ONCE, "at": "2025-07-10T10:00:00+00:00"})
    assert (later.status_code, later.json()["next_run_at"]) == (200, "2025-07-10T10:00:00Z")
    other = await door.ask("POST", json={**ONCE, "at": "2025-07-10T10:00:00Z", "payload": [1]})
    assert (other.status_code, other.json()["payload"]) == (200, [1])
    recurring = await door.ask("POST", json={**DAILY, "id": "invoice-7"})
    assert (recurring.status_code, recurring.json()["at"]) == (200, None)
    assert door.counted("jobs_queued") == 1
    assert len(await door.post.rows()) == 1
    await door.post.run_to(NOW + 4 * HOUR)
    assert door.post.dues() == []
    answers = [data["answer"] for _, _, data in await door.events()]
    assert answers == ["queued", "replaced", "replaced", "replaced"]


async def test_an_id_is_used_once(door: Door) -> None:
    await door.create()
    await door.post.run_to(NOW + HOUR)
    refused = problem(await door.ask("POST", json={**ONCE, "at": "2026-01-01T00:00:00Z"}), 409, "job_done")
    assert refused["job"] == await door.row("invoice-7")
    # The very same is a repetition that came late.
    assert (await door.ask("POST", json=ONCE)).json()["status"] == "done"
    await door.create(id="b", at=AT)
    assert (await door.ask("DELETE", "/b")).status_code == 200
    refused = problem(
        await door.ask("POST", json={"id": "b", "at": "2026-01-01T00:00:00Z"}), 409, "job_cancelled"
    )
    assert refused["job"]["status"] == "cancelled"
    assert len(door.post.dues()) == 1


async def test_a_job_is_cancelled_and_stays_so(door: Door) -> None:
    await door.create()
    for _ in range(2):
        response = await door.ask("DELETE", "/invoice-7")
        assert response.status_code == 200, response.text
        row = response.json()
        assert (row["status"], row["next_run_at"], row["fire_count"]) == ("cancelled", None, 0)
    assert row == await door.row("invoice-7")
    await door.post.run_to(NOW + 2 * HOUR)
    assert door.post.dues() == []
    assert door.counted("jobs_cancelled") == 1
    await door.create(**DAILY)
    assert (await door.ask("DELETE", "/daily")).json()["status"] == "cancelled"
    await door.post.run_to(NOW + 3 * DAY)
    assert door.post.dues() == []


async def test_what_has_fired_cannot_be_cancelled(door: Door) -> None:
    await door.create()
    await door.post.run_to(NOW + HOUR)
    refused = problem(await door.ask("DELETE", "/invoice-7"), 409, "job_done")
    assert (refused["job"]["status"], refused["job"]["fire_count"]) == ("done", 1)
    assert door.counted("jobs_cancelled") == 0
    assert await door.row("invoice-7") == refused["job"]


async def test_a_cancel_that_comes_first_is_kept_for_a_day(door: Door) -> None:
    for _ in range(2):
        refused = problem(await door.ask("DELETE", "/early"), 404, "not_found")
        assert "within 24 hours" in refused["detail"]
    problem(await door.ask("GET", "/early"), 404, "not_found")
    assert (await door.ask("GET")).json()["data"] == []
    refused = problem(await door.ask("POST", json={"id": "early", "at": AT}), 409, "job_cancelled")
    assert refused["job"] is None
    await door.post.ask("early", at=AT)
    await door.post.run_to(NOW + DAY + MINUTE)
    assert door.post.dues() == []
    await door.create(id="early", at=AT)
    await door.post.run_to(NOW + DAY + 2 * MINUTE)
    assert len(door.post.dues()) == 1


async def test_a_cancel_says_truthfully_that_it_is_too_late(door: Door) -> None:
    await door.create()
    async with publishing(door.post) as goes_on:
        refused = problem(await door.ask("DELETE", "/invoice-7"), 409, "too_late")
        assert refused["job"]["status"] == "pending"
        changed = {**ONCE, "at": "2025-07-10T11:00:00Z"}
        assert problem(await door.ask("POST", json=changed), 409, "too_late")["job"]["at"] == AT
        goes_on.set()
    assert (await door.row("invoice-7"))["status"] == "done"
    assert len(door.post.dues()) == 1
    assert [data["answer"] for _, _, data in await door.events()] == ["queued", "too_late"]


async def test_a_cancel_that_was_too_late_is_kept(door: Door) -> None:
    """Where the broker does not take the message after all, nobody tries again."""
    await door.create()
    async with publishing(door.post) as goes_on:
        problem(await door.ask("DELETE", "/invoice-7"), 409, "too_late")
        door.post.server.stop()
        goes_on.set()
    door.post.server.start()
    await is_there(door.post)
    await door.post.run_to(NOW + 2 * HOUR)
    assert door.post.dues() == []
    assert (await door.row("invoice-7"))["status"] == "cancelled"


async def test_a_change_that_was_too_late_changes_nothing(door: Door) -> None:
    """Where the broker does not take the message after all, it goes out as it was asked for before."""
    await door.create()
    async with publishing(door.post) as goes_on:
        problem(await door.ask("POST", json={**ONCE, "at": "2025-07-10T11:00:00Z"}), 409, "too_late")
        door.post.server.stop()
        goes_on.set()
    door.post.server.start()
    await is_there(door.post)
    await door.post.run_to(NOW + 2 * HOUR)
    assert door.post.fired() == [("invoice-7", "2025-07-10T09:00:00.000000Z")]


async def test_a_recurring_job_is_cancelled_while_one_of_it_is_published(door: Door) -> None:
    await door.create(id="r", rrule="FREQ=HOURLY", dtstart="2025-07-10T08:30:00Z")
    async with publishing(door.post) as goes_on:
        response = await door.ask("DELETE", "/r")
        assert (response.status_code, response.json()["status"]) == (200, "cancelled")
        goes_on.set()
    await door.post.run_to(NOW + 5 * HOUR)
    assert len(door.post.dues()) == 1
    assert (await door.row("r"))["status"] == "cancelled"


@pytest.mark.parametrize("id", STRANGE_IDS)
async def test_ids_are_the_callers_own(door: Door, id: str) -> None:
    response = await door.ask("POST", json={"id": id, "at": AT})
    assert response.status_code == 201, response.text
    assert (await door.row(id))["id"] == id
    if id.strip("."):
        where = response.headers["location"]
        assert (await door.site.get(where)).json()["id"] == id
    assert (await door.ask("DELETE", path_of(id))).json()["status"] == "cancelled"
    assert [row["id"] for row in (await door.ask("GET")).json()["data"]] == [id]


@pytest.mark.parametrize("path", ["/" + "a" * 201, "/" + "%C3%A9" * 101, "/%FF", "/a%00b", "/", "/a/b"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_what_can_be_no_id_names_nothing(door: Door, method: str, path: str) -> None:
    problem(await door.ask(method, path), 404, "not_found")
    assert await door.post.rows() == []


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({"at": AT}, "/id", "invalid_input"),
        ({"id": "", "at": AT}, "/id", "invalid_input"),
        ({"id": 7, "at": AT}, "/id", "invalid_input"),
        ({"id": "é" * 101, "at": AT}, "/id", "invalid_input"),
        ({"id": "a"}, "", "invalid_input"),
        ({"id": "a", "at": AT, "rrule": "FREQ=DAILY"}, "", "invalid_input"),
        ({"id": "a", "at": "2025-07-10T09:00:00"}, "/at", "invalid_input"),
        ({"id": "a", "at": "0001-01-01T00:00:00Z"}, "/at", "invalid_input"),
        ({"id": "a", "at": 1_752_138_000}, "/at", "invalid_input"),
        ({"id": "a", "rrule": "FREQ=SOMETIMES"}, "/rrule", "recurrence_error"),
        (
            {"id": "a", "rrule": "FREQ=DAILY;COUNT=1", "dtstart": "2024-01-01T00:00:00Z"},
            "/rrule",
            "recurrence_error",
        ),
        ({"id": "a", "rrule": "FREQ=DAILY", "tz": "Europe/Nowhere"}, "/tz", "unknown_timezone"),
        ({"id": "a", "rrule": "FREQ=DAILY", "dtstart": "2025-07-10"}, "/dtstart", "invalid_input"),
        ({"id": "a", "rrule": "FREQ=DAILY", "misfire": "never"}, "/misfire", "invalid_input"),
        ({"id": "a", "at": AT, "tenant": "other"}, "/tenant", "invalid_input"),
        ({"id": "a", "at": AT, "colour": "red"}, "/colour", "invalid_input"),
        ({"id": "a", "at": AT, "payload": "x" * 131_071}, "/payload", "payload_too_large"),
    ],
)
async def test_what_is_wrong_is_said(door: Door, body: dict[str, Any], pointer: str, code: str) -> None:
    refused = problem(await door.ask("POST", json=body), 422, code)
    assert [error["pointer"] for error in refused["errors"]] == [pointer], refused
    assert await door.post.rows() == []
    assert door.counted("jobs_queued") == 0


async def test_a_payload_comes_back_as_it_was(door: Door) -> None:
    text = '{"id": "p", "at": "2025-07-10T08:01:00Z", "payload": [1.10, 123456789012345678901234567890, "é", null]}'
    response = await door.ask("POST", content=text, headers={"content-type": "application/json"})
    assert response.status_code == 201, response.text
    expected = '[1.10,123456789012345678901234567890,"é",null]'
    assert f'"payload":{expected}' in response.text
    # As a service would have sent it.
    await door.post.ask("p", at="2025-07-10T08:01:00Z", payload=[1.10, 7])
    exact = '{"type": "ScheduleRequest", "id": "p", "at": "2025-07-10T08:01:00Z", "payload": 0.12345678901234567890123}'
    await door.post.send(Message(exchange="timebell", routing_key="schedule.request", body=exact.encode()))
    assert '"payload":0.12345678901234567890123' in (await door.ask("GET", "/p")).text


async def test_the_list_goes_on_in_the_order_of_asking(door: Door) -> None:
    for number in range(5):
        await door.create(id=f"j{4 - number}", at=f"2025-07-10T0{4 + number}:00:00Z")
    await door.post.run_to(NOW + HOUR / 2)
    assert (await door.ask("DELETE", "/j1")).status_code == 409
    assert (await door.ask("DELETE", "/j0")).status_code == 409
    await door.create(id="z", at="2026-01-01T00:00:00Z")
    await door.ask("DELETE", "/z")
    seen, cursor = [], None
    for _ in range(4):
        page = (await door.ask("GET", params={"limit": 2} | ({"cursor": cursor} if cursor else {}))).json()
        seen += [row["id"] for row in page["data"]]
        cursor = page["next_cursor"]
        assert page["has_more"] is (cursor is not None)
        if cursor is None:
            break
    assert seen == ["j4", "j3", "j2", "j1", "j0", "z"]
    for status, expected in (("done", 5), ("cancelled", 1), ("pending", 0)):
        rows = (await door.ask("GET", params={"status": status})).json()["data"]
        assert [row["status"] for row in rows] == [status] * expected
    problem(await door.ask("GET", params={"status": "due"}), 422, "invalid_input")
    problem(await door.ask("GET", params={"cursor": "x"}), 422, "invalid_input")


async def test_a_repetition_is_answered_as_the_first_time(door: Door) -> None:
    once = {"idempotency-key": "k1"}
    first = await door.ask("POST", json=ONCE, headers=once)
    again = await door.ask("POST", json=ONCE, headers=once)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["idempotent-replayed"] == "true"
    problem(await door.ask("POST", json={**ONCE, "id": "b"}, headers=once), 422, "idempotency_key_reused")
    for path, status in (("/invoice-7", 200), ("/nobodys", 404)):
        once = {"idempotency-key": f"k{path}"}
        answers = [await door.ask("DELETE", path, headers=once) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [status, status]
        assert answers[0].content == answers[1].content
    # The tombstone was kept, too, with its answer.
    assert [row["id"] for row in await door.post.rows()] == ["invoice-7", "nobodys"]
    assert [name for name, _, _ in await door.events()] == [
        "scheduler.requested",
        "scheduler.cancel_requested",
    ]


async def test_who_asked_is_recorded(door: Door) -> None:
    async with door.post.bell.transaction() as tx:
        ada = (await Notify(door.post.bell).recipients.add(tx, name="Ada")).id
    await door.ask("POST", json=ONCE, actor=ada)
    await door.ask("DELETE", "/invoice-7", headers={"x-correlation-id": "cause-7"})
    first, second = await door.events()
    assert first == ("scheduler.requested", f"recipient:{ada}", {"id": "invoice-7", "answer": "queued"})
    assert second[0] == "scheduler.cancel_requested"
    assert second[1].startswith("key:")
    caused = (await door.site.get("/v1/events", params={"correlation_id": "cause-7"})).json()["data"]
    assert {one["subject"] for one in caused if one["name"].startswith("scheduler.")} == {"invoice-7"}
    problem(
        await door.ask("POST", json=ONCE, actor="01890a5d-ac96-774b-bcce-b302099a8057"), 403, "actor_unknown"
    )


async def test_a_persons_own_token_is_not_enough(door: Door) -> None:
    async with door.post.bell.transaction() as tx:
        ada = (await Notify(door.post.bell).recipients.add(tx, name="Ada")).id
    made = await door.site.post("/v1/recipient-tokens", {"recipient_id": str(ada)})
    token = made.json()["token"]
    for method, path in (("POST", ""), ("GET", ""), ("GET", "/a"), ("DELETE", "/a")):
        json = ONCE if method == "POST" else None
        response = await door.ask(method, path, json, key=token)
        assert response.status_code == 403, (method, path)
        assert response.json()["code"] in ("key_required", "scope_missing")
    problem(await door.ask("POST", json=ONCE, key="read"), 403, "scope_missing")
    problem(await door.ask("DELETE", "/a", key="read"), 403, "scope_missing")
    assert (await door.ask("GET", key="read")).status_code == 200


async def test_each_tenant_has_its_own_ids(door: Door) -> None:
    await door.create()
    theirs = await door.ask("POST", json={"id": "invoice-7", "rrule": "FREQ=DAILY"}, key=OTHER)
    assert theirs.status_code == 201
    assert (await door.ask("DELETE", "/invoice-7", key=OTHER)).json()["rrule"] == "FREQ=DAILY"
    assert (await door.row("invoice-7"))["status"] == "pending"
    await door.post.run_to(NOW + HOUR)
    assert [(due["tenant"], due["id"]) for due in door.post.dues()] == [("default", "invoice-7")]


async def test_where_nobody_publishes_the_setting_is_named(scheduler_database: TestDatabase) -> None:
    async with open_site(scheduler_database, apps=(with_broker(None),)) as site:
        for body in (ONCE, DAILY):
            refused = problem(await site.post(JOBS, body), 503, "broker_missing")
            assert "broker_url" in refused["detail"]
        assert (await site.get(JOBS)).json()["data"] == []
        # What is cancelled is cancelled all the same.
        problem(await site.ask("DELETE", f"{JOBS}/a"), 404, "not_found")


async def test_of_two_that_come_at_once_one_is_first(scheduler_database: TestDatabase) -> None:
    async with open_door(scheduler_database, connections=10) as door:
        answers = await asyncio.gather(*(door.ask("POST", json=ONCE) for _ in range(8)))
        assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
        assert door.counted("jobs_queued") == 1
        mixed = await asyncio.gather(
            *(
                door.ask(method, path, {"id": "x", "at": AT} if method == "POST" else None)
                for method, path in [("POST", ""), ("DELETE", "/x")] * 4
            )
        )
        assert {answer.status_code for answer in mixed} <= {200, 201, 404, 409}
        jobs = await door.post.rows(
            "SELECT payload->>'id' AS id FROM timebell.jobs WHERE kind = 'scheduler.fire'"
        )
        assert [row["id"] for row in jobs] == ["invoice-7"]


async def test_who_is_overtaken_every_time_asks_later(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    async def overtaken(*_: object) -> Sequence[Taken]:
        nonlocal asked
        asked += 1
        raise RevisionConflict("another was faster")

    monkeypatch.setattr(Scheduler, "request_many", overtaken)
    response = await door.ask("POST", json=ONCE)
    problem(response, 429, "too_many_at_once")
    assert response.headers["retry-after"]
    assert asked == 5


async def test_what_a_quota_refuses_is_not_counted(scheduler_database: TestDatabase) -> None:
    async with open_door(scheduler_database, tenant_jobs_max=1) as door:
        assert (await door.ask("POST", json=ONCE, key=OTHER)).status_code == 201
        problem(await door.ask("POST", json={"id": "b", "at": AT}, key=OTHER), 429, "quota_exceeded")
        assert door.counted("jobs_queued") == 1
        problem(await door.ask("GET", "/b", key=OTHER), 404, "not_found")


async def test_a_request_for_the_past_fires_at_once(door: Door) -> None:
    await door.create(id="late", at="2025-07-10T07:00:00Z")
    await door.post.run_to(NOW + timedelta(seconds=1))
    assert door.post.fired() == [("late", "2025-07-10T07:00:00.000000Z")]


async def test_nobody_makes_up_what_fires(door: Door) -> None:
    """A job that names a request which is not its own would have it published once more."""
    await door.create()
    forged = {"kind": "scheduler.fire", "payload": {"id": ONCE["id"]}}
    refused = problem(await door.site.post("/v1/jobs", forged), 403, "kind_refused")
    assert "POST /api/scheduler/jobs" in refused["detail"]
