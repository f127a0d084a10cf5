"""Saved searches: whose they are, and who is told at once when somebody is listed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest

from tests.apps.marketplace.search_support import (
    change,
    list_worker,
    newcomer,
    newcomers,
    save,
    searches_of,
    set_quiet,
    told,
    unlist,
)
from tests.apps.marketplace.support import DAY, HOUR, MINUTE, NOW, Market, done, local
from tests.web.support import problem
from timebell.apps.marketplace import people
from timebell.apps.marketplace.models import MATCH_SEARCHES
from timebell.apps.marketplace.searches.alerting import SEARCH_ALERTS
from timebell.apps.marketplace.searches.rules import SEARCHES_MAX

MAIL, PHONE = ("email", "bea@example.org"), ("sms", "+4915112345670")


@pytest.mark.req("D-6.8", "J-14.3")
async def test_a_search_is_its_users_alone(market: Market) -> None:
    criteria = {"trade": "carpenter", "zip_prefix": "101", "skills": ["roofs"], "rate_max": 3_000}
    search = await save(market, "Bea", criteria, instant=True, digest=False, channels=["sms", "email"])
    assert search["criteria"] == criteria
    assert (
        search.items()
        >= {
            "user_id": str(market.people["Bea"]),
            "instant": True,
            "digest": False,
            "channels": ["sms", "email"],
            "is_active": True,
            "send_empty_digest": True,
            "zero_streak": 0,
            "last_digest_at": None,
        }.items()
    )
    path = f"saved-searches/{search['id']}"
    assert await market.get(path, "Bea") == search
    assert await market.data("saved-searches", "Bea") == [search]
    assert await market.data("saved-searches", "Ben") == []
    changed = await change(market, search, instant=False, criteria={"zip": "10115"})
    assert (changed["instant"], changed["criteria"]) == (False, {"zip": "10115"})
    for method, body in (("GET", None), ("PATCH", {"instant": True}), ("DELETE", None)):
        problem(await market.ask("Ben", method, path, body), 404, "not_found")
    problem(await market.ask(None, "POST", "saved-searches", {"criteria": {}}), 400, "actor_required")
    assert (await market.ask("Bea", "DELETE", path)).status_code == 204
    problem(await market.ask("Bea", "GET", path), 404, "not_found")
    assert await market.events(f"saved_search:{search['id']}") == [
        f"saved_search.{what}" for what in ("added", "changed", "removed")
    ]
    index = "SELECT indexdef FROM pg_indexes WHERE indexname = 'idx_saved_searches_user'"
    assert (await market.value(index)).endswith("(user_id, is_active)")


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"criteria": {"zip": "1", "zip_prefix": "1"}},
        {"criteria": {"available_from": "2027-03-01"}},
        {"criteria": {"colour": "red"}},
        {"criteria": {"zip": "%"}},
        {"criteria": {}, "channels": []},
        {"criteria": {}, "channels": ["sms", "sms"]},
        {"criteria": {}, "channels": ["push"]},
        {"criteria": {}, "instant": "yes"},
    ],
)
async def test_a_search_that_cannot_be_is_refused(market: Market, wrong: dict[str, Any]) -> None:
    problem(await market.ask("Bea", "POST", "saved-searches", wrong), 422, "invalid_input")
    days = {"available_from": "2027-03-01", "available_to": "2027-03-02", "timezone": "Nowhere/Land"}
    refused = await market.ask("Bea", "POST", "saved-searches", {"criteria": days})
    problem(refused, 422, "unknown_timezone")
    assert await searches_of(market) == []


async def test_nobody_has_too_many(market: Market) -> None:
    for _ in range(SEARCHES_MAX):
        await save(market)
    problem(await market.ask("Bea", "POST", "saved-searches", {"criteria": {}}), 409, "too_many_searches")
    await save(market, "Ben")


async def test_whoever_is_erased_looks_for_nobody(market: Market) -> None:
    await save(market)
    bell, bea = market.bench.bell, market.people["Bea"]
    async with bell.transaction() as tx:
        kept = await people.export(bell, tx, bea, None, 50)
    [search] = [row for row in kept if row["is"] == "saved_search"]
    assert search["criteria"] == {"trade": "carpenter"}
    done(await market.site.ask("DELETE", f"/v1/recipients/{bea}", key="admin"))
    assert await searches_of(market) == []
    await newcomer(market)
    assert told(market) == []


@pytest.mark.req("J-5.1", "J-0.5", "J-5.13")
async def test_whoever_is_listed_is_looked_for_by_a_job(market: Market) -> None:
    """Not when they are unlisted or booked, and not when something else about them changes."""
    await save(market, instant=True)
    worker = await market.add_worker(state="Unlisted")
    path = f"workers/{worker}"
    for state in ("Booked", "Unlisted"):
        done(await market.ask(None, "PUT", f"{path}/state", {"state": state}))
    done(await market.ask(None, "PATCH", path, {"hourly_rate": 100}))
    count = "SELECT count(*) FROM timebell.jobs WHERE kind = $1"
    assert await market.value(count, MATCH_SEARCHES) == 0
    await list_worker(market, worker, pays=False)
    [job] = await market.rows(
        "SELECT queue, payload::text FROM timebell.jobs WHERE kind = $1", MATCH_SEARCHES
    )
    assert job["queue"] == "saved-search-alerts"
    assert orjson.loads(job["payload"])["worker_id"] == str(worker)
    done(await market.ask(None, "PUT", f"{path}/state", {"state": "Listed"}))
    assert await market.value(count, MATCH_SEARCHES) == 1, "they were listed already"
    done(await market.ask(None, "PATCH", path, {"hourly_rate": 200}))
    assert await market.value(count, MATCH_SEARCHES) == 1, "whatever else changes about them"
    assert told(market) == []
    await market.bench.run_due()
    assert told(market) == [MAIL]


@pytest.mark.req("J-5.2", "J-5.17", "X-J55")
async def test_everybody_is_told_as_they_chose(market: Market) -> None:
    search = await save(market, channels=["sms", "email"])
    await save(market, "Ben", channels=["sms"])
    await save(market, "Sue", channels=["email"])
    await save(market, "Lea", instant=False)
    ended = await save(market, "Leo")
    await change(market, ended, "Leo", is_active=False)
    await newcomer(market, skills=["roofs", "stairs"], hourly_rate=2_550)
    assert told(market) == sorted([MAIL, PHONE, ("sms", "+4915112345671"), ("email", "sue@example.org")])
    text = "A worker matches your saved search: carpenter, 10115, 25.50 an hour: roofs, stairs"
    assert {parcel.content.text.strip() for parcel in market.arrived} == {text}
    logged = await market.rows(
        "SELECT channel, state, object_id FROM marketplace.notification_log WHERE object_type = 'saved_search'"
    )
    assert len(logged) == 4
    of_bea = {row["channel"] for row in logged if row["object_id"] == search["id"]}
    assert of_bea == {"sms", "email"}
    assert market.bench.bell.tallies.counted[SEARCH_ALERTS]["instant", "told"] == 3


CRITERIA: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"trade": "carpenter"}, True),
    ({"trade": "painter"}, False),
    ({"zip": "10115"}, True),
    ({"zip": "1011"}, False),
    ({"zip_prefix": "1011"}, True),
    ({"zip_prefix": "10115"}, True),
    ({"zip_prefix": "101156"}, False),
    ({"skills": ["roofs"]}, True),
    ({"skills": ["stairs", "roofs"]}, True),
    ({"skills": ["roofs", "welding"]}, False),
    ({"skills": ["welding"]}, False),
    ({"rate_max": 2_500}, True),
    ({"rate_max": 2_499}, False),
    ({"trade": "carpenter", "zip_prefix": "1", "skills": ["stairs"], "rate_max": 9_999}, True),
]


@pytest.mark.req("J-5.13")
async def test_an_alert_finds_what_the_search_finds(market: Market) -> None:
    """The same criteria, saved and asked."""
    finds: dict[str, bool] = {}
    for criteria, is_found in CRITERIA:
        finds[(await save(market, "Zoe", criteria))["id"]] = is_found
    async with market.bench.bell.transaction() as tx:
        await market.bench.bell.pause(tx, "notify")
    await market.rows("UPDATE marketplace.workers SET state = 'Unlisted'")
    settings = {"alerts_per_hour": 100}
    done(await market.ask(None, "PATCH", "search-settings", settings))
    worker = await newcomer(market, skills=["stairs", "roofs"])
    rows = await market.rows("SELECT search_id FROM marketplace.search_alerts")
    assert {str(row["search_id"]) for row in rows} == {id for id, is_found in finds.items() if is_found}
    for criteria, is_found in CRITERIA:
        asked = {**criteria, "skills": ",".join(criteria["skills"])} if "skills" in criteria else criteria
        found = await market.data("workers", "Zoe", params=asked)
        assert [one["id"] for one in found] == ([str(worker)] if is_found else []), criteria


@pytest.mark.req("J-5.13")
async def test_whoever_is_booked_then_is_silently_left_out(market: Market) -> None:
    await market.book()
    days = {"available_from": "2027-03-14", "available_to": "2027-03-14", "timezone": "Europe/Berlin"}
    await save(market, "Bea", days)
    await save(market, "Ben", {**days, "available_from": "2027-03-15", "available_to": "2027-03-15"})
    await unlist(market, market.worker)
    await list_worker(market, market.worker)
    assert told(market) == [("email", "ben@example.org")]
    assert await market.value("SELECT count(*) FROM marketplace.alert_skips") == 0


@pytest.mark.req("X-J53", "J-5.14", "X-J35")
async def test_a_search_tells_of_a_worker_once_a_day(market: Market) -> None:
    search = await save(market)
    worker = await newcomer(market)
    key = await market.value("SELECT key FROM timebell_notify.notifications WHERE template LIKE '%search%'")
    event = await market.value(
        "SELECT id FROM timebell.events WHERE name = 'worker.state_changed' AND subject = $1",
        f"worker:{worker}",
    )
    assert key == f"saved_search:{search['id']}:{event}"
    for passed in (MINUTE, 23 * HOUR):
        market.clock.move_to(NOW + passed)
        await unlist(market, worker)
        await list_worker(market, worker)
        assert len(told(market)) == 1
    market.clock.move_to(NOW + DAY)
    await unlist(market, worker)
    await list_worker(market, worker)
    assert len(told(market)) == 2


async def test_whoever_was_unlisted_meanwhile_is_not_told_of(market: Market) -> None:
    await save(market)
    worker = await newcomer(market, pays=False)
    await unlist(market, worker)
    await market.bench.run_due()
    assert told(market) == []
    assert await market.value("SELECT count(*) FROM marketplace.search_alerts") == 0


@pytest.mark.req("J-5.2", "X-J37", "X-J61")
async def test_quiet_hours_are_waited_for_and_then_it_is_asked_again(market: Market) -> None:
    await save(market, "Bea", channels=["sms", "email"])
    await save(market, "Ben", {"trade": "carpenter", "rate_max": 2_500})
    for who in ("Bea", "Ben"):
        await set_quiet(market, who, "09:00", "11:00")
    worker = await newcomer(market)
    assert told(market) == []
    done(await market.ask(None, "PATCH", f"workers/{worker}", {"hourly_rate": 2_600}))
    await market.pass_until(local(2027, 3, 1, 11) - timedelta(seconds=1))
    assert told(market) == []
    await market.pass_until(local(2027, 3, 1, 11))
    assert told(market) == [MAIL, PHONE]
    left = await market.rows("SELECT user_id FROM marketplace.search_alerts")
    assert [row["user_id"] for row in left] == [market.people["Bea"]], "nobody told Ben"
    done(await market.ask(None, "PATCH", f"workers/{worker}", {"hourly_rate": 2_500}))
    await unlist(market, worker)
    await list_worker(market, worker)
    assert told(market) == sorted([MAIL, PHONE, ("email", "ben@example.org")])


@pytest.mark.req("X-J37")
async def test_a_tenant_may_have_it_dropped_in_quiet_hours(market: Market) -> None:
    settings = done(await market.ask(None, "PATCH", "search-settings", {"in_quiet_hours": "drop"}))
    assert settings["in_quiet_hours"] == "drop"
    assert await market.get("search-settings") == settings
    await save(market, "Bea", channels=["sms", "email"])
    await save(market, "Ben")
    await set_quiet(market, "Bea", "09:00", "11:00", channels=["sms"])
    await set_quiet(market, "Ben", "09:00", "11:00")
    await newcomer(market)
    await market.pass_until(NOW + 12 * HOUR)
    assert told(market) == [MAIL]
    assert market.bench.bell.tallies.counted[SEARCH_ALERTS]["instant", "quiet"] == 1
    problem(await market.ask("Bea", "PATCH", "search-settings", {"alerts_per_hour": 1}), 403, "scope_missing")


@pytest.mark.req("X-J39", "J-5.16")
async def test_of_many_in_an_hour_ten_are_told_at_once(market: Market) -> None:
    search = await save(market, digest=False)
    await newcomers(market, 12)
    assert len(told(market)) == 10
    states = await market.rows(
        "SELECT state, count(*) AS count FROM marketplace.search_alerts GROUP BY 1 ORDER BY 1"
    )
    assert [tuple(row) for row in states] == [("overflow", 2), ("told", 10)]
    [row] = await searches_of(market, "has_overflow")
    assert row["has_overflow"]
    market.clock.move_to(NOW + HOUR)
    await newcomer(market, "late")
    assert len(told(market)) == 11
    assert search["digest"] is False


@pytest.mark.req("J-14.8", "J-5.16", "J-5.14")
async def test_searches_are_told_fifty_at_a_time(market: Market) -> None:
    await add_searches(market, 120)
    sizes: list[int] = []
    done(await market.ask(None, "PATCH", "search-settings", {"alerts_per_hour": 1_000}))
    worker = await newcomer(market, pays=False)
    count = "SELECT count(*) FROM marketplace.search_alerts"
    for _ in range(4):
        before = await market.value(count)
        await market.bench.run_some("default", "saved-search-alerts", 1)
        sizes.append(await market.value(count) - before)
    assert sizes == [50, 50, 20, 0]
    rows = await market.rows("SELECT search_id FROM marketplace.search_alerts WHERE worker_id = $1", worker)
    assert len({row["search_id"] for row in rows}) == 120


async def add_searches(market: Market, count: int, *, who: str = "Bea") -> list[UUID]:
    """As many like one that is saved, of one person, under different keys."""
    search = await save(market, who)
    kinds = [
        ("carpenter", None, None, "carpenter", ""),
        (None, "10115", "10115\x01", "", "=10115"),
        (None, "101", "101\x7f", "", "101"),
        (None, None, None, "", ""),
    ]
    rows = await market.rows(
        "INSERT INTO marketplace.saved_searches (tenant, id, user_id, criteria, trade, zip_from, zip_to, skills, "
        "trade_key, zip_key, skill_key, instant_enabled, digest_enabled, send_empty_digest, channels, timezone, "
        "created_at, updated_at) SELECT s.tenant, gen_random_uuid(), s.user_id, s.criteria, ($2::text[])[1 + n % 4], "
        "($3::text[])[1 + n % 4], ($4::text[])[1 + n % 4], s.skills, ($5::text[])[1 + n % 4], "
        "($6::text[])[1 + n % 4], '', true, true, true, s.channels, s.timezone, s.created_at, s.updated_at "
        "FROM marketplace.saved_searches s, generate_series(2, $7) n WHERE s.id = $1 RETURNING id",
        *(UUID(search["id"]), *(list(column) for column in zip(*kinds, strict=True)), count),
    )
    return [UUID(search["id"]), *(row["id"] for row in rows)]
