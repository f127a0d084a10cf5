"""The link to unsubscribe: it says who does not want what, needs no store, and cannot be forged."""

from __future__ import annotations

import base64
from typing import Any, cast
from uuid import UUID

import pytest

from timebell.config import Settings
from timebell.errors import ConfigurationError, InvalidInput
from timebell.kernel.models import NAME_MAX
from timebell.notify.people.unsubscribing import Unsubscribing, WayOut
from timebell.notify.rules.recipient_checks import TOPIC_MAX

KEY = "k" * 32
WAY = WayOut(tenant="acme", recipient=UUID(int=7), topic="news/ü", channel="email")


def unsubscribing(**settings: Any) -> Unsubscribing:
    return Unsubscribing(Settings(**{"secret_key": KEY, **settings}), cast(Any, None))


def test_a_token_says_what_it_was_made_for() -> None:
    ours = unsubscribing()
    assert ours.read(ours.token(WAY)) == WAY
    every_topic = WayOut(tenant="acme", recipient=UUID(int=7), topic=None, channel="sms")
    assert ours.read(ours.token(every_topic)) == every_topic


@pytest.mark.parametrize("character", ["x", "😀", "\x01"])
def test_the_longest_names_make_a_token_that_can_be_read(character: str) -> None:
    ours = unsubscribing()
    tenant, topic = character * NAME_MAX, character * TOPIC_MAX
    way = WayOut(tenant=tenant, recipient=UUID(int=7), topic=topic, channel="whatsapp")
    assert ours.read(ours.token(way)) == way


def test_any_node_with_the_key_reads_it_and_it_is_the_same_each_time() -> None:
    assert unsubscribing().token(WAY) == unsubscribing().token(WAY)
    assert unsubscribing().read(unsubscribing().token(WAY)) == WAY


def test_the_link_begins_with_the_public_url() -> None:
    ours = unsubscribing(public_url="https://bell.example.org/notify/")
    assert ours.url(WAY) == f"https://bell.example.org/notify/u/{ours.token(WAY)}"


def test_without_a_key_or_a_url_there_is_no_link() -> None:
    assert unsubscribing().url(WAY) is None
    keyless = Unsubscribing(Settings(public_url="https://bell.example.org"), cast(Any, None))
    assert keyless.url(WAY) is None
    with pytest.raises(ConfigurationError, match="secret_key"):
        keyless.token(WAY)
    with pytest.raises(ConfigurationError, match="secret_key"):
        keyless.read(unsubscribing().token(WAY))


def test_no_changed_character_passes() -> None:
    ours = unsubscribing()
    token = ours.token(WAY)
    for place in range(len(token)):
        other = "A" if token[place] != "A" else "B"
        with pytest.raises(InvalidInput) as refused:
            ours.read(token[:place] + other + token[place + 1 :])
        assert refused.value.field == "token"


@pytest.mark.parametrize("token", ["", ".", "a.b", "é.é", "x" * 4_000, "W10", "W10.", ".W10", "a.b.c"])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidInput):
        unsubscribing().read(token)


def test_a_token_is_read_only_as_we_write_it() -> None:
    ours = unsubscribing()
    body, signature = ours.token(WAY).split(".")
    padded = base64.urlsafe_b64encode(base64.urlsafe_b64decode(signature + "=")).decode()
    for other in (
        f"{body}.{padded}",
        f"{body}.{signature}.",
        f"{body}.{signature}\n",
        f" {body}.{signature}",
    ):
        with pytest.raises(InvalidInput):
            ours.read(other)


def test_another_key_is_refused() -> None:
    with pytest.raises(InvalidInput):
        unsubscribing(secret_key="j" * 32).read(unsubscribing().token(WAY))
