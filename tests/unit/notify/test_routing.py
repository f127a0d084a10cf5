"""Which channel is chosen for whom: the whole truth table, and what it does not say."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.notify.people import EMAIL, PHONE, PUSH, WEBHOOK, intended, known, somebody
from timebell.notify.models import Address, Recipient, Route
from timebell.notify.provider import CHANNELS, Channel
from timebell.notify.rules.deciding import Send, Skip, decide
from timebell.notify.rules.routing import FIRST, Leg, leg_named, legs_of

# Eight ways of being reachable: p has a phone, o has opted in to WhatsApp, e has an email address.
REACHABLE = ["poe", "po-", "p-e", "p--", "-oe", "-o-", "--e", "---"]

# The channel that each of them is told on, by preference and by what was asked for; `none` is skipped: no_channel.
TRUTH_TABLE = """
    preference  asked        poe       po-       p-e    p--   -oe    -o-   --e    ---
    none        preferred    email     none      email  none  email  none  email  none
    none        email        email     none      email  none  email  none  email  none
    none        sms          sms       sms       sms    sms   email  none  email  none
    none        whatsapp     whatsapp  whatsapp  sms    sms   email  none  email  none
    email       preferred    email     none      email  none  email  none  email  none
    email       email        email     none      email  none  email  none  email  none
    email       sms          sms       sms       sms    sms   email  none  email  none
    email       whatsapp     whatsapp  whatsapp  sms    sms   email  none  email  none
    sms         preferred    sms       sms       sms    sms   email  none  email  none
    sms         email        email     none      email  none  email  none  email  none
    sms         sms          sms       sms       sms    sms   email  none  email  none
    sms         whatsapp     whatsapp  whatsapp  sms    sms   email  none  email  none
    whatsapp    preferred    whatsapp  whatsapp  sms    sms   email  none  email  none
    whatsapp    email        email     none      email  none  email  none  email  none
    whatsapp    sms          sms       sms       sms    sms   email  none  email  none
    whatsapp    whatsapp     whatsapp  whatsapp  sms    sms   email  none  email  none
