"""Who is told what about a meeting: what each notice and each reminder speaks of. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from timebell.apps.meetings.guards import IS_ON
from timebell.apps.meetings.models import Meeting, MeetingSettings, Slot
from timebell.apps.meetings.rules import Plan, Reminder, lead_of
from timebell.apps.meetings.templates import REMINDER
from timebell.kernel import AgendaDiff, NamedStepOptions
from timebell.notify import Route, Tell

# Told in the inbox whatever happens, and besides as the person prefers.
ROUTE: Final = Route(first="preferred", also=("inbox",))
# What comes so shortly before the start is of no use after quiet hours.
_CANNOT_WAIT: Final = 60

Asked = tuple[Tell, NamedStepOptions]


def notices(
    template: str,
    meeting: Meeting,
    recipients: Sequence[UUID],
    *,
    who: str | None = None,
    reason: str | None = None,
    correlation_id: str | None = None,
) -> list[Tell]:
    """The same for each of them. Its type in the inbox is the template's name, such as `meeting_accepted`."""
    type = f"meeting_{template.rpartition('.')[2]}"
    context = {
        **_about(meeting),
        "slots": [_shown(each) for each in meeting.proposed_slots],
        "type": type,
        "who": who,
        "reason": reason,
        "data": {**_data(meeting), "status": meeting.status},
    }
    return [
        Tell(
            recipient=recipient,
            template=template,
            context=context,
            channels=ROUTE,
            subject=meeting.subject,
            correlation_id=correlation_id,
        )
        for recipient in recipients
    ]


def reminders(meeting: Meeting, plan: Plan, settings: MeetingSettings) -> list[Asked]:
    """What each reminder of a plan tells, and the step that it is. None is told once the meeting has begun."""
    slot = plan.slot
    if slot is None:
        return []
    context = _about(meeting)
    return [
        (
            Tell(
                recipient=reminder.recipient,
                template=REMINDER,
                context={**context, **_told(meeting, reminder)},
                channels=ROUTE,
                urgency="time_bound" if reminder.minutes <= _CANNOT_WAIT else "normal",
                expires_at=slot.start,
                guard=IS_ON,
                attempts_max=settings.reminder_attempts_max,
            ),
            {"key": reminder.key, "offset": timedelta(minutes=-reminder.minutes), "late": "skip"},
        )
        for reminder in plan.reminders
    ]


def past_reminders(diff: AgendaDiff) -> list[dict[str, str]]:
    """Reminders that would have been due before, which nobody gets: told late they would say what is not so."""
    return [
        {"reminder_type": type, "recipient_id": recipient, "reason": "past"}
        for type, _, recipient in (change.key.partition(":") for change in diff.skipped)
    ]


def _told(meeting: Meeting, reminder: Reminder) -> dict[str, Any]:
    return {
        "type": "meeting_reminder",
        "lead": lead_of(reminder.minutes),
        "data": {**_data(meeting), "reminder_type": reminder.type, "offset_minutes": reminder.minutes},
    }


def _about(meeting: Meeting) -> dict[str, Any]:
    slot = meeting.accepted_slot
    return {
        "title": meeting.title,
        "location": meeting.location,
        "starts_at": None if slot is None else slot.start.isoformat(),
        "ends_at": None if slot is None else slot.end.isoformat(),
    }


def _data(meeting: Meeting) -> dict[str, Any]:
    """What goes along for programs."""
    slot = meeting.accepted_slot
    return {
        "meeting_id": str(meeting.id),
        "title": meeting.title,
        "timezone": meeting.timezone,
        "slot": None if slot is None else _shown(slot),
    }


def _shown(slot: Slot) -> dict[str, str]:
    return {"start": slot.start.isoformat(), "end": slot.end.isoformat()}
