"""Which channel a message takes: the source's own rule, which is that of notify for everybody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from timebell.notify import Channel, Recipient, Route, channels_for

CHANNELS: Final[Mapping[str, Route]] = {
    "preferred": Route(first="preferred"),
    "email": Route(first=("email",)),
    "sms": Route(first=("sms",)),
    "whatsapp": Route(first=("whatsapp",)),
}


def channel_now(step_channel: str, recipient: Recipient) -> Channel | None:
    """The channel that would be chosen now; None where nothing reaches the recipient."""
    route = CHANNELS.get(step_channel)
    if route is None:
        return None
    return next(iter(channels_for(route, recipient)), None)
