"""Quiet hours end while somebody who was listed goes away again: whoever is told is told once, and of what was so."""

from __future__ import annotations

import asyncio
from datetime import date, datetime, timedelta

import pytest

from tests.apps.marketplace.search_support import list_worker, newcomer, save, set_quiet, told, unlist
from tests.apps.marketplace.support import MINUTE, Market, local


def ends(day: int) -> datetime:
    """By the clock on the wall, through the change of clocks too."""
    there = date(2027, 3, 1) + timedelta(days=day)
    return local(there.year, there.month, there.day, 11)


@pytest.mark.req("X-J37")
@pytest.mark.parametrize("rounds", [3, pytest.param(200, marks=pytest.mark.slow)])
async def test_somebody_goes_as_quiet_hours_end(market: Market, rounds: int) -> None:
    """Each day somebody is listed at half past ten, and is unlisted at eleven while the alert is released."""
    await save(market, digest=False)
    await set_quiet(market, "Bea", "09:00", "11:00")
    market.clock.move_to(ends(0) - 30 * MINUTE)
    worker = await newcomer(market)
    for day in range(rounds):
        assert len(told(market)) <= day
        before = len(told(market))
        market.clock.move_to(ends(day))
        await asyncio.gather(market.bench.run_due(), unlist(market, worker))
        await market.bench.run_due()
        is_told = len(told(market)) - before
        assert is_told in (0, 1)
        rows = await market.rows("SELECT alerted_at FROM marketplace.search_alerts")
        assert len(rows) == is_told, "who was not told is told when somebody is listed again"
        await market.rows("DELETE FROM marketplace.search_alerts")
        market.clock.move_to(ends(day + 1) - 30 * MINUTE)
        await list_worker(market, worker)


@pytest.mark.req("J-5.2", "J-5.14")
@pytest.mark.parametrize("rounds", [3, pytest.param(200, marks=pytest.mark.slow)])
async def test_somebody_is_listed_as_quiet_hours_end(market: Market, rounds: int) -> None:
    """At the instant at which they end, and right before: it is told then, once."""
    await save(market, digest=False)
    await set_quiet(market, "Bea", "09:00", "11:00")
    for day in range(rounds):
        early = ends(day) - timedelta(microseconds=1)
        market.clock.move_to(early)
        first = await market.add_worker(f"early {day}", state="Unlisted")
        second = await market.add_worker(f"late {day}", state="Unlisted")
        await list_worker(market, first)
        assert len(told(market)) == 2 * day
        market.clock.move_to(ends(day))
        await asyncio.gather(list_worker(market, second, pays=False), market.bench.run_due())
        await market.bench.run_due()
        assert len(told(market)) == 2 * (day + 1)
