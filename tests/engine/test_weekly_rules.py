"""Weekly rules of places on the wall clocks of those places: a payment run, a warning and a cutoff, for a year.

What is due only enqueues. Whom it concerns is asked at that instant, in the transaction that enqueues.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import pytest_asyncio

from tests.engine.planner_support import DAY, HOUR, MINUTE, forget, occurrences, schedule, utc, wall
from tests.engine.support import Cluster, Owner
from timebell.kernel import App, Enqueue, Handler, Job, Queue, Step, Timebell
from timebell.testing import ManualClock, harness
from timebell.testing.database import TestDatabase

# First a place whose clocks change by half an hour; the others are off by hours, halves and quarters of one.
PLACES = (
    "Australia/Lord_Howe",
    *(
        pytest.param(place, marks=pytest.mark.slow)
        for place in (
            "America/New_York",
            "Asia/Kolkata",
            "Asia/Kathmandu",
            "America/St_Johns",
            "Pacific/Chatham",
        )
    ),
)
RULES = {"pay": ("WE", time(10)), "warn": ("WE", time(14)), "cut": ("TH", time(0))}
RUN = Step(key="run", kind="market.run", offset=timedelta(0))
ELIGIBLE = """
    SELECT id FROM public.bookings
    WHERE place = $1 AND status = 'Active' AND payment_type = 'Weekly_Progress' ORDER BY id
