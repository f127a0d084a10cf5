"""Timesheets: the ladder that is climbed for them, their approval by somebody or by the clock, and what is paid."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.apps.marketplace.dispute_support import UNRESOLVED
from tests.apps.marketplace.shift_support import (
    APPROVED,
    DAY_ONE,
    END,
    PENDING,
    START,
    URGENT,
    balance,
    dispute,
    disputed,
    fund,
    instant,
    jobs,
    owed,
    read,
    submitted,
    texts,
    told,
    working,
)
from tests.apps.marketplace.support import (
    AMOUNT,
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Market,
    done,
    local,
    open_market,
    shift,
)
from timebell.apps.marketplace.shifts.owing import APPROVE_QUEUE, AUTO_APPROVE, CLIMB, CLIMB_QUEUE
from timebell.notify import Rejected
from timebell.testing.database import TestDatabase

RUNGS = {"ladder_0": timedelta(0), "ladder_60m": HOUR, "ladder_3h": 3 * HOUR, "auto_approve": 4 * HOUR}


async def edited(market: Market, id: str, *, who: str | None = "Sue", **given: Any) -> Any:
    return done(await market.transit(who, id, "edit", {"reason": "As agreed", **given}))


async def statuses(market: Market, id: str) -> dict[str, str]:
    """How each step about a shift ended."""
    rows = await market.rows(
        "SELECT step, state FROM timebell.job_log WHERE subject = $1 AND step IS NOT NULL", f"time_log:{id}"
    )
    return {row["step"]: row["state"] for row in rows}


@pytest.mark.req("J-7.1", "J-7.2", "J-7.3", "J-0.5", "X-J65")
@pytest.mark.parametrize(("who", "verb"), [("Wim", "submit"), ("Sue", "force-clock-out")])
async def test_clocking_out_starts_four_timers(market: Market, who: str, verb: str) -> None:
    """And nothing else does. They count from the server's clock, whatever end is stated."""
    id = await working(market)
    await market.pass_until(END - HOUR)
    done(await market.transit("Wim", id, "draft", {"end": END.isoformat()}))
    await edited(market, id, end=(END + HOUR).isoformat())
    assert not (await owed(market, id)).keys() & RUNGS.keys()
    await market.pass_until(END)
    answer = done(await market.transit(who, id, verb, {"end": (END - 2 * HOUR).isoformat()}))
    assert await owed(market, id) == {key: END + after for key, after in RUNGS.items()}
    assert {(job["step"], job["kind"], job["queue"]) for job in await jobs(market, id)} == {
        *((key, CLIMB, CLIMB_QUEUE) for key in ("ladder_0", "ladder_60m", "ladder_3h")),
        ("auto_approve", AUTO_APPROVE, APPROVE_QUEUE),
    }
    assert instant(answer["clock_out_time"]) == END
    assert instant(answer["work_end"]) == END - 2 * HOUR
    assert answer["worked_minutes"] == 360
    assert instant(answer["auto_approval_time"]) == END + 4 * HOUR


@pytest.mark.req("J-7.6", "J-7.7", "J-7.8", "J-7.11", "J-7.15", "X-J20")
async def test_the_ladder_is_climbed_to_the_approval(market: Market) -> None:
    """Path A: nobody disputes and nobody verifies."""
    id = await submitted(market)
    await fund(market, id)
    await market.pass_until(END + SECOND)
    ((name, text),) = told(market)
    assert name == "Sue"
    assert text.startswith("Timesheet for Wim submitted. Verify: ")
    await market.pass_until(END + HOUR)
    assert told(market)["Sue", PENDING] == told(market)["Bea", PENDING] == 1
    assert sum(told(market).values()) == 3
    await market.pass_until(END + 3 * HOUR)
    assert told(market)["Sue", URGENT] == told(market)["Bea", URGENT] == 1
    assert sum(told(market).values()) == 5
    await market.pass_until(END + 4 * HOUR - SECOND)
    assert (await read(market, id))["status"] == "Pending_Verification"
    await market.pass_until(END + 4 * HOUR)
    row = await read(market, id)
    assert (row["status"], row["verified_by"]) == ("Verified", "auto")
    assert instant(row["verified_at"]) == END + 4 * HOUR
    assert told(market)["Wim", APPROVED] == 1
    assert sum(told(market).values()) == 6
    assert (await market.events(f"time_log:{id}"))[-1] == "time_log.auto_approved"


