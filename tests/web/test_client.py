"""`timebell.client` against the real surface: what it says is understood, and what it knows is what is served."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Required, get_origin, get_type_hints
from uuid import uuid4

import httpx2
import pytest

from tests.web.support import Site, open_site
from timebell.client import Client, Refused
from timebell.client import records as known
from timebell.client import terms as said
from timebell.client.people import InboxEntry
from timebell.clock import ManualClock, SandboxClock
from timebell.testing.database import TestDatabase

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Forgetful(httpx2.AsyncBaseTransport):
    """Loses every other answer, after the server has given it."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner
        self.asked = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked += 1
        response = await self._inner.handle_async_request(request)
        if self.asked % 2:
            raise httpx2.ReadError("the answer was lost", request=request)
        return response


@asynccontextmanager
async def client_of(site: Site, key: str = "write", *, is_forgetful: bool = False) -> AsyncIterator[Client]:
    transport: httpx2.AsyncBaseTransport = httpx2.ASGITransport(site.app, raise_app_exceptions=False)
    if is_forgetful:
        transport = Forgetful(transport)
    async with Client(
        "http://bell.test", site.keys.get(key, key), transport=transport, clock=ManualClock()
    ) as client:
        yield client


async def test_what_is_said_twice_is_done_once(site: Site) -> None:
    async with client_of(site, is_forgetful=True) as client:
        made = [await client.jobs.create("office.ring", payload={"n": n}) for n in range(5)]
        results = await client.jobs.create_many([{"kind": "office.ring"}, {"kind": "office.nobody"}])
        ada = await client.recipients.create(name="Ada")
    assert all(each.created for each in made)
    assert [each.refusal and each.refusal.code for each in results] == [None, "unknown_kind"]
    async with client_of(site) as client:
        jobs = [each.id async for each in client.jobs.list()]
        people = [each.id async for each in client.recipients.list()]
    assert set(jobs) == {*(each.id for each in made), results[0].id}
    assert people == [ada.id]


async def test_jobs(site: Site) -> None:
    async with client_of(site) as client:
        made = await client.jobs.create("office.ring", subject="guest:7", delay=HOUR, key="one")
        found = await client.jobs.get(made.id)
        assert (found.state, found.subject, found.key) == ("pending", "guest:7", "one")
        assert (
            await client.jobs.create("office.ring", subject="guest:7", delay=HOUR, key="one")
        ).id == made.id
        assert (await client.jobs.cancel(made.id, reason="left")).answer == "cancelled"
        await client.jobs.create_many([{"kind": "office.ring", "subject": "guest:8", "delay": HOUR}] * 120)
        assert len([each async for each in client.jobs.list(subject="guest:8")]) == 120
        assert len(await client.jobs.cancel_all(subject="guest:8")) == 120
        with pytest.raises(Refused, match="404 not_found"):
            await client.jobs.get(uuid4())


async def test_schedules(site: Site) -> None:
    nine = datetime(2036, 3, 7, 9)
    step: said.StepTerms = {"key": "ring", "kind": "office.ring", "offset": -HOUR}
    async with client_of(site) as client:
        shown = await client.schedules.preview(
            "FREQ=WEEKLY", timezone="Europe/Berlin", start_local=nine, count=2
        )
        assert [line.local for line in shown.occurrences] == [nine, nine + timedelta(weeks=1)]
        tried = await client.schedules.create(
            timezone="Europe/Berlin", start_local=nine, steps=[step], recurrence="FREQ=WEEKLY", dry_run=True
        )
        assert tried.revision == 1
        assert [each async for each in client.schedules.list()] == []
        made = await client.schedules.create(
            timezone="Europe/Berlin",
            start_local=nine,
            steps=[step],
            recurrence="FREQ=WEEKLY;COUNT=5",
            owner="ada",
        )
        assert made.steps[0].offset == -HOUR
        changed = await client.schedules.change(
            made.id, if_revision=1, start_local=nine.replace(hour=10), subject="x"
        )
        assert (changed.revision, changed.start_local.hour, changed.owner) == (2, 10, "ada")
        with pytest.raises(Refused, match="412 revision_conflict"):
            await client.schedules.change(made.id, if_revision=1, owner=None)
        second = nine.replace(day=14, hour=10)
        assert (await client.schedules.override(made.id, second, skip=True)).revision == 3
        assert (await client.schedules.restore(made.id, second)).revision == 4
        rest = await client.schedules.split(made.id, second, start_local=second.replace(hour=11))
        assert rest.split_from is not None
        assert rest.split_from.id == made.id
        assert (await client.schedules.pause(rest.id)).state == "paused"
        assert (await client.schedules.resume(rest.id)).state == "active"
        assert (await client.schedules.end(rest.id)).state == "ended"
        assert [each.id async for each in client.schedules.list(state="active")] == [made.id]
        assert (await client.schedules.get(made.id)).until_local is not None
        assert [each async for each in client.schedules.occurrences(made.id)] == []


