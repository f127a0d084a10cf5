"""Companies, their members and their projects."""

from __future__ import annotations

from typing import Any, Final

from timebell.apps.marketplace.calls import by_caller
from timebell.apps.marketplace.staffing.bodies import (
    CompanyChange,
    CompanyInput,
    CompanyRow,
    MemberInput,
    MemberQuery,
    MemberRow,
    ProjectInput,
    ProjectRow,
    ProjectsQuery,
    columns_of,
)
from timebell.apps.marketplace.staffing.companies import Companies
from timebell.apps.marketplace.staffing.refusals import CODES
from timebell.web import Answer, Call, Listed, PageQuery, Route, listed

_TAG: Final = "marketplace"
_BASE: Final = "/api/marketplace"


async def add_company(call: Call, *, body: CompanyInput) -> CompanyRow:
    """With an admin key."""
    company = await _companies(call).add(call.tx, columns_of(body), by=by_caller(call))
    return CompanyRow.model_validate(company)


async def list_companies(call: Call, *, query: PageQuery) -> object:
    """Those that the acting recipient is a member of; to an admin key all."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await _companies(call).list(tx, by=by_caller(call), limit=query.limit, cursor=query.cursor)
    return listed(page, CompanyRow.model_validate)


async def get_company(call: Call) -> CompanyRow:
    """For its members."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        company = await _companies(call).get(tx, call.path["id"], by=by_caller(call))
    return CompanyRow.model_validate(company)


async def change_company(call: Call, *, body: CompanyChange) -> CompanyRow:
    """Its name, and what the payment provider knows it by."""
    company = await _companies(call).change(call.tx, call.path["id"], columns_of(body), by=by_caller(call))
    return CompanyRow.model_validate(company)


async def add_company_member(call: Call, *, body: MemberInput) -> MemberRow:
    """One more role for somebody. Answers with all that they have there."""
    member = await _companies(call).add_member(
        call.tx, call.path["id"], body.recipient_id, body.role, by=by_caller(call)
    )
    return MemberRow.model_validate(member)


async def list_company_members(call: Call, *, query: PageQuery) -> object:
    """Who has which roles in a company."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await _companies(call).list_members(
            tx, call.path["id"], by=by_caller(call), limit=query.limit, cursor=query.cursor
        )
    return listed(page, MemberRow.model_validate)


async def remove_company_member(call: Call, *, query: MemberQuery) -> Answer:
    """Takes a role away, or all."""
    await _companies(call).remove_member(
        call.tx, call.path["id"], call.path["recipient_id"], query.role, by=by_caller(call)
    )
    return Answer(content=None, status=204)


async def add_project(call: Call, *, body: ProjectInput) -> ProjectRow:
    """Of a company that borrows. By the clock of its timezone everything about its bookings is counted."""
    project = await _companies(call).add_project(
        call.tx, body.company_id, body.name, body.timezone, by=by_caller(call)
    )
    return ProjectRow.model_validate(project)


async def list_projects(call: Call, *, query: ProjectsQuery) -> object:
    """Those of a company, or of all that the acting recipient is a member of; to an admin key all."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await _companies(call).list_projects(
            tx, company_id=query.company_id, by=by_caller(call), limit=query.limit, cursor=query.cursor
        )
    return listed(page, ProjectRow.model_validate)


async def get_project(call: Call) -> ProjectRow:
    """For the members of its company."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        project = await _companies(call).get_project(tx, call.path["id"], by=by_caller(call))
    return ProjectRow.model_validate(project)


def _companies(call: Call) -> Companies:
    return Companies(call.bell, call.notify)


def _route(method: Any, path: str, run: Any, summary: str, **more: Any) -> Route:
    changes = {"scope": "write", "idempotency": "optional", "problems": _REFUSED, "codes": CODES}
    return Route(
        method=method,
        path=f"{_BASE}/{path}",
        run=run,
        summary=summary,
        tag=_TAG,
        acts_for="either",
        **{**({} if method == "GET" else changes), **more},
    )


_ID: Final = "0199a3c2-0000-7000-8000-000000000001"
_REFUSED: Final = {403: "the acting recipient has no role that may do this"}
_NO_COMPANY: Final = {404: "there is no such company, or it is not yours"}

ROUTES: Final = (
    _route(
        "POST",
        "companies",
        add_company,
        "Add a company",
        status=201,
        body=CompanyInput,
        answer=CompanyRow,
        example={"name": "Builders Ltd", "type": "borrower"},
    ),
    _route("GET", "companies", list_companies, "List companies", query=PageQuery, answer=Listed[CompanyRow]),
    _route("GET", "companies/{id}", get_company, "Read a company", answer=CompanyRow),
    _route(
        "PATCH",
        "companies/{id}",
        change_company,
        "Change a company",
        body=CompanyChange,
        answer=CompanyRow,
        example={"payment_account": "acct_1"},
    ),
    _route(
        "POST",
        "companies/{id}/members",
        add_company_member,
        "Add a member",
        status=201,
        body=MemberInput,
        answer=MemberRow,
        example={"recipient_id": _ID, "role": "borrower_admin"},
    ),
    _route(
        "GET",
        "companies/{id}/members",
        list_company_members,
        "List the members of a company",
        query=PageQuery,
        answer=Listed[MemberRow],
    ),
    _route(
        "DELETE",
        "companies/{id}/members/{recipient_id}",
        remove_company_member,
        "Remove a member",
        status=204,
        query=MemberQuery,
    ),
    _route(
        "POST",
        "projects",
        add_project,
        "Add a project",
        status=201,
        body=ProjectInput,
        answer=ProjectRow,
        example={"company_id": _ID, "name": "The new harbour", "timezone": "Europe/Berlin"},
        problems={**_REFUSED, **_NO_COMPANY},
    ),
    _route(
        "GET",
        "projects",
        list_projects,
        "List projects",
        query=ProjectsQuery,
        answer=Listed[ProjectRow],
        problems=_NO_COMPANY,
    ),
    _route("GET", "projects/{id}", get_project, "Read a project", answer=ProjectRow),
)