@pytest.mark.req("J-7.11")
async def test_what_was_approved_is_in_the_audit_trail(market: Market) -> None:
    id = await submitted(market)
    await market.pass_until(END + 5 * HOUR)
    (row,) = await market.rows(
        "SELECT actor, before ->> 'status' AS before, after ->> 'status' AS after FROM marketplace.audit_log "
        "WHERE object_type = 'time_log' AND object_id = $1 AND action = 'time_log.auto_approved'",
        id,
    )
    assert tuple(row) == ("marketplace", "Pending_Verification", "Verified")


@pytest.mark.req("J-7.6", "X-J21")
async def test_the_first_rung_passes_quiet_hours(market: Market) -> None:
    async with market.bench.bell.transaction() as tx:
        await market.notify.recipients.change(
            tx,
            market.people["Sue"],
            quiet_hours={"start": "22:00", "end": "07:00", "time_bound": "hold"},
        )
    end = local(2027, 3, 2, 23, 30)
    await submitted(market, at=end)
    await market.pass_until(end + SECOND)
    assert [name for name, text in told(market) if text.startswith("Timesheet for Wim")] == ["Sue"]


@pytest.mark.req("J-7.9")
@pytest.mark.parametrize(
    ("after", "climbed"),
    [
        (30 * MINUTE, {"ladder_0"}),
        (2 * HOUR, {"ladder_0", "ladder_60m"}),
        (3 * HOUR + MINUTE, {"ladder_0", "ladder_60m", "ladder_3h"}),
    ],
)
async def test_verifying_ends_the_ladder(market: Market, after: timedelta, climbed: set[str]) -> None:
    id = await submitted(market)
    await market.pass_until(END + after)
    before = told(market)
    answer = await market.verify(id)
    assert (answer["status"], answer["verified_by"]) == ("Verified", f"recipient:{market.people['Sue']}")
    assert await owed(market, id) == {}
    ended = await statuses(market, id)
    assert {key for key in RUNGS if ended[key] == "done"} == climbed
    assert {key for key in RUNGS if ended[key] == "cancelled"} == RUNGS.keys() - climbed
    await market.pass_until(END + DAY)
    assert told(market) == before


@pytest.mark.req("J-7.9", "J-7.12")
@pytest.mark.parametrize("state", ["Verified", "Disputed"])
@pytest.mark.parametrize("first", list(RUNGS))
async def test_a_rung_that_finds_it_decided_ends_the_others(market: Market, state: str, first: str) -> None:
    """As if whoever decided had not taken them back."""
    id = await submitted(market)
    if first != "ladder_0":
        await market.pass_until(END + RUNGS[first] - SECOND)
    sent, there = told(market), set(await owed(market, id))
    by = ("now()", "'recipient:1'") if state == "Verified" else ("NULL", "NULL")
    await market.rows(
        f"UPDATE marketplace.time_log SET status = '{state}', verified_at = {by[0]}, verified_by = {by[1]}"
    )
    await market.pass_until(END + RUNGS[first])
    assert await owed(market, id) == {}
    ended = await statuses(market, id)
    assert {key for key in there if ended[key] == "cancelled"} == there - {first}
    await market.pass_until(END + DAY)
    assert told(market) == sent
    assert "time_log.auto_approved" not in await market.events(f"time_log:{id}")


