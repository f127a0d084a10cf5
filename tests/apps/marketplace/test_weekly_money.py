"""Money over whole cycles, with the real ledger and simulator: random bookings and faults, and nothing is ever lost."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import date, timedelta
from uuid import UUID

import pytest

from tests.apps.marketplace.support import DAY, HOUR, Market, local, open_market, shift
from tests.daily import daily_seed
from timebell.apps.marketplace.payments.charging import Charging
from timebell.apps.marketplace.payments.cutoff import Cutoff
from timebell.apps.marketplace.payments.simulator_models import Fault, Orders
from timebell.apps.marketplace.payments.simulator_store import SimulatorStore
from timebell.apps.marketplace.payments.verifying import verify
from timebell.kernel import Job, Outcome
from timebell.testing.database import TestDatabase

MONDAY = date(2027, 3, 8)
WEEKS = 3
SUMS = """
SELECT b.id, b.status,
    coalesce(sum(e.amount) FILTER (WHERE e.type = 'charge'), 0) AS charged,
    coalesce(sum(e.amount) FILTER (WHERE e.to_place = 'held'), 0)
        - coalesce(sum(e.amount) FILTER (WHERE e.from_place = 'held'), 0) AS held,
    coalesce(sum(e.amount) FILTER (WHERE e.to_place = 'lender'), 0) AS released,
    coalesce(sum(e.amount) FILTER (WHERE e.to_place = 'card'), 0) AS refunded,
    coalesce(sum(e.amount) FILTER (WHERE e.to_place = 'frozen'), 0)
        - coalesce(sum(e.amount) FILTER (WHERE e.from_place = 'frozen'), 0) AS frozen
