"""What is asked just before somebody is reminded, or told of something that may not be so any more."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from timebell.apps.meetings.models import Meeting, id_of
from timebell.apps.meetings.rules import OPEN
from timebell.apps.meetings.store import MeetingStore
from timebell.kernel import Job

IS_ON: Final = "meetings.is_on"
IS_ASKED: Final = "meetings.is_asked"
IS_AGREED: Final = "meetings.is_agreed"
TAKES_PART: Final = "meetings.takes_part"
TAKES_NO_PART: Final = "meetings.takes_no_part"


async def is_on(job: Job) -> bool:
    """Whether the meeting takes place, and at the time that the reminder speaks of."""
    meeting = await _meeting_of(job)
    if meeting is None or meeting.status != "accepted" or meeting.accepted_slot is None:
        return False
    return meeting.accepted_slot.start == datetime.fromisoformat(job.payload["starts_at"])


async def is_asked(job: Job) -> bool:
    """Whether the person can still answer the proposal."""
    meeting = await _meeting_of(job)
    return meeting is not None and meeting.status == "pending" and _has(meeting, job)


async def is_agreed(job: Job) -> bool:
    """Whether the meeting is still on for the person, or has taken place, of which nobody is told anything else."""
    meeting = await _meeting_of(job)
    return meeting is not None and meeting.status in ("accepted", "completed") and _has(meeting, job)


async def takes_part(job: Job) -> bool:
    """Whether the person who was added was not removed since, nor the meeting called off."""
    meeting = await _meeting_of(job)
    return meeting is not None and meeting.status in {*OPEN, "completed"} and _has(meeting, job)


async def takes_no_part(job: Job) -> bool:
    """Whether the person who was removed was not added again."""
    meeting = await _meeting_of(job)
    return meeting is not None and not _has(meeting, job)


GUARDS: Final = {
    IS_ON: is_on,
    IS_ASKED: is_asked,
    IS_AGREED: is_agreed,
    TAKES_PART: takes_part,
    TAKES_NO_PART: takes_no_part,
}


async def _meeting_of(job: Job) -> Meeting | None:
    assert job.subject is not None, "whatever is told is about a meeting"
    async with job.bell.transaction(tenant=job.tenant) as tx:
        return await MeetingStore(job.bell.clock).read_meeting(tx, id=id_of(job.subject))


def _has(meeting: Meeting, job: Job) -> bool:
    return UUID(job.payload["recipient"]) in meeting.participants
