"""The hard stop: what it stops and what it leaves, who is told, and how work goes on."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime
from typing import Any
from uuid import UUID

import orjson
import pytest

from tests.apps.marketplace.insurance_support import (
    LINE,
    SIX,
    TUESDAY,
    close_all_but,
    copy_booking,
    insure,
    invalidate,
    midnight,
    policy_of,
    renew,
    report,
    stops_of,
)
from tests.apps.marketplace.shift_support import PHONES, fund, scheduled
from tests.apps.marketplace.support import HOUR, SECOND, Market, done, local, open_market, shift
from tests.apps.marketplace.weekly_support import events_of, sent, status_of, with_bank
from tests.web.support import problem
from timebell.apps.marketplace.insurance import stopping
from timebell.apps.marketplace.insurance.handlers import TELL_STOPPED
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.weeks import local_date
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.apps.marketplace.texts import INSURANCE_INVALID
from timebell.notify.provider import Unavailable
from timebell.testing.database import TestDatabase

STOPPED = midnight(3, 3)
# A Tuesday that goes on over midnight, and the Monday after.
NIGHT = shift(date(2027, 3, 2), start=20, end=23)
NEXT = shift(date(2027, 3, 8))
LATER = date(2028, 3, 1)
ADDRESSES = sorted(
    [*(("email", f"{name.lower()}@example.org") for name in SIX), *(("sms", PHONES[name]) for name in SIX)]
)


async def held(market: Market, booking: str) -> bool:
    return bool((await market.get(f"bookings/{booking}"))["clock_in_hold"])


async def clocks_in(market: Market, id: str) -> int:
    return (await market.transit("Wim", id, "clock-in")).status_code


async def money(market: Market) -> list[Any]:
    return [
        tuple(row)
        for table in ("ledger_entries", "payouts", "time_log")
        for row in await market.rows(f"SELECT to_jsonb(t)::text FROM marketplace.{table} t ORDER BY 1")
    ]


@pytest.mark.req("J-4.7", "J-4.8", "J-4.9", "J-4.10", "X-J5", "X-J10", "X-J13", "X-J54")
async def test_everything_stops_at_midnight_and_everybody_is_told_once(market: Market) -> None:
    async with market.bench.bell.transaction() as tx:
        for name in SIX:
            quiet = {"start": "22:00", "end": "07:00"}
            await market.notify.recipients.change(tx, market.people[name], quiet_hours=quiet)
    night = await scheduled(market, NIGHT, NEXT)
    booking = night["booking_id"]
    _, later = await market.shifts(booking)
    await fund(market, later["id"])
    policy = await insure(market, TUESDAY)
    paused = await copy_booking(market, booking, status="Payment_Paused_Dispute")
    cancelled = await copy_booking(market, booking, status="Cancelled")
    over = await copy_booking(market, booking, status="Completed", end_date="2027-03-02")
    released = await copy_booking(market, booking, status="Completed", end_date="2027-03-07")
    await market.pass_until(datetime.fromisoformat(night["scheduled_start"]))
    await market.clock_in(night["id"])
    await market.pass_until(STOPPED - SECOND)
    before = await money(market)
    assert sent(market, LINE) == []
    assert await status_of(market, booking) == "Active"
    await market.pass_until(STOPPED)
    assert (await policy_of(market, policy["id"]))["is_active"] is False
    assert [await status_of(market, id) for id in (booking, paused, cancelled, over, released)] == [
        *("Suspended_Insurance", "Suspended_Insurance", "Cancelled", "Completed", "Completed")
    ]
    # The workers of the copies have no address. Whoever has to do with several bookings is told once of all.
    assert sent(market, LINE) == ADDRESSES
    texts = {(parcel.channel, parcel.address): parcel.content.text for parcel in market.arrived}
    assert texts["sms", PHONES["Wim"]] == LINE
    assert texts["email", "wim@example.org"] == f"{LINE}\n\nBookings: {booking}"
    assert (
        texts["email", "bea@example.org"]
        == f"{LINE}\n\nBookings: {', '.join(sorted((booking, paused, released)))}"
    )
    assert sent(market, "is not valid any more") == []
    assert await money(market) == before
    (event,) = await events_of(market, "insurance.hard_stop")
    assert orjson.loads(event["data"])["event"] == "Insurance_Hard_Stop"
    refused = problem(await market.transit("Wim", later["id"], "clock-in"), 409, "clock_in_refused")
    assert refused["reason"] == "insurance"
    assert (await market.submit(night["id"]))["status"] == "Pending_Verification"
    assert [await stops_of(market, id) for id in (cancelled, over)] == [set(), set()]


@pytest.mark.req("J-4.9", "X-J5", "J-15.3")
async def test_whoever_was_released_is_stopped_up_to_sunday_and_goes_on_after_a_renewal(
    market: Market,
) -> None:
    row = await scheduled(market, shift(date(2027, 3, 5)))
    booking = row["booking_id"]
    policy = await insure(market, LATER)
    async with market.bench.bell.transaction() as tx:
        bookings = Bookings(market.bench.bell)
        found = await bookings.hold(tx, UUID(booking))
        await bookings.move(tx, found, "Completed", by=By(), end_date=date(2027, 3, 7))
    market.clock.move_to(local(2027, 3, 5, 8))
    await invalidate(market, policy["id"], "Lea")
    refused = problem(await market.transit("Wim", row["id"], "clock-in"), 409, "clock_in_refused")
    assert refused["reason"] == "insurance"
    await market.bench.run_due()
    assert sent(market, LINE) == ADDRESSES
    await renew(market, policy["id"], LATER)
    assert await status_of(market, booking) == "Completed"
    assert await clocks_in(market, row["id"]) == 200
    assert await market.events(f"staffing:{booking}") == [
        *("staffing_booking.created", "staffing_booking.completed"),
        *("staffing_booking.work_stopped", "staffing_booking.work_resumed"),
    ]


@pytest.mark.req("J-4.8")
async def test_whoever_has_several_parts_is_told_once_on_each_channel(market: Market) -> None:
    for role in ("borrower_manager", "supervisor"):
        said = {"recipient_id": str(market.people["Bea"]), "role": role}
        done(await market.ask(None, "POST", f"companies/{market.borrower}/members", said), 201)
    await market.book(supervisor_id=str(market.people["Bea"]))
    policy = await insure(market, LATER)
    await invalidate(market, policy["id"])
    await market.bench.run_due()
    assert sent(market, LINE) == [one for one in ADDRESSES if one not in _of("Sue")]


def _of(name: str) -> list[tuple[str, str]]:
    return [("email", f"{name.lower()}@example.org"), ("sms", PHONES[name])]


@pytest.mark.req("J-4.11")
async def test_a_dispute_stays_open_and_its_time_goes_on(market: Market) -> None:
    row = await scheduled(market, NIGHT, NEXT)
    policy = await insure(market, TUESDAY)
    await market.pass_until(datetime.fromisoformat(row["scheduled_start"]))
    await market.clock_in(row["id"])
    await market.pass_until(local(2027, 3, 2, 23))
    await market.submit(row["id"])
    said = {"time_log_id": row["id"], "option": "A", "reason": "Nobody saw him"}
    filed = done(await market.ask("Sue", "POST", "disputes", said), 201)
    await market.pass_until(STOPPED)
    assert await status_of(market, row["booking_id"]) == "Suspended_Insurance"
    assert (await policy_of(market, policy["id"]))["is_active"] is False
    seen = await market.get(f"disputes/{filed['id']}")
    assert (seen["status"], seen["timeout_expiration_time"]) == ("Open", filed["timeout_expiration_time"])
    kind = "marketplace.time_out_dispute"
    due = await market.value("SELECT due_at FROM timebell.jobs WHERE kind = $1", kind)
    assert due == datetime.fromisoformat(filed["timeout_expiration_time"])
    await market.pass_until(due)
    assert await market.value("SELECT state FROM timebell.job_log WHERE kind = $1", kind) == "done"
    assert await status_of(market, row["booking_id"]) == "Suspended_Insurance"


@pytest.mark.req("J-4.12", "X-J11", "J-15.3")
async def test_after_a_renewal_nobody_clocks_in_until_nothing_is_disputed(market: Market) -> None:
    row = await scheduled(market)
    booking, policy = row["booking_id"], await insure(market, LATER)
    reports = [await report(market, row["id"]) for _ in range(2)]
    await invalidate(market, policy["id"])
    assert await status_of(market, booking) == "Suspended_Insurance"
    await renew(market, policy["id"], LATER)
    for left in (2, 1):
        await close_all_but(market, reports, left)
        assert await status_of(market, booking) == "Payment_Paused_Dispute"
        refused = problem(await market.transit("Wim", row["id"], "clock-in"), 409, "clock_in_refused")
        assert refused["reason"] == "clock_in_hold"
    await close_all_but(market, reports, 0)
    assert (await status_of(market, booking), await held(market, booking)) == ("Active", False)
    assert await clocks_in(market, row["id"]) == 200


@pytest.mark.req("J-4.12")
async def test_without_disputes_work_goes_on_at_once(market: Market) -> None:
    row = await scheduled(market)
    policy = await insure(market, LATER)
    await invalidate(market, policy["id"])
    assert await clocks_in(market, row["id"]) == 409
    await renew(market, policy["id"], LATER)
    assert (await status_of(market, row["booking_id"]), await held(market, row["booking_id"])) == (
        "Active",
        False,
    )
    assert await clocks_in(market, row["id"]) == 200
    # Nobody is told to stop who may go on by now, and nothing is even begun for it.
    await market.bench.run_due()
    assert sent(market, LINE) == []
    assert await market.value("SELECT count(*) FROM timebell.job_log WHERE kind = $1", TELL_STOPPED) == 0


@pytest.mark.req("X-J11")
async def test_a_tenant_may_do_without_the_hold(market: Market) -> None:
    said = {"hold_until_disputes_resolved": False}
    assert done(await market.ask(None, "PATCH", "settings", said))["hold_until_disputes_resolved"] is False
    row = await scheduled(market)
    policy = await insure(market, LATER)
    await report(market, row["id"])
    await invalidate(market, policy["id"])
    await renew(market, policy["id"], LATER)
    assert await status_of(market, row["booking_id"]) == "Payment_Paused_Dispute"
    assert await clocks_in(market, row["id"]) == 200


@pytest.mark.req("J-4.12")
async def test_what_was_closed_while_work_was_stopped_holds_nothing(market: Market) -> None:
    row = await scheduled(market)
    policy = await insure(market, LATER)
    first = [await report(market, row["id"])]
    await invalidate(market, policy["id"])
    await renew(market, policy["id"], LATER)
    await invalidate(market, policy["id"])
    assert (await status_of(market, row["booking_id"]), await held(market, row["booking_id"])) == (
        "Suspended_Insurance",
        True,
    )
    await close_all_but(market, first, 0)
    assert (await status_of(market, row["booking_id"]), await held(market, row["booking_id"])) == (
        "Suspended_Insurance",
        False,
    )
    await renew(market, policy["id"], LATER)
    assert await status_of(market, row["booking_id"]) == "Active"


@pytest.mark.req("X-J54")
async def test_another_of_the_type_covers_and_each_want_is_made_up_for_by_its_own(market: Market) -> None:
    row = await scheduled(market)
    booking = row["booking_id"]
    first = await insure(market, LATER)
    second = await insure(market, LATER)
    theirs = await insure(market, LATER, side="borrower")
    accident = await insure(market, LATER, type="accident")
    await invalidate(market, first["id"])
    assert (await status_of(market, booking), await stops_of(market, booking)) == ("Active", set())
    for policy in (second, theirs, accident):
        await invalidate(market, policy["id"])
        assert await status_of(market, booking) == "Suspended_Insurance"
    await market.bench.run_due()
    # The first stop was told to all. The others stopped nothing more, and those who lead each company are told.
    assert sent(market, LINE) == ADDRESSES
    assert Counter(sent(market, "is not valid any more")) == Counter(
        [*_of("Lea") * 2, *_of("Leo") * 2, *_of("Bea"), *_of("Ben")]
    )
    await renew(market, accident["id"], LATER)
    await renew(market, theirs["id"], LATER)
    assert await status_of(market, booking) == "Suspended_Insurance"
    replacing = await insure(market, LATER)
    assert await status_of(market, booking) == "Active"
    for id in (first["id"], second["id"]):
        assert (await policy_of(market, id))["replaced_by"] == replacing["id"]


@pytest.mark.req("X-J54")
async def test_what_has_expired_already_replaces_and_resumes_nothing(market: Market) -> None:
    row = await scheduled(market)
    policy = await insure(market, LATER)
    await invalidate(market, policy["id"])
    await insure(market, date(2027, 2, 28))
    assert (await policy_of(market, policy["id"]))["replaced_by"] is None
    assert await status_of(market, row["booking_id"]) == "Suspended_Insurance"


@pytest.mark.req("J-4.13")
async def test_at_noon_an_admin_stops_as_the_end_would_have(market: Market) -> None:
    booking = await market.book()
    others = [await copy_booking(market, booking["id"]) for _ in range(4)]
    policy = await insure(market, LATER)
    await market.pass_until(midnight(3, 1) + 12 * HOUR)
    row = await invalidate(market, policy["id"], "Lea")
    assert (row["is_active"], row["deactivated_at"]) == (False, "2027-03-01T12:00:00Z")
    await market.bench.run_due()
    assert {await status_of(market, id) for id in (booking["id"], *others)} == {"Suspended_Insurance"}
    assert sent(market, LINE) == ADDRESSES
    assert len(await events_of(market, "insurance.hard_stop")) == 1
    again = await market.ask("Lea", "POST", f"policies/{policy['id']}/invalidate", {})
    problem(again, 409, "policy_inactive")
    (event,) = await events_of(market, "insurance_policy.invalidated")
    assert event["actor"] == f"recipient:{market.people['Lea']}"
    assert orjson.loads(event["data"])["reason"] == "A lie"


@pytest.mark.req("J-4.7", "J-4.8")
async def test_many_bookings_stop_some_at_a_time_and_go_on_so(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (("stop", 2), ("resume", 2)):
        plain = getattr(stopping.Stopping, name)

        async def few(self: Any, *given: Any, plain: Any = plain, size: int = size, **more: Any) -> Any:
            return await plain(self, *given, **{**more, "limit": size})

        monkeypatch.setattr(stopping.Stopping, name, few)
    monkeypatch.setattr("timebell.apps.marketplace.insurance.handlers.PEOPLE_MAX", 3)
    booking = (await market.book())["id"]
    all_of = [booking, *[await copy_booking(market, booking) for _ in range(4)]]
    policy = await insure(market, TUESDAY)
    await market.pass_until(STOPPED)
    assert {await status_of(market, id) for id in all_of} == {"Suspended_Insurance"}
    assert sent(market, LINE) == ADDRESSES
    assert len(await events_of(market, "insurance.hard_stop")) == 1
    await renew(market, policy["id"], LATER)
    await market.bench.run_due()
    assert {await status_of(market, id) for id in all_of} == {"Active"}
    assert market.bench.bell.tallies.counted["marketplace_insurance_stops"] == {
        ("stopped",): 5,
        ("resumed",): 3,
    }


@pytest.mark.req("J-4.7")
async def test_a_booking_that_somebody_has_keeps_no_other_and_is_stopped_a_second_later(
    market: Market,
) -> None:
    booking = (await market.book())["id"]
    busy = await copy_booking(market, booking)
    await insure(market, TUESDAY)
    async with market.bench.bell.transaction() as tx:
        await Bookings(market.bench.bell).hold(tx, UUID(busy))
        await market.pass_until(STOPPED)
        assert [await status_of(market, id) for id in (booking, busy)] == ["Suspended_Insurance", "Active"]
        assert sent(market, LINE) == ADDRESSES
    await market.pass_until(STOPPED + 2 * SECOND)
    assert await status_of(market, busy) == "Suspended_Insurance"
    assert sent(market, LINE) == ADDRESSES


@pytest.mark.req("J-4.14")
async def test_providers_that_are_down_keep_nothing_from_stopping(market_database: TestDatabase) -> None:
    async with open_market(market_database) as market:
        booking = (await market.book())["id"]
        policy = await insure(market, TUESDAY)
        market.provider.answer(*[Unavailable(reason="nobody is there")] * 2_000)
        await market.pass_until(STOPPED)
        assert (await policy_of(market, policy["id"]))["is_active"] is False
        assert await status_of(market, booking) == "Suspended_Insurance"
        await market.pass_until(STOPPED + 8 * HOUR)
        tried = Counter(parcel.address for parcel in market.arrived if LINE in parcel.content.text)
        assert set(tried) == {address for _, address in ADDRESSES}
        assert max(tried.values()) > 1
        # They wait for somebody who calls these people.
        waiting = (await market.notify.notifications.needs_attention()).lines
        told = [(line.recipient_id, line.state) for line in waiting if line.template == INSURANCE_INVALID]
        assert dict(told) == {market.people[name]: "failed" for name in SIX}
        await market.bench.engine.watch.look()
        (alert,) = await market.rows("SELECT detail FROM timebell.alerts WHERE rule = 'somebody_not_told'")
        assert alert["detail"].startswith("6 could not be told"), alert["detail"]


@pytest.mark.req("J-4.14")
async def test_telling_that_fails_is_done_again_and_keeps_nothing_from_stopping(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    booking = (await market.book())["id"]
    policy = await insure(market, TUESDAY)

    async def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("nobody can be read")

    monkeypatch.setattr("timebell.apps.marketplace.insurance.stop_store.StopStore.list_told_of_stop", broken)
    await market.pass_until(STOPPED)
    assert (await policy_of(market, policy["id"]))["is_active"] is False
    assert await status_of(market, booking) == "Suspended_Insurance"
    monkeypatch.undo()
    await market.pass_until(STOPPED + HOUR)
    assert sent(market, LINE) == ADDRESSES


async def test_nobody_is_told_to_stop_who_may_go_on_by_then(market: Market) -> None:
    await market.book()
    policy = await insure(market, LATER)
    async with market.bench.bell.transaction() as tx:
        await market.bench.bell.pause(tx, "notify")
    await invalidate(market, policy["id"])
    await market.bench.run_due()
    assert (
        await market.value(
            "SELECT count(*) FROM timebell.job_log WHERE kind = $1 AND state = 'done'", TELL_STOPPED
        )
        == 1
    )
    await renew(market, policy["id"], LATER)
    async with market.bench.bell.transaction() as tx:
        await market.bench.bell.resume(tx, "notify")
    await market.bench.run_due()
    assert sent(market, LINE) == []


@pytest.mark.req("X-J51")
async def test_whoever_goes_on_unpaid_is_charged_on_the_next_wednesday_and_looked_at(market: Market) -> None:
    booking = (await market.book(end_date="2027-03-31"))["id"]
    policy = await insure(market, TUESDAY)
    await market.pass_until(STOPPED)
    await market.pass_until(local(2027, 3, 9, 12))
    assert await market.value("SELECT count(*) FROM marketplace.pending_payments") == 0
    await renew(market, policy["id"], LATER)
    assert await status_of(market, booking) == "Active"
    (event,) = await events_of(market, "staffing_booking.needs_review")
    assert orjson.loads(event["data"])["reason"] == "resumed unpaid"
    assert await market.alerts() == [("marketplace_work_resumed_unpaid", f"staffing:{booking}")]
    async with with_bank(market):
        await market.pass_until(local(2027, 3, 10, 10) + SECOND)
    rows = await market.rows("SELECT booking_id, period_start FROM marketplace.pending_payments")
    assert [(str(row["booking_id"]), row["period_start"]) for row in rows] == [(booking, local(2027, 3, 15))]


async def test_a_zone_that_is_not_known_any_more_stops_all_the_same(market: Market) -> None:
    booking = (await market.book())["id"]
    policy = await insure(market, LATER)
    await market.rows("UPDATE marketplace.staffing_bookings SET timezone = 'Mars/Olympus'")
    await invalidate(market, policy["id"])
    assert await status_of(market, booking) == "Suspended_Insurance"


async def test_the_last_day_is_by_the_clock_of_the_project(market_database: TestDatabase) -> None:
    """At midnight UTC it is still the day before in New York."""
    zone = "America/New_York"
    async with open_market(market_database, timezone=zone) as market:
        last = (await market.book(shift(TUESDAY, zone=zone), end_date=TUESDAY.isoformat()))["id"]
        await insure(market, TUESDAY)
        await market.pass_until(STOPPED)
        assert local_date(market.clock.now, zone) == TUESDAY
        assert await status_of(market, last) == "Suspended_Insurance"
