"""The statements of staffing: one method for each file in `sql/`, of the same name. Bookings have their own store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from timebell.apps.marketplace.models import MarketplaceSettings, PayoutTrigger, PenaltyPolicy
from timebell.apps.marketplace.staffing.models import Company, Member, Project, Role, Worker, WorkerFilter
from timebell.db.queries import load_queries
from timebell.kernel import Statements, Transaction

Row = Mapping[str, Any]


class StaffingStore(Statements):
    """Companies, their members, projects and workers, and what a tenant has decided."""

    queries = load_queries("timebell.apps.marketplace.staffing.sql")

    async def read_clock(self, tx: Transaction) -> datetime:
        now: datetime = (await self._run(tx.session, "read_clock"))[0]["now"]
        return now.astimezone(UTC)

    async def read_settings(self, tx: Transaction) -> MarketplaceSettings:
        rows = await self._run(tx.session, "read_settings", tenant=tx.tenant)
        return settings_of(rows[0]) if rows else MarketplaceSettings()

    async def insert_settings(self, tx: Transaction) -> None:
        """The defaults become a row, where there is none."""
        defaults = MarketplaceSettings()
        await self._run(
            tx.session,
            "insert_settings",
            tenant=tx.tenant,
            payout_trigger=defaults.payout_trigger,
            max_extensions=defaults.max_extensions,
            hold_until_disputes_resolved=defaults.hold_until_disputes_resolved,
        )

    async def update_settings(
        self,
        tx: Transaction,
        *,
        payout_trigger: PayoutTrigger | None = None,
        max_extensions: int | None = None,
        penalty_policy: Mapping[str, int] | None = None,
        hold_until_disputes_resolved: bool | None = None,
    ) -> MarketplaceSettings:
        """None leaves something as it is, and so does what the policy does not name."""
        rows = await self._run(
            tx.session,
            "update_settings",
            tenant=tx.tenant,
            payout_trigger=payout_trigger,
            max_extensions=max_extensions,
            penalty_policy=orjson.dumps(penalty_policy or {}).decode(),
            hold_until_disputes_resolved=hold_until_disputes_resolved,
        )
        return settings_of(rows[0])

    async def insert_company(self, tx: Transaction, *, id: UUID, **columns: object) -> None:
        await self._run(tx.session, "insert_company", tenant=tx.tenant, id=id, **columns)

    async def read_company(self, tx: Transaction, *, id: UUID) -> Company | None:
        rows = await self._run(tx.session, "read_company", tenant=tx.tenant, id=id)
        return company_of(rows[0]) if rows else None

    async def update_company(self, tx: Transaction, *, id: UUID, **columns: object) -> None:
        """None leaves something as it is."""
        await self._run(tx.session, "update_company", tenant=tx.tenant, id=id, **columns)

    async def list_companies(self, tx: Transaction, *, after: UUID | None, limit: int) -> Sequence[Row]:
        return await self._run(tx.session, "list_companies", tenant=tx.tenant, after=after, limit=limit)

    async def list_companies_of_person(
        self, tx: Transaction, *, person: UUID, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "list_companies_of_person",
            tenant=tx.tenant,
            person=person,
            after=after,
            limit=limit,
        )

    async def insert_member(
        self, tx: Transaction, *, company_id: UUID, recipient_id: UUID, role: Role
    ) -> bool:
        """Whether they had that role not yet."""
        rows = await self._run(
            tx.session,
            "insert_member",
            tenant=tx.tenant,
            company_id=company_id,
            recipient_id=recipient_id,
            role=role,
        )
        return bool(rows)

    async def delete_member(
        self, tx: Transaction, *, company_id: UUID, recipient_id: UUID, role: Role | None
    ) -> list[Role]:
        """The roles that they had."""
        rows = await self._run(
            tx.session,
            "delete_member",
            tenant=tx.tenant,
            company_id=company_id,
            recipient_id=recipient_id,
            role=role,
        )
        return [row["role"] for row in rows]

    async def list_members(
        self, tx: Transaction, *, company_id: UUID, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session, "list_members", tenant=tx.tenant, company_id=company_id, after=after, limit=limit
        )

    async def count_members(self, tx: Transaction, *, company_id: UUID, limit: int) -> int:
        rows = await self._run(
            tx.session, "count_members", tenant=tx.tenant, company_id=company_id, limit=limit
        )
        count: int = rows[0]["count"]
        return count

    async def read_company_ids(self, tx: Transaction, *, person: UUID, limit: int) -> list[UUID]:
        rows = await self._run(tx.session, "read_company_ids", tenant=tx.tenant, person=person, limit=limit)
        return [row["company_id"] for row in rows]

    async def insert_project(
        self, tx: Transaction, *, id: UUID, company_id: UUID, name: str, timezone: str
    ) -> None:
        await self._run(
            tx.session,
            "insert_project",
            tenant=tx.tenant,
            id=id,
            company_id=company_id,
            name=name,
            timezone=timezone,
        )

    async def read_project(self, tx: Transaction, *, id: UUID) -> Project | None:
        rows = await self._run(tx.session, "read_project", tenant=tx.tenant, id=id)
        return project_of(rows[0]) if rows else None

    async def list_projects(self, tx: Transaction, *, after: UUID | None, limit: int) -> Sequence[Row]:
        return await self._run(tx.session, "list_projects", tenant=tx.tenant, after=after, limit=limit)

    async def list_projects_of_companies(
        self, tx: Transaction, *, company_ids: Sequence[UUID], after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "list_projects_of_companies",
            tenant=tx.tenant,
            company_ids=list(company_ids),
            after=after,
            limit=limit,
        )

    async def insert_worker(self, tx: Transaction, *, id: UUID, **columns: object) -> bool:
        """Whether that person was no worker yet."""
        return bool(await self._run(tx.session, "insert_worker", tenant=tx.tenant, id=id, **columns))

    async def read_worker(self, tx: Transaction, *, id: UUID) -> Worker | None:
        rows = await self._run(tx.session, "read_worker", tenant=tx.tenant, id=id)
        return worker_of(rows[0]) if rows else None

    async def lock_worker(self, tx: Transaction, *, id: UUID) -> bool:
        return bool(await self._run(tx.session, "lock_worker", tenant=tx.tenant, id=id))

    async def update_worker(self, tx: Transaction, *, id: UUID, **columns: object) -> None:
        """None leaves something as it is, and so does leaving it out."""
        names = ("state", "trade", "zip", "skills", "hourly_rate")
        await self._run(
            tx.session, "update_worker", tenant=tx.tenant, id=id, **{**dict.fromkeys(names), **columns}
        )

    async def read_listed_at(self, tx: Transaction, *, id: UUID) -> datetime:
        """When somebody was listed last; they were."""
        at: datetime = (await self._run(tx.session, "read_listed_at", tenant=tx.tenant, id=id))[0][
            "listed_at"
        ]
        return at.astimezone(UTC)

    async def search_workers(
        self, tx: Transaction, wanted: WorkerFilter, *, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "search_workers",
            tenant=tx.tenant,
            trade=wanted.trade,
            after=after,
            limit=limit,
            **_filters(wanted),
        )

    async def list_workers(
        self, tx: Transaction, wanted: WorkerFilter, *, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "list_workers",
            tenant=tx.tenant,
            trade=wanted.trade,
            state=wanted.state,
            after=after,
            limit=limit,
            **_filters(wanted),
        )

    async def list_company_workers(
        self, tx: Transaction, wanted: WorkerFilter, *, after: UUID | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            tx.session,
            "list_company_workers",
            tenant=tx.tenant,
            company_id=wanted.company_id,
            trade=wanted.trade,
            state=wanted.state,
            after=after,
            limit=limit,
            **_filters(wanted),
        )


def settings_of(row: Row) -> MarketplaceSettings:
    policy = PenaltyPolicy(**orjson.loads(row["penalty_policy"]))
    return MarketplaceSettings(**{**row, "penalty_policy": policy})


def company_of(row: Row) -> Company:
    return Company(**{name: utc(row[name]) for name in Company.__dataclass_fields__})


def member_of(row: Row) -> Member:
    return Member(recipient_id=row["id"], roles=tuple(row["roles"]))


def project_of(row: Row) -> Project:
    return Project(**{name: utc(row[name]) for name in Project.__dataclass_fields__})


def worker_of(row: Row) -> Worker:
    plain = {name: utc(row[name]) for name in Worker.__dataclass_fields__}
    return Worker(**{**plain, "skills": tuple(row["skills"])})


def utc(value: Any) -> Any:
    """A driver may answer in its connection's zone."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _filters(wanted: WorkerFilter) -> dict[str, Any]:
    return {
        "zip_from": wanted.zip_from,
        "zip_to": wanted.zip_to,
        "skills": list(wanted.skills),
        "rate_max": wanted.rate_max,
        "since": wanted.since,
        "before": wanted.before,
    }