"""


def truth_rows() -> list[tuple[str, str, str, str]]:
    heading, *lines = [line.split() for line in TRUTH_TABLE.strip().splitlines()]
    assert heading[2:] == REACHABLE
    return [
        (preference, asked, reachable, told)
        for preference, asked, *row in lines
        for reachable, told in zip(REACHABLE, row, strict=True)
    ]


def test_the_table_is_complete() -> None:
    channels = ["email", "sms", "whatsapp"]
    asked = list(product(["none", *channels], ["preferred", *channels], REACHABLE))
    assert [row[:3] for row in truth_rows()] == asked
    assert len(asked) == 128


def contact(preference: str, reachable: str) -> Recipient:
    addresses = [address for sign, address in (("p", PHONE), ("e", EMAIL)) if sign in reachable]
    return somebody(
        channel_preference=None if preference == "none" else preference,
        whatsapp_opt_in="o" in reachable,
        addresses=addresses,
    )


@pytest.mark.req("A-5.1", "A-5.2", "A-5.3", "A-5.4", "A-5.5", "A-5.6")
@pytest.mark.parametrize(("preference", "asked", "reachable", "told"), truth_rows())
def test_the_truth_table(preference: str, asked: str, reachable: str, told: str) -> None:
    route = Route() if asked == "preferred" else Route(first=(asked,))  # type: ignore[arg-type]
    recipient = contact(preference, reachable)
    verdict = decide(known(intent=intended(route=route), recipient=recipient)).legs[FIRST]
    if told == "none":
        assert isinstance(verdict, Skip)
        assert (verdict.state, verdict.reason) == ("skipped", "no_channel")
    else:
        assert isinstance(verdict, Send)
        assert verdict.candidate.channel == told
        assert verdict.candidate.address == (EMAIL if told == "email" else PHONE)


def channels_of(leg: Leg) -> list[Channel]:
    return [candidate.channel for candidate in leg.candidates]


@pytest.mark.req("A-6.2")
def test_what_is_tried_next_follows_the_same_order() -> None:
    everything = somebody(whatsapp_opt_in=True)
    (leg,) = legs_of(Route(first=("whatsapp",)), everything)
    assert channels_of(leg) == ["whatsapp", "sms", "email"]


def test_a_list_is_its_own_order_and_nothing_is_added() -> None:
    everything = somebody(whatsapp_opt_in=True, addresses=(EMAIL, PHONE, PUSH))
    (leg,) = legs_of(Route(first=("push", "whatsapp", "inbox")), everything)
    assert channels_of(leg) == ["push", "whatsapp", "inbox"]
    (leg,) = legs_of(Route(first=("sms", "push")), somebody(addresses=(EMAIL,)))
    assert channels_of(leg) == []


@pytest.mark.parametrize("channel", ["push", "webhook"])
def test_a_channel_without_an_address_is_not_replaced_unless_it_was_the_recipients_choice(
    channel: Channel,
) -> None:
    unreachable = somebody(channel_preference=channel)
    (asked,) = legs_of(Route(first=(channel,)), unreachable)
    (preferred,) = legs_of(Route(), unreachable)
    assert channels_of(asked) == []
    assert channels_of(preferred) == ["email"]


@pytest.mark.parametrize(("channel", "address"), [("push", PUSH), ("webhook", WEBHOOK), ("inbox", None)])
def test_every_channel_can_be_preferred(channel: Channel, address: Address | None) -> None:
    recipient = somebody(channel_preference=channel, addresses=(EMAIL, PUSH, WEBHOOK))
    (leg,) = legs_of(Route(), recipient)
    assert leg.candidates[0].channel == channel
    assert leg.candidates[0].address == address


def test_the_inbox_needs_no_address() -> None:
    (leg,) = legs_of(Route(first=("inbox",)), somebody(addresses=()))
    assert channels_of(leg) == ["inbox"]
    assert leg.candidates[0].value == ""


@pytest.mark.parametrize(
    ("channel", "recipient", "reason"),
    [
        ("email", somebody(addresses=(PHONE,)), "no_address"),
        ("whatsapp", somebody(addresses=(EMAIL,), whatsapp_opt_in=True), "no_address"),
        ("whatsapp", somebody(), "no_consent"),
        (
            "email",
            somebody(addresses=(replace(EMAIL, gone_at=datetime(2026, 1, 1, tzinfo=UTC)),)),
            "address_gone",
        ),
    ],
)
def test_it_is_told_why_a_channel_cannot_be_used(channel: Channel, recipient: Recipient, reason: str) -> None:
    (leg,) = legs_of(Route(first=(), also=(channel,)), recipient)
    assert leg.candidates == ()
    (check,) = leg.checks
    assert (check.name, check.verdict, check.reason) == ("address", "refused", reason)
    assert check.detail == {"channel": channel}


def test_verified_addresses_come_first_and_gone_ones_never() -> None:
    instant = datetime(2026, 1, 1, tzinfo=UTC)
    old, gone, verified = (
        Address(kind="email", value="old@example.org"),
        Address(kind="email", value="gone@example.org", verified_at=instant, gone_at=instant),
        Address(kind="email", value="verified@example.org", verified_at=instant),
    )
    (leg,) = legs_of(Route(first=("email",)), somebody(addresses=(old, gone, verified)))
    assert [candidate.value for candidate in leg.candidates] == ["verified@example.org", "old@example.org"]


def test_besides_the_first_each_leg_is_its_own_channel_alone() -> None:
    route = Route(first=("sms",), also=("inbox", "push"))
    legs = legs_of(route, somebody(addresses=(EMAIL,)))
    assert {leg.name: channels_of(leg) for leg in legs} == {
        "first": ["email"],
        "inbox": ["inbox"],
        "push": [],
    }


CHANNEL_LISTS = st.lists(st.sampled_from(CHANNELS), max_size=6).map(tuple)
PEOPLE = st.builds(
    somebody,
    channel_preference=st.none() | st.sampled_from(CHANNELS),
    whatsapp_opt_in=st.booleans(),
    addresses=st.lists(st.sampled_from([EMAIL, PHONE, PUSH, WEBHOOK]), unique_by=lambda a: a.value),
)


@given(first=st.just("preferred") | CHANNEL_LISTS, also=CHANNEL_LISTS, recipient=PEOPLE)
def test_nobody_is_told_twice_on_one_channel_or_on_one_not_agreed_to(
    first: tuple[Channel, ...], also: tuple[Channel, ...], recipient: Recipient
) -> None:
    route = Route(first=first, also=also)
    legs = legs_of(route, recipient)
    channels = [channel for leg in legs for channel in channels_of(leg)]
    assert len(channels) == len(set(channels))
    assert recipient.whatsapp_opt_in or "whatsapp" not in channels
    assert PHONE in recipient.addresses or not {"sms", "whatsapp"} & set(channels)
    assert all(leg_named(channel, route) == leg.name for leg in legs for channel in channels_of(leg))
    unreachable = [check.detail["channel"] for leg in legs for check in leg.checks]
    assert not set(unreachable) & set(channels)
    assert set(also) <= {*unreachable, *channels}
