"""Disputes that end in two ways at once, and any number of them one after the other: the sums hold, and all agree."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import date, datetime, timedelta
from random import Random

import pytest

from tests.apps.marketplace.dispute_support import resolve, whole
from tests.apps.marketplace.money import is_whole
from tests.apps.marketplace.shift_support import balance, disputed, fund
from tests.apps.marketplace.support import AMOUNT, MINUTE, Json, Market, done, local, shift
from tests.apps.marketplace.test_resolving import misfits
from tests.daily import daily_seed

ROUNDS = [3, pytest.param(200, marks=pytest.mark.slow)]
WORDS = ("Settled", "Resolved", "Legal_Hold")


async def round_of(market: Market, number: int) -> tuple[Json, list[str], datetime]:
    """Somebody works on a day of their own, and the day is disputed; when that times out."""
    worker = await market.add_worker(f"Worker {number}")
    person = await market.value("SELECT recipient_id FROM marketplace.workers WHERE id = $1", worker)
    day = date(2027, 3, 2) + timedelta(days=2 * number)
    days = [shift(day), shift(day + timedelta(days=1))]
    said = {"worker_id": str(worker), "start_date": day.isoformat(), "end_date": days[1]["start"][:10]}
    booking = (await market.book(*days, **said))["id"]
    ids = [row["id"] for row in await market.shifts(booking)]
    await fund(market, *ids)
    market.clock.move_to(local(day.year, day.month, day.day, 16))
    done(await market.transit(person, ids[0], "clock-in"))
    done(await market.transit(person, ids[0], "submit", {}))
    row = await disputed(market, ids[0])
    return row, ids, datetime.fromisoformat(row["timeout_expiration_time"])


@pytest.mark.req("J-8.5")
@pytest.mark.parametrize("rounds", ROUNDS)
async def test_a_resolution_races_with_the_time_out(market: Market, rounds: int) -> None:
    """Whoever holds the booking first: either nothing is cancelled, or what is kept is divided with the rest."""
    outcomes: Counter[bool] = Counter()
    for number in range(rounds):
        row, ids, due = await round_of(market, number)
        market.clock.move_to(due)
        running = asyncio.create_task(market.bench.run_due())
        await asyncio.sleep(0)
        answer = await resolve(market, row["id"], "Resolved")
        await running
        assert answer.status_code == 200
        await market.bench.run_due()
        seen = await market.get(f"disputes/{row['id']}")
        assert (seen["status"], seen["frozen"]) == ("Resolved", 0)
        later = (await market.shifts(row["booking_id"]))[1]
        timed_out = seen["timed_out_at"] is not None
        assert (later["status"] == "Cancelled") == timed_out
        money = await balance(market, ids[1])
        assert (money.released, money.refunded, money.held) == (
            (AMOUNT // 2, AMOUNT // 2, 0) if timed_out else (0, 0, AMOUNT)
        )
        assert (await balance(market, ids[0])).released == AMOUNT
        outcomes[timed_out] += 1
    assert await misfits(market) == []
    assert outcomes.total() == rounds


@pytest.mark.req("J-8.17")
@pytest.mark.parametrize("rounds", ROUNDS)
async def test_one_dispute_is_resolved_by_two_at_once(market: Market, rounds: int) -> None:
    """One of them says how it ends; the other is told that it has."""
    for number in range(rounds):
        row, ids, _ = await round_of(market, number)
        lender, borrower = ((AMOUNT, 0), (0, AMOUNT))
        answers = await asyncio.gather(
            resolve(market, row["id"], "Settled", lender), resolve(market, row["id"], "Settled", borrower)
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        await market.bench.run_due()
        money = await balance(market, ids[0])
        assert {money.released, money.refunded} == {0, AMOUNT}
        assert (money.released == AMOUNT) == (answers[0].status_code == 200)
    assert await misfits(market) == []


class Walk:
    """Six short shifts of one day and three of the next days, and whatever happens to them."""

    def __init__(self, market: Market, chance: Random) -> None:
        self.market = market
        self.chance = chance
        self.open: dict[str, Json] = {}
        self.ids: list[str] = []
        self.booking = ""

    async def begin(self) -> None:
        day = date(2027, 3, 2)
        hours = [shift(day, start=hour, end=hour + 1, amount=1_001) for hour in range(8, 14)]
        days = [shift(day + timedelta(days=number), amount=999) for number in (1, 2, 5)]
        self.booking = (await self.market.book(*hours, *days))["id"]
        self.ids = [row["id"] for row in await self.market.shifts(self.booking)]
        await fund(self.market, *self.ids, amount=1_001)

    async def step(self, number: int) -> None:
        """An hour is worked, if that is still possible; something is disputed, or resolved, or neither."""
        id = self.ids[number]
        await self.market.pass_until(local(2027, 3, 2, 8 + number))
        if (await self.market.transit("Wim", id, "clock-in")).status_code == 200:
            await self.market.pass_until(local(2027, 3, 2, 8 + number, 59))
            await self.market.submit(id)
            if self.chance.random() < 0.6:
                row = await disputed(self.market, id, option="B" if self.chance.random() < 0.1 else "A")
                self.open[row["id"]] = row
        if self.open and self.chance.random() < 0.4:
            await self.end(self.chance.choice(sorted(self.open)))

    async def end(self, id: str) -> None:
        frozen = (await self.market.get(f"disputes/{id}"))["frozen"]
        is_held = self.open[id]["status"] == "Legal_Hold"
        word = self.chance.choice(WORDS[:2] if is_held else WORDS)
        lender = self.chance.randint(0, frozen)
        settlement = None if word == "Legal_Hold" else (lender, frozen - lender)
        row = done(await resolve(self.market, id, word, settlement))
        if word == "Legal_Hold":
            self.open[id] = row
        else:
            del self.open[id]

    async def check(self) -> None:
        assert is_whole(await whole(self.market, self.booking))
        assert await misfits(self.market) == []


@pytest.mark.req("J-8.8", "D-6.10")
@pytest.mark.parametrize("number", [0, *(pytest.param(one, marks=pytest.mark.slow) for one in range(1, 40))])
async def test_whatever_is_disputed_and_resolved_the_sums_hold(market: Market, number: int) -> None:
    """And when all is resolved nothing is frozen, and nothing is held for what was worked or cancelled."""
    walk = Walk(market, Random(f"{daily_seed()}-{number}"))
    await walk.begin()
    for hour in range(6):
        await walk.step(hour)
    await walk.check()
    await market.pass_until(local(2027, 3, 2, 22))
    for id in sorted(walk.open):
        while id in walk.open:
            await walk.end(id)
    await market.pass_until(market.clock.now + MINUTE)
    await walk.check()
    money = await whole(market, walk.booking)
    waiting = sum(row["status"] == "Scheduled" for row in await market.shifts(walk.booking))
    assert (money.frozen, money.held) == (0, 1_001 * waiting)
