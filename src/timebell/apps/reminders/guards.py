"""Guards: questions that are asked just before somebody is reminded."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from timebell.apps.reminders.tasks import Tasks
from timebell.kernel import Job

IS_OPEN: Final = "reminders.is_open"


async def is_open(job: Job) -> bool:
    """Whether the task is still to be done; nobody wants to hear of one that is."""
    async with job.bell.transaction(tenant=job.tenant) as tx:
        return not await Tasks(job.bell).is_completed(tx, UUID(job.payload["occurrence_id"]))
