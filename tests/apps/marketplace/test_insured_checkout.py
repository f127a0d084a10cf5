"""Nothing is booked that an insurance would stop at once: by whom it is refused, and how one goes on."""

from __future__ import annotations

from datetime import date
from typing import Any

import httpx2
import pytest

from tests.apps.marketplace.insurance_support import TUESDAY, insure, invalidate, midnight, renew
from tests.apps.marketplace.support import SECOND, Market, done, shift
from tests.apps.marketplace.weekly_support import status_of
from tests.web.support import problem
from timebell.apps.marketplace.insurance.store import PolicyStore

LATER = date(2028, 3, 1)
DAY = shift(date(2027, 3, 9))


async def checks_out(market: Market, **given: str) -> httpx2.Response:
    return await market.ask("Bea", "POST", "bookings", market.order(DAY, **given))


def refused(answer: httpx2.Response) -> list[tuple[str, str]]:
    """By which fields, and what is said of each."""
    said = problem(answer, 409, "insurance_invalid")
    assert said["detail"] == "; ".join(f"{one['pointer'][1:]}: {one['message']}" for one in said["errors"])
    return [(one["pointer"], one["message"]) for one in said["errors"]]


@pytest.mark.req("J-4.7", "J-4.13", "X-J54")
@pytest.mark.parametrize(("side", "field"), [("lender", "/lender_company_id"), ("borrower", "/project_id")])
async def test_nobody_is_booked_while_an_insurance_is_not_valid(
    market: Market, side: str, field: str
) -> None:
    """The field and the remedy are named, nothing is left of the order, and after the renewal it is taken."""
    company = market.lender if side == "lender" else market.borrower
    policy = (await insure(market, LATER, side=side))["id"]
    await invalidate(market, policy)
    said = f"the company {company} has no insurance liability that is valid; renew it or add another"
    answer = await checks_out(market)
    assert refused(answer) == [(field, said)]
    for table in ("staffing_bookings", "time_log", "taken"):
        assert await market.value(f"SELECT count(*) FROM marketplace.{table}") == 0
    await renew(market, policy, LATER)
    booking = done(await checks_out(market), 201)["id"]
    assert await status_of(market, booking) == "Active"


@pytest.mark.req("X-J54")
async def test_each_type_that_is_wanting_is_named_and_another_of_it_is_enough(market: Market) -> None:
    first = (await insure(market, LATER, type="accident"))["id"]
    second = (await insure(market, LATER, type="liability", side="borrower"))["id"]
    for policy in (first, second):
        await invalidate(market, policy)
    answer = await checks_out(market)
    assert sorted(field for field, _ in refused(answer)) == ["/lender_company_id", "/project_id"]
    assert "accident" in answer.text
    await insure(market, LATER, type="accident")
    assert [field for field, _ in refused(await checks_out(market))] == ["/project_id"]
    await insure(market, LATER, type="liability", side="borrower")
    done(await checks_out(market), 201)


@pytest.mark.req("X-J54")
async def test_another_of_the_type_covers_and_others_do_not_matter(market: Market) -> None:
    """Of two of one type one may end. What a company never had, or what others have, is not asked for."""
    first = (await insure(market, LATER))["id"]
    await insure(market, LATER)
    await invalidate(market, first)
    async with market.bench.bell.transaction() as tx:
        store = PolicyStore(market.clock)
        given: Any = {"company_ids": [market.lender, market.borrower], "today": TUESDAY, "limit": 10}
        assert await store.list_wanting(tx, **given) == []
        assert await store.list_wanting(tx, **{**given, "today": date(2029, 1, 1)}) == [
            (market.lender, "liability")
        ]
    done(await checks_out(market), 201)


@pytest.mark.req("X-J14")
async def test_one_that_is_over_counts_as_such_before_the_daily_run_has_seen_it(market: Market) -> None:
    """It is valid through its date, by the clock of UTC."""
    await insure(market, TUESDAY)
    async with market.bench.bell.transaction() as tx:
        await market.bench.bell.pause(tx, "insurance-monitor")
    market.clock.move_to(midnight(3, 3) - SECOND)
    booking = done(await checks_out(market), 201)["id"]
    market.clock.move_to(midnight(3, 3))
    other = str(await market.add_worker())
    assert len(refused(await checks_out(market, worker_id=other))) == 1
    async with market.bench.bell.transaction() as tx:
        await market.bench.bell.resume(tx, "insurance-monitor")
    await market.bench.run_due()
    assert await status_of(market, booking) == "Suspended_Insurance"
