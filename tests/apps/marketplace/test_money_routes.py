"""The ledger, payments, the simulator and the reports of the provider, over HTTP."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest

from tests.apps.marketplace.money import Purse, purse_of
from tests.apps.marketplace.support import AMOUNT, HOUR, MINUTE, NOW, Market, done, open_market
from tests.web.support import OTHER, problem
from timebell.apps.marketplace.payments.building import provider_of
from timebell.apps.marketplace.payments.simulator import SIGNATURE, Simulator
from timebell.apps.marketplace.payments.simulator_models import Movement
from timebell.testing.database import TestDatabase

SUMS = ("charged", "held", "released", "refunded", "frozen")


async def test_the_ledger_of_a_booking(market: Market) -> None:
    purse = await purse_of(market)
    payment = await purse.paid(0, 1)
    market.clock.move(HOUR)
    await purse.verified(0)
    await purse.owe(0)
    await market.bench.run_due()
    ledger = await market.get(f"bookings/{purse.id}/ledger", "Bea")
    assert [ledger[name] for name in SUMS] == [2 * AMOUNT, AMOUNT, AMOUNT, 0, 0]
    assert [entry["type"] for entry in ledger["entries"]] == ["charge", "hold", "hold", "release"]
    first, last = ledger["entries"][0], ledger["entries"][-1]
    assert first.keys() == {
        *("id", "at", "type", "amount", "currency", "time_log_id", "dispute_id", "payment_id", "provider_ref")
    }
    assert (first["payment_id"], first["amount"], first["currency"]) == (str(payment.id), 2 * AMOUNT, "EUR")
    assert (last["time_log_id"], last["at"]) == (str(purse.shift_ids[0]), "2027-03-01T09:00:00Z")
    past = await market.get(f"bookings/{purse.id}/ledger", params={"at": NOW.isoformat()})
    assert [past[name] for name in SUMS] == [2 * AMOUNT, 2 * AMOUNT, 0, 0, 0]
    assert len(past["entries"]) == 3


async def test_the_ledger_is_paged(market: Market) -> None:
    purse = await purse_of(market)
    await purse.paid(0, 1, 2)
    path, seen, params = f"bookings/{purse.id}/ledger", [], {"limit": 3}
    for _ in range(2):
        page = await market.get(path, params=params)
        seen += [entry["id"] for entry in page["entries"]]
        assert page["charged"] == 3 * AMOUNT, "the sums are of all entries"
        params["cursor"] = page["next_cursor"]
    assert len(set(seen)) == 4
    assert page["has_more"] is False
    problem(await market.ask(None, "GET", path, params={"cursor": "what"}), 422, "invalid_input")
    problem(await market.ask(None, "GET", path, params={"at": "yesterday"}), 422, "invalid_input")


@pytest.mark.parametrize("who", ["Bea", "Ben", "Lea", "Leo", "Sue", "Wim", None])
async def test_those_who_have_a_part_see_the_money(market: Market, who: str | None) -> None:
    purse = await purse_of(market)
    payment = await purse.paid(0)
    assert (await market.get(f"bookings/{purse.id}/ledger", who))["held"] == AMOUNT
    assert [row["id"] for row in await market.data("payments", who)] == [str(payment.id)]


async def test_nobody_else_does(market: Market) -> None:
    purse = await purse_of(market)
    await purse.paid(0)
    path = f"bookings/{purse.id}/ledger"
    problem(await market.ask("Zoe", "GET", path), 404, "not_found")
    assert await market.data("payments", "Zoe") == []
    problem(
        await market.ask("Zoe", "GET", "payments", params={"booking_id": str(purse.id)}), 404, "not_found"
    )
    problem(await market.ask(None, "GET", path, key=OTHER), 404, "not_found")
    assert done(await market.ask(None, "GET", "payments", key=OTHER))["data"] == []
    problem(await market.ask(None, "GET", f"bookings/{uuid4()}/ledger"), 404, "not_found")


async def test_payments_are_listed_and_filtered(market: Market) -> None:
    one, other = await purse_of(market), await purse_of(market)
    paid = [await one.paid(0), await other.paid(0), await one.payment(1, status="Failed")]
    rows = await market.data("payments")
    assert {row["id"] for row in rows} == {str(each.id) for each in paid}
    assert rows[0].keys() >= {
        "booking_id",
        "period_start",
        "period_end",
        "amount",
        "currency",
        "status",
        "failure",
    }
    failed = await market.data("payments", params={"status": "Failed"})
    assert [row["id"] for row in failed] == [str(paid[2].id)]
    of_one = await market.data("payments", "Bea", params={"booking_id": str(one.id)})
    assert {row["id"] for row in of_one} == {str(paid[0].id), str(paid[2].id)}
    page = await market.get("payments", params={"limit": 2})
    rest = await market.get("payments", params={"limit": 2, "cursor": page["next_cursor"]})
    assert [row["id"] for row in (*page["data"], *rest["data"])] == [row["id"] for row in rows]


async def test_the_simulator_is_told_and_read(market: Market) -> None:
    told = done(await market.ask(None, "PUT", "simulator", {"outcome": "decline", "webhook_after": "PT3H"}))
    assert told == {"outcome": "decline", "webhook_after": "PT3H", "faults": []}
    purse = await purse_of(market)
    await purse.payment(0)
    (call,) = await market.data("simulator/calls", key="read")
    assert (call["call"], call["amount"], call["currency"], call["outcome"]) == (
        "charge",
        AMOUNT,
        "EUR",
        "declined",
    )
    assert (call["booking_id"], call["at"]) == (str(purse.id), "2027-03-01T08:00:00Z")
    assert call["key"].startswith("payment:")
    assert done(await market.ask(None, "GET", "simulator/calls", key=OTHER))["data"] == []


async def test_the_simulator_is_told_something_else(market: Market) -> None:
    for wrong in (
        {"outcome": "explode"},
        {"outcome": "succeed", "webhook_after": "P1M"},
        {"outcome": "succeed", "webhook_after": "-PT1H"},
        {"outcome": "succeed", "faults": [{"call": "report", "fault": "refuse"}]},
        {"outcome": "succeed", "faults": [{"call": "charge", "fault": "lose"}]},
        {"outcome": "succeed", "faults": [{"call": "charge", "fault": "refuse", "times": 0}]},
        {"outcome": "succeed", "more": 1},
        {},
    ):
        problem(await market.ask(None, "PUT", "simulator", wrong), 422, "invalid_input")
    faults: list[dict[str, Any]] = [
        {"call": "cancel", "fault": "unavailable", "times": 2},
        {"call": "report", "fault": "lose"},
    ]
    told = done(await market.ask(None, "PUT", "simulator", {"outcome": "succeed", "faults": faults}))
    assert told["faults"] == [faults[0], {**faults[1], "times": None}]


async def test_where_money_is_meant_there_is_no_simulator(marketplace_database: TestDatabase) -> None:
    async with open_market(marketplace_database, demo=False, payment_provider="simulator") as market:
        problem(await market.ask(None, "PUT", "simulator", {"outcome": "succeed"}), 404, "not_found")
        problem(await market.ask(None, "GET", "simulator/calls"), 404, "not_found")


def reported(
    market: Market, purse: Purse, payment_id: UUID, *, tenant: str = "default"
) -> tuple[bytes, dict[str, str]]:
    provider = provider_of(market.site.surface.bell)
    assert isinstance(provider, Simulator)
    charge = Movement(
        ref="sim_1",
        call="charge",
        key="k",
        fingerprint="f",
        amount=AMOUNT,
        currency="EUR",
        booking_id=purse.id,
        payment_id=payment_id,
        of_ref=None,
        state="succeeded",
    )
    raw, headers = provider.write_report(tenant, charge, "succeeded")
    return raw, dict(headers)


@pytest.mark.req("D-6.9")
@pytest.mark.req("X-J50")
async def test_a_report_is_kept_once(market: Market) -> None:
    purse = await purse_of(market)
    raw, headers = reported(market, purse, uuid4())
    for is_taken in (True, False):
        answer = await market.site.ask(
            "POST", "/api/marketplace/payment-reports", key=None, headers=headers, content=raw
        )
        assert done(answer) == {"taken": is_taken}
    (kept,) = await market.rows("SELECT * FROM marketplace.payment_events")
    assert (kept["tenant"], kept["provider"], kept["received_at"]) == ("default", "simulator", NOW)
    assert (
        await market.value("SELECT count(*) FROM timebell.jobs WHERE kind = 'marketplace.apply_report'") == 1
    )


async def test_a_report_is_kept_in_the_tenant_that_it_names(market: Market) -> None:
    purse = await purse_of(market)
    raw, headers = reported(market, purse, uuid4(), tenant=OTHER)
    path = "/api/marketplace/payment-reports"
    assert done(await market.site.ask("POST", path, key=None, headers=headers, content=raw)) == {
        "taken": True
    }
    assert [row["tenant"] for row in await market.rows("SELECT tenant FROM marketplace.payment_events")] == [
        OTHER
    ]


async def test_what_is_not_signed_is_refused(market: Market) -> None:
    purse = await purse_of(market)
    raw, headers = reported(market, purse, uuid4())
    path = "/api/marketplace/payment-reports"
    said = orjson.loads(raw)
    for content, signed in (
        (raw, {}),
        (raw, {SIGNATURE: "0" * 64}),
        (orjson.dumps({**said, "tenant": OTHER}), headers),
        (raw + b" ", headers),
        (b"", headers),
    ):
        answer = await market.site.ask("POST", path, key=None, headers=signed, content=content)
        problem(answer, 401, "unverified_report")
    large = await market.site.ask("POST", path, key=None, headers=headers, content=b"x" * 300_000)
    assert large.status_code == 413
    assert await market.value("SELECT count(*) FROM marketplace.payment_events") == 0


async def test_without_a_provider_nothing_is_reported(marketplace_database: TestDatabase) -> None:
    async with open_market(marketplace_database, demo=False) as market:
        answer = await market.site.ask("POST", "/api/marketplace/payment-reports", key=None, content=b"{}")
        problem(answer, 404, "not_found")


async def test_what_is_old_is_pruned(market: Market) -> None:
    purse = await purse_of(market)
    await purse.paid(0)
    raw, headers = reported(market, purse, uuid4())
    await market.site.ask("POST", "/api/marketplace/payment-reports", key=None, headers=headers, content=raw)
    await market.bench.run_due()
    await market.rows(
        "INSERT INTO marketplace.payment_events (tenant, provider, provider_event_id, report, received_at) "
        "VALUES ('default', 'simulator', 'evt_that_waits', '{}', $1)",
        NOW,
    )
    bell = market.bench.bell
    market.clock.move(timedelta(days=30) - MINUTE)
    prune = next(app.on_prune for app in bell.registry.apps if app.name == "marketplace")
    assert prune is not None
    assert await prune(bell, 1_000) == 0
    market.clock.move(timedelta(days=200))
    assert await prune(bell, 1_000) > 0
    assert await market.value("SELECT count(*) FROM marketplace.simulator_calls") == 0
    kept = await market.rows("SELECT provider_event_id AS id FROM marketplace.payment_events")
    assert [row["id"] for row in kept] == ["evt_that_waits"], "it was not applied yet"
    assert await market.value("SELECT count(*) FROM marketplace.ledger_entries") == 2
