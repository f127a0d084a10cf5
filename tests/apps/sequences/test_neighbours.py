"""Sequences of two tenants: what one costs beside another that has much more, and that nothing crosses, whichever ids
they have in common."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import asyncpg
import pytest

from tests.apps.sequences.support import DAY, step
from tests.web.neighbours import NEIGHBOUR_ROWS, Reading, large_tables, settle_neighbours
from tests.web.notify_support import START, open_sandbox, pass_time
from tests.web.support import OTHER, Site, problem
from tests.web.twins import TWIN, Change, twin_of
from timebell.apps.sequences import APP
from timebell.testing.database import TestDatabase
from timebell.web.server.serving import routes_of

NOTE = {
    "texts": [
        {"channel": "email", "language": "en", "subject": "About it", "body": "Hello {{ contact.name }}"},
        {"channel": "sms", "language": "de", "body": "Guten Tag {{ contact.name }}"},
    ],
    "variables": [{"name": "contact.name"}],
}
STEPS = [
    step("now", anchor="event_time", contacts="all"),
    step("long-ago", "-P90D"),
    step("day", "-P1D", contacts="all"),
    step("after", "P1D", anchor="booking_end"),
]
TRIAL = "trial:42"


def stay(ids: Mapping[str, str], **given: Any) -> dict[str, Any]:
    return {
        "contactId": ids["ada"],
        "contacts": [ids["bob"]],
        "subtype": "stay",
        "eventName": "A stay by the lake",
        "startAt": (START + 20 * DAY).isoformat(),
        "endAt": (START + 23 * DAY).isoformat(),
        "timezone": "Europe/Berlin",
        **given,
    }


def sequence(event: str = "booking_created", **given: Any) -> dict[str, Any]:
    return {"name": "Messages", "triggerEvent": event, "steps": STEPS, **given}


async def furnish(site: Site) -> dict[str, str]:
    """Sequences with versions, bookings that were told of and cancelled, and a trial: of Ada and Bob."""
    numbers = itertools.count()

    async def made(path: str, body: Any, method: str = "POST") -> Any:
        once = {"idempotency-key": f"key-{next(numbers)}"}
        response = await site.ask(method, path, key=OTHER, headers=once, json=body)
        assert response.is_success, f"{path}: {response.text}"
        return response.json()

    await made("/v1/templates/note", NOTE, "PUT")
    ids: dict[str, str] = {}
    for name in ("Ada", "Bob"):
        person = {"name": name, "email": f"{name.lower()}@example.org", "phone": "+4915112345678"}
        ids[name.lower()] = (await made("/v1/recipients", person))["id"]
    ids["sequence"] = (await made("/api/sequences", sequence()))["id"]
    ids["other_sequence"] = (await made("/api/sequences", sequence("trial_started")))["id"]
    await made("/api/sequences", sequence("booking_cancelled"))
    ids["booking"], ids["confirmed"], ids["cancelled"] = [
        (await made("/api/bookings", stay(ids)))["id"] for _ in range(3)
    ]
    await made(f"/api/bookings/{ids['confirmed']}/confirm", {})
    await made(f"/api/bookings/{ids['cancelled']}/cancel", {})
    facts = {"end": (START + 9 * DAY).isoformat(), "contacts": [ids["ada"]]}
    await made("/api/sequences/events", {"event": "trial_started", "subject": TRIAL, "facts": facts})
    steps = [*STEPS[:3], step("after", "P2D", anchor="booking_end")]
    patched = await made(f"/api/sequences/{ids['sequence']}?apply=true", {"steps": steps}, "PATCH")
    ids["application"] = patched["application"]["id"]
    await made("/api/booking-settings", {"checkInAtStart": True}, "PATCH")
    await pass_time(site, "P1D")
    rows = (await site.get(f"/api/bookings/{ids['booking']}/messages", key=OTHER)).json()["data"]
    statuses = {(row["stepKey"], row["contactId"]): row["status"] for row in rows}
    assert statuses["now", ids["bob"]] == "sent"
    assert statuses["long-ago", ids["ada"]] == "skipped"
    ids |= {row["status"]: row["id"] for row in rows}
    return ids


def paths_of(ids: Mapping[str, str], message: str = "scheduled") -> dict[str, dict[str, object]]:
    """What the path of each operation names."""
    named = {
        "sequences": ids["sequence"],
        "bookings": ids["booking"],
        "messages": ids[message],
        "contacts": ids["ada"],
    }
    return {
        route.path: {"id": named[route.path.split("/")[2]], "application_id": ids["application"]}
        for route in routes_of(APP)
        if "{id}" in route.path
    }


def values_of(ids: Mapping[str, str]) -> dict[str, object]:
    return {"triggerEvent": "booking_created", "contactId": ids["ada"], "sequenceId": ids["sequence"]}


async def test_no_read_looks_at_the_rows_of_others(
    sequences_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_sandbox(sequences_database, apps=(APP,)) as site:
        ids = await furnish(site)
        await settle_neighbours(sequences_database)
        large = await large_tables(sequences_database)
        for table in (
            "sequences",
            "sequence_versions",
            "subjects",
            "subject_people",
            "enrolments",
            "messages",
            "applications",
        ):
            assert large[table] > NEIGHBOUR_ROWS * 0.9, table
        for message in ("scheduled", "sent", "skipped"):
            reading = Reading(
                site, monkeypatch, paths=paths_of(ids, message), values=values_of(ids), actor=ids["ada"]
            )
            await reading.all(routes_of(APP))
            assert reading.too_far == []
            assert reading.count > 60


def moved() -> dict[str, str]:
    return {"startAt": (START + 30 * DAY).isoformat(), "endAt": (START + 31 * DAY).isoformat()}


def ends() -> dict[str, str]:
    return {"end": (START + 31 * DAY).isoformat()}


async def be_told_apart(database: TestDatabase, *, touching: str) -> None:
    """What the twin has under the same ids says something else, so that it shows where it is read. Whoever is touched
    lies behind the other one."""
    admin = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        for table, change in (
            ("subjects", "timezone = 'Asia/Tokyo', facts = facts || '{\"eventName\": \"x\"}', subtype = 'x'"),
            ("sequences", "trigger_event = 'x'"),
            ("sequence_versions", 'conditions = \'{"language": "fr"}\''),
            ("enrolments", "event_at = event_at + interval '5 hours'"),
            ("messages", "due_at = due_at + interval '5 hours', channel = 'whatsapp', template = 'x'"),
            ("subject_people", "role = 'twin'"),
            ("applications", "done_count = 77"),
            ("booking_settings", "completes_at_end = true"),
        ):
            said = change if touching == TWIN else "tenant = tenant"
            await admin.execute(f"UPDATE sequences.{table} SET {said} WHERE tenant = '{touching}'")
    finally:
        await admin.close(timeout=10)


def changes_of(ids: Mapping[str, str]) -> list[Change]:
    """What a tenant does with everything that its twin has too."""
    one = f"/api/sequences/{ids['sequence']}"
    booking, confirmed = f"/api/bookings/{ids['booking']}", f"/api/bookings/{ids['confirmed']}"
    event = {"event": "trial_started", "subject": TRIAL}
    return [
        ("POST", f"{one}/preview", {"bookingId": ids["booking"]}, None),
        ("POST", "/api/sequences", sequence("booking_confirmed"), None),
        ("PATCH", f"{one}?apply=true", {"steps": STEPS, "name": "Another"}, None),
        ("POST", "/api/sequences/events", {**event, "facts": ends()}, None),
        ("POST", "/api/sequences/events", {**event, "entry": 2}, None),
        ("POST", "/api/sequences/events", {"event": "trial_ended", "subject": TRIAL, "cancels": True}, None),
        ("POST", "/api/bookings", stay(ids), None),
        ("PATCH", booking, moved(), None),
        ("PATCH", booking, {"contactId": ids["bob"], "contacts": []}, None),
        ("POST", f"{booking}/confirm", None, None),
        ("POST", f"{confirmed}/check-in", None, None),
        ("POST", f"{confirmed}/complete", None, None),
        ("POST", f"{booking}/cancel", None, None),
        ("PATCH", "/api/booking-settings", {"completeAtEnd": True}, None),
        ("DELETE", f"/api/sequences/{ids['other_sequence']}", None, None),
        ("DELETE", one, None, None),
        ("DELETE", f"/v1/recipients/{ids['ada']}", None, None),
    ]


@pytest.mark.req("A-8.1")
async def test_a_twin_is_neither_seen_nor_changed(sequences_database: TestDatabase) -> None:
    async with (
        open_sandbox(sequences_database, apps=(APP,), has_wall=False) as site,
        twin_of(site, sequences_database) as twin,
    ):
        ids = await furnish(site)

        async def seen() -> dict[str, Any]:
            found: dict[str, Any] = {}
            for message in ("scheduled", "sent", "skipped"):
                answers = await twin.answers(
                    routes_of(APP), paths=paths_of(ids, message), values=values_of(ids), actor=ids["ada"]
                )
                found |= {f"{message} {name}": answer for name, answer in answers.items()}
            for method, path, body in (
                ("POST", f"/api/sequences/{ids['sequence']}/preview", {"bookingId": ids["booking"]}),
                ("POST", f"/api/sequences/{ids['sequence']}/preview", {"booking": stay(ids)}),
                ("PATCH", f"/api/bookings/{ids['booking']}?dry_run=true", moved()),
                (
                    "POST",
                    "/api/sequences/events?dry_run=true",
                    {"event": "x", "subject": TRIAL, "facts": ends()},
                ),
            ):
                found[f"{method} {path} {body}"] = (await site.ask(method, path, key=OTHER, json=body)).json()
            path = f"/api/sequences/{ids['sequence']}?dry_run=true"
            patched = await site.ask("PATCH", path, key=OTHER, json={"steps": STEPS})
            found["enrolled"] = [patched.json()["application"]["enrolledCount"], patched.json()["diff"]]
            exported = await site.get(f"/v1/recipients/{ids['ada']}/export", key=OTHER)
            found["export"] = exported.status_code, exported.text
            return found

        before = await seen()
        assert {answer[0] for answer in before.values() if isinstance(answer, tuple)} == {200}
        assert await twin.come() >= {
            "sequences",
            "sequence_versions",
            "subjects",
            "subject_people",
            "enrolments",
            "messages",
            "applications",
            "booking_settings",
        }
        # It lies behind the other one in the tables then, and before it after that: one may be found first, or last.
        for tenant in (TWIN, OTHER):
            await be_told_apart(sequences_database, touching=tenant)
            after = await seen()
            assert {name: answer for name, answer in after.items() if answer != before[name]} == {}
        await twin.is_left_alone_by(changes_of(ids))


async def test_as_many_sequences_as_one_may_have_are_ones_own(
    sequences_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timebell.apps.sequences.service.SEQUENCES_MAX", 3)
    async with open_sandbox(sequences_database, apps=(APP,), has_wall=False) as site:
        await furnish(site)
        assert (await site.ask("PUT", "/v1/templates/note", json=NOTE)).is_success
        problem(await site.post("/api/sequences", sequence(), key=OTHER), 409, "too_many_sequences")
        assert (await site.post("/api/sequences", sequence())).status_code == 201


@pytest.mark.req("A-8.1")
@pytest.mark.parametrize("has_wall", [True, False])
async def test_what_another_tenant_has_is_not_there(sequences_database: TestDatabase, has_wall: bool) -> None:
    """With the wall in the database, and by the statements alone."""
    async with open_sandbox(sequences_database, apps=(APP,), has_wall=has_wall) as site:
        ids = await furnish(site)
        asked = 0
        for route in routes_of(APP):
            if "{id}" not in route.path:
                continue
            path = route.path.format(**paths_of(ids)[route.path])
            once = {"idempotency-key": f"stranger-{asked}"} if route.method != "GET" else {}
            body = None if route.body is None or route.example is None else dict(route.example)
            refused = await site.ask(route.method, path, key="admin", headers=once, json=body)
            problem(refused, 404, "not_found")
            asked += 1
        assert asked == 19
        for path in ("/api/sequences", "/api/bookings", "/api/messages"):
            assert (await site.get(path, key="admin")).json()["data"] == []
        for name in ("contactId", "sequenceId"):
            mine = await site.get("/api/messages", key="admin", params={name: values_of(ids)[name]})
            assert mine.json()["data"] == []
        settings = await site.get("/api/booking-settings", key="admin")
        assert settings.json() == {"checkInAtStart": False, "completeAtEnd": False}


async def test_nobody_names_what_another_tenant_has(sequences_database: TestDatabase) -> None:
    """What a tenant has of its own leads to nothing of another's, and the same names are not the same things."""
    async with open_sandbox(sequences_database, apps=(APP,)) as site:
        ids = await furnish(site)
        assert (await site.ask("PUT", "/v1/templates/note", json=NOTE)).is_success
        own = (await site.post("/api/sequences", sequence("trial_started"))).json()["id"]
        strange = stay(ids)
        for path, body, status, pointer in (
            ("/api/bookings", strange, 422, "/contactId"),
            (f"/api/sequences/{own}/preview", {"booking": strange}, 422, "/booking/contactId"),
            (
                f"/api/sequences/{own}/preview",
                {"subject": {"contacts": [ids["bob"]]}},
                422,
                "/subject/contacts/0",
            ),
            (f"/api/sequences/{own}/preview", {"bookingId": ids["booking"]}, 404, None),
            (
                "/api/sequences/events",
                {"event": "trial_started", "subject": TRIAL, "facts": {"contacts": [ids["ada"]]}},
                422,
                "/facts/contacts/0",
            ),
        ):
            refused = await site.post(path, body)
            found = problem(refused, status, "not_found" if status == 404 else "invalid_input")
            assert [each["pointer"] for each in found["errors"]] == ([] if pointer is None else [pointer])
        mine = (await site.post("/v1/recipients", {"name": "Mine", "email": "mine@example.org"})).json()["id"]
        facts = {"end": (START + 9 * DAY).isoformat(), "contacts": [mine]}
        told = await site.post(
            "/api/sequences/events", {"event": "trial_started", "subject": TRIAL, "facts": facts}
        )
        # The trial of the same name has entered a sequence that starts with the same event, elsewhere.
        assert told.json()["enrolled"] == 2
        messages = (await site.get("/api/messages")).json()["data"]
        assert {(row["subject"], row["contactId"], row["sequenceId"]) for row in messages} == {
            (TRIAL, mine, own)
        }
