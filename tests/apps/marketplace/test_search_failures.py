"""What becomes of alerts and digests that cannot be asked: three kinds of failure, and nobody is told half of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.apps.marketplace.search_support import (
    FAILS,
    MENDED,
    MISSING,
    break_clauses,
    mails,
    newcomer,
    save,
    told,
)
from tests.apps.marketplace.support import DAY, MINUTE, NOW, Market, local, open_market
from tests.log_lines import kept_lines
from timebell.apps.marketplace.searches.alerting import BATCHES, RETRIES
from timebell.apps.marketplace.searches.failing import SKIPS
from timebell.testing import ManualClock
from timebell.testing.database import TestDatabase

FIVE = local(2027, 3, 2, 5)
NAMES = ("Bea", "Ben", "Sue", "Lea", "Leo", "Zoe")
# Ben's searches alone cannot be asked.
BENS = "IF p_rate_max = 1 THEN PERFORM 1 / 0; END IF; RETURN true;"


async def skips(market: Market) -> list[tuple[str, str, timedelta]]:
    rows = await market.rows("SELECT sort, cause, duration FROM marketplace.alert_skips ORDER BY id")
    return [(row["sort"], row["cause"], row["duration"]) for row in rows]


@pytest.mark.req("J-5.6", "X-J34")
async def test_a_query_that_fails_is_tried_three_times_more_and_then_left_out(market: Market) -> None:
    await save(market)
    await break_clauses(market, FAILS)
    with kept_lines() as lines:
        await newcomer(market)
        await market.pass_until(NOW + 20 * MINUTE)
    tries = [line for line in lines if line["event"].startswith("saved searches could not be asked")]
    assert [line["cause"] for line in tries] == ["query"] * 4
    [(sort, cause, duration)] = await skips(market)
    assert (sort, cause) == ("instant", "query")
    assert timedelta(minutes=1) < duration < timedelta(minutes=10)
    assert market.bench.bell.tallies.counted[SKIPS] == {("instant", "query"): 1}
    assert market.arrived == []
    await break_clauses(market, MENDED)
    await newcomer(market, "next")
    assert len(told(market)) == 1


@pytest.mark.req("J-5.6")
async def test_a_digest_whose_query_fails_is_left_out_for_that_day(market: Market) -> None:
    search = await save(market, instant=False)
    await newcomer(market)
    await break_clauses(market, FAILS)
    with kept_lines() as lines:
        await market.pass_until(FIVE + 20 * MINUTE)
    left = [line for line in lines if line["event"] == "a saved search was left out"]
    assert [(line["log_level"], line["search_id"]) for line in left] == [("error", search["id"])]
    [(sort, cause, _)] = await skips(market)
    assert (sort, cause) == ("digest", "query")
    assert market.arrived == []
    await break_clauses(market, MENDED)
    await market.pass_until(FIVE + DAY)
    [(_, text)] = mails(market)
    assert "- carpenter" in text, "the next digest says what that one would have said"


@pytest.mark.req("J-5.8", "X-J34")
async def test_what_is_not_installed_is_not_waited_for_by_an_alert(market: Market) -> None:
    await save(market)
    await break_clauses(market, MISSING)
    await newcomer(market)
    assert await skips(market) == [("instant", "extension", timedelta(0))]
    await break_clauses(market, MENDED)
    await market.pass_until(NOW + 5 * 60 * MINUTE)
    assert market.arrived == []


@pytest.mark.req("J-5.8", "J-5.9")
@pytest.mark.parametrize(("minutes", "is_told"), [(50, True), (61, False)])
async def test_a_digest_waits_an_hour_for_what_is_not_installed(
    market: Market, minutes: int, is_told: bool
) -> None:
    await save(market, instant=False)
    await newcomer(market)
    await break_clauses(market, MISSING)
    await market.pass_until(FIVE + minutes * MINUTE)
    assert market.arrived == []
    await break_clauses(market, MENDED)
    await market.pass_until(FIVE + 90 * MINUTE)
    assert bool(mails(market)) is is_told
    left = await skips(market)
    assert left == ([] if is_told else [("digest", "extension", timedelta(hours=1))])


@pytest.mark.req("J-5.9")
async def test_what_fails_in_the_middle_tells_nobody_a_part(market: Market) -> None:
    """Five find somebody, and then something is missing."""
    for name in NAMES[:5]:
        await save(market, name)
    await save(market, "Zoe", {"trade": "carpenter", "rate_max": 2_500})
    await break_clauses(market, f"IF p_rate_max IS NOT NULL THEN {MISSING} END IF; RETURN true;")
    await newcomer(market)
    assert market.arrived == []
    assert await market.value("SELECT count(*) FROM marketplace.search_alerts") == 0
    await market.pass_until(FIVE + 5 * MINUTE)
    assert market.arrived == []


class Loss:
    """The node loses its database once in front of a statement, and has it again after a while."""

    def __init__(self, name: str, minutes: int) -> None:
        self.name = name
        self.minutes = minutes
        self.clock: ManualClock | None = None

    async def before(self, name: str) -> None:
        if self.clock is not None and name == self.name:
            clock, self.clock = self.clock, None
            clock.move(self.minutes * MINUTE)
            raise ConnectionResetError("the database is gone")

    async def after(self, name: str) -> None: ...


@pytest.mark.req("J-5.7", "X-J34")
@pytest.mark.parametrize(("minutes", "is_told"), [(10, True), (31, False)])
@pytest.mark.parametrize("sort", ["instant", "digest"])
async def test_a_database_that_is_away_is_waited_for(
    market_database: TestDatabase, minutes: int, is_told: bool, sort: str
) -> None:
    loss = Loss("match_searches" if sort == "instant" else "match_digests", minutes)
    async with open_market(market_database, worker_gate=loss) as market:
        await save(market, instant=sort == "instant", digest=sort == "digest")
        await newcomer(market, pays=sort == "digest")
        if sort == "digest":
            market.clock.move_to(FIVE)
        loss.clock = market.clock
        await asyncio.wait_for(market.bench.run_due(), 60)
        await market.bench.advance(by=2 * MINUTE)
        assert bool(market.arrived) is is_told
        left = await skips(market)
        assert [each[:2] for each in left] == ([] if is_told else [(sort, "database")])
        for _, _, duration in left:
            assert timedelta(0) <= duration - minutes * MINUTE <= 2 * MINUTE
        counted = market.bench.bell.tallies.counted[SKIPS]
        assert counted == ({} if is_told else {(sort, "database"): 1})


@pytest.mark.req("J-5.5", "J-5.15", "X-J38")
async def test_of_a_batch_only_what_failed_is_tried_again(market: Market) -> None:
    """By itself, and the others are told meanwhile."""
    for name in NAMES:
        await save(market, name, {"trade": "carpenter"}, digest=False)
    await market.rows(
        "CREATE FUNCTION marketplace.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.user_id = (SELECT s.user_id FROM marketplace.saved_searches s ORDER BY s.id OFFSET 1 LIMIT 1) THEN "
        "PERFORM 1 / 0; END IF; RETURN NEW; END $$"
    )
    await market.rows(
        "CREATE TRIGGER refuse BEFORE INSERT ON marketplace.search_alerts FOR EACH ROW "
        "EXECUTE FUNCTION marketplace.refuse()"
    )
    with kept_lines() as lines:
        await newcomer(market)
        assert {to for _, to in told(market)} == {
            f"{name.lower()}@example.org" for name in NAMES if name != "Ben"
        }
        counted = market.bench.bell.tallies.counted
        assert counted[BATCHES] == {("partial",): 1}
        await market.rows("DROP TRIGGER refuse ON marketplace.search_alerts")
        await market.pass_until(NOW + 10 * MINUTE)
    assert len(told(market)) == len(NAMES)
    assert counted[RETRIES] == {("told",): 1}
    assert [line for line in lines if line["event"] == "a saved search is tried again"]
    assert await market.value("SELECT count(*) FROM marketplace.search_alerts") == len(NAMES)


@pytest.mark.req("J-5.5", "J-5.15")
async def test_of_a_batch_of_digests_only_what_failed_is_tried_again(market: Market) -> None:
    for name in NAMES:
        await save(market, name, {"rate_max": 1} if name == "Ben" else {}, instant=False)
    await newcomer(market)
    await break_clauses(market, BENS)
    await market.pass_until(FIVE)
    assert {to for to, _ in mails(market)} == {
        f"{name.lower()}@example.org" for name in NAMES if name != "Ben"
    }
    await market.pass_until(FIVE + 20 * MINUTE)
    assert len(mails(market)) == len(NAMES) - 1
    [(sort, cause, _)] = await skips(market)
    assert (sort, cause) == ("digest", "query")
    rows = await market.rows("SELECT user_id FROM marketplace.saved_searches WHERE last_digest_at IS NULL")
    assert [row["user_id"] for row in rows] == [market.people["Ben"]]


@pytest.mark.req("J-5.15", "X-J38")
async def test_a_batch_that_fails_as_a_whole_comes_again_smaller(market: Market) -> None:
    """A statement that takes too long for fifty is tried for twenty-five."""
    for name in NAMES:
        await save(market, name)
    [first] = await market.rows("SELECT id FROM marketplace.saved_searches ORDER BY id LIMIT 1")
    await market.rows(
        "INSERT INTO marketplace.saved_searches SELECT (jsonb_populate_record(s, jsonb_build_object('id', "
        "gen_random_uuid()))).* FROM marketplace.saved_searches s, generate_series(1, 54) WHERE s.id = $1",
        first["id"],
    )
    await market.rows(
        "CREATE FUNCTION marketplace.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF (SELECT count(*) FROM fresh) > 25 THEN RAISE EXCEPTION 'slow' USING ERRCODE = 'query_canceled'; END IF; "
        "RETURN NULL; END $$"
    )
    await market.rows(
        "CREATE TRIGGER refuse AFTER INSERT ON marketplace.search_alerts REFERENCING NEW TABLE AS fresh "
        "FOR EACH STATEMENT EXECUTE FUNCTION marketplace.refuse()"
    )
    await newcomer(market)
    assert market.arrived == []
    await market.pass_until(NOW + 10 * MINUTE)
    assert await market.value("SELECT count(*) FROM marketplace.search_alerts") == 60
    assert len({to for _, to in told(market)}) == len(NAMES)
    assert await skips(market) == []


@pytest.mark.req("J-5.5")
async def test_whoever_cannot_be_reached_keeps_nobody_waiting(market: Market) -> None:
    for name in NAMES:
        await save(market, name)
    await market.rows("DELETE FROM timebell_notify.addresses WHERE recipient_id = $1", market.people["Ben"])
    await newcomer(market)
    await market.pass_until(NOW + 60 * MINUTE)
    assert len(told(market)) == len(NAMES) - 1
    [row] = await market.rows(
        "SELECT state, reason FROM timebell_notify.notifications WHERE recipient_id = $1",
        market.people["Ben"],
    )
    assert (row["state"], row["reason"]) == ("skipped", "no_channel")
