"""Magic links: issued by the operator, redeemed once, and cleaned every night at two."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import product
from uuid import UUID, uuid4

import asyncpg
import httpx2
import pytest

from tests.apps.marketplace.support import HOUR, MINUTE, NOW, Json, Market, done
from tests.apps.marketplace.test_staffing_plans import READING, explained, looked_at
from tests.log_lines import kept_lines
from tests.query_plans import nodes
from tests.web.support import problem
from timebell.apps.marketplace import people
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.tokens.cleaning import CLEAN, DELETED
from timebell.apps.marketplace.tokens.rules import (
    BATCH,
    MINUTES_MAX,
    first_cleaning,
    hash_of,
    standing_of,
)
from timebell.apps.marketplace.tokens.service import MagicLinks
from timebell.apps.marketplace.tokens.store import TokenStore
from timebell.errors import NotFound

AT_TWO = datetime(2027, 3, 2, 2, 0, tzinfo=UTC)


async def issue(market: Market, person: str = "Zoe", minutes: int = 30) -> Json:
    body = {"recipient_id": str(market.people[person]), "minutes": minutes}
    return done(await market.ask(None, "POST", "magic-links", body), 201)


async def redeem(market: Market, token: str, *, key: str = "write", **options: str) -> httpx2.Response:
    return await market.ask(None, "POST", "magic-links/redeem", {"token": token}, key=key, **options)


async def insert(market: Market, *, age: timedelta, left: timedelta, used: bool, count: int = 1) -> None:
    """Rows as they may be in a table, whoever wrote them."""
    now = market.clock.now
    await market.rows(
        "INSERT INTO marketplace.magic_link_tokens (tenant, id, user_id, token_hash, expires_at, used, used_at, "
        "created_at) SELECT 'default', gen_random_uuid(), $1, sha256(gen_random_uuid()::text::bytea), $2, $3, "
        "CASE WHEN $3 THEN $4::timestamptz END, $4 FROM generate_series(1, $5)",
        *(uuid4(), now + left, used, now - age, count),
    )


async def clean(market: Market) -> None:
    async with market.bench.bell.transaction() as tx:
        await market.bench.bell.enqueue(tx, CLEAN, {})
    await market.bench.run_due()


@pytest.mark.req("D-6.12")
async def test_a_link_lets_in_whom_it_is_for_once(market: Market) -> None:
    link = await issue(market)
    assert link["recipient_id"] == str(market.people["Zoe"])
    assert link["expires_at"] == "2027-03-01T08:30:00Z"
    assert link["token"] not in (await issue(market))["token"]
    used = done(await redeem(market, link["token"]))
    assert (used["id"], used["recipient_id"]) == (link["id"], link["recipient_id"])
    refused = await redeem(market, link["token"])
    problem(refused, 409, "magic_link_used")
    assert await market.events(f"magic_link:{link['id']}") == ["magic_link.issued", "magic_link.redeemed"]
    [row] = await market.rows("SELECT * FROM marketplace.magic_link_tokens WHERE used")
    assert (row["token_hash"], row["used_at"]) == (hash_of(link["token"]), NOW)


async def test_a_repetition_of_one_request_is_answered_as_before(market: Market) -> None:
    token = (await issue(market))["token"]
    first, again = [await redeem(market, token, idempotency="once") for _ in range(2)]
    assert done(first) == done(again)


@pytest.mark.parametrize("after", [timedelta(minutes=30), timedelta(hours=3)])
async def test_a_link_that_is_too_old_lets_nobody_in(market: Market, after: timedelta) -> None:
    token = (await issue(market))["token"]
    await market.pass_until(NOW + after)
    problem(await redeem(market, token), 410, "magic_link_expired")
    assert await market.value("SELECT count(*) FROM marketplace.magic_link_tokens WHERE used") == 0


async def test_a_link_is_good_up_to_its_end(market: Market) -> None:
    token = (await issue(market))["token"]
    market.clock.move_to(NOW + 30 * MINUTE - timedelta(microseconds=1))
    done(await redeem(market, token))


async def test_nobody_else_issues_links_and_nothing_is_guessed(market: Market) -> None:
    body = {"recipient_id": str(market.people["Zoe"]), "minutes": 30}
    for who in ("Bea", "Lea", "Zoe"):
        problem(await market.ask(who, "POST", "magic-links", body), 403, "not_allowed")
    problem(await market.ask(None, "POST", "magic-links", body, key="write"), 403, "not_allowed")
    unknown = {**body, "recipient_id": str(uuid4())}
    problem(await market.ask(None, "POST", "magic-links", unknown), 404, "not_found")
    for minutes in (0, MINUTES_MAX + 1, -5, "30"):
        problem(
            await market.ask(None, "POST", "magic-links", {**body, "minutes": minutes}), 422, "invalid_input"
        )
    token = (await issue(market))["token"]
    for wrong in (token[:-1], token + "A", "tbm_", token.upper()):
        problem(await redeem(market, wrong), 404, "not_found")
    problem(await redeem(market, "x" * 101), 422, "invalid_input")
    problem(await redeem(market, token, key="other"), 404, "not_found")
    bell = market.bench.bell
    async with bell.transaction(tenant="other") as tx:
        # Who works for all tenants is not behind the wall.
        with pytest.raises(NotFound):
            await MagicLinks(bell, market.notify).redeem(tx, token, by=By())
    assert await market.value("SELECT count(*) FROM marketplace.magic_link_tokens WHERE used") == 0


async def test_a_link_is_said_to_whoever_issues_it_and_kept_nowhere(market: Market) -> None:
    with kept_lines() as lines:
        token = (await issue(market))["token"]
        done(await redeem(market, token))
        problem(await redeem(market, token), 409, "magic_link_used")
        await market.pass_until(AT_TWO)
    assert token not in str(lines)
    tables = await market.rows(
        "SELECT table_schema || '.' || table_name AS name FROM information_schema.tables "
        "WHERE table_schema ~ '^(marketplace|timebell)' AND table_type = 'BASE TABLE'"
    )
    assert len(tables) > 40
    for (table,) in tables:
        found = f"SELECT count(*) FROM {table} t WHERE to_jsonb(t)::text LIKE '%' || $1 || '%'"
        assert await market.value(found, token.removeprefix("tbm_")) == 0, table


@pytest.mark.parametrize("rounds", [3, pytest.param(200, marks=pytest.mark.slow)])
async def test_of_several_who_redeem_one_link_at_once_one_does(market: Market, rounds: int) -> None:
    for _ in range(rounds):
        token = (await issue(market))["token"]
        answers = await asyncio.gather(*(redeem(market, token) for _ in range(3)))
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
    assert await market.value("SELECT count(*) FROM marketplace.magic_link_tokens WHERE used") == rounds


@pytest.mark.req("X-J31")
async def test_whoever_is_erased_has_no_links(market: Market) -> None:
    token = (await issue(market))["token"]
    await issue(market, "Bea")
    bell = market.bench.bell
    async with bell.transaction() as tx:
        [kept] = await people.export(bell, tx, market.people["Zoe"], None, 50)
    assert (kept["is"], kept["used"]) == ("magic_link", False)
    assert "token_hash" not in kept
    done(await market.site.ask("DELETE", f"/v1/recipients/{market.people['Zoe']}", key="admin"))
    problem(await redeem(market, token), 404, "not_found")
    assert await market.value("SELECT count(*) FROM marketplace.magic_link_tokens") == 1


@pytest.mark.req("J-11.1", "J-0.5")
async def test_every_night_at_two_what_has_expired_goes(market: Market) -> None:
    await issue(market, minutes=30)
    await issue(market, "Bea", minutes=MINUTES_MAX)
    [plan] = await market.rows("SELECT * FROM timebell.schedules WHERE owner = 'marketplace'")
    assert (plan["recurrence"], plan["timezone"]) == ("FREQ=DAILY", "UTC")
    assert plan["start_local"] == AT_TWO.replace(tzinfo=None)
    [queue] = await market.rows("SELECT DISTINCT queue FROM timebell.jobs WHERE kind = $1", CLEAN)
    assert queue["queue"] == "token-cleanup"
    await market.pass_until(AT_TWO - timedelta(seconds=1))
    assert await market.value("SELECT count(*) FROM marketplace.magic_link_tokens") == 2
    await market.pass_until(AT_TWO)
    [row] = await market.rows("SELECT user_id FROM marketplace.magic_link_tokens")
    assert row["user_id"] == market.people["Bea"]
    await market.pass_until(AT_TWO + 24 * HOUR)
    assert await market.value("SELECT count(*) FROM marketplace.magic_link_tokens") == 0
    assert await market.value("SELECT count(*) FROM marketplace.token_cleanings") == 1


@pytest.mark.req("J-11.1", "J-11.3", "X-J31")
async def test_which_tokens_go(market: Market) -> None:
    """All that have expired, and those that nobody has used for more than a day."""
    for left, used, age in product((-HOUR, HOUR), (True, False), (23 * HOUR, 24 * HOUR, 25 * HOUR)):
        await insert(market, left=left, used=used, age=age)
    await insert(market, left=timedelta(0), used=False, age=HOUR)
    with kept_lines() as lines:
        await clean(market)
    rows = await market.rows("SELECT expires_at, used, created_at FROM marketplace.magic_link_tokens")
    kept = {(row["expires_at"] - NOW, row["used"], NOW - row["created_at"]) for row in rows}
    assert kept == {
        *((HOUR, True, age) for age in (23 * HOUR, 24 * HOUR, 25 * HOUR)),
        *((HOUR, False, age) for age in (23 * HOUR, 24 * HOUR)),
        (timedelta(0), False, HOUR),
    }
    [said] = [line for line in lines if line["event"] == "magic links were deleted"]
    figures = {name: said[name] for name in ("expired", "unused", "batches", "seconds")}
    assert figures == {"expired": 6, "unused": 1, "batches": 1, "seconds": 0.0}
    counted = market.bench.bell.tallies.counted[DELETED]
    assert counted == {("expired",): 6, ("unused",): 1}


@pytest.mark.req("J-11.2", "J-11.3")
async def test_many_go_in_batches_each_in_its_own_transaction(market: Market) -> None:
    await insert(market, left=-HOUR, used=False, age=2 * HOUR, count=10 * BATCH + 500)
    await market.rows("CREATE TABLE marketplace.went (xid text, count bigint)")
    await market.rows("GRANT INSERT ON marketplace.went TO PUBLIC")
    await market.rows(
        "CREATE FUNCTION marketplace.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO marketplace.went SELECT pg_current_xact_id()::text, count(*) FROM gone; RETURN NULL; END $$"
    )
    await market.rows(
        "CREATE TRIGGER note AFTER DELETE ON marketplace.magic_link_tokens REFERENCING OLD TABLE AS gone "
        "FOR EACH STATEMENT EXECUTE FUNCTION marketplace.note()"
    )
    with kept_lines() as lines:
        await clean(market)
    assert await market.value("SELECT count(*) FROM marketplace.magic_link_tokens") == 0
    [said] = [line for line in lines if line["event"] == "magic links were deleted"]
    assert (said["expired"], said["unused"], said["batches"]) == (10_500, 0, 11)
    went = await market.rows(
        "SELECT sum(count)::integer AS n FROM marketplace.went GROUP BY xid ORDER BY 1 DESC"
    )
    assert [row["n"] for row in went] == [*[BATCH] * 10, 500]


async def test_of_several_who_issue_the_first_link_one_makes_the_schedule(market: Market) -> None:
    await asyncio.gather(*(issue(market, name) for name in ("Bea", "Ben", "Zoe", "Lea")))
    assert await market.value("SELECT count(*) FROM timebell.schedules") == 1


@pytest.mark.req("J-11.4", "J-14.6", "X-J31")
async def test_the_indexes_of_the_source_are_there_and_a_night_reads_what_it_deletes(market: Market) -> None:
    indexes = {
        row["indexname"]: row["indexdef"]
        for row in await market.rows(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'magic_link_tokens'"
        )
    }
    unused = indexes["idx_magic_link_tokens_expired_unused"]
    assert unused.endswith("(expires_at) WHERE (used = false)")
    assert indexes["idx_magic_link_tokens_expires"].endswith("(expires_at, used)")
    fill = (
        "INSERT INTO marketplace.magic_link_tokens (tenant, id, user_id, token_hash, expires_at, created_at) "
        "SELECT CASE WHEN n % 1000 = 0 THEN 'small' WHEN n > 50000 OR n % 1000 = 1 THEN 'busy' ELSE 'late' END, "
        "gen_random_uuid(), gen_random_uuid(), "
        "sha256(n::text::bytea), $1::timestamptz + make_interval(secs => n - 50000), $1 "
        "FROM generate_series(1, 100000) n"
    )
    await market.rows(fill, NOW)
    await market.rows("ANALYZE marketplace.magic_link_tokens")
    query = TokenStore.queries["delete_tokens"]
    owner = await asyncpg.connect(market.database.admin_url, timeout=10, server_settings=READING)
    try:
        # One that has few, and one that has many that are good while another has many that are not.
        for tenant in ("small", "busy"):
            plan = await explained(owner, query, is_run=True, tenant=tenant, limit=BATCH, now=NOW)
            assert all(node["Node Type"] != "Seq Scan" for node in nodes(plan) if "Relation Name" in node)
            assert looked_at(plan) <= 200, tenant
    finally:
        await owner.close(timeout=10)


def test_the_first_night_is_the_next_one() -> None:
    night = AT_TWO.replace(tzinfo=None)
    assert first_cleaning(AT_TWO - timedelta(seconds=1)) == night
    assert first_cleaning(AT_TWO) == night + timedelta(days=1)


def test_what_a_link_is_worth() -> None:
    def at(now: datetime, *, used: bool = False) -> str:
        return standing_of(used=used, expires_at=NOW, now=now)

    assert at(NOW - timedelta(seconds=1)) == "good"
    assert at(NOW) == "expired"
    assert at(NOW, used=True) == "used"
    assert at(NOW - timedelta(seconds=1), used=True) == "used"


def test_no_representation_says_the_token() -> None:
    from timebell.apps.marketplace.tokens.models import MagicLink, NewLink

    link = MagicLink(id=UUID(int=1), user_id=UUID(int=2), expires_at=NOW, created_at=NOW)
    assert "tbm_" not in repr(NewLink(link=link, token="tbm_secret"))
