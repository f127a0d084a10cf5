"""Workers, and the search for them."""

from __future__ import annotations

from typing import Any, Final

from timebell.apps.marketplace.calls import by_caller
from timebell.apps.marketplace.staffing.bodies import (
    WorkerChange,
    WorkerInput,
    WorkerRow,
    WorkersQuery,
    WorkerStateInput,
    columns_of,
)
from timebell.apps.marketplace.staffing.refusals import CODES
from timebell.apps.marketplace.staffing.workers import Workers
from timebell.web import Call, Listed, Route, listed

_TAG: Final = "marketplace"
_PATH: Final = "/api/marketplace/workers"


async def add_worker(call: Call, *, body: WorkerInput) -> WorkerRow:
    """Of a company that lends. Nobody finds them until they are `Listed`."""
    columns = columns_of(body, "company_id", "recipient_id")
    worker = await _workers(call).add(
        call.tx, body.company_id, body.recipient_id, columns, by=by_caller(call)
    )
    return WorkerRow.model_validate(worker)


async def search_workers(call: Call, *, query: WorkersQuery) -> object:
    """Whom one can book: by their zip where a trade is asked for, else the longest known first. What is not asked for
    does not count."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await _workers(call).search(
            tx, query.wanted(), by=by_caller(call), limit=query.limit, cursor=query.cursor
        )
    return listed(page, WorkerRow.model_validate)


async def get_worker(call: Call) -> WorkerRow:
    """One who is listed everybody sees, any other the worker and members of their company."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        worker = await _workers(call).get(tx, call.path["id"], by=by_caller(call))
    return WorkerRow.model_validate(worker)


async def change_worker(call: Call, *, body: WorkerChange) -> WorkerRow:
    """What the search finds them by. Bookings keep the rate that they were made with."""
    worker = await _workers(call).change(call.tx, call.path["id"], columns_of(body), by=by_caller(call))
    return WorkerRow.model_validate(worker)


async def set_worker_state(call: Call, *, body: WorkerStateInput) -> WorkerRow:
    """Whether the search finds them. Bookings that they have stay."""
    worker = await _workers(call).change(call.tx, call.path["id"], {"state": body.state}, by=by_caller(call))
    return WorkerRow.model_validate(worker)


def _workers(call: Call) -> Workers:
    return Workers(call.bell, call.notify)


_REFUSED: Final = {403: "the acting recipient has no role that may do this"}
_CHANGING: Final[dict[str, Any]] = {
    "tag": _TAG,
    "scope": "write",
    "acts_for": "either",
    "answer": WorkerRow,
    "idempotency": "optional",
    "problems": _REFUSED,
    "codes": CODES,
}

ROUTES: Final = (
    Route(
        method="POST",
        path=_PATH,
        run=add_worker,
        summary="Add a worker",
        status=201,
        body=WorkerInput,
        example={
            "recipient_id": "0199a3c2-0000-7000-8000-000000000001",
            "company_id": "0199a3c2-0000-7000-8000-000000000002",
            "trade": "carpenter",
            "zip": "10115",
            "skills": ["roofs"],
            "hourly_rate": 2500,
        },
        **{
            **_CHANGING,
            "problems": {
                **_REFUSED,
                404: "there is no such company, or it is not yours",
                409: "they are a worker already (`worker_exists`)",
            },
        },
    ),
    Route(
        method="GET",
        path=_PATH,
        run=search_workers,
        summary="Search workers",
        tag=_TAG,
        acts_for="either",
        query=WorkersQuery,
        answer=Listed[WorkerRow],
    ),
    Route(
        method="GET",
        path=f"{_PATH}/{{id}}",
        run=get_worker,
        summary="Read a worker",
        tag=_TAG,
        acts_for="either",
        answer=WorkerRow,
    ),
    Route(
        method="PATCH",
        path=f"{_PATH}/{{id}}",
        run=change_worker,
        summary="Change a worker",
        body=WorkerChange,
        example={"skills": ["roofs", "stairs"]},
        **_CHANGING,
    ),
    Route(
        method="PUT",
        path=f"{_PATH}/{{id}}/state",
        run=set_worker_state,
        summary="List a worker, or do not",
        body=WorkerStateInput,
        example={"state": "Listed"},
        **_CHANGING,
    ),
)