FROM marketplace.staffing_bookings b LEFT JOIN marketplace.ledger_entries e ON e.booking_id = b.id
GROUP BY b.id, b.status
"""


@dataclass(slots=True)
class Crashes:
    """Has a job stop where it stands, now and then, as if its node had gone."""

    chance: random.Random
    left: int = 12
    happened: list[str] = field(default_factory=list)

    def maybe(self, where: str) -> None:
        if self.left and self.chance.random() < 0.15:
            self.left -= 1
            self.happened.append(where)
            raise RuntimeError(f"crash {where}")


def break_now_and_then(monkeypatch: pytest.MonkeyPatch, crashes: Crashes) -> None:
    """Before and after the provider is asked, and after all is written."""
    ask, charge, settle, cut_off = Charging._ask, Charging.run, Cutoff._settle, Cutoff.run

    async def broken_ask(self: Charging, job: Job, provider: object, begun: object) -> object:
        crashes.maybe("before charging")
        answer = await ask(self, job, provider, begun)  # type: ignore[arg-type]
        crashes.maybe("after charging")
        return answer

    async def broken_charge(self: Charging, job: Job) -> Outcome:
        outcome = await charge(self, job)
        crashes.maybe("after applying")
        return outcome

    async def broken_settle(self: Cutoff, on_its_way: object) -> object:
        crashes.maybe("before settling")
        answer = await settle(self, on_its_way)  # type: ignore[arg-type]
        crashes.maybe("after settling")
        return answer

    async def broken_cut_off(self: Cutoff, job: Job) -> Outcome:
        outcome = await cut_off(self, job)
        crashes.maybe("after the cutoff")
        return outcome

    monkeypatch.setattr(Charging, "_ask", broken_ask)
    monkeypatch.setattr(Charging, "run", broken_charge)
    monkeypatch.setattr(Cutoff, "_settle", broken_settle)
    monkeypatch.setattr(Cutoff, "run", broken_cut_off)


def orders(chance: random.Random) -> Orders:
    """A provider that does well mostly, and in every other way now and then."""
    faults = [
        Fault(call=call, fault=fault, times=chance.randint(1, 3))  # type: ignore[arg-type]
        for call, fault in (
            ("charge", chance.choice(["timeout_before", "timeout_after", "unavailable"])),
            ("lookup", "timeout_before"),
            ("report", chance.choice(["lose", "repeat", "reorder"])),
            ("refund", "timeout_after"),
        )
        if chance.random() < 0.5
    ]
    outcome = chance.choice(["succeed", "succeed", "decline", "processing", "timeout"])
    after = timedelta(hours=chance.choice([0, 0, 1, 3, 20]))
    return Orders(outcome=outcome, webhook_after=after, faults=faults)  # type: ignore[arg-type]


async def expect_whole(market: Market) -> None:
    for row in await market.rows(SUMS):
        somewhere = row["held"] + row["released"] + row["refunded"] + row["frozen"]
        assert row["charged"] == somewhere, dict(row)
    proof = await verify(market.bench.bell, "default")
    assert not proof.misfits, proof.misfits


async def expect_end(market: Market) -> None:
    """What the provider really took is what the ledger says; and nobody was released without being asked."""
    taken = await market.rows(
        "SELECT p.booking_id, p.period_start, count(*) AS n FROM marketplace.pending_payments p "
        "WHERE p.status = 'Succeeded' GROUP BY 1, 2 HAVING count(*) > 1"
    )
    assert taken == []
    twice = await market.rows(
        "SELECT key FROM marketplace.simulator_movements WHERE call = 'charge' GROUP BY key HAVING count(*) > 1"
    )
    assert twice == []
    unasked = await market.rows(
        "SELECT b.id FROM marketplace.staffing_bookings b WHERE b.status = 'Completed' AND NOT EXISTS ("
        "SELECT FROM marketplace.simulator_movements m WHERE m.call = 'charge' AND m.booking_id = b.id)"
    )
    assert unasked == []
    simulated: int = await market.value(
        "SELECT coalesce(sum(CASE WHEN call = 'charge' THEN amount ELSE -amount END), 0) "
        "FROM marketplace.simulator_movements WHERE state = 'succeeded'"
    )
    kept: int = await market.value(
        "SELECT coalesce(sum(CASE WHEN type = 'charge' THEN amount WHEN to_place IN ('card', 'lender') THEN -amount "
        "ELSE 0 END), 0) FROM marketplace.ledger_entries"
    )
    assert simulated == kept


async def walk(market: Market, monkeypatch: pytest.MonkeyPatch, chance: random.Random) -> Crashes:
    crashes = Crashes(chance)
    for number in range(chance.randint(2, 5)):
        days = [MONDAY + timedelta(days=day) for day in range(7 * WEEKS) if chance.random() < 0.4]
        worker = str(await market.add_worker(f"w{number}"))
        shifts = [shift(day, amount=chance.randrange(1, 50_000)) for day in days]
        await market.book(
            *shifts, worker_id=worker, end_date=(MONDAY + timedelta(days=7 * WEEKS)).isoformat()
        )
    break_now_and_then(monkeypatch, crashes)
    store = SimulatorStore(market.bench.bell.clock)
    for week in range(WEEKS):
        wednesday = local(2027, 3, 3, 9) + 7 * DAY * week
        await market.pass_until(wednesday)
        async with market.bench.bell.transaction() as tx:
            await store.write_simulator(tx, orders(chance))
        for hours in (1, 4, 6, 16, 20):
            await market.pass_until(wednesday + hours * HOUR)
            await expect_whole(market)
            if chance.random() < 0.15:
                await cancel_a_shift(market, chance)
        async with market.bench.bell.transaction() as tx:
            await store.write_simulator(tx, Orders())
        await market.pass_until(wednesday + 3 * DAY)
        await expect_whole(market)
    # Whatever is still on its way is asked for a day later, and payouts come to their end.
    await market.pass_until(market.clock.now + 3 * DAY)
    await expect_whole(market)
    return crashes


async def cancel_a_shift(market: Market, chance: random.Random) -> None:
    rows = await market.rows("SELECT id, status FROM marketplace.staffing_bookings ORDER BY id")
    open_ones = [row["id"] for row in rows if row["status"] == "Active"]
    if open_ones:
        booking: UUID = chance.choice(open_ones)
        await market.ask(None, "POST", f"bookings/{booking}/cancel", {"reason": "changed plans"})


@pytest.mark.req("J-1.17", "X-J62")
async def test_every_cent_is_somewhere_through_a_cycle(
    market_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_market(market_database, payment_provider="simulator") as market:
        await walk(market, monkeypatch, random.Random(daily_seed()))
        await expect_end(market)


@pytest.mark.slow
@pytest.mark.req("J-1.17", "X-J62")
@pytest.mark.parametrize("number", range(12))
async def test_every_cent_is_somewhere_whatever_happens(
    market_database: TestDatabase, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    async with open_market(market_database, payment_provider="simulator") as market:
        await walk(market, monkeypatch, random.Random(f"{daily_seed()}/{number}"))
        await expect_end(market)