@pytest.mark.req("J-7.4")
@pytest.mark.parametrize(
    "submit_at",
    [
        datetime.fromisoformat("2027-03-28T00:30:00+00:00"),
        datetime.fromisoformat("2027-10-31T00:30:00+00:00"),
        datetime.fromisoformat("2027-03-06T20:00:00+00:00"),
    ],
    ids=["spring", "autumn", "weekend"],
)
async def test_it_is_always_four_hours(market_database: TestDatabase, submit_at: datetime) -> None:
    async with open_market(market_database) as market:
        start = submit_at - 6 * HOUR
        day = start.date().isoformat()
        said = {"start": start.isoformat(), "end": submit_at.isoformat(), "amount": 100}
        id = await submitted(market, said, at=submit_at, start_date=day, end_date=day)
        await market.pass_until(submit_at + timedelta(seconds=14_399))
        assert (await read(market, id))["status"] == "Pending_Verification"
        await market.pass_until(submit_at + timedelta(seconds=14_400))
        assert (await read(market, id))["status"] == "Verified"


@pytest.mark.req("J-7.5")
@pytest.mark.parametrize(
    ("who", "after", "deadline"),
    [
        ("Sue", 2 * HOUR, 4 * HOUR),
        ("Sue", 3 * HOUR, 4 * HOUR),
        ("Sue", 3 * HOUR + 30 * MINUTE, 5 * HOUR),
        ("Bea", 3 * HOUR + 30 * MINUTE, 4 * HOUR),
        (None, 3 * HOUR + 30 * MINUTE, 4 * HOUR),
    ],
)
async def test_only_a_late_edit_of_the_supervisor_extends(
    market: Market, who: str | None, after: timedelta, deadline: timedelta
) -> None:
    id = await submitted(market)
    await market.pass_until(END + after)
    row = await edited(market, id, who=who, end=(END - HOUR).isoformat())
    assert instant(row["auto_approval_time"]) == END + deadline
    assert row["extensions"] == (deadline > 4 * HOUR)
    assert row["worked_minutes"] == 420
    assert (await owed(market, id))["auto_approve"] == END + deadline
    await market.pass_until(END + deadline - SECOND)
    assert (await read(market, id))["status"] == "Pending_Verification"
    await market.pass_until(END + deadline)
    assert (await read(market, id))["status"] == "Verified"


@pytest.mark.req("J-7.5")
async def test_it_is_extended_once(market: Market) -> None:
    id = await submitted(market)
    await market.pass_until(END + 3 * HOUR + 30 * MINUTE)
    await edited(market, id)
    await market.pass_until(END + 4 * HOUR + 30 * MINUTE)
    row = await edited(market, id)
    assert (instant(row["auto_approval_time"]), row["extensions"]) == (END + 5 * HOUR, 1)
    assert (await market.events(f"time_log:{id}")).count("time_log.extended") == 1


@pytest.mark.req("J-7.5")
async def test_a_tenant_may_allow_more_extensions(market: Market) -> None:
    done(await market.site.ask("PATCH", "/api/marketplace/settings", json={"max_extensions": 2}, key="admin"))
    id = await submitted(market)
    for number in (1, 2):
        await market.pass_until(END + (2 + number) * HOUR + 30 * MINUTE)
        row = await edited(market, id)
        assert instant(row["auto_approval_time"]) == END + (4 + number) * HOUR


@pytest.mark.req("J-7.5")
async def test_the_worker_cannot_edit(market: Market) -> None:
    id = await submitted(market)
    await market.pass_until(END + 3 * HOUR + 30 * MINUTE)
    assert (await market.transit("Wim", id, "edit", {"reason": "x"})).status_code == 403
    assert (await owed(market, id))["auto_approve"] == END + 4 * HOUR


