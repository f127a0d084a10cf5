"""`/api/marketplace/policies`: insurances of companies."""

from __future__ import annotations

from typing import Any, Final

from timebell.apps.marketplace.calls import by_caller
from timebell.apps.marketplace.insurance.bodies import (
    Invalidation,
    PoliciesQuery,
    PolicyInput,
    PolicyRow,
    Renewal,
    policy_row,
)
from timebell.apps.marketplace.insurance.refusals import CODES
from timebell.apps.marketplace.insurance.service import Policies
from timebell.apps.marketplace.staffing.refusals import CODES as STAFFING_CODES
from timebell.web import Call, Listed, Route, listed

_PATH: Final = "/api/marketplace/policies"
_NOT_ALLOWED: Final = {"not_allowed": STAFFING_CODES["not_allowed"]}
_REFUSED: Final = {403: "the acting recipient is no admin of the company"}


async def add_insurance(call: Call, *, body: PolicyInput) -> PolicyRow:
    """For an admin of the company. From 14 days before its end people are warned; what the end of another of its type
    has stopped goes on."""
    policy = await _policies(call).add(
        call.tx, body.company_id, body.type, body.expiration_date, by=by_caller(call)
    )
    return policy_row(policy)


async def list_insurances(call: Call, *, query: PoliciesQuery) -> object:
    """Those of a company, or of all that the acting recipient is a member of; to an admin key all."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await _policies(call).list(
            tx,
            company_id=query.company_id,
            is_active=query.is_active,
            by=by_caller(call),
            limit=query.limit,
            cursor=query.cursor,
        )
    return listed(page, policy_row)


async def get_insurance(call: Call) -> PolicyRow:
    """For the members of its company, but those who are lent."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return policy_row(await _policies(call).get(tx, call.path["id"], by=by_caller(call)))


async def renew_insurance(call: Call, *, body: Renewal) -> PolicyRow:
    """Valid through another date, for an admin of the company. What its end has stopped goes on, unless something is
    disputed about it."""
    policy = await _policies(call).renew(call.tx, call.path["id"], body.expiration_date, by=by_caller(call))
    return policy_row(policy)


async def invalidate_insurance(call: Call, *, body: Invalidation) -> PolicyRow:
    """Not valid any more, for an admin of the company. Work stops at once, and everybody is told."""
    policy = await _policies(call).invalidate(call.tx, call.path["id"], body.reason, by=by_caller(call))
    return policy_row(policy)


def _policies(call: Call) -> Policies:
    return Policies(call.bell, call.notify)


def _route(method: Any, path: str, run: Any, summary: str, **more: Any) -> Route:
    changes = {"scope": "write", "idempotency": "required", "problems": _REFUSED, "codes": _NOT_ALLOWED}
    return Route(
        method=method,
        path=path,
        run=run,
        summary=summary,
        tag="marketplace",
        acts_for="either",
        **{**({} if method == "GET" else changes), **more},
    )


_NO_COMPANY: Final = {404: "there is no such company, or it is not yours"}
_ID: Final = "0199a3c2-0000-7000-8000-000000000001"

ROUTES: Final = (
    _route(
        "POST",
        _PATH,
        add_insurance,
        "Add an insurance",
        status=201,
        body=PolicyInput,
        answer=PolicyRow,
        idempotency="optional",
        plans=True,
        example={"company_id": _ID, "type": "liability", "expiration_date": "2027-12-31"},
        problems={**_REFUSED, **_NO_COMPANY},
    ),
    _route(
        "GET",
        _PATH,
        list_insurances,
        "List insurances",
        query=PoliciesQuery,
        answer=Listed[PolicyRow],
        problems=_NO_COMPANY,
    ),
    _route("GET", f"{_PATH}/{{id}}", get_insurance, "Read an insurance", answer=PolicyRow),
    _route(
        "POST",
        f"{_PATH}/{{id}}/renew",
        renew_insurance,
        "Renew an insurance",
        body=Renewal,
        answer=PolicyRow,
        example={"expiration_date": "2028-12-31"},
    ),
    _route(
        "POST",
        f"{_PATH}/{{id}}/invalidate",
        invalidate_insurance,
        "Invalidate an insurance",
        body=Invalidation,
        answer=PolicyRow,
        example={"reason": "The insurer has cancelled it"},
        problems={**_REFUSED, 409: "it is not valid already"},
        codes={**_NOT_ALLOWED, **CODES},
    ),
)
