"""Single jobs that arrive together are written by one statement, in one transaction for each tenant."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from timebell.db.failures import CONNECTION_ERRORS
from timebell.db.together import Together
from timebell.db.walls import walled_to
from timebell.kernel import Enqueue, Enqueued, Timebell
from timebell.web.access.quotas import Quotas

_TENANTS_MAX: Final = 10_000


class JobsTogether:
    """One at a time for each caller, many at a time for the database. A job that is refused is refused alone."""

    def __init__(self, bell: Timebell, quotas: Quotas) -> None:
        self._bell = bell
        self._quotas = quotas
        self._tenants: OrderedDict[str, Together[Enqueue, Enqueued]] = OrderedDict()

    async def enqueue(self, tenant: str, job: Enqueue) -> Enqueued:
        together = self._tenants.get(tenant)
        if together is None:

            async def write(jobs: Sequence[Enqueue]) -> Sequence[Enqueued]:
                with walled_to(tenant):
                    async with self._bell.transaction(tenant=tenant) as tx:
                        written = await self._bell.enqueue_many(tx, jobs)
                        self._quotas.take(tenant, tx.counted or {})
                        return written

            # A commit whose answer was lost may have happened, and each caller decides about asking again.
            together = self._tenants[tenant] = Together(write, unsure=CONNECTION_ERRORS)
            if len(self._tenants) > _TENANTS_MAX:
                self._tenants.popitem(last=False)
        return await together(job)