async def test_recipients_and_their_tokens(site: Site) -> None:
    async with client_of(site) as client:
        ada = await client.recipients.create(
            name="Ada", email="ada@example.org", quiet_hours={"start": "22:00", "end": "07:00"}
        )
        assert ada.quiet_hours is not None
        assert (ada.email, ada.quiet_hours.end) == ("ada@example.org", "07:00")
        changed = await client.recipients.change(
            ada.id, if_revision=ada.revision, language="de", quiet_hours=None
        )
        assert (changed.language, changed.quiet_hours) == ("de", None)
        token = await client.recipients.token(ada.id, seconds=60)
        async with client_of(site, token.token) as herself:
            assert await herself.person().inbox.count_unseen() == 0
            assert [each async for each in herself.person().inbox.list()] == []
            assert await herself.person().inbox.mark_all_seen() == 0
            with pytest.raises(Refused, match="403 key_required"):
                await herself.recipients.get(ada.id)
        assert (await client.recipients.erase(ada.id)).id == ada.id
        with pytest.raises(Refused, match="403 actor_unknown"):
            await client.person(uuid4()).inbox.count_unseen()
        assert (await client.call("GET", "/v1/queues"))["data"]


async def test_the_clock_of_a_sandbox(database_url: TestDatabase) -> None:
    async with open_site(database_url, clock=SandboxClock(START)) as site, client_of(site) as client:
        assert await client.clock.now() == START
        await client.jobs.create("office.ring", delay=HOUR)
        moved = await client.clock.advance(by=2 * HOUR)
        assert (moved.now, moved.ran) == (START + 2 * HOUR, 1)
        assert (await client.clock.advance(to=moved.now)).ran == 0
        with pytest.raises(Refused, match="422"):
            await client.clock.advance()


RECORDS: list[tuple[str, str, type[known.Record]]] = [
    ("post", "/v1/jobs", known.EnqueuedJob),
    ("get", "/v1/jobs/{id}", known.Job),
    ("post", "/v1/jobs/{id}/cancel", known.CancelledJob),
    ("post", "/v1/schedules", known.ChangedSchedule),
    ("get", "/v1/schedules/{id}", known.Schedule),
    ("post", "/v1/schedules/preview", known.Preview),
    ("post", "/v1/recipients", known.Recipient),
    ("delete", "/v1/recipients/{id}", known.Erasure),
    ("post", "/v1/recipient-tokens", known.Token),
    ("post", "/v1/clock/advance", known.Advanced),
    ("patch", "/v1/inbox/{id}", InboxEntry),
]
TERMS: list[tuple[str, str, Any]] = [
    ("post", "/v1/jobs", said.NewJob),
    ("post", "/v1/schedules", said.NewSchedule),
    ("patch", "/v1/schedules/{id}", said.ScheduleTerms),
    ("post", "/v1/recipients", said.NewRecipient),
    ("patch", "/v1/recipients/{id}", said.RecipientTerms),
]


def schema_of(document: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    [content] = [value for kind, value in part["content"].items() if kind == "application/json"]
    found: dict[str, Any] = document["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
    return found


def required_of(terms: Any) -> set[str]:
    hints = get_type_hints(terms, include_extras=True)
    return {name for name, hint in hints.items() if get_origin(hint) is Required}


async def test_the_records_are_what_is_served(site: Site) -> None:
    document = (await site.get("/openapi.json", key=None)).json()
    for method, path, record in RECORDS:
        responses = document["paths"][path][method]["responses"]
        answer = schema_of(document, responses.get("200") or responses["201"])
        assert set(record.model_fields) == set(answer["properties"]), (path, record.__name__)
    for method, path, terms in TERMS:
        body = schema_of(document, document["paths"][path][method]["requestBody"])
        assert set(get_type_hints(terms)) == set(body["properties"]), (path, terms.__name__)
        assert required_of(terms) == set(body.get("required", [])), (path, terms.__name__)
    steps = document["components"]["schemas"]["StepInput"]["properties"]
    assert set(get_type_hints(said.StepTerms)) == set(steps)
