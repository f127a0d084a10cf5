"""Events: the audit trail, its seals, and following it in an order that never changes."""

from timebell.kernel.events.audit import UNSEALED_SECONDS_MAX, Audit, Break, Verdict
from timebell.kernel.events.following import EventPlace, FollowedEvent, Following

__all__ = [
    "UNSEALED_SECONDS_MAX",
    "Audit",
    "Break",
    "EventPlace",
    "FollowedEvent",
    "Following",
    "Verdict",
]
