"""The digest of every morning at five, by the clock of whoever gets it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.apps.marketplace.search_support import (
    EMPTY,
    break_clauses,
    change,
    mails,
    move,
    newcomer,
    newcomers,
    save,
    searches_of,
    set_quiet,
    told,
)
from tests.apps.marketplace.support import DAY, HOUR, Json, Market, done, local
from tests.log_lines import kept_lines
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.searches.alerting import SEARCH_ALERTS
from timebell.apps.marketplace.searches.composing import Digests
from timebell.apps.marketplace.searches.cycles import COMPOSE_DIGESTS, ENQUEUE_DIGESTS, DigestCycles
from timebell.apps.marketplace.searches.models import SearchSettings

FIVE = local(2027, 3, 2, 5)
BEA, BEN = "bea@example.org", "ben@example.org"


async def only_digest(market: Market, who: str = "Bea", **terms: Any) -> Json:
    return await save(market, who, instant=False, **terms)


@pytest.mark.req("J-5.3", "X-J61")
async def test_everybody_has_it_at_their_five(market: Market) -> None:
    """Also where it is night for them, and where clocks have half an hour more."""
    zones = {"Bea": "Europe/Berlin", "Ben": "Asia/Kolkata", "Zoe": "America/New_York"}
    for who, zone in zones.items():
        await move(market, who, zone)
        await set_quiet(market, who, "22:00", "07:00")
        await only_digest(market, who)
    assert await market.value("SELECT count(*) FROM timebell.schedules") == 3
    names = [f"W{number}" for number in range(7)]
    for number, name in enumerate(names):
        await newcomer(market, name, zip=f"1011{number}")
    mornings = {
        "Zoe": local(2027, 3, 1, 5, zone=zones["Zoe"]),
        "Ben": local(2027, 3, 2, 5, zone=zones["Ben"]),
        "Bea": local(2027, 3, 2, 5, zone=zones["Bea"]),
    }
    for who, at in mornings.items():
        address = f"{who.lower()}@example.org"
        await market.pass_until(at - timedelta(seconds=1))
        assert address not in {to for to, _ in mails(market)}
        await market.pass_until(at)
        [text] = [said for to, said in mails(market) if to == address]
        assert sorted(line for line in text.splitlines() if line.startswith("- ")) == [
            f"- carpenter, 1011{number}, 25.00 an hour" for number in range(7)
        ]
    assert len(mails(market)) == 3
    logged = await market.rows(
        "SELECT object_id FROM marketplace.notification_log WHERE object_type = 'saved_searches'"
    )
    assert {row["object_id"] for row in logged} == {str(market.people[who]) for who in zones}


@pytest.mark.req("J-5.12")
async def test_both_are_asked_where_it_is_written_what_was_told(market: Market) -> None:
    """In a transaction that writes, so that no copy that lags behind can answer."""
    await break_clauses(
        market,
        "IF pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' THEN PERFORM 1 / 0; END IF; "
        "RETURN true;",
    )
    await save(market, "Bea")
    await newcomer(market)
    assert told(market) == [("email", BEA)]
    await market.pass_until(FIVE)
    assert len(mails(market)) == 1
    assert await market.value("SELECT count(*) FROM marketplace.alert_skips") == 0


@pytest.mark.req("J-5.3")
async def test_five_is_five_also_where_clocks_change(market: Market) -> None:
    market.clock.move_to(local(2027, 3, 26, 12))
    await only_digest(market)
    sent: list[datetime] = []
    for day in (27, 28, 29):
        await market.pass_until(local(2027, 3, day, 5) - timedelta(seconds=1))
        before = len(mails(market))
        await market.pass_until(local(2027, 3, day, 5))
        assert len(mails(market)) == before + 1
        sent.append(market.clock.now)
    assert [later - earlier for earlier, later in pairwise(sent)] == [23 * HOUR, DAY]


@pytest.mark.req("J-5.3", "J-5.10", "X-J36")
async def test_one_mail_has_everything_that_somebody_looks_for(market: Market) -> None:
    await only_digest(market)
    await only_digest(market, criteria={"trade": "roofer"})
    await only_digest(market, criteria={"trade": "welder"}, send_empty_digest=False)
    await only_digest(market, "Ben", criteria={"trade": "welder"}, send_empty_digest=False)
    await newcomer(market)
    await market.pass_until(FIVE)
    [(to, text)] = mails(market)
    assert to == BEA
    assert text.split() == f"carpenter - carpenter, 10115, 25.00 an hour roofer {EMPTY}".split()
    await market.pass_until(FIVE + DAY)
    assert len(mails(market)) == 2
    assert mails(market)[1][1].count(EMPTY) == 2


@pytest.mark.req("J-5.10")
async def test_what_can_find_nobody_says_so(market: Market) -> None:
    await only_digest(market, criteria={"trade": "no such trade", "zip": "00000"})
    await market.pass_until(FIVE)
    [(to, text)] = mails(market)
    assert (to, text.strip().splitlines()) == (BEA, ["no such trade, 00000", EMPTY])
    assert market.bench.bell.tallies.counted[SEARCH_ALERTS]["digest", "empty"] == 1
    assert await market.value("SELECT count(*) FROM marketplace.alert_skips") == 0


@pytest.mark.req("J-5.14", "X-J35", "X-J52")
async def test_a_worker_is_in_one_digest_and_a_digest_is_told_once(market: Market) -> None:
    await only_digest(market)
    await newcomer(market, "early", zip="1")
    await market.pass_until(FIVE)
    bell = market.bench.bell
    for _ in range(2):
        async with bell.transaction() as tx:
            digests = Digests(bell, SearchSettings())
            again = await digests.compose(tx, [market.people["Bea"]], "Europe/Berlin", FIVE, By())
            assert again == []
    await newcomer(market, "late", zip="2")
    await market.pass_until(FIVE + DAY)
    assert [text.split(", ")[1] for _, text in mails(market)] == ["1", "2"]
    keys = await market.rows("SELECT key FROM timebell_notify.notifications ORDER BY id")
    bea = market.people["Bea"]
    assert [row["key"] for row in keys] == [
        f"saved_search_digest:{bea}:{at.isoformat()}" for at in (FIVE, FIVE + DAY)
    ]


async def test_nobody_is_between_two_digests(market: Market) -> None:
    """Whoever is listed at that very instant, or right before in a transaction that takes long, is in the next one."""
    await only_digest(market)
    await market.pass_until(FIVE)
    late = await newcomer(market, zip="1")
    slow = await newcomer(market, "slow", zip="2")
    await market.rows(
        "UPDATE marketplace.workers SET listed_at = $2 WHERE id = $1", slow, FIVE - timedelta(seconds=59)
    )
    await market.pass_until(FIVE + DAY)
    (_, empty), (_, text) = mails(market)
    assert EMPTY in empty
    assert sorted(line.split(", ")[1] for line in text.splitlines() if line.startswith("- ")) == ["1", "2"]
    await market.pass_until(FIVE + 2 * DAY)
    assert EMPTY in mails(market)[-1][1]
    assert late != slow


@pytest.mark.req("X-J52")
async def test_what_a_missed_digest_would_have_said_is_said_by_the_next(market: Market) -> None:
    """For two days at most."""
    await only_digest(market)
    [row] = await searches_of(market, "id")
    market.clock.move_to(FIVE)
    await market.rows("UPDATE marketplace.saved_searches SET last_digest_at = $1", FIVE)
    for hours in (HOUR, 25 * HOUR, 71 * HOUR):
        await market.rows("DELETE FROM timebell.jobs")
        market.clock.move_to(FIVE + hours)
        await newcomer(market, str(hours), zip=str(int(hours / HOUR)))
    bell = market.bench.bell
    async with bell.transaction() as tx:
        digests = Digests(bell, SearchSettings())
        told = await digests.compose(tx, [market.people["Bea"]], "Europe/Berlin", FIVE + 3 * DAY, By())
        assert told == [True]
    await market.bench.run_due()
    [(_, text)] = mails(market)
    assert [line.split(", ")[1] for line in text.splitlines() if line.startswith("- ")] == ["25", "71"]
    assert row["id"]


@pytest.mark.req("X-J39", "J-5.16")
async def test_what_was_too_much_at_once_stands_in_the_digest(market: Market) -> None:
    """Ten at once, and twenty in the digest, also for whoever wants none otherwise."""
    await save(market, "Bea", digest=True)
    await save(market, "Ben", digest=False)
    await newcomers(market, 30)
    assert len(told(market)) == 20
    await market.pass_until(FIVE)
    lines = {to: sum(line.startswith("- ") for line in text.splitlines()) for to, text in mails(market)}
    assert lines == {BEA: 20, BEN: 20}
    await market.pass_until(FIVE + DAY)
    assert [to for to, _ in mails(market)][2:] == [BEA], "nothing is left for Ben"
    rows = await market.rows("SELECT DISTINCT state FROM marketplace.search_alerts")
    assert {row["state"] for row in rows} <= {"told", "digested"}


@pytest.mark.req("J-5.4", "X-J58")
async def test_where_nobody_knows_the_zone_it_is_utc(market: Market) -> None:
    bea = market.people["Bea"]
    await market.rows("UPDATE timebell_notify.recipients SET timezone = 'Foo/Bar' WHERE id = $1", bea)
    with kept_lines() as lines:
        await only_digest(market)
    [line] = [line for line in lines if "nobody knows the timezone" in line["event"]]
    assert (line["log_level"], line["user_id"]) == ("error", str(bea))
    [row] = await searches_of(market, "timezone")
    assert row["timezone"] == "UTC"
    at = datetime.fromisoformat("2027-03-02T05:00:00+00:00")
    await market.pass_until(at - timedelta(seconds=1))
    assert await market.value("SELECT count(*) FROM timebell_notify.notifications") == 0
    with kept_lines() as lines:
        await market.pass_until(at)
    assert [line["user_id"] for line in lines if "nobody knows" in line["event"]] == [str(bea)]
    assert await market.value("SELECT count(*) FROM timebell_notify.notifications") == 1


@pytest.mark.req("J-5.3", "X-J52")
async def test_whoever_moves_has_it_at_five_where_they_are(market: Market) -> None:
    await only_digest(market)
    await market.pass_until(FIVE)
    await move(market, "Bea", "Asia/Tokyo")
    await newcomer(market, "listed right after", zip="20095")
    await market.pass_until(FIVE + DAY)
    assert len(mails(market)) == 1
    [row] = await searches_of(market, "timezone")
    assert row["timezone"] == "Asia/Tokyo"
    await market.pass_until(local(2027, 3, 4, 5, zone="Asia/Tokyo"))
    assert len(mails(market)) == 2
    assert "20095" in mails(market)[1][1], "it looks back to the digest before"
    await market.pass_until(FIVE + 2 * DAY)
    assert len(mails(market)) == 2


@pytest.mark.req("J-5.11")
@pytest.mark.parametrize("most", [None, 3])
async def test_a_search_that_finds_nobody_ends_where_a_tenant_wants_that(
    market: Market, most: int | None
) -> None:
    done(await market.ask(None, "PATCH", "search-settings", {"zero_digests_max": most}))
    search = await only_digest(market, send_empty_digest=False)
    for day in range(2):
        await market.pass_until(FIVE + day * DAY)
    [row] = await searches_of(market, "zero_streak")
    assert row["zero_streak"] == 2
    await newcomer(market)
    for day in range(2, 6):
        await market.pass_until(FIVE + day * DAY)
    [row] = await searches_of(market, "zero_streak", "is_active")
    assert tuple(row) == ((3, False) if most else (3, True))
    await market.pass_until(FIVE + 8 * DAY)
    ended = mails(market, "Your saved search was ended")
    assert [to for to, _ in ended] == ([BEA] if most else [])
    if most:
        again = await change(market, search, is_active=True)
        assert (again["is_active"], again["zero_streak"]) == (True, 0)


@pytest.mark.req("J-14.8", "J-0.1")
async def test_a_run_only_enqueues_a_job_for_fifty_searches(market: Market) -> None:
    await only_digest(market)
    await market.rows(
        "INSERT INTO marketplace.saved_searches (tenant, id, user_id, criteria, skills, trade_key, zip_key, "
        "skill_key, instant_enabled, digest_enabled, send_empty_digest, channels, timezone, created_at, updated_at) "
        "SELECT tenant, gen_random_uuid(), gen_random_uuid(), criteria, skills, '', '', '', false, true, true, "
        "channels, timezone, created_at, updated_at FROM marketplace.saved_searches, generate_series(1, 2119)"
    )
    bell = market.bench.bell
    async with bell.transaction() as tx:
        await bell.pause(tx, "saved-search-digests")
    await market.pass_until(FIVE)
    jobs = await market.rows(
        "SELECT queue, jsonb_array_length(payload -> 'users') AS users FROM timebell.jobs WHERE kind = $1 "
        "ORDER BY id",
        COMPOSE_DIGESTS,
    )
    assert {row["queue"] for row in jobs} == {"saved-search-digests"}
    sizes = [row["users"] for row in jobs]
    assert (sum(sizes), max(sizes), len(sizes)) == (2_120, 50, 43)
    assert await market.value("SELECT count(*) FROM timebell_notify.notifications") == 0
    [run] = await market.rows(
        "SELECT count(*) AS count FROM timebell.job_log WHERE kind = $1", ENQUEUE_DIGESTS
    )
    assert run["count"] >= 1


async def test_of_several_who_are_the_first_of_a_zone_one_makes_its_schedule(market: Market) -> None:
    async def begin() -> None:
        async with market.bench.bell.transaction() as tx:
            await DigestCycles(market.bench.bell).ensure(tx, "Asia/Tokyo", by=By())

    await asyncio.gather(*(begin() for _ in range(8)))
    assert await market.value("SELECT count(*) FROM timebell.schedules") == 1


@pytest.mark.req("X-J2")
@pytest.mark.parametrize(("hours", "is_told"), [(5, True), (7, False)])
async def test_after_a_night_without_nodes_it_is_made_up_for_until_eleven(
    market: Market, hours: int, is_told: bool
) -> None:
    await only_digest(market)
    market.clock.move_to(FIVE + hours * HOUR)
    await market.bench.run_due()
    assert bool(mails(market)) is is_told
