"""What every payment provider has to do, asked of each of them in the same words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import uuid4

import pytest
import pytest_asyncio

from tests.apps.marketplace.contract.sides import Moving, Side, SimulatorSide, StripeSide, movement
from tests.apps.marketplace.support import Market
from timebell.apps.marketplace.payments.provider import Charge, Refused, Unavailable, Uncertain


@pytest_asyncio.fixture(params=["simulator", "stripe"])
async def side(request: pytest.FixtureRequest, market: Market) -> AsyncIterator[Side]:
    if request.param == "simulator":
        yield SimulatorSide(market.bench.bell)
        return
    opened = StripeSide()
    await opened.open()
    yield opened
    await opened.close()


async def taken_ref(side: Side, charge: Charge) -> str:
    """Whatever is taken may be answered as processing: whoever wants to know looks it up, or is told."""
    charged = await side.provider.charge(charge)
    assert charged.state in ("processing", "succeeded")
    found = await side.provider.look_up(charge)
    assert found is not None
    assert (found.ref, found.state) == (charged.ref, "succeeded")
    return charged.ref


async def test_a_key_takes_money_once(side: Side) -> None:
    charge = side.charge()
    first = await taken_ref(side, charge)
    assert await taken_ref(side, charge) == first
    assert await side.taken("charge") == [charge.amount]
    other = await taken_ref(side, side.charge(700))
    assert other != first
    assert sorted(await side.taken("charge")) == [700, charge.amount]


async def test_a_key_is_for_one_charge(side: Side) -> None:
    charge = side.charge()
    await taken_ref(side, charge)
    with pytest.raises(Refused):
        await side.provider.charge(replace(charge, amount=1))
    assert await side.taken("charge") == [charge.amount]


async def test_a_decline_says_why_and_takes_nothing(side: Side) -> None:
    await side.decide("decline")
    charge = side.charge()
    for _ in range(2):
        charged = await side.provider.charge(charge)
        assert (charged.state, charged.failure) == ("declined", "card_declined")
        found = await side.provider.look_up(charge)
        assert found is not None
        assert (found.ref, found.state) == (charged.ref, "declined")
    assert await side.taken("charge") == []


async def test_what_was_never_asked_for_is_not_found(side: Side) -> None:
    charge = side.charge()
    assert await side.provider.look_up(charge) is None
    assert await side.provider.look_up(charge, ref="pi_nobody") is None
    await taken_ref(side, side.charge())
    assert await side.provider.look_up(charge) is None


async def test_what_got_lost_is_not_found_and_can_be_asked_again(side: Side) -> None:
    charge = side.charge()
    await side.trouble("charge", "lost")
    with pytest.raises(Uncertain):
        await side.provider.charge(charge)
    assert await side.provider.look_up(charge) is None
    await taken_ref(side, charge)
    assert await side.taken("charge") == [charge.amount]


async def test_what_was_done_unheard_is_found(side: Side) -> None:
    charge = side.charge()
    await side.trouble("charge", "done_and_lost")
    with pytest.raises(Uncertain):
        await side.provider.charge(charge)
    found = await side.provider.look_up(charge)
    assert found is not None
    assert found.state == "succeeded"
    assert await side.provider.look_up(charge, ref=found.ref) == found
    assert await taken_ref(side, charge) == found.ref
    assert await side.taken("charge") == [charge.amount]


@pytest.mark.parametrize("call", ["charge", "refund", "transfer"])
async def test_who_is_away_has_done_nothing(side: Side, call: Moving) -> None:
    charge = side.charge()
    if call == "charge":
        await side.trouble(call, "away")
        with pytest.raises(Unavailable):
            await side.provider.charge(charge)
        assert await side.taken("charge") == []
        return
    ref = await taken_ref(side, charge)
    await side.trouble(call, "away")
    move = side.provider.refund if call == "refund" else side.provider.transfer
    with pytest.raises(Unavailable):
        await move(movement(charge, ref))
    assert await side.taken(call) == []


async def test_what_is_processing_can_be_cancelled(side: Side) -> None:
    await side.decide("processing")
    charge = side.charge()
    charged = await side.provider.charge(charge)
    assert charged.state == "processing"
    found = await side.provider.look_up(charge)
    assert found == charged
    for _ in range(2):
        cancelled = await side.provider.cancel(charge, ref=charged.ref)
        assert (cancelled.ref, cancelled.state) == (charged.ref, "cancelled")
    assert (await side.provider.look_up(charge, ref=charged.ref)) == cancelled
    assert await side.taken("charge") == []


async def test_what_was_taken_cannot_be_cancelled(side: Side) -> None:
    charge = side.charge()
    ref = await taken_ref(side, charge)
    answered = await side.provider.cancel(charge, ref=ref)
    assert answered.state == "succeeded"
    assert await side.taken("charge") == [charge.amount]


async def test_what_is_not_there_cannot_be_cancelled(side: Side) -> None:
    with pytest.raises(Refused):
        await side.provider.cancel(side.charge(), ref="pi_nobody")


@pytest.mark.parametrize("call", ["refund", "transfer"])
async def test_a_key_moves_money_once(side: Side, call: Moving) -> None:
    charge = side.charge(10_000)
    ref = await taken_ref(side, charge)
    move = side.provider.refund if call == "refund" else side.provider.transfer
    first = movement(charge, ref, amount=4_000)
    assert await move(first) == await move(first) == await move(replace(first, was_begun=True))
    assert await side.taken(call) == [4_000]
    with pytest.raises(Refused):
        await move(replace(first, amount=5_000))
    await move(movement(charge, ref, amount=6_000))
    with pytest.raises(Refused):
        await move(movement(charge, ref, amount=1))
    assert await side.taken(call) == [4_000, 6_000]


@pytest.mark.parametrize("call", ["refund", "transfer"])
async def test_what_was_moved_unheard_is_moved_once(side: Side, call: Moving) -> None:
    charge = side.charge()
    ref = await taken_ref(side, charge)
    move = side.provider.refund if call == "refund" else side.provider.transfer
    asked = movement(charge, ref)
    await side.trouble(call, "done_and_lost")
    with pytest.raises(Uncertain):
        await move(asked)
    again = replace(asked, was_begun=True)
    assert await move(again) == await move(again)
    assert await side.taken(call) == [charge.amount]


@pytest.mark.parametrize("call", ["refund", "transfer"])
async def test_only_what_was_taken_can_be_moved(side: Side, call: Moving) -> None:
    move = side.provider.refund if call == "refund" else side.provider.transfer
    with pytest.raises(Refused):
        await move(movement(side.charge(), "pi_nobody"))
    await side.decide("decline")
    charge = side.charge()
    declined = await side.provider.charge(charge)
    with pytest.raises(Refused):
        await move(movement(charge, declined.ref))
    assert await side.taken(call) == []


async def test_a_report_names_its_payment(side: Side) -> None:
    charge = side.charge()
    ref = await taken_ref(side, charge)
    raw, headers = await side.report(charge, ref, "succeeded")
    report = side.provider.read_report(raw, headers)
    assert report is not None
    assert (report.tenant, report.payment_id) == (charge.tenant, charge.payment_id)
    assert (report.ref, report.state, report.failure) == (ref, "succeeded", None)
    again = side.provider.read_report(raw, headers)
    assert again is not None
    assert again.event_id == report.event_id


async def test_a_report_of_a_decline_says_why(side: Side) -> None:
    await side.decide("decline")
    charge = side.charge()
    declined = await side.provider.charge(charge)
    raw, headers = await side.report(charge, declined.ref, "declined")
    report = side.provider.read_report(raw, headers)
    assert report is not None
    assert (report.state, report.failure) == ("declined", "card_declined")


async def test_a_report_that_somebody_else_wrote_is_refused(side: Side) -> None:
    charge = side.charge()
    raw, headers = await side.report(charge, await taken_ref(side, charge), "succeeded")
    for wrong, signed in (
        (raw.replace(str(charge.payment_id).encode(), str(uuid4()).encode()), headers),
        (raw + b" ", headers),
        (raw, {}),
        (raw, {name: value[:-1] + ("0" if value[-1] != "0" else "1") for name, value in headers.items()}),
        (b"", headers),
    ):
        with pytest.raises(Refused):
            side.provider.read_report(wrong, signed)
