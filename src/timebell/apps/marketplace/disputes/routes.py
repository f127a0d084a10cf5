"""`/api/marketplace/disputes` and `/incidents`: what is wrong with a shift, and what happened in one."""

from __future__ import annotations

from typing import Final

from timebell.apps.marketplace.calls import by_caller
from timebell.apps.marketplace.disputes.bodies import (
    DisputeInput,
    DisputeRow,
    DisputesQuery,
    IncidentInput,
    IncidentRow,
    IncidentsQuery,
    ResolveInput,
    dispute_row,
    incident_row,
)
from timebell.apps.marketplace.disputes.models import Settlement
from timebell.apps.marketplace.disputes.refusals import CODES
from timebell.apps.marketplace.disputes.resolving import Resolving
from timebell.apps.marketplace.disputes.service import DISPUTERS, Disputes
from timebell.apps.marketplace.shifts.service import VERIFIERS, Shifts
from timebell.apps.marketplace.staffing.refusals import CODES as STAFFING_CODES
from timebell.web import Call, Listed, Route, listed

_TAG: Final = "marketplace"
_NOT_ALLOWED: Final = {"not_allowed": STAFFING_CODES["not_allowed"]}


async def file_dispute(call: Call, *, body: DisputeInput) -> DisputeRow:
    """The timesheet is disputed before it is approved. What is held for the shift is frozen; option B also ends the
    booking."""
    by = by_caller(call)
    held = await Shifts(call.bell).hold(call.tx, body.time_log_id, *DISPUTERS, by=by)
    return dispute_row(await Disputes(call.bell).file(call.tx, held, body.option, body.reason, by=by))


async def resolve_dispute(call: Call, *, body: ResolveInput) -> DisputeRow:
    """An admin proposes a settlement, and the dispute is `Settled` when those of the other side propose the same. An
    admin key alone settles it, resolves it, or has the law hold what is frozen."""
    said = body.settlement
    settlement = None if said is None else Settlement(lender=said.lender, borrower=said.borrower)
    dispute = await Resolving(call.bell).resolve(
        call.tx, call.path["id"], body.status, settlement, by=by_caller(call)
    )
    return dispute_row(dispute)


async def get_dispute(call: Call) -> DisputeRow:
    """One dispute, for whoever has a part in its booking."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return dispute_row(await Disputes(call.bell).get(tx, call.path["id"], by=by_caller(call)))


async def list_disputes(call: Call, *, query: DisputesQuery) -> object:
    """The disputes of a booking, the oldest first."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await Disputes(call.bell).list(
            tx,
            query.booking_id,
            status=query.status,
            limit=query.limit,
            cursor=query.cursor,
            by=by_caller(call),
        )
    return listed(page, dispute_row)


async def report_incident(call: Call, *, body: IncidentInput) -> IncidentRow:
    """Something happened in a shift. Until the report is closed, the booking's payments are paused."""
    by = by_caller(call)
    held = await Shifts(call.bell).hold(call.tx, body.time_log_id, *VERIFIERS, by=by)
    return incident_row(await Disputes(call.bell).report(call.tx, held, body.option, body.description, by=by))


async def close_incident(call: Call) -> IncidentRow:
    """Nothing is left to do about it."""
    return incident_row(await Disputes(call.bell).close(call.tx, call.path["id"], by=by_caller(call)))


async def get_incident(call: Call) -> IncidentRow:
    """One report, for whoever has a part in its booking."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return incident_row(await Disputes(call.bell).get_incident(tx, call.path["id"], by=by_caller(call)))


async def list_incidents(call: Call, *, query: IncidentsQuery) -> object:
    """What was reported about a booking, the oldest first."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await Disputes(call.bell).list_incidents(
            tx,
            query.booking_id,
            status=query.status,
            limit=query.limit,
            cursor=query.cursor,
            by=by_caller(call),
        )
    return listed(page, incident_row)


_SHIFT: Final = "0199a3c2-0000-7000-8000-000000000001"
_REFUSED: Final = {403: "the acting recipient has no role that may do this"}
_NO_SHIFT: Final = {404: "there is no such time log, or it is not yours"}
_NO_BOOKING: Final = {404: "there is no such booking, or it is not yours"}

ROUTES: Final = (
    Route(
        method="POST",
        path="/api/marketplace/disputes",
        run=file_dispute,
        summary="File a dispute",
        tag=_TAG,
        status=201,
        scope="write",
        acts_for="either",
        body=DisputeInput,
        answer=DisputeRow,
        idempotency="required",
        example={"time_log_id": _SHIFT, "option": "A", "reason": "Two hours were not worked"},
        problems={**_REFUSED, **_NO_SHIFT, 409: "it was verified before, or its time is over"},
        codes={**_NOT_ALLOWED, "dispute_too_late": CODES["dispute_too_late"]},
    ),
    Route(
        method="GET",
        path="/api/marketplace/disputes",
        run=list_disputes,
        summary="List the disputes of a booking",
        tag=_TAG,
        acts_for="either",
        query=DisputesQuery,
        answer=Listed[DisputeRow],
        problems=_NO_BOOKING,
    ),
    Route(
        method="GET",
        path="/api/marketplace/disputes/{id}",
        run=get_dispute,
        summary="Read a dispute",
        tag=_TAG,
        acts_for="either",
        answer=DisputeRow,
    ),
    Route(
        method="POST",
        path="/api/marketplace/disputes/{id}/resolve",
        run=resolve_dispute,
        summary="Resolve a dispute",
        tag=_TAG,
        scope="write",
        acts_for="either",
        body=ResolveInput,
        answer=DisputeRow,
        idempotency="required",
        example={"status": "Settled", "settlement": {"lender": 15_000, "borrower": 5_000}},
        problems={**_REFUSED, 409: "it is resolved already"},
        codes={**_NOT_ALLOWED, "dispute_status": CODES["dispute_status"]},
    ),
    Route(
        method="POST",
        path="/api/marketplace/incidents",
        run=report_incident,
        summary="Report an incident",
        tag=_TAG,
        status=201,
        scope="write",
        acts_for="either",
        body=IncidentInput,
        answer=IncidentRow,
        idempotency="required",
        example={"time_log_id": _SHIFT, "option": "A", "description": "A ladder broke"},
        problems={**_REFUSED, **_NO_SHIFT},
        codes=_NOT_ALLOWED,
    ),
    Route(
        method="GET",
        path="/api/marketplace/incidents",
        run=list_incidents,
        summary="List the incidents of a booking",
        tag=_TAG,
        acts_for="either",
        query=IncidentsQuery,
        answer=Listed[IncidentRow],
        problems=_NO_BOOKING,
    ),
    Route(
        method="GET",
        path="/api/marketplace/incidents/{id}",
        run=get_incident,
        summary="Read an incident",
        tag=_TAG,
        acts_for="either",
        answer=IncidentRow,
    ),
    Route(
        method="POST",
        path="/api/marketplace/incidents/{id}/close",
        run=close_incident,
        summary="Close an incident",
        tag=_TAG,
        scope="write",
        acts_for="either",
        answer=IncidentRow,
        idempotency="required",
        problems={**_REFUSED, 409: "it was closed before"},
        codes={**_NOT_ALLOWED, "incident_closed": CODES["incident_closed"]},
    ),
)
