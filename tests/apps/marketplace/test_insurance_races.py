"""Somebody clocks in or checks out while work is stopped, or ends a report or a dispute while an insurance is renewed.
One is first, and what is there afterwards is what both of them mean together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import httpx2
import pytest

from tests.apps.marketplace.dispute_support import resolve, retries
from tests.apps.marketplace.insurance_support import insure, renew, report
from tests.apps.marketplace.shift_support import disputed
from tests.apps.marketplace.support import MINUTE, SECOND, Market, done, open_market, shift
from tests.apps.marketplace.test_shift_races import Pause
from tests.apps.marketplace.weekly_support import payments_of, set_status, status_of, with_bank
from tests.web.support import problem
from timebell.apps.marketplace.insurance.stopping import stop_job
from timebell.apps.marketplace.insurance.store import PolicyStore
from timebell.testing.database import TestDatabase

LATER = date(2029, 3, 1)
FIRST = date(2027, 3, 2)


async def meet(pause: Pause, number: int, first: Awaitable[Any], second: Awaitable[Any]) -> tuple[Any, Any]:
    """The first stands before its n-th statement while the second is tried; then both go on."""
    pause.arm(number)
    running, waiting = asyncio.ensure_future(first), asyncio.create_task(pause.reached.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=20)
    waiting.cancel()
    changing = asyncio.ensure_future(second)
    # Where the first stands in a transaction, the second may have to wait for that.
    await asyncio.wait({changing}, timeout=0.3)
    pause.left = None
    pause.goes_on.set()
    return await asyncio.wait_for(running, 60), await asyncio.wait_for(changing, 60)


async def end(market: Market, policy: str) -> None:
    """As the daily run does: nothing is stopped yet, and a job is there that will."""
    async with market.bench.bell.transaction() as tx:
        store = PolicyStore(market.clock)
        await store.deactivate_policy(tx, id=UUID(policy))
        found = await store.read_policy(tx, id=UUID(policy))
        assert found is not None
        await market.bench.bell.enqueue_many(tx, [stop_job(found.id, found.revision, None)])


async def stops_and_clocks_in(database: TestDatabase, rounds: range, least: int) -> None:
    pause = Pause()
    outcomes: Counter[int] = Counter()
    async with open_market(database, worker_gate=pause) as market:
        days = [FIRST + timedelta(days=number) for number in range(len(rounds))]
        booking = (await market.book(*map(shift, days), end_date=days[-1].isoformat()))["id"]
        policy = (await insure(market, LATER))["id"]
        for at, row in zip(rounds, await market.shifts(booking), strict=True):
            market.clock.move_to(market.clock.now + MINUTE)
            await end(market, policy)
            _, answer = await meet(
                pause, at % 40, market.bench.run_due(), market.transit("Wim", row["id"], "clock-in")
            )
            await market.pass_until(market.clock.now + 5 * SECOND)
            assert await status_of(market, booking) == "Suspended_Insurance", at
            outcomes[answer.status_code] += 1
            if answer.status_code == 200:
                done(await market.transit("Wim", row["id"], "submit", {}))
            else:
                assert problem(answer, 409, "clock_in_refused")["reason"] == "insurance"
                seen = await market.get(f"time-logs/{row['id']}")
                assert seen["status"] == "Scheduled", at
            await renew(market, policy, LATER)
            await market.bench.run_due()
            assert await status_of(market, booking) == "Active", at
    assert set(outcomes) <= {200, 409}
    assert len(outcomes) >= least, outcomes


async def renews_and_closes(database: TestDatabase, rounds: range, least: int) -> None:
    pause = Pause()
    outcomes: Counter[bool] = Counter()
    async with open_market(database, gate=pause) as market:
        booking = (await market.book(shift(FIRST)))["id"]
        (row,) = await market.shifts(booking)
        policy = (await insure(market, LATER))["id"]
        held = 0
        for at in rounds:
            incident = await report(market, row["id"])
            done(await market.ask(None, "POST", f"policies/{policy}/invalidate", {}))
            renewing = market.ask(
                None, "POST", f"policies/{policy}/renew", {"expiration_date": LATER.isoformat()}
            )
            closing = market.ask("Sue", "POST", f"incidents/{incident}/close")
            both = (renewing, closing) if at % 2 else (closing, renewing)
            answers: tuple[httpx2.Response, httpx2.Response] = await meet(pause, at // 2 % 30, *both)
            assert [answer.status_code for answer in answers] == [200, 200], at
            await market.pass_until(market.clock.now + 5 * SECOND)
            seen = await market.get(f"bookings/{booking}")
            assert (seen["status"], seen["clock_in_hold"]) == ("Active", False), at
            before, held = held, (await market.events(f"staffing:{booking}")).count("staffing_booking.held")
            outcomes[held > before] += 1
    assert len(outcomes) >= least, outcomes


async def renews_and_resolves(database: TestDatabase, rounds: range, least: int) -> None:
    """The last dispute, of a booking that was paused for it or was not yet. Whoever is first, it is charged for by one
    job, which finds it `Active`."""
    pause = Pause()
    outcomes: Counter[bool] = Counter()
    async with open_market(database, gate=pause) as market, with_bank(market) as bank:
        days = [FIRST + timedelta(days=number) for number in range(max(len(rounds), 7))]
        booking = (await market.book(*map(shift, days), end_date=days[-1].isoformat()))["id"]
        policy = (await insure(market, LATER))["id"]
        held = 0
        for count, (at, row) in enumerate(zip(rounds, await market.shifts(booking), strict=False), 1):
            await market.clock_in(row["id"])
            await market.submit(row["id"])
            dispute = (await disputed(market, row["id"]))["id"]
            if at % 3:
                await set_status(market, booking, "Payment_Paused_Dispute")
            done(await market.ask(None, "POST", f"policies/{policy}/invalidate", {}))
            assert await status_of(market, booking) == "Suspended_Insurance", at
            renewing = market.ask(
                None, "POST", f"policies/{policy}/renew", {"expiration_date": LATER.isoformat()}
            )
            resolving = resolve(market, dispute, "Resolved")
            both = (renewing, resolving) if at % 2 else (resolving, renewing)
            answers: tuple[httpx2.Response, httpx2.Response] = await meet(pause, at // 2 % 40, *both)
            assert [answer.status_code for answer in answers] == [200, 200], at
            await market.pass_until(market.clock.now + 5 * SECOND)
            seen = await market.get(f"bookings/{booking}")
            assert (seen["status"], seen["clock_in_hold"]) == ("Active", False), at
            assert len(await retries(market)) == count, at
            before, held = held, (await market.events(f"staffing:{booking}")).count("staffing_booking.held")
            outcomes[held > before] += 1
        # The week that comes is charged once, however often something was resolved.
        assert len(bank.taken) == len(await payments_of(market, booking)) <= 1
    assert len(outcomes) >= least, outcomes


async def ends_and_checks_out(database: TestDatabase, rounds: range, least: int) -> None:
    """Either nothing is booked, or what was booked is stopped with the rest."""
    buying, working = Pause(), Pause()
    outcomes: Counter[int] = Counter()
    async with open_market(database, gate=buying, worker_gate=working) as market:
        policy = (await insure(market, LATER))["id"]

        async def ends() -> None:
            await end(market, policy)
            await market.bench.run_due()

        for at in rounds:
            worker = str(await market.add_worker(f"Wanda {at}"))
            order = market.order(shift(FIRST), worker_id=worker, end_date=FIRST.isoformat())
            booking = market.ask("Bea", "POST", "bookings", order)
            if at % 2:
                _, answer = await meet(working, at // 2 % 20, ends(), booking)
            else:
                answer, _ = await meet(buying, at // 2 % 40, booking, ends())
            await market.pass_until(market.clock.now + 5 * SECOND)
            outcomes[answer.status_code] += 1
            made = await market.rows(
                "SELECT status FROM marketplace.staffing_bookings WHERE worker_id = $1", UUID(worker)
            )
            if answer.status_code == 201:
                assert [row["status"] for row in made] == ["Suspended_Insurance"], at
            else:
                problem(answer, 409, "insurance_invalid")
                assert made == [], at
            await renew(market, policy, LATER)
            await market.bench.run_due()
    assert set(outcomes) <= {201, 409}
    assert len(outcomes) >= least, outcomes


@pytest.mark.req("J-4.9")
async def test_a_hard_stop_races_with_clocking_in(market_database: TestDatabase) -> None:
    await stops_and_clocks_in(market_database, range(0, 40, 8), least=1)


@pytest.mark.req("J-4.12")
async def test_a_renewal_races_with_the_end_of_a_report(market_database: TestDatabase) -> None:
    await renews_and_closes(market_database, range(0, 40, 7), least=1)


@pytest.mark.slow
@pytest.mark.req("J-4.9")
async def test_a_hard_stop_races_with_clocking_in_two_hundred_times(
    market_database: TestDatabase,
) -> None:
    await stops_and_clocks_in(market_database, range(200), least=2)


@pytest.mark.slow
@pytest.mark.req("J-4.12")
async def test_a_renewal_races_with_the_end_of_a_report_two_hundred_times(
    market_database: TestDatabase,
) -> None:
    await renews_and_closes(market_database, range(200), least=2)


@pytest.mark.req("J-4.12", "J-9.9", "X-J11", "X-J25")
async def test_a_renewal_races_with_the_last_resolution(market_database: TestDatabase) -> None:
    await renews_and_resolves(market_database, range(0, 50, 7), least=1)


@pytest.mark.slow
@pytest.mark.req("J-4.12", "J-9.9", "X-J11", "X-J25")
async def test_a_renewal_races_with_the_last_resolution_two_hundred_times(
    market_database: TestDatabase,
) -> None:
    await renews_and_resolves(market_database, range(200), least=2)


@pytest.mark.req("J-4.7", "X-J54")
async def test_the_end_of_an_insurance_races_with_a_checkout(market_database: TestDatabase) -> None:
    await ends_and_checks_out(market_database, range(0, 60, 7), least=2)


@pytest.mark.slow
@pytest.mark.req("J-4.7", "X-J54")
async def test_the_end_of_an_insurance_races_with_a_checkout_two_hundred_times(
    market_database: TestDatabase,
) -> None:
    await ends_and_checks_out(market_database, range(200), least=2)
