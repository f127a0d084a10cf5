"""A payment provider that is killed, hangs, fails and lies, under load, while nodes are killed.

The nodes are real processes and speak to a stand-in for Stripe through its own library. It takes the money and is not
heard, or is not there at all; nodes die in the middle of calls. In the end every week is charged once, every lender is
paid once, and the ledger agrees with the provider, name by name.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.acceptance.processes import Process, clean_environment
from tests.apps.marketplace.contract.fake_stripe import ACCOUNT, SECRET_KEY, WEBHOOK_SECRET, FakeStripe, Fault
from tests.apps.marketplace.support import add_company, add_worker
from tests.contract.providers.http_server import Request, Response
from tests.daily import daily_seed
from tests.web.support import Site, open_site
from timebell.apps.marketplace import APP
from timebell.apps.marketplace.payments.cycles import Week, charge_job
from timebell.apps.marketplace.payments.simulator_models import Fault as SimulatorFault
from timebell.apps.marketplace.payments.simulator_models import (
    FaultSort,
    FaultyCall,
    OrderedOutcome,
    Orders,
)
from timebell.apps.marketplace.payments.simulator_store import SimulatorStore
from timebell.apps.marketplace.payments.verifying import verify
from timebell.kernel import Enqueue
from timebell.testing.database import TestDatabase

BOOKINGS = 60
SHIFTS = 3
# So many are due each second, so that there are some at any time.
PART = 4
AMOUNT = 12_345
NODES = 3
CHAOS_SECONDS = 25.0
SETTLING_SECONDS = 150.0
# How much of all that is asked goes wrong, and how.
TROUBLE = 0.4
FAULTS: tuple[Fault, ...] = ("lost", "done_and_lost", "done_and_lost", "done_and_failed", "busy", "in_use")
RARE: tuple[Fault, ...] = ("hang", "done_and_hang")


@dataclass(slots=True)
class Liar(FakeStripe):
    """Stripe on a bad day. Cards of some take their time: what becomes of those is reported, twice."""

    chance: random.Random = field(default_factory=random.Random)
    is_troubled: bool = False
    told: Counter[str] = field(default_factory=Counter)

    def serve(self, request: Request) -> Response:
        if self.is_troubled and self.chance.random() < TROUBLE:
            fault = self.chance.choice(RARE if self.chance.random() < 0.05 else FAULTS)
            # Reads are only lost: they change nothing.
            fault = fault if request.method == "POST" else "lost"
            self.faults = [(f"{request.method} {request.path.split('/')[2]}", fault)]
            self.told[fault] += 1
        try:
            return FakeStripe.serve(self, request)
        finally:
            self.faults = []


@dataclass(slots=True)
class Town:
    """A database with bookings, nodes that die, and a provider that lies."""

    database: TestDatabase
    site: Site
    liar: Liar
    place: Path
    owner: asyncpg.Connection[Any]
    around: Mapping[str, str]
    nodes: list[Process] = field(default_factory=list)
    jobs: list[Enqueue] = field(default_factory=list)
    started: int = 0

    def start(self) -> None:
        self.started += 1
        environment = clean_environment(
            DATABASE_URL=self.database.url,
            TIMEBELL_APPS="timebell.apps.marketplace",
            TIMEBELL_NODE_NAME=f"node-{self.started}",
            TIMEBELL_LEASE_SECONDS="3",
            TIMEBELL_LEASE_MARGIN_SECONDS="1",
            TIMEBELL_POOL_SIZE="5",
            **self.around,
        )
        self.nodes.append(Process(self.place / f"node-{self.started}", "work", environment=environment))

    def kill(self) -> None:
        """The oldest dies where it stands, and another takes its place."""
        node = self.nodes.pop(0)
        node.signal(signal.SIGKILL)
        node.popen.wait(10)
        self.start()

    async def count(self, sql: str, *arguments: object) -> int:
        found: int = await self.owner.fetchval(sql, *arguments)
        return found

    async def enqueue(self) -> None:
        """Some more."""
        some, self.jobs = self.jobs[:PART], self.jobs[PART:]
        async with self.site.bell.transaction() as tx:
            await self.site.bell.enqueue_many(tx, some)

    async def hasten(self) -> None:
        """What waits for its next attempt is tried now, and an operator brings back what was given up."""
        bell = self.site.bell
        async with bell.transaction() as tx:
            rows = await self.owner.fetch(
                "SELECT id FROM timebell.jobs WHERE kind IN ('marketplace.charge', 'marketplace.pay_out') "
                "AND run_at > now() LIMIT 500"
            )
            await bell.hasten(tx, [row["id"] for row in rows])
            for kind in ("marketplace.charge", "marketplace.pay_out"):
                await bell.revive(tx, kind=kind)

    async def report(self) -> None:
        """What took its time has succeeded, and is told of twice, out of order."""
        for id, intent in list(self.liar.intents.items()):
            if intent["status"] != "processing":
                continue
            early = self.liar.event(id, "payment_intent.processing")
            self.liar.settle(id)
            late = self.liar.event(id, "payment_intent.succeeded")
            for raw, headers in (late, early, late):
                answer = await self.site.ask(
                    "POST", "/api/marketplace/payment-reports", key=None, headers=headers, content=raw
                )
                assert answer.status_code == 200, answer.text


async def furnish(town: Town) -> list[UUID]:
    """Bookings of one worker, with shifts in the week that the coming Wednesday pays for. Lenders are paid at once."""
    borrower = await add_company(town.database, "borrower")
    slow = await add_company(town.database, "borrower")
    lender = await add_company(town.database, "lender")
    worker = await add_worker(town.database, uuid4(), lender)
    execute = town.owner.execute
    for company, method in ((borrower, "pm_card_visa"), (slow, "pm_card_processing")):
        await execute("UPDATE marketplace.companies SET payment_method = $2 WHERE id = $1", company, method)
    await execute("UPDATE marketplace.companies SET payment_account = $2 WHERE id = $1", lender, ACCOUNT)
    await execute(
        "INSERT INTO marketplace.marketplace_settings VALUES ('default', 'webhook', 1, now()) ON CONFLICT (tenant) "
        "DO UPDATE SET payout_trigger = 'webhook'"
    )
    week = coming_week()
    ids = []
    for number in range(BOOKINGS):
        company = slow if number % 4 == 0 else borrower
        project, booking = uuid4(), uuid4()
        await execute(
            "INSERT INTO marketplace.projects VALUES ('default', $1, $2, 'The site', 'UTC', now())",
            project,
            company,
        )
        await execute(
            "INSERT INTO marketplace.staffing_bookings (tenant, id, project_id, borrower_company_id, "
            "lender_company_id, worker_id, supervisor_id, payment_type, currency, timezone, start_date, end_date, "
            "funded_period_end, rate, created_at, updated_at) VALUES ('default', $1, $2, $3, $4, $5, $6, "
            "'Weekly_Progress', 'EUR', 'UTC', $7, $8, $9, 2500, now(), now())",
            *(booking, project, company, lender, worker, uuid4()),
            *(week.period.start.date(), week.period.end.date(), week.period.start),
        )
        for day in range(SHIFTS):
            start = week.period.start + timedelta(days=day, hours=8)
            await execute(
                "INSERT INTO marketplace.time_log (tenant, id, booking_id, worker_id, shift_date, shift_start_time, "
                "scheduled_start, scheduled_end, amount, created_at, updated_at) "
                "VALUES ('default', $1, $2, $3, $4, $5, $6, $7, $8, now(), now())",
                *(
                    uuid4(),
                    booking,
                    worker,
                    start.date(),
                    start.time(),
                    start,
                    start + timedelta(hours=8),
                    AMOUNT,
                ),
            )
        ids.append(booking)
    return ids


def coming_week() -> Week:
    """That of a Wednesday which has not come yet, so that its cutoff has not passed."""
    today = datetime.now(UTC).date()
    return Week.of("payments", "UTC", today + timedelta(days=(2 - today.weekday() - 1) % 7 + 1))


@asynccontextmanager
async def open_town(database: TestDatabase, place: Path, provider: str) -> AsyncIterator[Town]:
    liar = Liar(chance=random.Random(daily_seed()))
    await liar.server.open()
    owner = await asyncpg.connect(database.admin_url, timeout=10)
    settings = {"payment_provider": provider}
    if provider == "stripe":
        settings |= {
            "stripe_secret_key": SECRET_KEY,
            "stripe_webhook_secret": WEBHOOK_SECRET,
            "stripe_url": liar.url,
        }
    around = {f"TIMEBELL_{name.upper()}": value for name, value in settings.items()}
    given: dict[str, Any] = settings
    async with open_site(database, apps=(APP,), **given) as site:
        town = Town(database=database, site=site, liar=liar, place=place, owner=owner, around=around)
        try:
            yield town
        finally:
            for node in town.nodes:
                node.end()
            await owner.close(timeout=10)
            await liar.server.close()


@pytest.mark.slow
@pytest.mark.req("J-1.17")
@pytest.mark.req("X-J62")
async def test_whatever_the_provider_does_each_week_is_charged_once_and_paid_out_once(
    marketplace_database: TestDatabase, tmp_path: Path
) -> None:
    async with open_town(marketplace_database, tmp_path, "stripe") as town:
        bookings = await begin(town)
        town.liar.is_troubled = True
        await trouble(town)
        town.liar.is_troubled = False
        await settle(town)
        await compare(town, bookings)


@pytest.mark.slow
@pytest.mark.req("J-1.17")
async def test_the_simulator_charges_each_week_once_while_nodes_die(
    marketplace_database: TestDatabase, tmp_path: Path
) -> None:
    """It remembers what nodes forget, and is told to lie."""
    async with open_town(marketplace_database, tmp_path, "simulator") as town:
        bookings = await begin(town)
        await trouble(town, upset_simulator)
        await order(town, Orders())
        await settle(town)
        moved = await town.owner.fetch(
            "SELECT call, ref, booking_id, amount FROM marketplace.simulator_movements WHERE state = 'succeeded'"
        )
        for call in ("charge", "transfer"):
            found = Counter(row["booking_id"] for row in moved if row["call"] == call)
            assert found == Counter(bookings), f"one {call} for each week, and none lost"
        assert {row["amount"] for row in moved} == {SHIFTS * AMOUNT}
        await agree(town, moved)
        outcomes = await town.owner.fetch("SELECT call, outcome FROM marketplace.simulator_calls")
        said = Counter(f"{row['call']} {row['outcome']}" for row in outcomes)
        assert said["charge timeout"] >= 3, said
        assert said["lookup succeeded"] >= 1, said


async def order(town: Town, orders: Orders) -> None:
    bell = town.site.bell
    async with bell.transaction() as tx:
        await SimulatorStore(bell.clock).write_simulator(tx, orders)


async def upset_simulator(town: Town) -> None:
    chance = town.liar.chance
    calls: tuple[FaultyCall, ...] = ("charge", "lookup", "transfer")
    sorts: tuple[FaultSort, ...] = ("timeout_before", "timeout_after", "timeout_after")
    of_reports: tuple[FaultSort, ...] = ("repeat", "reorder")
    # A third of the calls; with more, the breaker would keep all of them waiting until the day is better.
    faults = [SimulatorFault(call=call, fault=chance.choice(sorts), times=1) for call in calls]
    faults += [
        SimulatorFault(call="charge", fault="timeout_after", times=1),
        SimulatorFault(call="report", fault=chance.choice(of_reports), times=20),
    ]
    outcome: OrderedOutcome = "processing" if chance.random() < 0.2 else "succeed"
    # Nothing is told soon: whoever wants to know has to look.
    await order(town, Orders(outcome=outcome, webhook_after=timedelta(seconds=20), faults=faults))


async def begin(town: Town) -> list[UUID]:
    bookings, week = await furnish(town), coming_week()
    for _ in range(NODES):
        town.start()
    jobs = [charge_job(week, booking, 1, f"chaos-{number}") for number, booking in enumerate(bookings)]
    town.jobs += jobs
    return bookings


async def trouble(town: Town, upset: Callable[[Town], Awaitable[None]] | None = None) -> None:
    """Calls fail, the provider goes away and comes back, and nodes die."""
    loop = asyncio.get_running_loop()
    if upset is not None:
        await upset(town)
    ends = loop.time() + CHAOS_SECONDS
    turn = 0
    while loop.time() < ends:
        await town.enqueue()
        await asyncio.sleep(1)
        turn += 1
        if turn % 5 == 2:
            town.kill()
        if turn % 7 == 3:
            await town.liar.server.close()
            await asyncio.sleep(0.5)
            await town.liar.server.open()
        if upset is not None:
            await upset(town)
        with suppress(asyncpg.PostgresError):
            await town.hasten()
        await town.report()


async def settle(town: Town) -> None:
    """All is well again: until everything is paid for and paid out."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + SETTLING_SECONDS
    paid = "SELECT count(*) FROM marketplace.pending_payments WHERE status = 'Succeeded'"
    sent = "SELECT count(*) FROM marketplace.payouts WHERE state = 'sent'"
    while (await town.count(paid), await town.count(sent)) != (BOOKINGS, BOOKINGS):
        assert loop.time() < ends, (
            await town.count(paid),
            await town.count(sent),
            town.nodes[-1].words[-3000:],
        )
        await town.report()
        await town.hasten()
        await asyncio.sleep(0.5)


