"""The statements of disputes and incidents: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from timebell.apps.marketplace.disputes.models import (
    Dispute,
    DisputeOption,
    Incident,
    Proposal,
    Resolution,
    Settlement,
)
from timebell.apps.marketplace.shifts.models import Shift
from timebell.apps.marketplace.shifts.store import plain
from timebell.db.queries import load_queries
from timebell.kernel import Statements, Transaction

Row = Mapping[str, Any]


class DisputeStore(Statements):
    """What is disputed and reported about shifts."""

    queries = load_queries("timebell.apps.marketplace.disputes.sql")

    async def insert_dispute(
        self,
        tx: Transaction,
        *,
        id: UUID,
        shift: Shift,
        option: DisputeOption,
        reason: str,
        filed_by: str,
        filed_at: datetime,
        timeout_at: datetime,
    ) -> None:
        await self._run(
            tx.session,
            "insert_dispute",
            tenant=tx.tenant,
            id=id,
            booking_id=shift.booking_id,
            time_log_id=shift.id,
            dispute_option=option,
            reason=reason,
            filed_by=filed_by,
            filed_at=filed_at,
            timeout_at=timeout_at,
        )

    async def read_dispute(self, tx: Transaction, *, id: UUID) -> Dispute | None:
        rows = await self._run(tx.session, "read_dispute", tenant=tx.tenant, id=id)
        return dispute_of(rows[0]) if rows else None

    async def list_disputes(self, tx: Transaction, **filters: object) -> Sequence[Row]:
        return await self._run(tx.session, "list_disputes", tenant=tx.tenant, **filters)

    async def list_untimed(self, tx: Transaction, *, kind: str, after: UUID | None, limit: int) -> list[UUID]:
        rows = await self._run(
            tx.session, "list_untimed", tenant=tx.tenant, kind=kind, after=after, limit=limit
        )
        return [row["id"] for row in rows]

    async def propose_settlement(self, tx: Transaction, *, id: UUID, proposals: Iterable[Proposal]) -> None:
        said = {
            one.side: {
                "lender": one.settlement.lender,
                "borrower": one.settlement.borrower,
                "proposed_by": one.proposed_by,
                "proposed_at": one.proposed_at.isoformat(),
            }
            for one in proposals
        }
        await self._run(
            tx.session, "propose_settlement", tenant=tx.tenant, id=id, proposals=orjson.dumps(said).decode()
        )

    async def resolve_dispute(
        self,
        tx: Transaction,
        *,
        id: UUID,
        status: Resolution,
        settlement: Settlement | None,
        resolved_by: str,
    ) -> None:
        said = None
        if settlement is not None:
            said = orjson.dumps({"lender": settlement.lender, "borrower": settlement.borrower}).decode()
        await self._run(
            tx.session,
            "resolve_dispute",
            tenant=tx.tenant,
            id=id,
            status=status,
            settlement=said,
            resolved_by=resolved_by,
        )

    async def note_timeout(self, tx: Transaction, *, id: UUID) -> None:
        await self._run(tx.session, "note_timeout", tenant=tx.tenant, id=id)

    async def insert_penalties(
        self, tx: Transaction, *, dispute_id: UUID, amounts: Mapping[UUID, int]
    ) -> None:
        await self._run(
            tx.session,
            "insert_penalties",
            tenant=tx.tenant,
            dispute_id=dispute_id,
            time_log_ids=list(amounts),
            amounts=list(amounts.values()),
        )

    async def insert_incident(
        self,
        tx: Transaction,
        *,
        id: UUID,
        shift: Shift,
        option: DisputeOption,
        description: str,
        reported_by: str,
    ) -> Incident:
        rows = await self._run(
            tx.session,
            "insert_incident",
            tenant=tx.tenant,
            id=id,
            booking_id=shift.booking_id,
            time_log_id=shift.id,
            dispute_option=option,
            description=description,
            reported_by=reported_by,
        )
        return incident_of(rows[0])

    async def read_incident(self, tx: Transaction, *, id: UUID) -> Incident | None:
        rows = await self._run(tx.session, "read_incident", tenant=tx.tenant, id=id)
        return incident_of(rows[0]) if rows else None

    async def close_incident(self, tx: Transaction, *, id: UUID) -> Incident | None:
        """None where it is not pending."""
        rows = await self._run(tx.session, "close_incident", tenant=tx.tenant, id=id)
        return incident_of(rows[0]) if rows else None

    async def list_incidents(self, tx: Transaction, **filters: object) -> Sequence[Row]:
        return await self._run(tx.session, "list_incidents", tenant=tx.tenant, **filters)


def dispute_of(row: Row) -> Dispute:
    values = plain(row)
    settlement, proposals = values["settlement"], orjson.loads(values["proposals"])
    values["settlement"] = None if settlement is None else Settlement(**orjson.loads(settlement))
    values["proposals"] = {
        side: Proposal(
            side=side,
            settlement=Settlement(lender=said["lender"], borrower=said["borrower"]),
            proposed_by=said["proposed_by"],
            proposed_at=datetime.fromisoformat(said["proposed_at"]),
        )
        for side, said in proposals.items()
    }
    return Dispute(**values)


def incident_of(row: Row) -> Incident:
    return Incident(**plain(row))
