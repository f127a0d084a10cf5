"""The daily look at insurances: who is warned, how often, and what has ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.apps.marketplace.insurance_support import insure, invalidate, midnight, policy_of, renew
from tests.apps.marketplace.support import DAY, HOUR, SECOND, Market
from tests.apps.marketplace.weekly_support import events_of, sent
from timebell.apps.marketplace.insurance import monitoring
from timebell.apps.marketplace.insurance.service import MONITOR, Policies
from timebell.apps.marketplace.models import By
from timebell.errors import InvalidInput
from timebell.notify import Notify

EXPIRES = date(2027, 3, 16)
SAID = (
    "Insurance liability of The lender expires: 2027-03-16 is its last valid day. "
    "Renew it to avoid that work is stopped."
)
LEA = {"email": ("email", "lea@example.org"), "sms": ("sms", "+4915112345673")}
LEO = {"email": ("email", "leo@example.org"), "sms": ("sms", "+4915112345674")}
BEA = {"email": ("email", "bea@example.org"), "sms": ("sms", "+4915112345670")}


_RUNS = "SELECT count(*) FROM timebell.job_log WHERE kind = $1 AND state = 'done'"


def taken(market: Market, text: str = "expires:") -> list[tuple[str, str]]:
    found = sent(market, text)
    market.arrived.clear()
    return found


async def skip_to(market: Market, instant: Any) -> None:
    """Nothing runs until then, and then what is due does."""
    market.clock.move_to(instant)
    await market.bench.run_due()


@pytest.mark.req("J-4.1", "J-4.3", "J-4.4", "J-4.5", "X-J14")
async def test_the_admin_is_warned_twice_and_not_again(market: Market) -> None:
    policy = await insure(market, EXPIRES)
    await market.pass_until(midnight(3, 2) - SECOND)
    assert taken(market) == []
    await market.pass_until(midnight(3, 2))
    assert [parcel.content.text for parcel in market.arrived] == [SAID]
    assert taken(market) == [LEA["email"]]
    await market.pass_until(midnight(3, 9) - SECOND)
    assert taken(market) == []
    await market.pass_until(midnight(3, 9))
    assert taken(market) == [LEA["email"], LEA["sms"]]
    await market.pass_until(midnight(3, 12))
    assert taken(market) == []
    runs = await market.rows(
        "SELECT due_at FROM timebell.job_log WHERE kind = $1 AND state = 'done'", MONITOR
    )
    assert sorted(row["due_at"] for row in runs) == [midnight(3, day) for day in range(2, 13)]
    rows = await market.rows(
        "SELECT threshold, channel FROM marketplace.insurance_warnings ORDER BY 1 DESC, 2"
    )
    assert [tuple(row) for row in rows] == [(14, "email"), (7, "email"), (7, "sms")]
    logged = await market.rows(
        "SELECT d.channel FROM timebell_notify.deliveries d JOIN timebell_notify.notifications n "
        "ON n.id = d.notification_id WHERE n.subject = $1 AND d.state = 'sent'",
        f"policy:{policy['id']}",
    )
    assert Counter(row["channel"] for row in logged) == {"email": 2, "sms": 1}
    assert market.bench.bell.tallies.counted["marketplace_insurance_warnings"] == {
        ("14", "told"): 1,
        ("7", "told"): 1,
    }


@pytest.mark.req("J-4.3", "J-4.5")
async def test_both_sides_of_a_booking_are_warned_and_who_becomes_an_admin_later(market: Market) -> None:
    await market.book()
    await insure(market, EXPIRES)
    await market.pass_until(midnight(3, 2))
    assert taken(market) == [BEA["email"], LEA["email"]]
    said = {"recipient_id": str(market.people["Leo"]), "role": "lender_admin"}
    await market.ask(None, "POST", f"companies/{market.lender}/members", said)
    await market.pass_until(midnight(3, 3))
    assert taken(market) == [LEO["email"]]


@pytest.mark.req("J-4.1", "J-4.3", "X-J12")
async def test_a_day_on_which_nobody_looked_loses_no_warning(market: Market) -> None:
    await insure(market, EXPIRES)
    await skip_to(market, midnight(3, 3) + 7 * HOUR)
    assert taken(market) == [LEA["email"]]
    assert await market.value(_RUNS, MONITOR) == 1


@pytest.mark.req("J-4.4", "X-J12")
async def test_what_was_entered_late_is_warned_of_once(market: Market) -> None:
    await insure(market, date(2027, 3, 7))
    await market.pass_until(midnight(3, 2))
    assert taken(market) == [LEA["email"], LEA["sms"]]
    await market.pass_until(midnight(3, 7))
    assert taken(market) == []


@pytest.mark.req("J-4.5", "X-J12")
async def test_a_renewal_is_warned_of_anew(market: Market) -> None:
    policy = await insure(market, EXPIRES)
    await market.pass_until(midnight(3, 2))
    assert taken(market) == [LEA["email"]]
    renewed = await renew(market, policy["id"], EXPIRES + timedelta(days=3), "Lea")
    assert (renewed["id"], renewed["expiration_date"], renewed["is_active"]) == (
        policy["id"],
        "2027-03-19",
        True,
    )
    await market.pass_until(midnight(3, 5) - SECOND)
    assert taken(market) == []
    await market.pass_until(midnight(3, 5))
    assert taken(market) == [LEA["email"]]


@pytest.mark.req("X-J21")
async def test_a_warning_waits_until_quiet_hours_are_over(market: Market) -> None:
    async with market.bench.bell.transaction() as tx:
        quiet = {"start": "22:00", "end": "07:00"}
        await market.notify.recipients.change(tx, market.people["Lea"], quiet_hours=quiet)
    await insure(market, EXPIRES)
    await market.pass_until(midnight(3, 2) + 6 * HOUR - SECOND)
    assert taken(market) == []
    await market.pass_until(midnight(3, 2) + 6 * HOUR)
    assert taken(market) == [LEA["email"]]


@pytest.mark.req("J-4.6", "X-J13", "X-J14")
async def test_what_ended_yesterday_is_deactivated_once_and_what_ends_today_is_not(market: Market) -> None:
    yesterday = await insure(market, date(2027, 3, 1))
    today = await insure(market, date(2027, 3, 2), type="accident")
    await market.pass_until(midnight(3, 2) + HOUR)
    ended, valid = await policy_of(market, yesterday["id"]), await policy_of(market, today["id"])
    assert (ended["is_active"], ended["deactivated_at"]) == (False, "2027-03-02T00:00:00Z")
    assert (valid["is_active"], valid["deactivated_at"]) == (True, None)
    assert [row["subject"] for row in await events_of(market, "insurance_policy.expired")] == [
        f"policy:{yesterday['id']}"
    ]
    # It has stopped nothing, so that those who lead the company are told that it is not valid, and nobody else.
    assert sorted({*LEA.values(), *LEO.values()}) == taken(market, "is not valid any more")
    assert await events_of(market, "insurance.hard_stop") == []
    await market.pass_until(midnight(3, 3) - SECOND)
    assert len(await events_of(market, "insurance_policy.expired")) == 1
    await market.pass_until(midnight(3, 3))
    assert (await policy_of(market, today["id"]))["is_active"] is False


@pytest.mark.req("J-4.1")
async def test_a_run_goes_on_where_its_last_batch_ended(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitoring, "BATCH", 2)
    for number in range(3):
        await insure(market, EXPIRES, type=f"warned {number}")
        await insure(market, date(2027, 3, 1), type=f"ended {number}")
    await insure(market, date(2028, 1, 1), type="far")
    await market.pass_until(midnight(3, 2))
    assert taken(market) == [LEA["email"]] * 3
    left = await market.rows("SELECT type FROM marketplace.insurance_policies WHERE is_active")
    assert {row["type"] for row in left} == {"warned 0", "warned 1", "warned 2", "far"}
    assert await market.value(_RUNS, MONITOR) == 1


@pytest.mark.req("J-4.14")
async def test_what_cannot_be_told_keeps_nothing_from_ending(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a batch one is poisoned: it is left out, the others are warned of, and what has ended has."""
    good = await insure(market, EXPIRES)
    bad = await insure(market, EXPIRES, side="borrower", type="poisoned")
    ended = await insure(market, date(2027, 3, 1), type="ended")
    tell_many = Notify.tell_many

    async def poisoned(self: Notify, tx: Any, tells: Any) -> Any:
        if any(tell.context.get("type") == "poisoned" for tell in tells):
            raise InvalidInput("nobody can be told of it")
        return await tell_many(self, tx, tells)

    monkeypatch.setattr(Notify, "tell_many", poisoned)
    await market.pass_until(midnight(3, 2))
    assert (await policy_of(market, ended["id"]))["is_active"] is False
    assert taken(market) == [LEA["email"]]
    warned = await market.rows("SELECT policy_id FROM marketplace.insurance_warnings")
    assert {str(row["policy_id"]) for row in warned} == {good["id"]}
    assert market.bench.bell.tallies.counted["marketplace_insurance_warnings"]["14", "failed"] == 1
    monkeypatch.undo()
    await market.pass_until(midnight(3, 3))
    assert taken(market) == [BEA["email"]]
    warned = await market.rows("SELECT policy_id FROM marketplace.insurance_warnings")
    assert {str(row["policy_id"]) for row in warned} == {good["id"], bad["id"]}


