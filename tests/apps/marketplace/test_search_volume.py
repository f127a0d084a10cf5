"""A hundred thousand people whose five o'clock is the same instant."""

from __future__ import annotations

import time

import pytest

from tests.apps.marketplace.search_support import newcomers, save
from tests.apps.marketplace.support import Market, local

FIVE = local(2027, 3, 2, 5)
PEOPLE = 100_000


@pytest.mark.slow
@pytest.mark.req("J-5.3")
async def test_a_thousand_digests_a_second_are_composed_in_one_process(market: Market) -> None:
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
    count = "SELECT count(*) FROM timebell_notify.notifications"
    began = time.perf_counter()
    await market.bench.run_due()
    seconds = time.perf_counter() - began
    composed = await market.value(count)
    print(f"{composed} digests in {seconds:.1f} s: {composed / seconds:.0f} a second")
    assert composed == PEOPLE
    assert composed / seconds >= 1_000
