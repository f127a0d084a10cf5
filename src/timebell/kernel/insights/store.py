"""The statements of the read model: one method for each file in `sql/` that reads for somebody to look at."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.kernel.paging import Listing
from timebell.kernel.statements import Statements


class InsightsStore(Statements):
    """Every read of `Insights`. Each says how many rows it may look at or answer with."""

    queries = load_queries("timebell.kernel.insights.sql")

    async def _list(self, session: Session, query_name: str, listing: Listing) -> Sequence[Row]:
        """Each list takes those fields of the listing that its index can answer for."""
        wanted = [name for name in self.queries[query_name].parameters if name != "now"]
        return await self._run(session, query_name, **{name: getattr(listing, name) for name in wanted})

    async def count_due(self, session: Session, *, slot_rows_max: int, rows_max: int) -> Sequence[Row]:
        return await self._run(session, "count_due", slot_rows_max=slot_rows_max, rows_max=rows_max)

    async def count_retrying(self, session: Session, *, rows_max: int) -> dict[str, int]:
        """By queue. Every slot and lane has the same share of the rows that are read."""
        share = max(1, rows_max // (256 * 2))
        rows = await self._run(session, "count_retrying", slot_rows_max=share, rows_max=rows_max)
        return {row["queue"]: row["retrying_count"] for row in rows}

    async def count_left(self, session: Session, *, slot_rows_max: int, kinds_max: int) -> Sequence[Row]:
        return await self._run(session, "count_left", slot_rows_max=slot_rows_max, kinds_max=kinds_max)

    async def count_future(self, session: Session, *, rows_max: int) -> Sequence[Row]:
        return await self._run(session, "count_future", rows_max=rows_max)

    async def count_unfinished(self, session: Session, *, tenant: str, rows_max: int) -> Sequence[Row]:
        return await self._run(session, "count_unfinished", tenant=tenant, rows_max=rows_max)

    async def estimate_jobs(self, session: Session, *, pages_max: int, rows_max: int) -> Sequence[Row]:
        """How the jobs are spread over the queues is looked at where there are more than `rows_max`."""
        return await self._run(session, "estimate_jobs", pages_max=pages_max, rows_max=rows_max)

    async def read_log_tail(self, session: Session, *, pages_max: int) -> dict[str, list[Any]]:
        """The columns that the reads of the log's end take."""
        days = await self._run(session, "read_log_tail", pages_max=pages_max)
        return {f"{name}s": [day[name] for day in days] for name in ("from_at", "until_at", "first_page")}

    async def read_lateness(
        self, session: Session, *, minutes: int, queue: str | None, rows_max: int, tail: dict[str, list[Any]]
    ) -> Row:
        rows = await self._run(
            session, "read_lateness", minutes=minutes, queue=queue, rows_max=rows_max, **tail
        )
        return rows[0]

    async def read_throughput(
        self, session: Session, *, minutes: int, tail: dict[str, list[Any]]
    ) -> Sequence[Row]:
        return await self._run(session, "read_throughput", minutes=minutes, **tail)

    async def read_last_logged(self, session: Session, *, tail: dict[str, list[Any]]) -> datetime | None:
        rows = await self._run(session, "read_last_logged", **tail)
        last_logged_at: datetime | None = rows[0]["last_logged_at"]
        return last_logged_at

    async def read_failures(self, session: Session, listing: Listing) -> Sequence[Row]:
        return await self._list(session, "read_failures", listing)

    async def list_dead(self, session: Session, listing: Listing) -> Sequence[Row]:
        return await self._list(session, "list_dead", listing)

    async def list_dead_alike(self, session: Session, listing: Listing) -> Sequence[Row]:
        return await self._list(session, "list_dead_alike", listing)

    async def list_dead_oldest(self, session: Session, listing: Listing) -> Sequence[Row]:
        return await self._list(session, "list_dead_oldest", listing)

    async def list_unfinished(self, session: Session, listing: Listing) -> Sequence[Row]:
        return await self._list(session, "list_unfinished", listing)

    async def list_unfinished_oldest(self, session: Session, listing: Listing) -> Sequence[Row]:
        return await self._list(session, "list_unfinished_oldest", listing)

    async def list_unfinished_of_subject(self, session: Session, listing: Listing) -> Sequence[Row]:
        return await self._list(session, "list_unfinished_of_subject", listing)

    async def list_unfinished_of_key(self, session: Session, listing: Listing) -> Sequence[Row]:
        return await self._list(session, "list_unfinished_of_key", listing)

    async def read_last_errors(
        self, session: Session, *, tenant: str, ids: Sequence[UUID]
    ) -> dict[UUID, Row]:
        rows = await self._run(session, "read_last_errors", tenant=tenant, ids=ids)
        return {row["id"]: row for row in rows}

    async def list_running(self, session: Session, listing: Listing) -> Sequence[Row]:
        return await self._list(session, "list_running", listing)

    async def list_finished(self, session: Session, listing: Listing) -> Sequence[Row]:
        return await self._list(session, "list_finished", listing)

    async def list_finished_oldest(self, session: Session, listing: Listing) -> Sequence[Row]:
        return await self._list(session, "list_finished_oldest", listing)

    async def list_finished_of_subject(self, session: Session, listing: Listing) -> Sequence[Row]:
        return await self._list(session, "list_finished_of_subject", listing)

    async def list_events(self, session: Session, listing: Listing) -> Sequence[Row]:
        return await self._list(session, "list_events", listing)

    async def list_events_oldest(self, session: Session, listing: Listing) -> Sequence[Row]:
        return await self._list(session, "list_events_oldest", listing)

    async def read_job(self, session: Session, *, tenant: str, id: UUID) -> Row | None:
        rows = await self._run(session, "read_job", tenant=tenant, id=id)
        return rows[0] if rows else None

    async def read_job_log(self, session: Session, *, tenant: str, id: UUID, rows_max: int) -> Sequence[Row]:
        return await self._run(session, "read_job_log", tenant=tenant, id=id, rows_max=rows_max)

    async def read_job_events(
        self,
        session: Session,
        *,
        tenant: str,
        correlation_id: str | None,
        subject: str | None,
        from_at: datetime | None,
        until_at: datetime | None,
        rows_max: int,
    ) -> Sequence[Row]:
        return await self._run(
            session,
            "read_job_events",
            tenant=tenant,
            correlation_id=correlation_id,
            subject=subject,
            from_at=from_at,
            until_at=until_at,
            rows_max=rows_max,
        )

    async def read_agenda_line(self, session: Session, *, tenant: str, subject: str) -> Row | None:
        rows = await self._run(session, "read_agenda_line", tenant=tenant, subject=subject)
        return rows[0] if rows else None

    async def list_queues(self, session: Session) -> Sequence[Row]:
        return await self._run(session, "list_queues")

    async def list_pauses(self, session: Session, *, tenant: str | None, rows_max: int) -> Sequence[Row]:
        return await self._run(session, "list_pauses", tenant=tenant, rows_max=rows_max)

    async def list_nodes(self, session: Session) -> Sequence[Row]:
        return await self._run(session, "list_nodes")

    async def list_breakers(self, session: Session, *, rows_max: int) -> Sequence[Row]:
        return await self._run(session, "list_breakers", rows_max=rows_max)

    async def count_dead(self, session: Session, *, rows_max: int) -> Sequence[Row]:
        return await self._run(session, "count_dead", rows_max=rows_max)

    async def list_timezones(self, session: Session, *, rows_max: int) -> Sequence[Row]:
        return await self._run(session, "list_timezones", rows_max=rows_max)

    async def list_parked_schedules(self, session: Session, *, rows_max: int) -> Sequence[Row]:
        return await self._run(session, "list_parked_schedules", rows_max=rows_max)

    async def read_oldest_due(self, session: Session) -> Row:
        return (await self._run(session, "read_oldest_due"))[0]

    async def read_pulse(self, session: Session) -> Row:
        return (await self._run(session, "read_pulse"))[0]

    async def read_unsealed(self, session: Session) -> float:
        rows = await self._run(session, "read_unsealed")
        return rows[0]["unsealed_seconds"] if rows else 0.0

    async def read_upkeep(self, session: Session) -> Row:
        return (await self._run(session, "read_upkeep"))[0]

    async def read_oldest_snapshot(self, session: Session) -> Row | None:
        rows = await self._run(session, "read_oldest_snapshot")
        return rows[0] if rows else None
