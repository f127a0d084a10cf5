"""A against B, over every route: what is another tenant's is not there, and cannot be told from what never was.

A route that comes later is in here by itself. One with an id in its path is refused until `belongings` says what of B's
that id could name, so that nobody forgets.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import httpx2
import pytest_asyncio

from tests.store.insights_support import bury, write
from tests.store.support import APP
from tests.web.support import OTHER, Site, open_site
from timebell import apps
from timebell.brokers.local import LocalBroker
from timebell.clock import Chance, Ids, SandboxClock
from timebell.db.migrate import migrate
from timebell.db.provision import ROLES
from timebell.kernel import Registry
from timebell.loading import load_apps, slices_of
from timebell.notify import Notify, TemplateDraft, Text
from timebell.testing.database import TestDatabase
from timebell.web.operation.routes import Route

START = datetime(2027, 3, 1, 9, tzinfo=UTC)
A, B = OTHER, "admin"
CAUSE = "the-same-cause"
# What stands in a path and is no id. The tenant B is `default`, and administers A; so it is A who looks over the wall.
WORDS = {
    "original_local": "2027-03-12T17:00:00",
    "tenant": "default",
    "name": "mail",
    "key": "trial.secret",
    "provider": "log",
}
TEMPLATE = TemplateDraft(
    key="trial.secret",
    topic="trial",
    texts=(
        Text(channel="inbox", language="en", subject="A secret of B", body="It is due."),
        Text(channel="email", language="en", subject="A secret of B", body="It is due."),
    ),
)
SHIPPED = load_apps(
    [f"{apps.__name__}.{module.name}" for module in pkgutil.iter_modules(apps.__path__)], LocalBroker()
)
_IN_PATH = re.compile(r"\{(\w+)\}")
_IDS = Ids(Chance(20270302))


@dataclass(slots=True)
class Neighbours:
    """Two tenants of one site. `belongings` are ids of B's by the path before the id; each tenant has a person."""

    site: Site
    belongings: Mapping[str, str]
    person_of_a: str
    person_of_b: str

    @property
    def routes(self) -> list[Route]:
        """The routes that somebody with a key may call and that come to an end."""
        return [
            route
            for route in self.site.routes
            if route.scope is not None
            and not route.path.endswith("/stream")
            and not _is_asked_elsewhere(route)
        ]

    async def ask(
        self, route: Route, values: Mapping[str, str], *, key: str, actor: str | None = None
    ) -> httpx2.Response:
        """A request that would do what the route is for, if what it names were there."""
        headers = {"x-correlation-id": CAUSE}
        if route.idempotency != "none":
            headers["idempotency-key"] = str(_IDS.new())
        path = _IN_PATH.sub(lambda match: values[match[1]], route.path)
        body = None if route.body is None else dict(route.example or {})
        person = actor if route.acts_for == "recipient" else None
        return await self.site.ask(route.method, path, key=key, actor=person, headers=headers, json=body)


def ids_in(route: Route) -> dict[str, str]:
    """The ids in the path of a route, each with the path before it."""
    return {
        match[1]: route.path[: match.start()].rstrip("/")
        for match in _IN_PATH.finditer(route.path)
        if match[1] == "id" or match[1].endswith("_id")
    }


def _is_asked_elsewhere(route: Route) -> bool:
    """What the marketplace serves hangs together, and no example stands by itself: its own tests build a market of each
    tenant, and ask every route over the wall. `test_strangers` there fails on one that nobody asks."""
    return route.path.startswith("/api/marketplace/")