@pytest.mark.req("J-4.1")
async def test_of_several_who_add_the_first_one_makes_the_schedule(market: Market) -> None:
    async def begin() -> None:
        async with market.bench.bell.transaction() as tx:
            await Policies(market.bench.bell, market.notify).watch(tx, by=By())

    await asyncio.gather(*(begin() for _ in range(8)))
    rows = await market.rows("SELECT timezone, recurrence, start_local, catch_up FROM timebell.schedules")
    assert [(row["timezone"], row["recurrence"], row["start_local"].isoformat()) for row in rows] == [
        ("UTC", "FREQ=DAILY", "2027-03-02T00:00:00")
    ]
    assert await market.value("SELECT schedule_id FROM marketplace.insurance_monitors") is not None


async def test_what_is_long_over_is_removed(market: Market) -> None:
    booking = await market.book()
    policy = await insure(market, EXPIRES)
    await market.pass_until(midnight(3, 2))
    await invalidate(market, policy["id"])
    await market.bench.run_due()
    count = (
        "SELECT (SELECT count(*) FROM marketplace.insurance_warnings), "
        "(SELECT count(*) FROM marketplace.insurance_stops)"
    )
    app_prune = next(app.on_prune for app in market.bench.bell.registry.apps if app.name == "marketplace")
    assert app_prune is not None
    days = market.bench.bell.settings.delivery_days
    market.clock.move_to(midnight(3, 16) + days * DAY)
    assert await app_prune(market.bench.bell, 100) == 1
    market.clock.move_to(midnight(3, 17) + days * DAY)
    assert await app_prune(market.bench.bell, 100) == 2
    assert tuple((await market.rows(count))[0]) == (0, 0)
    assert (await market.get(f"bookings/{booking['id']}"))["status"] == "Suspended_Insurance"


async def test_somebody_who_is_erased_leaves_no_warning(market: Market) -> None:
    policy = await insure(market, EXPIRES)
    await market.pass_until(midnight(3, 2))
    lea = market.people["Lea"]
    lines = [
        line
        for app in market.bench.bell.registry.apps
        if app.name == "marketplace" and app.on_export is not None
        for line in await _exported(market, app.on_export, lea)
    ]
    (warned,) = [line for line in lines if line["is"] == "insurance_warnings"]
    assert warned["policy_id"] == policy["id"]
    assert [(one["threshold"], one["channel"]) for one in warned["warnings"]] == [(14, "email")]
    assert (await market.site.ask("DELETE", f"/v1/recipients/{lea}", key="admin")).status_code == 200
    assert await market.value("SELECT count(*) FROM marketplace.insurance_warnings") == 0


async def _exported(market: Market, export: Any, person: UUID) -> list[Any]:
    async with market.bench.bell.transaction() as tx:
        return list(await export(market.bench.bell, tx, person, None, 100))
