"""Providers through which nothing leaves, and log lines that give nobody away."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.providers.parcels import DELIVERY, parcel
from tests.log_lines import kept_lines
from timebell.notify.provider import CHANNELS, Channel, Sent
from timebell.providers.log import Captured, Log, captured_providers, masked

SECRETS = [
    "ann.smith",
    "example.org",
    "4930901820",
    "Ten o'clock",
    "Ann Smith",
    "endpoint-secret",
    "p256dh-secret",
]
ADDRESSES: dict[Channel, str] = {
    "email": "ann.smith@example.org",
    "sms": "+4930901820",
    "whatsapp": "+4930901820",
    "push": "https://push.example/endpoint-secret?token=endpoint-secret",
    "webhook": "https://user:endpoint-secret@hook.example/endpoint-secret",
    "inbox": "ann.smith",
}


@pytest.mark.req("M-5.8", "U-19")
async def test_what_is_captured_says_so() -> None:
    for channel in CHANNELS:
        if channel != "inbox":
            answer = await Captured(channel).send(parcel(channel, ADDRESSES[channel]))
            assert answer == Sent(is_captured=True)


@pytest.mark.req("M-5.8")
def test_demo_mode_has_one_for_every_channel_that_leaves() -> None:
    providers = captured_providers()
    channels = [channel for provider in providers for channel in provider.traits.channels]
    assert sorted(channels) == sorted(set(CHANNELS) - {"inbox"}), "the inbox stays real"
    assert len({provider.name for provider in providers}) == len(providers)


async def test_a_log_says_sent() -> None:
    assert await Log().send(parcel()) == Sent(provider_id=str(DELIVERY))
    assert "inbox" not in Log().traits.channels


@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_line_gives_nobody_away(channel: Channel) -> None:
    given = parcel(
        channel,
        ADDRESSES[channel],
        text="Ten o'clock",
        subject="Ten o'clock",
        recipient_name="Ann Smith",
        detail={"keys": {"p256dh": "p256dh-secret"}},
    )
    with kept_lines() as lines:
        await Log().send(given)
        await Captured(channel).send(given)
    assert [line["event"] for line in lines] == ["told", "captured"]
    written = json.dumps(lines, ensure_ascii=False)
    assert [secret for secret in SECRETS if secret in written] == []
    assert str(DELIVERY) in written


@pytest.mark.parametrize(
    ("channel", "shown"),
    [
        ("email", "a…@e…"),
        ("sms", "…20"),
        ("push", "push.example"),
        ("webhook", "hook.example"),
        ("inbox", ""),
    ],
)
def test_an_address_as_a_log_shows_it(channel: Channel, shown: str) -> None:
    assert masked(ADDRESSES[channel], channel) == shown


@settings(max_examples=50, deadline=None)
@given(address=st.text(max_size=50), channel=st.sampled_from(CHANNELS))
async def test_a_line_stays_one_line(address: str, channel: Channel) -> None:
    with kept_lines() as lines:
        await Log().send(parcel(channel, address))
    assert len(lines) == 1
    assert lines[0]["to"].isprintable()
