"""When the window of a digest closes: a recurrence, in the timezone of whoever is told."""

from __future__ import annotations

from datetime import UTC, datetime

from timebell.errors import RecurrenceError
from timebell.rules.recurrence import occurrences

# A Monday, so that what counts in weeks has one to count from. It is long past for every window that is ever asked for.
_FIRST_LOCAL = datetime(2024, 1, 1)  # noqa: DTZ001


def closing_after(closes: str, timezone: str, after: datetime) -> datetime:
    """The first closing after an instant, as an instant."""
    closings = occurrences(closes, start_local=_FIRST_LOCAL, timezone=timezone, after=after, limit=1)
    if not closings:
        raise RecurrenceError(
            part=closes,
            reason="it never comes again",
            remedy="give one without an end",
            field="digest.closes",
        )
    return closings[0].at.astimezone(UTC)


def check_closes(closes: str) -> None:
    """Refuse a window that could not be planned: one that is no recurrence, or that ends."""
    try:
        closing_after(closes, "UTC", datetime(9000, 1, 1, tzinfo=UTC))
    except RecurrenceError as error:
        raise RecurrenceError(
            part=error.part, reason=error.reason, remedy=error.remedy, field="digest.closes"
        ) from None
