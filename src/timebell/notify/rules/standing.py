"""The state machine of a delivery, and of the notification that it belongs to: what became of them.

Providers report late, twice and in any order. Each report says that a delivery has come at least so far; the farthest
counts and nothing leads back from it, so the order does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from timebell.notify.provider import ReportKind
from timebell.notify.reasons import NotificationState


class Standing(NamedTuple):
    """A state and the reason for it. A delivery has all states but `held` and `withdrawn`."""

    state: NotificationState
    reason: str | None = None


# From the least that can be known to the most. What we concluded from silence gives way to anything a provider says.
# It may call a delivery failed and see it arrive after all. It may see one arrive that is sent back later, and only
# what arrived can be complained about. A failure for any other reason than these was our own conclusion.
_WAY: Final[tuple[Standing, ...]] = (
    Standing("pending"),
    Standing("uncertain"),
    Standing("failed", "exhausted"),
    Standing("sent", "accepted"),
    Standing("failed", "rejected"),
    Standing("delivered"),
    Standing("failed", "bounced"),
    Standing("failed", "complained"),
)
_REACHED: Final[Mapping[ReportKind, Standing]] = {
    "sent": Standing("sent", "accepted"),
    "failed": Standing("failed", "rejected"),
    "delivered": Standing("delivered"),
    "bounced": Standing("failed", "bounced"),
    "complained": Standing("failed", "complained"),
}
_NEVER_LEFT: Final = frozenset({"skipped", "suppressed", "withdrawn"})

# What a notification is, if this holds of any part of it. While something may still happen, it is not settled; and it
# was told if it was told on one channel.
_PREVAILING: Final[tuple[NotificationState, ...]] = (
    "pending",
    "held",
    "delivered",
    "sent",
    "suppressed",
    "uncertain",
    "failed",
    "skipped",
    "withdrawn",
)
_UNSETTLED: Final = frozenset({"pending", "held"})


def after_report(standing: Standing, kind: ReportKind) -> Standing:
    """Where a delivery stands after a report. It stays where it is if it was farther, or never left us."""
    reached = _REACHED.get(kind)
    if reached is None or standing.state in _NEVER_LEFT or _distance(reached) <= _distance(standing):
        return standing
    return reached


def _distance(standing: Standing) -> int:
    """How far along the way a delivery has come."""
    if standing in _WAY:
        return _WAY.index(standing)
    return next((place for place, (state, _) in enumerate(_WAY) if state == standing.state), 0)


def together(parts: Iterable[Standing]) -> Standing:
    """Where a notification stands, given its deliveries and what was decided about the legs that have none.

    Of parts in the same state, the reason of the first counts, which is that of the first leg.
    """
    return min(parts, key=lambda part: _PREVAILING.index(part.state), default=Standing("pending"))


def is_settled(standing: Standing) -> bool:
    """Whether nothing more is going to be tried."""
    return standing.state not in _UNSETTLED