@pytest.mark.req("J-7.11", "J-7.13")
async def test_money_leaves_once_when_it_is_verified(market: Market) -> None:
    id = await submitted(market)
    await fund(market, id)
    await market.verify(id)
    held = await balance(market, id)
    assert (held.held, held.released) == (AMOUNT, 0)
    await market.pass_until(END + MINUTE)
    paid = await balance(market, id)
    assert (paid.held, paid.released) == (0, AMOUNT)
    await market.pass_until(END + DAY)
    assert await market.value("SELECT count(*) FROM marketplace.ledger_entries WHERE type = 'release'") == 1


@pytest.mark.req("J-7.11")
async def test_a_shift_that_nothing_is_held_for_is_verified_and_pays_nothing(market: Market) -> None:
    id = await submitted(market)
    assert (await market.verify(id))["status"] == "Verified"
    assert "time_log.unfunded" in await market.events(f"time_log:{id}")
    assert await market.value("SELECT count(*) FROM marketplace.payouts") == 0


@pytest.mark.req("J-7.13")
async def test_messages_that_cannot_be_sent_do_not_hold_up_the_approval(market: Market) -> None:
    market.provider.answer(*[Rejected(reason="unknown")] * 20)
    id = await submitted(market)
    await market.pass_until(END + 4 * HOUR)
    assert (await read(market, id))["status"] == "Verified"


@pytest.mark.req("J-7.14", "U-22")
async def test_what_lost_its_timer_is_approved_by_the_sweep(market: Market) -> None:
    id = await submitted(market, at=END + 10 * MINUTE)
    await market.rows("DELETE FROM timebell.jobs WHERE step = 'auto_approve'")
    # The next sweep owes it again, in time.
    await market.pass_until(END + HOUR)
    assert (await owed(market, id))["auto_approve"] == END + 4 * HOUR + 10 * MINUTE
    await market.rows("DELETE FROM timebell.jobs WHERE step = 'auto_approve'")
    await market.pass_until(END + 4 * HOUR)
    await market.rows("DELETE FROM timebell.jobs WHERE step = 'auto_approve'")
    await market.pass_until(END + 5 * HOUR - SECOND)
    assert (await read(market, id))["status"] == "Pending_Verification"
    await market.pass_until(END + 5 * HOUR)
    assert (await read(market, id))["status"] == "Verified"
    assert told(market)["Wim", APPROVED] == 1


@pytest.mark.req("J-7.14", "X-J19")
async def test_the_sweep_does_not_approve_before_an_extended_deadline(market: Market) -> None:
    id = await submitted(market, at=END + 10 * MINUTE)
    await market.pass_until(END + 4 * HOUR)
    await edited(market, id)
    await market.rows("DELETE FROM timebell.jobs WHERE step = 'auto_approve'")
    await market.pass_until(END + 5 * HOUR + 10 * MINUTE - SECOND)
    assert (await read(market, id))["status"] == "Pending_Verification"
    await market.pass_until(END + 5 * HOUR + 10 * MINUTE)
    assert (await read(market, id))["status"] == "Verified"


@pytest.mark.req("U-22")
async def test_whatever_is_lost_happens_within_an_hour(market: Market) -> None:
    """Each timer of a shift is taken away once, some minutes before it is due."""
    id = await working(market)
    await market.pass_until(END - 30 * MINUTE)
    await market.rows("DELETE FROM timebell.jobs WHERE step IS NOT NULL")
    await market.pass_until(END + 30 * MINUTE)
    assert len(texts(market)) == 2
    await market.submit(id)
    await market.pass_until(END + 3 * HOUR + 15 * MINUTE)
    await market.rows("DELETE FROM timebell.jobs WHERE step IS NOT NULL")
    await market.pass_until(END + 5 * HOUR + 30 * MINUTE)
    assert texts(market) >= {PENDING, URGENT, APPROVED}
    assert all(count == 1 for count in told(market).values())


