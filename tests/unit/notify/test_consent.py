"""What was opted out of and what is suppressed, for every urgency and class."""

from __future__ import annotations

from itertools import product

import pytest

from timebell.notify.models import MessageClass, OptOut, Urgency
from timebell.notify.provider import Channel
from timebell.notify.rules.consent import Suppressed, opt_out_against, suppression_against

TOPIC = OptOut(topic="news")
TOPIC_ON_SMS = OptOut(topic="news", channel="sms")
STOP_SMS = OptOut(channel="sms")
STOP_ALL = OptOut()


@pytest.mark.req("X-C12")
@pytest.mark.parametrize(
    ("opt_out", "refused"),
    [
        (TOPIC, {("news", "sms", "normal"), ("news", "email", "normal")}),
        (TOPIC_ON_SMS, {("news", "sms", "normal")}),
        (
            STOP_SMS,
            {(topic, "sms", urgency) for topic in ("news", "jobs") for urgency in ("normal", "critical")},
        ),
        (STOP_ALL, set(product(("news", "jobs"), ("sms", "email"), ("normal", "critical")))),
    ],
    ids=["a topic", "a topic on a channel", "a channel", "everything"],
)
def test_what_an_opt_out_refuses(opt_out: OptOut, refused: set[tuple[str, Channel, Urgency]]) -> None:
    urgencies: tuple[Urgency, ...] = ("normal", "time_bound", "critical")
    channels: tuple[Channel, ...] = ("sms", "email")
    # What is time-bound is as optional as what is not.
    refused = refused | {
        (topic, channel, "time_bound") for topic, channel, urgency in refused if urgency == "normal"
    }
    found = {
        (topic, channel, urgency)
        for topic, channel, urgency in product(("news", "jobs"), channels, urgencies)
        if opt_out_against([opt_out], topic=topic, channel=channel, urgency=urgency) is not None
    }
    assert found == refused


def test_one_of_several_is_enough_and_is_named() -> None:
    opt_outs = [OptOut(topic="jobs"), OptOut(channel="email"), TOPIC, STOP_SMS]
    assert opt_out_against(opt_outs, topic="news", channel="sms", urgency="critical") == STOP_SMS
    assert opt_out_against(opt_outs, topic="news", channel="sms", urgency="normal") == TOPIC
    assert opt_out_against([], topic="news", channel="sms", urgency="normal") is None


ADA = "ada@example.org"


@pytest.mark.parametrize(
    ("listed", "message_class", "is_refused"),
    [
        (Suppressed(channel="email", address=ADA), "transactional", True),
        (Suppressed(channel="email", address=ADA), "marketing", True),
        (Suppressed(channel="email", address=ADA, message_class="marketing"), "marketing", True),
        (Suppressed(channel="email", address=ADA, message_class="marketing"), "transactional", False),
        (Suppressed(channel="email", address=ADA, message_class="transactional"), "marketing", False),
        (Suppressed(channel="email", address="eve@example.org"), "transactional", False),
        (Suppressed(channel="webhook", address=ADA), "transactional", False),
    ],
)
def test_what_a_suppression_refuses(
    listed: Suppressed, message_class: MessageClass, is_refused: bool
) -> None:
    found = suppression_against([listed], channel="email", address=ADA, message_class=message_class)
    assert found == (listed if is_refused else None)


def test_endpoints_that_differ_in_capitals_are_two() -> None:
    listed = [Suppressed(channel="push", address="https://push.example.org/a")]
    asked = {"channel": "push", "message_class": "transactional"}
    assert suppression_against(listed, address="https://push.example.org/a", **asked) is not None  # type: ignore[arg-type]
    assert suppression_against(listed, address="https://push.example.org/A", **asked) is None  # type: ignore[arg-type]


def test_a_phone_number_that_stopped_texts_still_gets_whatsapp() -> None:
    listed = [Suppressed(channel="sms", address="+4915112345678")]
    found = suppression_against(
        listed, channel="whatsapp", address="+4915112345678", message_class="transactional"
    )
    assert found is None
