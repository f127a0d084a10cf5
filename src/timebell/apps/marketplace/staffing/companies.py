"""`Companies`: companies, who has which role in them, and their projects. Each verb takes part in the transaction that
it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.cycles import Cycles
from timebell.apps.marketplace.refusals import unknown_reference, wrong_field
from timebell.apps.marketplace.staffing.access import Access, check_operator
from timebell.apps.marketplace.staffing.models import Company, CompanyType, Member, Project, Role
from timebell.apps.marketplace.staffing.refusals import (
    no_company,
    no_member,
    no_project,
    too_many_members,
)
from timebell.apps.marketplace.staffing.rules import ROLES_OF
from timebell.apps.marketplace.staffing.store import StaffingStore, company_of, member_of, project_of
from timebell.kernel import Ids, Page, Timebell, Transaction, decode_cursor, page_of
from timebell.notify import Notify
from timebell.rules.localtime import zone

# So many roles there are in one company, at most.
MEMBERS_MAX: Final = 500
# Of so many companies the projects of one person are looked for.
_COMPANIES_MAX: Final = 500
_ADMINS: Final[Mapping[CompanyType, Role]] = {"borrower": "borrower_admin", "lender": "lender_admin"}


class Companies:
    """Made with an admin key; changed with one, or by an admin of the company."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._bell = bell
        self._notify = notify
        self._access = Access(bell)
        self._cycles = Cycles(bell)
        self._store = StaffingStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def add(self, tx: Transaction, columns: Mapping[str, Any], *, by: By) -> Company:
        check_operator(by)
        id = self._ids.new()
        await self._store.insert_company(tx, id=id, **columns)
        await self._record(tx, "company.added", id, by, {"name": columns["name"], "type": columns["type"]})
        return await self._read(tx, id)

    async def get(self, tx: Transaction, id: UUID, *, by: By) -> Company:
        company = await self._read(tx, id)
        await self._access.check_company(tx, id, by)
        return company

    async def list(self, tx: Transaction, *, by: By, limit: int, cursor: str | None) -> Page[Company]:
        """Those that somebody is a member of; to the operator all."""
        after = decode_cursor("companies", cursor).id
        if by.person is None:
            rows = await self._store.list_companies(tx, after=after, limit=limit)
        else:
            rows = await self._store.list_companies_of_person(tx, person=by.person, after=after, limit=limit)
        return page_of("companies", rows, limit, company_of)

    async def change(self, tx: Transaction, id: UUID, columns: Mapping[str, Any], *, by: By) -> Company:
        """None leaves something as it is."""
        await self.administered(tx, id, by=by)
        await self._store.update_company(tx, id=id, **columns)
        changed = sorted(name for name, value in columns.items() if value is not None)
        await self._record(tx, "company.changed", id, by, {"changed": changed})
        return await self._read(tx, id)

    async def administered(self, tx: Transaction, id: UUID, *, by: By) -> Company:
        """The company, for somebody who may decide about it."""
        company = await self._read(tx, id)
        await self._access.check_company(tx, id, by, _ADMINS[company.type])
        return company

    async def add_member(
        self, tx: Transaction, id: UUID, recipient_id: UUID, role: Role, *, by: By
    ) -> Member:
        """A role that somebody has already they keep."""
        company = await self.administered(tx, id, by=by)
        if role not in ROLES_OF[company.type]:
            fitting = ", ".join(sorted(ROLES_OF[company.type]))
            raise wrong_field("role", f"a {company.type} has no {role}; give one of {fitting}")
        if not await self._notify.recipients.hold(tx, [recipient_id]):
            raise unknown_reference("recipient_id", "recipient", recipient_id)
        if await self._store.insert_member(tx, company_id=id, recipient_id=recipient_id, role=role):
            if await self._store.count_members(tx, company_id=id, limit=MEMBERS_MAX + 1) > MEMBERS_MAX:
                raise too_many_members(MEMBERS_MAX)
            data = {"recipient_id": str(recipient_id), "role": role}
            await self._record(tx, "company_member.added", id, by, data)
        roles = await self._access.roles_in(tx, id, By(person=recipient_id))
        return Member(recipient_id=recipient_id, roles=sorted(roles))

    async def remove_member(
        self, tx: Transaction, id: UUID, recipient_id: UUID, role: Role | None, *, by: By
    ) -> None:
        """Take one role from somebody, or all. What they had a part in goes on without them."""
        await self.administered(tx, id, by=by)
        had = await self._store.delete_member(tx, company_id=id, recipient_id=recipient_id, role=role)
        if not had:
            raise no_member(recipient_id, id)
        data = {"recipient_id": str(recipient_id), "roles": sorted(had)}
        await self._record(tx, "company_member.removed", id, by, data)

    async def list_members(
        self, tx: Transaction, id: UUID, *, by: By, limit: int, cursor: str | None
    ) -> Page[Member]:
        company = await self._read(tx, id)
        await self._access.check_company(tx, id, by, *sorted(ROLES_OF[company.type] - {"worker"}))
        after = decode_cursor("members", cursor).id
        rows = await self._store.list_members(tx, company_id=id, after=after, limit=limit)
        return page_of("members", rows, limit, member_of)

    async def add_project(
        self, tx: Transaction, company_id: UUID, name: str, timezone: str, *, by: By
    ) -> Project:
        """A place to work at. By its clock everything about its bookings is counted."""
        zone(timezone)
        company = await self.administered(tx, company_id, by=by)
        if company.type != "borrower":
            raise wrong_field("company_id", f"{company_id} lends workers; give a company that borrows them")
        id = self._ids.new()
        await self._store.insert_project(tx, id=id, company_id=company_id, name=name, timezone=timezone)
        data = {"project_id": str(id), "name": name, "timezone": timezone}
        await self._record(tx, "project.added", company_id, by, data)
        await self._cycles.ensure(tx, timezone, by=by)
        return await self._project(tx, id)

    async def get_project(self, tx: Transaction, id: UUID, *, by: By) -> Project:
        project = await self._project(tx, id)
        if not by.is_operator and not await self._access.roles_in(tx, project.company_id, by):
            raise no_project(id)
        return project

    async def list_projects(
        self, tx: Transaction, *, company_id: UUID | None, by: By, limit: int, cursor: str | None
    ) -> Page[Project]:
        """Those of one company, or of all that somebody is a member of; to the operator all."""
        after = decode_cursor("projects", cursor).id
        if company_id is not None:
            await self.get(tx, company_id, by=by)
        if company_id is None and by.person is None:
            rows = await self._store.list_projects(tx, after=after, limit=limit)
        else:
            ids = [company_id] if company_id is not None else await self._companies_of(tx, by)
            rows = await self._store.list_projects_of_companies(tx, company_ids=ids, after=after, limit=limit)
        return page_of("projects", rows, limit, project_of)

    async def _companies_of(self, tx: Transaction, by: By) -> Sequence[UUID]:
        assert by.person is not None
        return await self._store.read_company_ids(tx, person=by.person, limit=_COMPANIES_MAX)

    async def _read(self, tx: Transaction, id: UUID) -> Company:
        company = await self._store.read_company(tx, id=id)
        if company is None:
            raise no_company(id)
        return company

    async def _project(self, tx: Transaction, id: UUID) -> Project:
        project = await self._store.read_project(tx, id=id)
        if project is None:
            raise no_project(id)
        return project

    async def _record(
        self, tx: Transaction, event: str, company: UUID, by: By, data: Mapping[str, Any]
    ) -> None:
        await self._bell.record(
            tx, event, data, subject=f"company:{company}", actor=by.name, correlation_id=by.correlation_id
        )
