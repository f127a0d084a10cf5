"""What the planner's tests share: an app that notes what it is asked to do and when, and a look at the tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from tests.engine.support import Owner
from timebell.kernel import App, Handler, Job, Step, Timebell
from timebell.kernel.schedules.models import ScheduleChange

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
DUE = Step(key="due", kind="t.remind", offset=timedelta(0))
BERLIN = ZoneInfo("Europe/Berlin")


class Diary:
    """What the handler was called for: when, which step, and the payload."""

    def __init__(self) -> None:
        self.clock: Any = None
        self.lines: list[tuple[datetime, str, dict[str, Any]]] = []

    def app(self) -> App:
        async def remind(job: Job) -> None:
            self.lines.append((self.clock.now, job.step or "", dict(job.payload)))

        return App(name="t", handlers={"t.remind": Handler(run=remind, mode="transactional")})

    @property
    def instants(self) -> list[datetime]:
        return [at for at, _, _ in self.lines]

    @property
    def originals(self) -> list[str]:
        """The occurrences that something was done about, by name, in the order of the doing."""
        return [payload["original_local"] for _, _, payload in self.lines]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


def wall(*parts: int) -> datetime:
    return datetime(*parts)  # type: ignore[arg-type]


async def schedule(bell: Timebell, *, tenant: str = "default", **terms: Any) -> ScheduleChange:
    terms = {"timezone": "UTC", "steps": [DUE], **terms}
    async with bell.transaction(tenant=tenant) as tx:
        return await bell.schedules.create(tx, **terms)


async def occurrences(owner: Owner, id: UUID | None = None) -> list[dict[str, Any]]:
    return await owner.rows(
        "SELECT * FROM timebell.occurrences WHERE $1::uuid IS NULL OR schedule_id = $1 ORDER BY occurs_at, id",
        id,
    )


async def row_of(owner: Owner, id: UUID) -> dict[str, Any]:
    return (await owner.rows("SELECT * FROM timebell.schedules WHERE id = $1", id))[0]


async def forget(owner: Owner, id: UUID) -> None:
    """As if nobody had planned a schedule yet: its cursor is back at its beginning, and it is due for planning."""
    await owner.connection.execute(
        "UPDATE timebell.schedules SET planned_until = created_at, plan_at = created_at WHERE id = $1", id
    )