@pytest.mark.req("U-22")
async def test_what_cannot_be_mended_does_not_hold_up_the_others(market: Market) -> None:
    first = await submitted(market, shift(DAY_ONE, start=8, end=10), shift(DAY_ONE, start=11, end=16))
    second = (await market.shifts((await read(market, first))["booking_id"]))[1]["id"]
    await market.clock_in(second)
    await market.submit(second)
    await market.rows("DELETE FROM timebell.jobs WHERE step = 'auto_approve'")
    await market.rows(
        f"ALTER TABLE marketplace.time_log ADD CONSTRAINT broken CHECK (status <> 'Verified' OR id <> '{first}')"
    )
    market.clock.move_to(END + 4 * HOUR)
    await market.pass_until(END + 6 * HOUR)
    assert (await read(market, first))["status"] == "Pending_Verification"
    assert (await read(market, second))["status"] == "Verified"


@pytest.mark.req("U-22")
async def test_one_job_looks_through_the_shifts_of_a_tenant(market: Market) -> None:
    first = await working(market, shift(DAY_ONE, start=8, end=10), shift(DAY_ONE, start=11, end=15))
    there = await market.shifts((await read(market, first))["booking_id"])
    await market.submit(first)
    await market.clock_in(there[1]["id"])
    counted = "SELECT count(*) FROM timebell.jobs WHERE kind = 'marketplace.sweep_shifts'"
    assert await market.value(counted) == 1
    await market.pass_until(START + 3 * HOUR)
    assert await market.value(counted) == 1
    # Where even that was lost, the next who clocks in or out sees to it.
    await market.rows("DELETE FROM timebell.jobs WHERE kind = 'marketplace.sweep_shifts'")
    await market.submit(there[1]["id"])
    assert await market.value(counted) == 1


@pytest.mark.req("J-7.16", "J-7.15", "J-7.10", "J-7.12", "X-J16")
async def test_a_dispute_ends_the_ladder(market: Market) -> None:
    """Path B: the timer is cancelled, and the money stays where it is."""
    id = await submitted(market)
    await fund(market, id)
    await market.pass_until(END + 2 * HOUR)
    before = told(market)
    await disputed(market, id)
    assert await owed(market, id) == {}
    await market.pass_until(END + DAY)
    # What is said about the dispute, its own tests ask.
    assert {text for _, text in told(market) - before} == {UNRESOLVED}
    assert (await read(market, id))["status"] == "Disputed"
    money = await balance(market, id)
    assert (money.held, money.frozen, money.released) == (0, AMOUNT, 0)


@pytest.mark.req("J-7.10", "X-J17")
async def test_a_dispute_at_the_very_deadline_beats_the_approval(market: Market) -> None:
    """The clock approved while the dispute was on its way: the approval is taken back, as long as nothing was paid."""
    id = await submitted(market)
    await fund(market, id)
    await market.pass_until(END + 4 * HOUR - SECOND)
    market.clock.move_to(END + 4 * HOUR)
    assert await market.bench.run_some("default", APPROVE_QUEUE, 1) == 1
    assert (await read(market, id))["verified_by"] == "auto"
    assert (await dispute(market, id)).status_code == 201
    row = await read(market, id)
    assert (row["status"], row["verified_by"], row["verified_at"]) == ("Disputed", None, None)
    assert (await market.events(f"time_log:{id}"))[-2:] == ["time_log.approval_reverted", "time_log.disputed"]
    await market.pass_until(END + DAY)
    assert (await balance(market, id)).frozen == AMOUNT
    assert ("Wim", APPROVED) not in told(market)


@pytest.mark.req("J-7.10", "J-8.2")
async def test_what_was_paid_is_not_disputed_any_more(market: Market) -> None:
    id = await submitted(market)
    await fund(market, id)
    await market.pass_until(END + 4 * HOUR)
    assert (await balance(market, id)).released == AMOUNT
    refused = await dispute(market, id)
    assert (refused.status_code, refused.json()["code"]) == (409, "dispute_too_late")
    assert (await read(market, id))["status"] == "Verified"
