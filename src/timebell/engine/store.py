"""The engine's statements: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from uuid import UUID

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.engine.limits.pace import STRETCH
from timebell.engine.node.vitals import UNTOLD, Vitals
from timebell.kernel.statements import Columns, Statements
from timebell.rules.sharing import PERMITS_OUTLIVE_SECONDS
from timebell.rules.suspicion import ALONE_FROM, CRASHES_MAX, STARTS_MAX, UNPROVEN_STARTS_MAX

# Whoever acts on slots of its own alone need not say that it visits none.
_NO_VISITS: dict[str, object] = {"visited_slots": [], "visited_epochs": []}
_BETWEEN = "\x1f"
NOTHING_IN_USE: Mapping[str, int] = MappingProxyType({})


def kinds_as_text(kinds: Iterable[str]) -> str:
    """Many names in one text, as the statements take them that ask for other kinds in each slot."""
    return f"{_BETWEEN}{_BETWEEN.join(sorted(kinds))}{_BETWEEN}"


class EngineStore(Statements):
    """Every statement that the loops send. Whoever writes jobs says who it is and which epochs it acts under."""

    queries = load_queries("timebell.engine.sql")

    async def register_node(
        self,
        session: Session,
        *,
        node: str,
        version: str,
        lease_seconds: float,
        kinds: Sequence[str],
        survived: Sequence[int] = (),
        in_use: Mapping[str, int] = NOTHING_IN_USE,
    ) -> int:
        rows = await self._run(
            session,
            "register_node",
            node=node,
            version=version,
            lease_seconds=lease_seconds,
            survived=list(survived),
            kinds=list(kinds),
            **_permits(in_use),
        )
        incarnation: int = rows[0]["incarnation"]
        return incarnation

    async def renew_node(
        self, session: Session, *, incarnation: int, lease_seconds: float, vitals: Vitals = UNTOLD
    ) -> bool:
        rows = await self._run(
            session,
            "renew_node",
            incarnation=incarnation,
            lease_seconds=lease_seconds,
            passed_seconds=vitals.passed_seconds,
            planned_seconds=vitals.planned_seconds,
            held=list(vitals.held),
            own_now=vitals.own_now,
        )
        return bool(rows)

    async def bury_nodes(
        self, session: Session, *, incarnation: int, is_alone: bool, frozen: list[int]
    ) -> list[int]:
        rows = await self._run(
            session,
            "bury_nodes",
            incarnation=incarnation,
            is_alone=is_alone,
            frozen=frozen,
            grace_seconds=PERMITS_OUTLIVE_SECONDS,
        )
        return [row["incarnation"] for row in rows]

    async def read_nodes(self, session: Session, *, known: Sequence[int]) -> Sequence[Row]:
        return await self._run(session, "read_nodes", known=list(known))

    async def read_slots(self, session: Session) -> Sequence[Row]:
        return await self._run(session, "read_slots")

    async def take_slots(self, session: Session, *, incarnation: int, slots: Sequence[int]) -> Sequence[Row]:
        return await self._run(session, "take_slots", incarnation=incarnation, slots=list(slots))

    async def release_slots(self, session: Session, *, incarnation: int, slots: Sequence[int]) -> list[int]:
        rows = await self._run(session, "release_slots", incarnation=incarnation, slots=list(slots))
        return [row["slot"] for row in rows]

    async def leave_node(
        self, session: Session, *, incarnation: int, in_use: Mapping[str, int] = NOTHING_IN_USE
    ) -> None:
        await self._run(
            session,
            "leave_node",
            incarnation=incarnation,
            grace_seconds=PERMITS_OUTLIVE_SECONDS,
            **_permits(in_use),
        )

    async def read_due(
        self,
        session: Session,
        *,
        positions: Sequence[tuple[int, int, datetime, UUID]],
        until: datetime,
        per_slot: int,
        tenant: str | None = None,
        queue: str | None = None,
        passed_over: Sequence[tuple[str, str]] = (),
        visited_kinds: Sequence[str | None] = (),
        left_kinds: Sequence[str] = (),
    ) -> Sequence[Row]:
        return await self._run(
            session,
            "read_due",
            passed_over=[f"{tenant}\x1f{queue}" for tenant, queue in passed_over] or None,
            slots=[slot for slot, _, _, _ in positions],
            lanes=[lane for _, lane, _, _ in positions],
            from_ats=[at for _, _, at, _ in positions],
            from_ids=[id for _, _, _, id in positions],
            until=until,
            per_slot=per_slot,
            tenant=tenant,
            queue=queue,
            visited_kinds=list(visited_kinds) or None,
            left_kinds=list(left_kinds) or None,
        )

    async def read_next_due(self, session: Session, *, after: datetime) -> Sequence[Row]:
        return await self._run(session, "read_next_due", after=after)

    async def read_payload(self, session: Session, *, id: UUID, version: int) -> Row | None:
        rows = await self._run(session, "read_payload", id=id, version=version)
        return rows[0] if rows else None

    async def start_jobs(
        self, session: Session, *, ids: list[UUID], version: int, fence: Mapping[str, object]
    ) -> Sequence[UUID]:
        rows = await self._run(
            session,
            "start_jobs",
            ids=ids,
            version=version,
            **(_NO_VISITS | dict(fence)),
        )
        started: Sequence[UUID] | None = rows[0]["started"]
        return ids if started is None else started

    async def lock_agenda_row(self, session: Session, *, tenant: str, subject: str) -> None:
        await self._run(session, "lock_agenda_row", tenant=tenant, subject=subject)

    async def lock_job(
        self, session: Session, *, id: UUID, version: int, epoch: int, incarnation: int
    ) -> Row | None:
        rows = await self._run(
            session, "lock_job", id=id, version=version, epoch=epoch, incarnation=incarnation
        )
        return rows[0] if rows else None

    async def finish_jobs(
        self,
        session: Session,
        *,
        ids: list[UUID],
        version: int,
        started_ats: list[datetime | None],
        fence: Mapping[str, object],
    ) -> Sequence[UUID]:
        # Many began together and end together, and every member of an array costs the driver: an instant is sent once
        # for as long as it stays the same.
        firsts = [
            position
            for position, at in enumerate(started_ats)
            if position == 0 or at != started_ats[position - 1]
        ]
        rows = await self._run(
            session,
            "finish_jobs",
            ids=ids,
            version=version,
            firsts=[position + 1 for position in firsts],
            started_ats=[started_ats[position] for position in firsts],
            **fence,
        )
        finished: Sequence[UUID] | None = rows[0]["finished"]
        return ids if finished is None else finished

    async def end_jobs(self, session: Session, *, columns: Columns, fence: Mapping[str, object]) -> set[UUID]:
        rows = await self._run(session, "end_jobs", **columns, **(_NO_VISITS | dict(fence)))
        return {row["id"] for row in rows}

    async def retry_jobs(
        self, session: Session, *, columns: Columns, fence: Mapping[str, object]
    ) -> Sequence[Row]:
        return await self._run(session, "retry_jobs", **columns, **(_NO_VISITS | dict(fence)))

    async def recover_jobs(
        self,
        session: Session,
        *,
        ids: list[UUID],
        are_marked: list[bool],
        slots: list[int],
        epochs: list[int],
        incarnation: int,
        is_blind: bool,
    ) -> Sequence[Row]:
        return await self._run(
            session,
            "recover_jobs",
            ids=ids,
            are_marked=are_marked,
            slots=slots,
            epochs=epochs,
            incarnation=incarnation,
            is_blind=is_blind,
            alone_from=ALONE_FROM,
            crashes_max=CRASHES_MAX,
            starts_max=STARTS_MAX,
            unproven_starts_max=UNPROVEN_STARTS_MAX,
        )

    async def acquit(self, session: Session, *, ids: list[UUID]) -> None:
        await self._run(session, "acquit", ids=ids)

    async def give_back_jobs(
        self,
        session: Session,
        *,
        ids: list[UUID],
        versions: list[int],
        incarnation: int,
    ) -> set[UUID]:
        rows = await self._run(
            session,
            "give_back_jobs",
            ids=ids,
            versions=versions,
            incarnation=incarnation,
        )
        return {row["id"] for row in rows}

    async def carry_out_cancels(self, session: Session, *, limit: int) -> Sequence[Row]:
        return await self._run(session, "carry_out_cancels", limit=limit)

    async def read_cancel_request(self, session: Session, *, id: UUID) -> bool:
        return bool(await self._run(session, "read_cancel_request", id=id))

    async def lock_free_jobs(self, session: Session, *, ids: list[UUID]) -> set[UUID]:
        return {row["id"] for row in await self._run(session, "lock_free_jobs", ids=ids)}

    async def beat_job(
        self, session: Session, *, id: UUID, version: int, incarnation: int, cursor: str | None
    ) -> Row | None:
        rows = await self._run(
            session, "beat_job", id=id, version=version, incarnation=incarnation, cursor=cursor
        )
        return rows[0] if rows else None

    async def park_jobs(self, session: Session, *, ids: list[UUID], fence: Mapping[str, object]) -> set[UUID]:
        rows = await self._run(session, "park_jobs", ids=ids, **(_NO_VISITS | dict(fence)))
        return {row["id"] for row in rows}

    async def unpark_jobs(
        self,
        session: Session,
        *,
        slots: Sequence[int],
        limit: int,
        per_slot: int | None = None,
        held: Sequence[str] = (),
        visited_kinds: Sequence[str | None] = (),
        left_kinds: Sequence[str] = (),
    ) -> Sequence[Row]:
        """What is in queues that the node itself holds stays where it is; and so does what others run."""
        return await self._run(
            session,
            "unpark_jobs",
            slots=list(slots),
            held=list(held),
            visited_kinds=list(visited_kinds),
            left_kinds=list(left_kinds),
            per_slot=per_slot or limit,
            limit=limit,
        )

    async def read_pauses(self, session: Session) -> set[tuple[str, str]]:
        return {(row["queue"], row["tenant"]) for row in await self._run(session, "read_pauses")}

    async def read_limits(self, session: Session) -> Sequence[Row]:
        return await self._run(session, "read_limits")

    async def lease_starts(self, session: Session, *, queue: str, wanted: int, window_us: int) -> Row | None:
        rows = await self._run(
            session, "lease_starts", queue=queue, wanted=wanted, window_us=window_us, stretch=STRETCH
        )
        return rows[0] if rows else None

    async def lock_permits(self, session: Session, *, queue: str) -> int | None:
        """The limit of the queue, locked until the transaction ends; None where it has none any more."""
        rows = await self._run(session, "lock_permits", queue=queue)
        return rows[0]["concurrency"] if rows else None

    async def read_permits(self, session: Session, *, queue: str) -> Sequence[Row]:
        return await self._run(session, "read_permits", queue=queue)

    async def write_permits(
        self, session: Session, *, queue: str, incarnation: int, held: int, wanted: int
    ) -> None:
        await self._run(
            session, "write_permits", queue=queue, incarnation=incarnation, held=held, wanted=wanted
        )

    async def read_breakers(self, session: Session, *, limit: int) -> Sequence[Row]:
        return await self._run(session, "read_breakers", limit=limit)

    async def open_breaker(
        self,
        session: Session,
        *,
        destination: str,
        failure_count: int,
        open_seconds: float,
        open_until: datetime,
    ) -> None:
        await self._run(
            session,
            "open_breaker",
            destination=destination,
            failure_count=failure_count,
            open_seconds=open_seconds,
            open_until=open_until,
        )

    async def claim_probe(self, session: Session, *, destination: str, incarnation: int) -> datetime | None:
        rows = await self._run(session, "claim_probe", destination=destination, incarnation=incarnation)
        return rows[0]["open_until"] if rows else None

    async def close_breaker(self, session: Session, *, destination: str) -> None:
        await self._run(session, "close_breaker", destination=destination)

    async def ensure_log_partitions(self, session: Session, *, days_ahead: int) -> int:
        made: int = (await self._run(session, "ensure_log_partitions", days_ahead=days_ahead))[0]["made"]
        return made

    async def drop_log_partition(self, session: Session, *, days: int) -> str | None:
        dropped: str | None = (await self._run(session, "drop_log_partition", days=days))[0]["dropped"]
        return dropped

    async def prune_breakers(self, session: Session, *, limit: int) -> int:
        rows = await self._run(session, "prune_breakers", limit=limit)
        count: int = rows[0]["count"]
        return count

    async def prune_dead_jobs(self, session: Session, *, days: int, limit: int) -> int:
        return len(await self._run(session, "prune_dead_jobs", days=days, limit=limit))

    async def prune_keys(self, session: Session, *, limit: int) -> int:
        return len(await self._run(session, "prune_keys", limit=limit))

    async def prune_agendas(
        self, session: Session, *, days: int, after: tuple[datetime, str, str], limit: int
    ) -> Row | None:
        """Answers with how many were looked at and where the look ended; not all of them were old enough to go."""
        updated_at, tenant, subject = after
        rows = await self._run(
            session,
            "prune_agendas",
            days=days,
            after=updated_at,
            after_tenant=tenant,
            after_subject=subject,
            limit=limit,
        )
        return rows[0] if rows else None

    async def prune_occurrences(
        self, session: Session, *, days: int, after: tuple[datetime, UUID], limit: int
    ) -> Row | None:
        """Answers as `prune_agendas` does."""
        occurs_at, id = after
        rows = await self._run(
            session, "prune_occurrences", days=days, after=occurs_at, after_id=id, limit=limit
        )
        return rows[0] if rows else None


def _permits(in_use: Mapping[str, int]) -> dict[str, object]:
    return {"queues": list(in_use.keys()), "in_use": list(in_use.values())}
