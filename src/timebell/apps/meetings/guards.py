"""Guards: questions that are asked just before somebody is reminded."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from timebell.apps.meetings.models import id_of
from timebell.apps.meetings.store import MeetingStore
from timebell.kernel import Job

IS_ON: Final = "meetings.is_on"


async def is_on(job: Job) -> bool:
    """Whether the meeting takes place, and at the time that the reminder speaks of."""
    assert job.subject is not None, "every reminder is about a meeting"
    async with job.bell.transaction(tenant=job.tenant) as tx:
        meeting = await MeetingStore(job.bell.clock).read_meeting(tx, id=id_of(job.subject))
    if meeting is None or meeting.status != "accepted" or meeting.accepted_slot is None:
        return False
    return meeting.accepted_slot.start == datetime.fromisoformat(job.payload["starts_at"])