"""


class Market:
    """An app with two handlers: one that enqueues when a rule is due, and one that works through what it enqueued."""

    def __init__(self) -> None:
        self.bell: Timebell | None = None
        self.clock: ManualClock | None = None
        self.runs: defaultdict[tuple[str, str], list[datetime]] = defaultdict(list)
        self.paid: list[dict[str, Any]] = []
        self.failures = 0

    def app(self) -> App:
        return App(
            name="market",
            handlers={
                "market.run": Handler(run=self.run, mode="transactional"),
                "market.pay": Handler(run=self.pay, mode="transactional", queue="weekly-payments"),
            },
            queues=[Queue(name="weekly-payments", rate=50)],
        )

    async def run(self, job: Job) -> None:
        assert self.bell is not None
        assert self.clock is not None
        assert job.tx is not None
        place, rule = job.payload["place"], job.payload["rule"]
        rows = await job.tx.connection.fetch(ELIGIBLE, place) if rule == "pay" else []
        about = {"place": place, "week": job.payload["original_local"]}
        await self.bell.enqueue_many(
            job.tx,
            [
                Enqueue(
                    kind="market.pay", payload={"booking_id": row["id"], **about}, correlation_id=str(job.id)
                )
                for row in rows
            ],
        )
        if self.failures:
            self.failures -= 1
            raise RuntimeError("after all was enqueued and before it was committed")
        self.runs[place, rule].append(self.clock.now)

    async def pay(self, job: Job) -> None:
        self.paid.append({"queue": job.queue, "cause": job.correlation_id, **job.payload})


@pytest_asyncio.fixture
async def bookings(owner: Owner) -> AsyncIterator[Owner]:
    await owner.connection.execute("""
        CREATE TABLE public.bookings (id integer, place text, status text, payment_type text);
        GRANT SELECT ON public.bookings TO PUBLIC;
    """)
    yield owner


async def book(owner: Owner, *lines: tuple[int, str, str, str]) -> None:
    await owner.connection.executemany("INSERT INTO public.bookings VALUES ($1, $2, $3, $4)", lines)


async def weekly(bell: Timebell, place: str, rule: str, **terms: Any) -> Any:
    day, at = RULES[rule]
    return await schedule(
        bell,
        recurrence=f"FREQ=WEEKLY;BYDAY={day}",
        timezone=place,
        start_local=datetime.combine(date(2026, 1, 1), at),
        subject=f"place:{place}",
        payload={"place": place, "rule": rule},
        steps=[RUN],
        **terms,
    )


@pytest.mark.req("J-1.1", "J-2.1", "J-3.1", "X-J1")
@pytest.mark.parametrize("place", PLACES)
async def test_a_year_of_weekly_rules_is_due_at_their_wall_times_and_at_no_other(
    database_url: TestDatabase, bookings: Owner, place: str
) -> None:
    """2026 has 52 Wednesdays and 53 Thursdays. The planner brings most of them, as the year goes by."""
    market = Market()
    clock = ManualClock(utc(2025, 12, 31, 9))
    async with harness(database_url.url, [market.app()], clock=clock) as h:
        market.bell, market.clock = h.bell, clock
        for rule in RULES:
            await weekly(h.bell, place, rule)
        await h.advance(to=utc(2027, 1, 1, 12))
    shown = {
        rule: [at.astimezone(ZoneInfo(place)).replace(tzinfo=None) for at in market.runs[place, rule]]
        for rule in RULES
    }
    wednesdays = [wall(2026, 1, 7) + 7 * DAY * week for week in range(52)]
    thursdays = [wall(2026, 1, 1) + 7 * DAY * week for week in range(53)]
    assert shown == {
        "pay": [day + 10 * HOUR for day in wednesdays],
        "warn": [day + 14 * HOUR for day in wednesdays],
        "cut": thursdays,
    }


@pytest.mark.req("U-13")
async def test_what_is_due_enqueues_for_whom_it_concerns_at_that_instant(
    database_url: TestDatabase, bookings: Owner
) -> None:
    """The first transaction fails after all was enqueued: nothing of it is left, and the second enqueues once."""
    place, other = "Asia/Kathmandu", "Asia/Kolkata"
    market = Market()
    clock = ManualClock(utc(2026, 1, 5, 9))
    async with harness(database_url.url, [market.app()], clock=clock) as h:
        market.bell, market.clock = h.bell, clock
        await weekly(h.bell, place, "pay", grace=HOUR)
        await book(
            bookings,
            *((number, place, "Active", "Weekly_Progress") for number in (1, 2, 3)),
            (4, place, "Payment_Paused_Dispute", "Weekly_Progress"),
            (5, place, "Suspended_Insurance", "Weekly_Progress"),
            (6, place, "Cancelled", "Weekly_Progress"),
            (7, place, "Completed", "Weekly_Progress"),
            (8, place, "Active", "Upfront"),
            (9, other, "Active", "Weekly_Progress"),
        )
        await h.advance(DAY)
        # Planned long ago and not due yet: whatever is said in between counts.
        await bookings.connection.execute("UPDATE public.bookings SET status = 'Cancelled' WHERE id = 2")
        await bookings.connection.execute("UPDATE public.bookings SET status = 'Active' WHERE id = 4")
        market.failures = 1
        await h.advance(to=utc(2026, 1, 7, 4, 15))
        assert market.paid == []
        assert await bookings.value("SELECT count(*) FROM timebell.jobs WHERE kind = 'market.pay'") == 0
        await h.advance(to=utc(2026, 1, 8))
        (job,) = [row for row in await bookings.log("done") if row["kind"] == "market.run"]
    assert sorted(market.paid, key=lambda line: line["booking_id"]) == [
        {
            "queue": "weekly-payments",
            "cause": str(job["id"]),
            "booking_id": number,
            "place": place,
            "week": "2026-01-07T10:00:00",
        }
        for number in (1, 3, 4)
    ]


@pytest.mark.req("X-J2")
async def test_one_run_for_each_place_and_date_whatever_is_repeated(
    cluster: Cluster, bookings: Owner
) -> None:
    """Two nodes, both of which plan again all the time, through the night in which an hour comes twice."""
    market = Market()
    market.clock = cluster.clock
    cluster.clock.move_to(utc(2026, 10, 31, 12))
    nodes = [await cluster.node([market.app()]) for _ in range(2)]
    market.bell = nodes[0].bell
    place = "America/New_York"
    made = await schedule(
        nodes[0].bell,
        recurrence="FREQ=DAILY",
        timezone=place,
        start_local=wall(2026, 10, 31, 1, 30),
        payload={"place": place, "rule": "warn"},
        steps=[RUN],
    )
    for _ in range(44):
        cluster.clock.move(30 * MINUTE)
        await forget(bookings, made.schedule.id)
        for node in nodes:
            await node.engine.beat()
            await node.run_due()
    assert market.runs[place, "warn"] == [utc(2026, 11, 1, 5, 30)]
    rows = await occurrences(bookings, made.schedule.id)
    dates = [row["original_local"].date() for row in rows]
    assert len(dates) == len(set(dates)) > 50


@pytest.mark.req("X-J2", "U-10")
@pytest.mark.parametrize(
    ("back_at", "is_paid", "is_cut_at"),
    [
        (utc(2026, 1, 7, 13), True, utc(2026, 1, 8)),
        (utc(2026, 1, 8, 1), False, utc(2026, 1, 8, 1)),
        (utc(2026, 1, 13, 23), False, utc(2026, 1, 13, 23)),
    ],
)
async def test_after_an_outage_each_rule_has_a_grace_of_its_own(
    database_url: TestDatabase, bookings: Owner, back_at: datetime, is_paid: bool, is_cut_at: datetime
) -> None:
    """Nobody is there from nine on Wednesday. Payments are made up for until the cutoff, and the cutoff always."""
    market = Market()
    clock = ManualClock(utc(2026, 1, 7, 9))
    async with harness(database_url.url, [market.app()], clock=clock) as h:
        market.bell, market.clock = h.bell, clock
        paying = await weekly(h.bell, "UTC", "pay", grace=14 * HOUR)
        await weekly(h.bell, "UTC", "cut", grace=366 * DAY)
        clock.move_to(back_at)
        await h.advance(to=max(back_at, utc(2026, 1, 8)))
        assert market.runs["UTC", "pay"] == ([back_at] if is_paid else [])
        assert market.runs["UTC", "cut"] == [is_cut_at]
        # The planner looks again when the next one comes within reach, and by then it is known what was missed.
        await h.advance(8 * DAY)
        first = (await occurrences(bookings, paying.schedule.id))[0]
        assert first["state"] == ("planned" if is_paid else "missed")