async def compare(town: Town, bookings: list[UUID]) -> None:
    """What the provider took and paid is what the ledger says, once for each week."""
    liar = town.liar
    taken = Counter(
        each["metadata"]["booking"] for each in liar.intents.values() if each["status"] == "succeeded"
    )
    assert taken == Counter(str(booking) for booking in bookings), "one charge for each week, and none lost"
    assert all(each["status"] == "succeeded" for each in liar.intents.values())
    assert len(liar.transfers) == BOOKINGS
    assert {each["amount"] for each in liar.transfers.values()} == {SHIFTS * AMOUNT}
    assert liar.refunds == {}
    names = await town.owner.fetch(
        "SELECT type, provider_ref FROM marketplace.ledger_entries WHERE type <> 'hold'"
    )
    assert {row["provider_ref"] for row in names if row["type"] == "charge"} == liar.intents.keys()
    assert {row["provider_ref"] for row in names if row["type"] == "release"} == liar.transfers.keys()
    proof = await verify(town.site.bell, "default")
    assert (proof.misfits, proof.bookings) == ((), BOOKINGS)
    # It was a bad day indeed, and what was uncertain was looked for.
    assert {"lost", "done_and_lost", "done_and_failed", "busy", "in_use"} <= liar.told.keys(), liar.told
    looked = [each for each in liar.seen if each.method == "GET" and "customer" in each.query]
    assert len(looked) > 10


async def agree(town: Town, moved: Sequence[Mapping[str, Any]]) -> None:
    """The ledger has the provider's names, and is proven."""
    entries = await town.owner.fetch("SELECT type, provider_ref FROM marketplace.ledger_entries")
    for call, type in (("charge", "charge"), ("transfer", "release")):
        written = {row["provider_ref"] for row in entries if row["type"] == type}
        assert written == {row["ref"] for row in moved if row["call"] == call}
    proof = await verify(town.site.bell, "default")
    assert (proof.misfits, proof.bookings) == ((), BOOKINGS)
    assert town.started >= NODES + 4
