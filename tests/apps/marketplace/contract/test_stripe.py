"""Stripe's own ways: what is sent to it, what its errors mean, and what it reports."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest
import pytest_asyncio
import stripe

from tests.apps.marketplace.contract.fake_stripe import CUSTOMER, SECRET_KEY, WEBHOOK_SECRET, sign
from tests.apps.marketplace.contract.sides import StripeSide, movement
from timebell.apps.marketplace.payments.building import provider_of
from timebell.apps.marketplace.payments.provider import Refused, Unavailable, Uncertain
from timebell.apps.marketplace.payments.stripe import TOLERANCE_SECONDS, StripePayments, stripe_of
from timebell.config import Settings
from timebell.db.pool import Database
from timebell.errors import ConfigurationError
from timebell.kernel import Timebell
from timebell.testing.database import TestDatabase


@pytest_asyncio.fixture
async def side() -> AsyncIterator[StripeSide]:
    opened = StripeSide()
    await opened.open()
    yield opened
    await opened.close()


def real_now() -> int:
    return int(time.time())


async def test_the_fake_answers_in_the_shapes_of_the_library(side: StripeSide) -> None:
    charge = side.charge()
    charged = await side.provider.charge(charge)
    await side.provider.refund(movement(charge, charged.ref, amount=1))
    await side.provider.transfer(movement(charge, charged.ref, amount=1))
    raw, _ = side.fake.event(charged.ref, "payment_intent.succeeded")
    shown: list[tuple[dict[str, Any], type[stripe.StripeObject]]] = [
        *((each, stripe.PaymentIntent) for each in side.fake.intents.values()),
        *((each, stripe.Refund) for each in side.fake.refunds.values()),
        *((each, stripe.Transfer) for each in side.fake.transfers.values()),
        (json.loads(raw), stripe.Event),
    ]
    for answer, shape in shown:
        known = {name for base in shape.__mro__ for name in getattr(base, "__annotations__", {})}
        assert answer.keys() <= known, (shape, answer.keys() - known)


async def test_what_is_sent_with_a_charge(side: StripeSide) -> None:
    charge = side.charge(4_321)
    await side.provider.charge(charge)
    (request,) = side.fake.seen
    assert (request.method, request.path) == ("POST", "/v1/payment_intents")
    assert request.headers["idempotency-key"] == charge.key
    sent = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
    assert sent == {
        "amount": "4321",
        "currency": "eur",
        "customer": CUSTOMER,
        "payment_method": "pm_card_visa",
        "automatic_payment_methods[enabled]": "true",
        "automatic_payment_methods[allow_redirects]": "never",
        "confirm": "true",
        "off_session": "true",
        "transfer_group": f"payment:{charge.payment_id}",
        "metadata[tenant]": "default",
        "metadata[booking]": str(charge.booking_id),
        "metadata[payment]": str(charge.payment_id),
        "metadata[key]": charge.key,
    }


async def test_a_transfer_is_of_its_charge(side: StripeSide) -> None:
    charge = side.charge()
    charged = await side.provider.charge(charge)
    ref = await side.provider.transfer(movement(charge, charged.ref))
    made = side.fake.transfers[ref]
    assert made["source_transaction"] == side.fake.intents[charged.ref]["latest_charge"]
    assert made["transfer_group"] == f"payment:{charge.payment_id}"


@pytest.mark.parametrize(
    ("card", "failure"),
    [
        ("pm_card_visa_chargeDeclined", "card_declined"),
        ("pm_card_chargeDeclinedInsufficientFunds", "insufficient_funds"),
        ("pm_card_authenticationRequired", "authentication_required"),
    ],
)
async def test_why_a_card_was_declined(side: StripeSide, card: str, failure: str) -> None:
    charge = replace(side.charge(), method=card)
    charged = await side.provider.charge(charge)
    assert (charged.state, charged.failure) == ("declined", failure)
    assert await side.provider.look_up(charge, ref=charged.ref) == charged


@pytest.mark.parametrize("fault", ["failed", "done_and_failed", "in_use", "lost", "done_and_lost"])
async def test_what_may_have_been_done_is_uncertain_and_not_repeated(side: StripeSide, fault: Any) -> None:
    side.fake.faults.append(("POST payment_intents", fault))
    with pytest.raises(Uncertain):
        await side.provider.charge(side.charge())
    assert len(side.fake.seen) == 1, "whether to try again is not the library's to decide"


@pytest.mark.parametrize("fault", ["hang", "done_and_hang"])
async def test_who_does_not_answer_is_not_waited_for(side: StripeSide, fault: Any) -> None:
    hasty = StripePayments(
        secret_key=SECRET_KEY, webhook_secret=WEBHOOK_SECRET, url=side.fake.url, seconds=0.2
    )
    side.fake.faults.append(("POST payment_intents", fault))
    charge = side.charge()
    with pytest.raises(Uncertain):
        await hasty.charge(charge)
    found = await hasty.look_up(charge)
    assert (found is not None) == (fault == "done_and_hang")
    await hasty.close()


@pytest.mark.parametrize("fault", ["lost", "failed"])
async def test_a_look_up_that_fails_has_done_nothing(side: StripeSide, fault: Any) -> None:
    side.fake.faults.append(("GET payment_intents", fault))
    with pytest.raises((Unavailable, Uncertain)):
        await side.provider.look_up(side.charge())


async def test_how_long_to_wait_is_heard(side: StripeSide) -> None:
    side.fake.faults.append(("POST payment_intents", "busy"))
    with pytest.raises(Unavailable) as caught:
        await side.provider.charge(side.charge())
    assert caught.value.retry_after == 2


async def test_nobody_there(side: StripeSide) -> None:
    await side.fake.server.close()
    with pytest.raises(Unavailable):
        await side.provider.charge(side.charge())


async def test_a_wrong_key_waits_for_the_right_one(side: StripeSide) -> None:
    stranger = StripePayments(secret_key="sk_test_other", webhook_secret=WEBHOOK_SECRET, url=side.fake.url)
    with pytest.raises(Unavailable):
        await stranger.charge(side.charge())
    await stranger.close()


async def test_without_a_card_or_an_account_nothing_is_asked(side: StripeSide) -> None:
    charge = side.charge()
    for wrong in (replace(charge, customer=None), replace(charge, method=None)):
        with pytest.raises(Refused, match="payment_customer and payment_method"):
            await side.provider.charge(wrong)
    assert await side.provider.look_up(replace(charge, customer=None)) is None
    with pytest.raises(Refused, match="payment_account"):
        await side.provider.transfer(movement(charge, "pi_1", destination=None))
    assert side.fake.seen == []
    for unknown in (replace(charge, customer="cus_2"), replace(charge, method="pm_2")):
        with pytest.raises(Refused):
            await side.provider.charge(unknown)


async def test_a_charge_is_found_among_many_and_no_further_back_than_it_was_asked(side: StripeSide) -> None:
    side.fake.page_max = 2
    charges = [side.charge() for _ in range(5)]
    for charge in charges:
        await side.provider.charge(charge)
    for charge in charges:
        assert await side.provider.look_up(charge) is not None
    asked = datetime.now(UTC)
    assert await side.provider.look_up(replace(charges[0], asked_at=asked)) is not None
    side.fake.seen.clear()
    late = replace(charges[0], asked_at=asked + timedelta(days=2))
    assert await side.provider.look_up(late) is None
    assert len(side.fake.seen) == 1


@pytest.mark.parametrize("call", ["refund", "transfer"])
async def test_what_was_begun_is_not_moved_again_when_the_key_is_forgotten(
    side: StripeSide, call: str
) -> None:
    """A job that an operator revives days later asks with a key that Stripe has forgotten."""
    side.fake.page_max = 1
    charge = side.charge()
    charged = await side.provider.charge(charge)
    move = side.provider.refund if call == "refund" else side.provider.transfer
    asked = movement(charge, charged.ref, amount=5)
    first = await move(asked)
    for _ in range(2):
        await move(movement(charge, charged.ref, amount=5))
    side.fake.forget_keys()
    assert await move(replace(asked, was_begun=True)) == first
    assert len(side.fake.refunds) + len(side.fake.transfers) == 3


async def test_a_refund_that_failed_is_none(side: StripeSide) -> None:
    charge = side.charge()
    charged = await side.provider.charge(charge)
    asked = movement(charge, charged.ref)
    ref = await side.provider.refund(asked)
    side.fake.refunds[ref] |= {"status": "failed", "failure_reason": "expired_or_canceled_card"}
    with pytest.raises(Refused, match="expired_or_canceled_card"):
        await side.provider.refund(replace(asked, was_begun=True))


async def test_a_charge_that_cannot_be_cancelled_says_what_it_is(side: StripeSide) -> None:
    await side.decide("processing")
    charge = side.charge()
    charged = await side.provider.charge(charge)
    side.fake.settle(charged.ref)
    assert (await side.provider.cancel(charge, ref=charged.ref)).state == "succeeded"
    side.fake.faults.append(("POST payment_intents cancel", "lost"))
    with pytest.raises(Uncertain):
        await side.provider.cancel(charge, ref=charged.ref)


@pytest.mark.parametrize(
    ("type", "state"),
    [
        ("payment_intent.succeeded", "succeeded"),
        ("payment_intent.processing", "processing"),
        ("payment_intent.canceled", "cancelled"),
    ],
)
async def test_what_is_reported(side: StripeSide, type: str, state: str) -> None:
    charge = side.charge()
    charged = await side.provider.charge(charge)
    side.fake.intents[charged.ref]["status"] = type.rpartition(".")[2].replace("cancelled", "canceled")
    raw, headers = side.fake.event(charged.ref, type)
    report = side.provider.read_report(raw, headers)
    assert report is not None
    assert (report.state, report.event_id) == (state, f"evt_{charged.ref}_{type}")


async def test_what_is_nothing_to_us_is_passed_over(side: StripeSide) -> None:
    charged = await side.provider.charge(side.charge())
    raw, headers = side.fake.event(charged.ref, "payment_intent.created")
    assert side.provider.read_report(raw, headers) is None
    for strange in (
        {},
        {"payment": "7", "tenant": "default"},
        {"payment": "0199a3c2-0000-7000-8000-000000000001"},
    ):
        side.fake.intents[charged.ref]["metadata"] = strange
        raw, headers = side.fake.event(charged.ref, "payment_intent.succeeded")
        assert side.provider.read_report(raw, headers) is None


async def test_an_old_report_is_refused(side: StripeSide) -> None:
    charged = await side.provider.charge(side.charge())

    def told(at: int, secret: str = WEBHOOK_SECRET) -> Callable[[], object]:
        raw, headers = side.fake.event(charged.ref, "payment_intent.succeeded", at=at, secret=secret)
        return lambda: side.provider.read_report(raw, headers)

    assert told(real_now() - TOLERANCE_SECONDS + 30)() is not None
    for wrong in (told(real_now() - TOLERANCE_SECONDS - 30), told(real_now(), "whsec_of_somebody_else")):
        with pytest.raises(Refused):
            wrong()
    for broken in (b"{", b"[]", b'{"object": "event"}', b"\xff"):
        with pytest.raises(Refused):
            side.provider.read_report(broken, {"stripe-signature": sign(broken, real_now())})


async def test_it_is_built_as_the_settings_say(
    marketplace_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(
        payment_provider="stripe", stripe_secret_key=SECRET_KEY, stripe_webhook_secret=WEBHOOK_SECRET
    )
    database = await Database.open(marketplace_database.url)
    bell = Timebell(database, settings=settings)
    built = provider_of(bell)
    assert isinstance(built, StripePayments)
    assert provider_of(bell) is built
    other = Timebell(database, settings=settings)
    monkeypatch.setitem(sys.modules, "timebell.apps.marketplace.payments.stripe", None)
    with pytest.raises(ConfigurationError, match=r"install timebell\[stripe\]"):
        provider_of(other)
    unset = Timebell(database, settings=Settings(demo=False))
    with pytest.raises(ConfigurationError, match="TIMEBELL_PAYMENT_PROVIDER"):
        provider_of(unset)
    with pytest.raises(ConfigurationError, match="stripe_secret_key"):
        stripe_of(unset)
    await built.close()
    await database.close()