async def belongings_of_b(site: Site) -> tuple[dict[str, str], str]:
    """One of everything that has an id, made as B; the second is B's person."""

    async def made(path: str, body: Any, **options: Any) -> dict[str, Any]:
        response = await site.post(path, body, key=B, **options)
        assert response.status_code == 201, response.text
        content: dict[str, Any] = response.json()
        return content

    person = (await made("/v1/recipients", {"name": "Bea", "email": "bea@example.org"}))["id"]
    notify = Notify(site.bell)
    async with site.bell.transaction() as tx:
        await notify.templates.save(tx, TEMPLATE)
        told = await notify.tell(tx, UUID(person), TEMPLATE.key, channels=("inbox", "email"))
    assert (await site.post("/v1/clock/advance", {"by": "PT1S"}, key=B)).status_code == 200
    steps = [{"key": "a", "kind": "office.ring", "offset": "PT0S"}]
    when = {"timezone": "Europe/Berlin", "start_local": "2027-03-05T17:00:00", "recurrence": "FREQ=WEEKLY"}
    key = await made("/v1/keys", {"name": "a secret of B", "scope": "read"})
    inbox = str(await site.tables.value("SELECT id FROM timebell_notify.inbox"))
    address = str(await site.tables.value("SELECT id FROM timebell_notify.addresses LIMIT 1"))
    found = {
        "/v1/jobs": (await made("/v1/jobs", {"kind": "office.ring", "delay": "P1D", "subject": "b"}))["id"],
        "/v1/dead-jobs": str(await bury(site.tables, fingerprint="f")),
        "/v1/alerts": await _alert_of(site),
        "/v1/schedules": (await made("/v1/schedules", {**when, "steps": steps}))["id"],
        "/v1/keys": key["id"],
        "/v1/tenants/{tenant}/keys": key["id"],
        "/v1/recipients": person,
        "/v1/recipients/{id}/addresses": address,
        "/v1/notifications": str(told.id),
        "/v1/deliveries": str(await site.tables.value("SELECT id FROM timebell_notify.deliveries LIMIT 1")),
        "/v1/inbox": inbox,
        "/api/notifications": inbox,
        "/api/meetings/{id}/participants": person,
    }
    # What an app takes for an example makes one of what it serves.
    for route in site.routes:
        if (
            route.path.startswith("/api/")
            and route.status == 201
            and route.example
            and not _is_asked_elsewhere(route)
        ):
            async with site.bell.transaction() as tx:
                for named in _templates_in(route.example):
                    await notify.templates.save(tx, replace(TEMPLATE, key=named))
            path = _IN_PATH.sub(lambda match: found[match.string[: match.start()].rstrip("/")], route.path)
            found[route.path] = (await made(path, _secret(route.example, person), actor=person))["id"]
    if "/api/bookings" in found:
        found |= await _messages_of(site, found["/api/bookings"], found["/api/sequences"])
        found["/api/contacts"] = person
    return found, person


async def _alert_of(site: Site) -> str:
    id = _IDS.new()
    row = {"id": id, "tenant": "default", "app": "office", "rule": "office_is_hot", "severity": "warning"}
    row |= {"subject": "b", "detail": "a secret of B", "is_of_engine": False, "is_by_hand": True}
    await write(site.tables, "alerts", **row, seen_at=START, opened_at=START)
    return str(id)


async def _messages_of(site: Site, booking: str, sequence: str) -> dict[str, str]:
    """A message of B's, and a version that was applied to whoever gets it."""
    once = {"idempotency-key": str(_IDS.new())}
    confirmed = await site.post(f"/api/bookings/{booking}/confirm", key=B, headers=once)
    assert confirmed.is_success, confirmed.text
    applied = await site.ask("PATCH", f"/api/sequences/{sequence}?apply=true", key=B, json={"active": True})
    return {
        "/api/messages": str(await site.tables.value("SELECT id FROM sequences.messages LIMIT 1")),
        "/api/sequences/{id}/applications": applied.json()["application"]["id"],
    }


def _templates_in(example: object) -> Iterator[str]:
    """The templates that an example names, wherever it does."""
    if isinstance(example, Mapping):
        for name, value in example.items():
            yield from [value] if name == "templateId" else _templates_in(value)
    elif isinstance(example, list):
        for value in example:
            yield from _templates_in(value)


def _secret(example: Mapping[str, Any], person: str) -> dict[str, Any]:
    """What an example shows, as B has it: about something secret, and with people who are there."""
    own = {
        "title": "A secret of B",
        "eventName": "A secret of B",
        "participants": [person],
        "contactId": person,
    }
    return {**example, **{name: value for name, value in own.items() if name in example}}


@asynccontextmanager
async def open_neighbours(database: TestDatabase, *, has_wall: bool) -> AsyncIterator[Neighbours]:
    owner = await asyncpg.connect(database.owner_url)
    await migrate(owner, slices_of(Registry(SHIPPED)), api_role=ROLES["api"], read_role=ROLES["read"])
    await owner.close()
    clock = SandboxClock(START)
    async with open_site(database, apps=(APP, *SHIPPED), clock=clock, has_wall=has_wall) as site:
        belongings, person_of_b = await belongings_of_b(site)
        person_of_a = (await site.post("/v1/recipients", {"name": "Ada"}, key=A)).json()["id"]
        yield Neighbours(site, belongings, person_of_a, person_of_b)


@pytest_asyncio.fixture
async def neighbours(database_url: TestDatabase) -> AsyncIterator[Neighbours]:
    async with open_neighbours(database_url, has_wall=True) as opened:
        yield opened


def shape(response: httpx2.Response, values: Mapping[str, str]) -> tuple[int, str, dict[str, str]]:
    """What can be told from an answer, but for the ids that were asked for and how many requests are left."""
    text = response.text
    for value in values.values():
        text = text.replace(value, "ID")
    headers = {name: value for name, value in response.headers.items() if not name.startswith("ratelimit")}
    return response.status_code, text, headers


