"""Consent: what the opt-outs of a recipient and the suppression list have to say about a notification.

An opt-out is what a person asked for. A suppression is what is known of an address, and holds whoever uses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from timebell.notify.models import MessageClass, OptOut, Urgency
from timebell.notify.provider import Channel


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppressed:
    """An address of the recipient that is on the suppression list of a channel, for one class or, with '', for all."""

    channel: Channel
    address: str
    message_class: MessageClass | Literal[""] = ""


def opt_out_against(
    opt_outs: Iterable[OptOut], *, topic: str, channel: Channel, urgency: Urgency
) -> OptOut | None:
    """The opt-out that forbids to tell of a topic on a channel, if there is one.

    What is critical is told although its topic is not wanted. A channel that somebody stopped is never used, and
    neither is any for whoever stopped them all.
    """
    for opt_out in opt_outs:
        if opt_out.channel not in (None, channel):
            continue
        if opt_out.topic is None or (opt_out.topic == topic and urgency != "critical"):
            return opt_out
    return None


def suppression_against(
    suppressed: Iterable[Suppressed], *, channel: Channel, address: str, message_class: MessageClass
) -> Suppressed | None:
    """The suppression that forbids to tell an address, if there is one. No urgency passes it: it would not arrive."""
    for one in suppressed:
        if (one.channel, one.address) == (channel, address) and one.message_class in ("", message_class):
            return one
    return None
