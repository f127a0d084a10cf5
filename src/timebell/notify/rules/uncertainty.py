"""Remedies for an uncertain attempt, which may or may not have reached its recipient."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from timebell.notify.models import Urgency
from timebell.notify.provider import Traits

Remedy = Literal["again", "look_up", "wait", "leave"]

# A key that is about to lapse at the provider may have lapsed when the call arrives.
_KEY_MARGIN = timedelta(minutes=1)


def remedy_for(traits: Traits, urgency: Urgency, age: timedelta) -> Remedy:
    """`age` is how long ago the delivery was first tried, which is when the provider first heard its key.

    With a key that the provider still knows, trying again cannot make a second copy. Where it can be asked, it is
    asked. Else a second copy is risked only where it was said that this is better than none.
    """
    if traits.key_lifetime is not None and age < traits.key_lifetime - _KEY_MARGIN:
        return "again"
    if traits.can_look_up:
        return "look_up"
    if traits.when_uncertain == "nothing":
        return "leave"
    if traits.when_uncertain == "retry" or urgency == "critical":
        return "again"
    return "wait" if traits.reports else "leave"
