"""A hundred thousand people whose five o'clock is the same instant. How many a second that is,
`make bench ARGS=digests` measures."""

from __future__ import annotations

import pytest

from tests.apps.marketplace.search_support import newcomers, save
from tests.apps.marketplace.support import Market, local

FIVE = local(2027, 3, 2, 5)
PEOPLE = 100_000


@pytest.mark.slow
@pytest.mark.req("J-5.3")
async def test_a_hundred_thousand_at_one_instant_have_one_digest_each(market: Market) -> None:
    await save(market, instant=False)
    await newcomers(market, 5)
    await market.rows(
        "INSERT INTO timebell_notify.recipients SELECT (jsonb_populate_record(r, jsonb_build_object('id', "
        "timebell.new_id()))).* FROM timebell_notify.recipients r, generate_series(2, $2) WHERE r.id = $1",
        *(market.people["Bea"], PEOPLE),
    )
    await market.rows(
        "INSERT INTO marketplace.saved_searches SELECT (jsonb_populate_record(s, jsonb_build_object('id', "
        "timebell.new_id(), 'user_id', r.id))).* FROM marketplace.saved_searches s, timebell_notify.recipients r "
        "WHERE r.name = 'Bea' AND r.id <> s.user_id"
    )
    await market.rows("VACUUM (ANALYZE) marketplace.saved_searches")
    await market.rows("VACUUM (ANALYZE) timebell_notify.recipients")
    bell = market.bench.bell
    async with bell.transaction() as tx:
        await bell.pause(tx, "notify")
    market.clock.move_to(FIVE)
    await market.bench.run_due()
    [row] = await market.rows(
        "SELECT count(*) AS composed, count(DISTINCT recipient_id) AS people, "
        "count(*) FILTER (WHERE context #>> '{searches,0,workers,4,trade}' = 'carpenter') AS whole "
        "FROM timebell_notify.notifications"
    )
    assert tuple(row) == (PEOPLE, PEOPLE, PEOPLE)
    left = "SELECT count(*) FROM marketplace.saved_searches WHERE last_digest_at IS DISTINCT FROM $1"
    assert await market.value(left, FIVE) == 0