async def test_what_is_anothers_cannot_be_told_from_what_never_was(neighbours: Neighbours) -> None:
    asked = 0
    for route in neighbours.routes:
        ids = ids_in(route)
        if not ids:
            continue
        unknown = [place for place in ids.values() if place not in neighbours.belongings]
        assert not unknown, (
            f"{route.method} {route.path}: say in belongings_of_b what of B's stands at {unknown}"
        )
        theirs = {**WORDS, **{name: neighbours.belongings[place] for name, place in ids.items()}}
        nobodys = {**WORDS, **{name: str(_IDS.new()) for name in ids}}
        cases = [(theirs, nobodys)]
        if len(ids) > 1:
            # Behind something of A's own, too.
            own = {"id": neighbours.person_of_a}
            cases.append(({**theirs, **own}, {**nobodys, **own}))
        for known, unheard_of in cases:
            answers = [
                await neighbours.ask(route, values, key=A, actor=neighbours.person_of_a)
                for values in (known, unheard_of)
            ]
            seen, expected = shape(answers[0], known), shape(answers[1], unheard_of)
            assert seen == expected, f"{route.method} {route.path}"
            status = 403 if route.path.startswith("/v1/tenants/") else 404
            assert seen[0] == status, f"{route.method} {route.path}: {answers[0].text}"
            asked += 1
    assert asked > 20


async def test_nothing_of_anothers_is_changed_and_its_owner_sees_it(neighbours: Neighbours) -> None:
    """The same requests are answered where B makes them, so they were refused to A for no other reason."""
    reads = [route for route in neighbours.routes if route.method == "GET" and ids_in(route)]

    async def seen_by_b() -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for route in reads:
            values = {
                **WORDS,
                **{name: neighbours.belongings[place] for name, place in ids_in(route).items()},
            }
            response = await neighbours.ask(route, values, key=B, actor=neighbours.person_of_b)
            assert response.status_code == 200, f"{route.path}: {response.text}"
            # A calendar is no JSON.
            seen[route.path] = (
                response.json() if "json" in response.headers["content-type"] else response.text
            )
        return seen

    before = await seen_by_b()
    for route in neighbours.routes:
        if route.method != "GET" and ids_in(route):
            values = {
                **WORDS,
                **{name: neighbours.belongings[place] for name, place in ids_in(route).items()},
            }
            await neighbours.ask(route, values, key=A, actor=neighbours.person_of_a)
    assert await seen_by_b() == before


async def test_no_answer_has_anything_of_anothers_in_it(neighbours: Neighbours) -> None:
    """Every list and every other answer that needs no id: neither an id nor a word of B's."""
    secrets = [
        *neighbours.belongings.values(),
        neighbours.person_of_b,
        "A secret of B",
        "a secret of B",
        "bea@",
    ]
    for route in neighbours.routes:
        if route.method == "GET" and not ids_in(route):
            response = await neighbours.ask(route, WORDS, key=A, actor=neighbours.person_of_a)
            assert response.status_code < 500, response.text
            for secret in secrets:
                assert secret not in response.text, f"{route.path} tells of {secret}"


async def test_nobody_acts_for_a_person_of_another_tenant(neighbours: Neighbours) -> None:
    for route in neighbours.routes:
        if route.acts_for != "recipient":
            continue
        values = {**WORDS, **dict.fromkeys(ids_in(route), str(_IDS.new()))}
        stranger = str(_IDS.new())
        answers = [
            await neighbours.ask(route, values, key=A, actor=actor)
            for actor in (neighbours.person_of_b, stranger)
        ]
        assert [answer.status_code for answer in answers] == [403, 403], f"{route.method} {route.path}"
        assert answers[0].content == answers[1].content


async def test_ids_in_a_body_reach_over_no_wall(neighbours: Neighbours) -> None:
    site, dead = neighbours.site, neighbours.belongings["/v1/dead-jobs"]
    for verb in ("revive", "discard"):
        headers = {"idempotency-key": verb}
        response = await site.post(f"/v1/dead-jobs/{verb}", {"ids": [dead]}, key=A, headers=headers)
        assert response.json() == {"ids": []}
    headers = {"idempotency-key": "by-subject"}
    response = await site.post("/v1/jobs/cancel", {"subject": "b"}, key=A, headers=headers)
    assert response.json() == {"data": []}
    assert [job["id"] for job in (await site.get("/v1/dead-jobs", key=B)).json()["data"]] == [dead]


async def test_all_of_that_holds_without_the_wall(database_url: TestDatabase) -> None:
    """A server whose settings have no `api_url` has none in its database, and behind one nobody would notice a query
    that forgets its tenant."""
    async with open_neighbours(database_url, has_wall=False) as opened:
        for proof in (
            test_what_is_anothers_cannot_be_told_from_what_never_was,
            test_no_answer_has_anything_of_anothers_in_it,
            test_nobody_acts_for_a_person_of_another_tenant,
            test_ids_in_a_body_reach_over_no_wall,
            test_nothing_of_anothers_is_changed_and_its_owner_sees_it,
        ):
            await proof(opened)
        tenants = (await opened.site.get("/v1/tenants", key=A)).json()["data"]
        assert [one["tenant"] for one in tenants] == [OTHER]
