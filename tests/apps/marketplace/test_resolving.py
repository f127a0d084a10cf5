"""How disputes end: by a settlement of both sides, or by an operator."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.apps.marketplace.dispute_support import (
    TIMED_OUT,
    UNRESOLVED,
    contested,
    resolve,
    resolved,
    statuses,
    whole,
)
from tests.apps.marketplace.shift_support import balance, disputed, read, submitted
from tests.apps.marketplace.support import AMOUNT, MINUTE, SECOND, Market, done
from tests.apps.marketplace.weekly_support import sent, set_status, status_of
from timebell.apps.marketplace.disputes.service import TIME_OUT
from timebell.apps.marketplace.payments.ledger_store import LedgerStore
from timebell.apps.marketplace.payments.proving import prove

PART = (15_000, 5_000)
HALF = AMOUNT // 2


async def misfits(market: Market) -> list[str]:
    async with market.bench.bell.transaction() as tx:
        accounts = await LedgerStore(market.bench.bell.clock).list_accounts(tx, after=None, limit=100)
    return [misfit.what for account in accounts for misfit in prove(account)]


@pytest.mark.req("J-8.17", "J-8.5", "J-15.4", "J-15.5", "D-6.4")
async def test_both_sides_settle_within_three_hours(market: Market) -> None:
    """One proposes, the other proposes the same; the money leaves as they agreed, and nothing is cancelled."""
    row, ids = await contested(market)
    booking = row["booking_id"]
    await market.pass_until(TIMED_OUT - MINUTE)
    assert row["frozen"] == AMOUNT
    seen = await resolved(market, row["id"], "Settled", PART, who="Bea")
    assert (seen["status"], seen["settlement"], seen["resolved_at"]) == ("Open", None, None)
    (proposal,) = seen["proposals"]
    assert (proposal["side"], proposal["lender"], proposal["borrower"]) == ("borrower", *PART)
    assert proposal["proposed_by"] == f"recipient:{market.people['Bea']}"
    other = await resolved(market, row["id"], "Settled", (AMOUNT, 0), who="Lea")
    assert (other["status"], len(other["proposals"])) == ("Open", 2)
    seen = await resolved(market, row["id"], "Settled", PART, who="Lea")
    assert (seen["status"], seen["frozen"]) == ("Settled", 0)
    assert seen["settlement"] == {"lender": PART[0], "borrower": PART[1]}
    assert seen["resolved_by"] == f"recipient:{market.people['Lea']}"
    assert await market.value("SELECT count(*) FROM timebell.jobs WHERE kind = $1", TIME_OUT) == 0
    shift = await read(market, ids[0])
    assert (shift["status"], shift["verified_by"]) == ("Verified", seen["resolved_by"])
    await market.pass_until(TIMED_OUT + MINUTE)
    assert await statuses(market, booking) == ["Verified", "Scheduled", "Scheduled"]
    money = await balance(market, ids[0])
    assert (money.released, money.refunded, money.frozen, money.held) == (*PART, 0, 0)
    assert sent(market, UNRESOLVED) == []
    assert await market.events(f"dispute:{row['id']}") == [
        "dispute.filed",
        *["dispute.settlement_proposed"] * 3,
        "dispute.resolved",
    ]
    types = [entry["type"] for entry in (await market.get(f"bookings/{booking}/ledger"))["entries"]]
    assert types.count("freeze") == types.count("unfreeze") == 1
    assert sorted(types[-2:]) == ["refund", "release"]
    assert await misfits(market) == []
    # Saying the same again changes nothing, and anything else is refused.
    assert (await resolved(market, row["id"], "Settled", PART, who="Bea"))["resolved_at"] == seen[
        "resolved_at"
    ]
    refused = await resolve(market, row["id"], "Settled", (AMOUNT, 0), who="Bea")
    assert (refused.status_code, refused.json()["code"]) == (409, "dispute_status")
    assert refused.json()["dispute_status"] == "Settled"


@pytest.mark.req("J-8.5", "J-15.5", "X-J27")
@pytest.mark.parametrize(
    ("word", "settlement", "released"),
    [
        ("Settled", PART, PART[0]),
        ("Resolved", None, AMOUNT),
        ("Resolved", (0, AMOUNT), 0),
        ("Legal_Hold", None, None),
    ],
)
async def test_an_operator_resolves_alone(
    market: Market, word: str, settlement: tuple[int, int] | None, released: int | None
) -> None:
    row, ids = await contested(market)
    await resolved(market, row["id"], word, settlement)
    await market.pass_until(TIMED_OUT + MINUTE)
    assert await statuses(market, row["booking_id"]) == [
        "Disputed" if released is None else "Verified",
        "Scheduled",
        "Scheduled",
    ]
    money = await balance(market, ids[0])
    if released is None:
        assert money.frozen == AMOUNT
    else:
        assert (money.released, money.refunded, money.frozen) == (released, AMOUNT - released, 0)
    assert await market.events(f"dispute:{row['id']}") == ["dispute.filed", "dispute.resolved"]
    assert sent(market, UNRESOLVED) == []
    assert await misfits(market) == []


@pytest.mark.req("J-15.5")
async def test_what_the_law_held_is_settled_later(market: Market) -> None:
    row, ids = await contested(market)
    await resolved(market, row["id"], "Legal_Hold")
    refused = await resolve(market, row["id"], "Legal_Hold", (AMOUNT, 0))
    assert refused.status_code == 409
    await market.pass_until(TIMED_OUT + MINUTE)
    await resolved(market, row["id"], "Settled", PART, who="Lea")
    seen = await resolved(market, row["id"], "Settled", PART, who="Bea")
    assert seen["status"] == "Settled"
    await market.pass_until(TIMED_OUT + 2 * MINUTE)
    money = await balance(market, ids[0])
    assert (money.released, money.refunded) == PART
    assert await misfits(market) == []


@pytest.mark.req("J-8.7", "X-J47")
async def test_what_was_kept_is_divided_too(market: Market) -> None:
    """After it timed out the settlement adds up to more. The lender's part is the disputed shift's first, and what was
    cancelled stays so."""
    row, ids = await contested(market)
    await resolved(market, row["id"], "Settled", (AMOUNT, 0), who="Bea")
    await market.pass_until(TIMED_OUT + MINUTE)
    short = await resolve(market, row["id"], "Settled", (AMOUNT, 0), who="Lea")
    assert (short.status_code, short.json()["errors"][0]["pointer"]) == (422, "/settlement")
    assert str(AMOUNT + HALF) in short.json()["detail"]
    both = (AMOUNT + 4_000, HALF - 4_000)
    for who in ("Lea", "Bea"):
        seen = await resolved(market, row["id"], "Settled", both, who=who)
    assert (seen["status"], seen["frozen"]) == ("Settled", 0)
    await market.pass_until(TIMED_OUT + 2 * MINUTE)
    money = [await balance(market, id) for id in ids]
    assert [one.released for one in money] == [AMOUNT, 4_000, 0]
    assert [one.refunded for one in money] == [0, AMOUNT - 4_000, AMOUNT]
    assert (await whole(market, row["booking_id"])).frozen == 0
    assert await statuses(market, row["booking_id"]) == ["Verified", "Cancelled", "Cancelled"]
    assert await misfits(market) == []


async def test_who_may_resolve_and_how(market: Market) -> None:
    row, _ = await contested(market)
    for who in ("Ben", "Sue", "Leo", "Wim"):
        refused = await resolve(market, row["id"], "Settled", PART, who=who)
        assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed"), who
    assert (await resolve(market, row["id"], "Settled", PART, who="Zoe")).status_code == 404
    assert (await resolve(market, str(uuid4()), "Settled", PART)).status_code == 404
    for word in ("Resolved", "Legal_Hold"):
        refused = await resolve(market, row["id"], word, who="Bea")
        assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    wrong: list[tuple[str, Any, str | None, str]] = [
        ("Settled", None, "Bea", "/settlement"),
        ("Settled", None, None, "/settlement"),
        ("Settled", (AMOUNT, 1), None, "/settlement"),
        ("Resolved", (AMOUNT - 1, 0), None, "/settlement"),
        ("Legal_Hold", (AMOUNT, 0), None, "/settlement"),
        ("Settled", (AMOUNT + 1, -1), None, "/settlement/borrower"),
        ("Open", None, None, "/status"),
    ]
    for word, settlement, person, pointer in wrong:
        refused = await resolve(market, row["id"], word, settlement, who=person)
        assert refused.status_code == 422, (word, settlement)
        assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]
    assert (await market.get(f"disputes/{row['id']}")) == row
    assert await market.events(f"dispute:{row['id']}") == ["dispute.filed"]


async def test_a_shift_that_nobody_paid_for_is_settled_for_nothing(market: Market) -> None:
    id = await submitted(market)
    row = await disputed(market, id)
    assert row["frozen"] == 0
    seen = await resolved(market, row["id"], "Settled")
    assert seen["settlement"] == {"lender": 0, "borrower": 0}
    assert (await market.events(f"time_log:{id}"))[-2:] == ["time_log.settled", "time_log.unfunded"]


@pytest.mark.req("X-J11", "X-J25", "J-15.1")
async def test_a_booking_goes_on_as_follows_from_what_is_left(market: Market) -> None:
    """A suspended one stays so; a hold that came with a renewal is lifted with the last dispute."""
    row, _ = await contested(market)
    booking = row["booking_id"]
    said = {"time_log_id": row["time_log_id"], "option": "A", "description": "A ladder broke"}
    incident = done(await market.ask("Sue", "POST", "incidents", said), 201)
    await market.rows("UPDATE marketplace.staffing_bookings SET clock_in_hold = true")
    await set_status(market, booking, "Payment_Paused_Dispute")
    await resolved(market, row["id"], "Legal_Hold")
    assert await status_of(market, booking) == "Payment_Paused_Dispute"
    assert (await market.get(f"bookings/{booking}"))["clock_in_hold"]
    await set_status(market, booking, "Suspended_Insurance")
    done(await market.ask("Sue", "POST", f"incidents/{incident['id']}/close"))
    seen = await market.get(f"bookings/{booking}")
    assert (seen["status"], seen["clock_in_hold"]) == ("Suspended_Insurance", False)


async def test_money_that_was_kept_back_later_is_frozen_before_it_is_divided(market: Market) -> None:
    """A transfer failed after the dispute was filed, so its money is held and not frozen."""
    row, ids = await contested(market)
    await market.rows("DELETE FROM marketplace.ledger_entries WHERE type = 'freeze'")
    await market.rows(
        "UPDATE timebell.events SET data = jsonb_set(data, '{frozen}', '0') WHERE name = 'dispute.filed'"
    )
    await resolved(market, row["id"], "Settled", PART)
    await market.pass_until(TIMED_OUT + SECOND)
    money = await balance(market, ids[0])
    assert (money.released, money.refunded) == PART
