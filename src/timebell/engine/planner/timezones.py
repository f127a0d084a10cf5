"""Brings newer timezone data to the schedules that were planned with older ones."""

from __future__ import annotations

from uuid import UUID

from timebell.db.pool import Database, Session
from timebell.engine.planner.planner_store import PlannerStore
from timebell.kernel.schedules import fingerprint
from timebell.logs import Logger
from timebell.rules.localtime import TIMEZONE_VERSION

log = Logger("timebell.planner")

_SCHEDULES_MAX = 1_000
_FIRST = UUID(int=0)


class TimezoneWatch:
    """Compares the data of this process with those that the plans stand on.

    Where ours are newer, the others stop planning first; then the schedules of every timezone that really changed are
    marked, a bounded number at a time, and the planner plans them anew. Where ours are older, we do not plan.
    """

    def __init__(self, database: Database, store: PlannerStore) -> None:
        self._database = database
        self._store = store
        self._after: dict[str, UUID] = {}
        self.is_behind = False

    async def tick(self) -> bool:
        """One bounded look; answers whether there is more to do at once."""
        async with self._database.connection() as session:
            rows = await self._store.read_timezones(session)
            newest = max((row["version"] for row in rows), default=TIMEZONE_VERSION)
            self._note(newest)
            if self.is_behind:
                return False
            if any(row["version"] < TIMEZONE_VERSION for row in rows):
                await self._store.raise_timezones(session)
            for row in rows:
                timezone: str = row["timezone"]
                if row["sha256"] != fingerprint(timezone) and await self._mark(session, timezone):
                    return True
        return False

    def _note(self, newest: str) -> None:
        was_behind, self.is_behind = self.is_behind, newest > TIMEZONE_VERSION
        if self.is_behind and not was_behind:
            log.warning(
                "this node does not plan: its timezone data are older than those that others plan with; "
                "upgrade the package tzdata",
                ours=TIMEZONE_VERSION,
                newest=newest,
            )

    async def _mark(self, session: Session, timezone: str) -> bool:
        """Mark the next schedules of a timezone; answers whether there are more."""
        looked_at = await self._store.mark_schedules(
            session, timezone=timezone, after=self._after.get(timezone, _FIRST), limit=_SCHEDULES_MAX
        )
        if looked_at["looked_at_count"] >= _SCHEDULES_MAX:
            self._after[timezone] = looked_at["last_id"]
            return True
        self._after.pop(timezone, None)
        await self._store.settle_timezone(session, timezone=timezone, sha256=fingerprint(timezone))
        log.info("the data of a timezone changed", timezone=timezone, version=TIMEZONE_VERSION)
        return False
