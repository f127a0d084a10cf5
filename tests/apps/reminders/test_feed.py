"""A person's calendar, at an address that cannot be guessed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.parse import urlsplit

import orjson
import pytest
import pytest_asyncio

from tests.apps.reminders.support import WEEK
from tests.apps.reminders.test_routes import Client, open_client
from tests.web.support import problem
from timebell.apps.reminders import feeds
from timebell.notify import Notify
from timebell.rules.signing import Signer
from timebell.testing.database import TestDatabase
from timebell.web.server.metrics import Metrics


@pytest_asyncio.fixture
async def client(reminders_database: TestDatabase) -> AsyncIterator[Client]:
    async with open_client(reminders_database) as opened:
        yield opened


async def path_of(client: Client) -> str:
    url: str = (await client.ask("GET", "/api/schedule-feed")).json()["url"]
    return urlsplit(url).path


async def test_the_calendar_has_what_is_planned(client: Client) -> None:
    made = await client.create(rrule="FREQ=WEEKLY;COUNT=3", title="Report; the long one")
    await client.ask("PATCH", f"/api/schedules/{made['id']}/occurrences/2026-03-13T17:00:00", {"skip": True})
    response = await client.site.ask("GET", await path_of(client), key=None)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/calendar")
    assert response.text.count("BEGIN:VEVENT") == 2
    assert "DTSTART:20260306T160000Z" in response.text
    assert "SUMMARY:Report\\; the long one" in response.text
    again = await client.site.ask("GET", await path_of(client), key=None)
    assert again.text == response.text


async def test_what_ended_long_ago_leaves_room_for_what_is_to_come(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "_SCHEDULES_MAX", 1)
    await client.create(rrule=None, title="Long ago", notify_offsets_min=[0])
    await client.bench.advance(2 * WEEK)
    await client.create(start_local="2026-03-20T17:00:00", title="Next")
    text = (await client.site.ask("GET", await path_of(client), key=None)).text
    assert "SUMMARY:Next" in text
    assert "Long ago" not in text


async def test_an_address_is_one_persons_and_cannot_be_made_up(client: Client) -> None:
    await client.create()
    path = await path_of(client)
    other = (await client.ask("GET", "/api/schedule-feed", actor=client.bob)).json()["url"]
    empty = await client.site.ask("GET", urlsplit(other).path, key=None)
    assert "VEVENT" not in empty.text
    body, signature = path.removesuffix(".ics").rsplit("/", 1)[1].split(".")
    bobs = urlsplit(other).path.rsplit("/", 1)[1].split(".")[0]
    for wrong in ("x.ics", f"{body}.ics", f"{bobs}.{signature}.ics", f"{body}.{signature}", "%00.ics"):
        problem(await client.site.ask("GET", f"/feeds/schedules/{wrong}", key=None), 404, "not_found")


async def test_who_is_erased_has_no_calendar(client: Client) -> None:
    path = await path_of(client)
    async with client.bench.bell.transaction() as tx:
        await Notify(client.bench.bell).recipients.erase(tx, client.ada)
    problem(await client.site.ask("GET", path, key=None), 404, "not_found")


async def test_an_address_that_others_know_is_exchanged(client: Client) -> None:
    await client.create(rrule="FREQ=WEEKLY;COUNT=3")
    old = await path_of(client)
    bobs = urlsplit((await client.ask("GET", "/api/schedule-feed", actor=client.bob)).json()["url"]).path
    renewed = await client.ask("POST", "/api/schedule-feed")
    assert renewed.status_code == 200
    problem(await client.site.ask("GET", old, key=None), 404, "not_found")
    new = urlsplit(renewed.json()["url"]).path
    assert new == await path_of(client)
    assert (await client.site.ask("GET", new, key=None)).text.count("BEGIN:VEVENT") == 3
    assert (await client.site.ask("GET", bobs, key=None)).status_code == 200, "his is as it was"


async def test_an_address_of_before_there_were_others_is_good_until_it_is_exchanged(client: Client) -> None:
    """Calendar programs have been reading it for months."""
    secret = client.site.surface.bell.settings.secret_key
    assert secret is not None
    signer = Signer(secret, "timebell reminders feed v1")
    path = f"/feeds/schedules/{signer.sign(orjson.dumps(['default', str(client.ada)]))}.ics"
    assert (await client.site.ask("GET", path, key=None)).status_code == 200
    await client.ask("POST", "/api/schedule-feed")
    problem(await client.site.ask("GET", path, key=None), 404, "not_found")


async def test_a_repetition_has_the_address_though_it_is_kept_nowhere(client: Client) -> None:
    first = await client.ask("POST", "/api/schedule-feed", headers={"idempotency-key": "k1"})
    again = await client.ask("POST", "/api/schedule-feed", headers={"idempotency-key": "k1"})
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == first.json(), "it was made anew once"
    kept = await client.site.tables.value("SELECT body FROM timebell_web.replies")
    assert kept == b""


async def test_an_address_outlives_the_exchange_of_the_secret(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bell = client.site.surface.bell
    old = await path_of(client)
    before = str(bell.settings.secret_key)
    believed = replace(bell.settings, secret_key="n" * 40, previous_secret_keys=(before,))
    monkeypatch.setattr(bell, "settings", believed)
    assert (await client.site.ask("GET", old, key=None)).status_code == 200
    assert bell.tallies.previous_keys == {"timebell reminders feed v1": 1}
    text = (await Metrics(tallies=bell.tallies).text()).decode()
    assert 'timebell_previous_secret_key_uses_total{purpose="timebell reminders feed v1"} 1.0' in text
    new = await path_of(client)
    assert new != old
    monkeypatch.setattr(bell, "settings", replace(believed, previous_secret_keys=()))
    assert (await client.site.ask("GET", new, key=None)).status_code == 200
    problem(await client.site.ask("GET", old, key=None), 404, "not_found")
