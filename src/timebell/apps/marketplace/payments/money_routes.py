"""Money over HTTP: the ledger of a booking, payments, the simulator, and what a payment provider reports."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from timebell.apps.marketplace.calls import by_caller
from timebell.apps.marketplace.payments.bodies import (
    EntryRow,
    LedgerQuery,
    LedgerRow,
    PaymentRow,
    PaymentsQuery,
    SimulatorCallRow,
    SimulatorInput,
    SimulatorRow,
    TakenRow,
    orders_row,
)
from timebell.apps.marketplace.payments.building import is_simulated, provider_of
from timebell.apps.marketplace.payments.ledger import Ledger
from timebell.apps.marketplace.payments.ledger_store import LedgerStore
from timebell.apps.marketplace.payments.provider import Refused
from timebell.apps.marketplace.payments.reports import Reports
from timebell.apps.marketplace.payments.simulator_store import SimulatorStore
from timebell.apps.marketplace.staffing.access import Access
from timebell.apps.marketplace.staffing.refusals import CODES
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.errors import ConfigurationError, NotFound, UnverifiedReport
from timebell.web import (
    Call,
    Listed,
    PageQuery,
    Route,
    Surface,
    decode_cursor,
    listed,
    page_of,
    read_bytes,
    walled_to,
)

_TAG: Final = "marketplace"
_PATH: Final = "/api/marketplace"
_LOOKED_AT_MAX: Final = 2_000
_REPORT_BYTES_MAX: Final = 262_144


async def get_booking_ledger(call: Call, *, query: LedgerQuery) -> object:
    """The double entries of a booking in the order of their writing, and where its money is; with `at`, where it was
    then. For members of both companies, the worker and the supervisor."""
    ledger = Ledger(call.bell)
    async with call.bell.transaction(tenant=call.tenant) as tx:
        booking = await Bookings(call.bell).get(tx, call.path["id"])
        await Access(call.bell).check(tx, booking, by_caller(call))
        page = await ledger.entries(tx, booking.id, limit=query.limit, cursor=query.cursor, at=query.at)
        balance = await ledger.balance(tx, booking.id, at=query.at)
    return LedgerRow(
        entries=[EntryRow.model_validate(entry) for entry in page.lines],
        charged=balance.charged,
        held=balance.held,
        released=balance.released,
        refunded=balance.refunded,
        frozen=balance.frozen,
        next_cursor=page.next_cursor,
        has_more=page.next_cursor is not None,
    )


async def list_payments(call: Call, *, query: PaymentsQuery) -> object:
    """Payments of bookings that the acting recipient has a part in, the oldest first; to an admin key all."""
    by = by_caller(call)
    async with call.bell.transaction(tenant=call.tenant) as tx:
        if query.booking_id is not None:
            booking = await Bookings(call.bell).get(tx, query.booking_id)
            await Access(call.bell).check(tx, booking, by)
        rows = await LedgerStore(call.bell.clock).list_payments(
            tx,
            booking_id=query.booking_id,
            status=query.status,
            person=by.person,
            after=decode_cursor("payments", query.cursor).id,
            limit=query.limit,
            look_max=_LOOKED_AT_MAX,
        )
    return listed(page_of("payments", rows, query.limit, dict), PaymentRow.model_validate)


async def set_simulator(call: Call, *, body: SimulatorInput) -> object:
    """Tell the simulator what to do with the charges of this tenant, and what is to go wrong. Only where no money is
    meant: in demo mode and in a sandbox."""
    _check_simulated(call)
    orders = body.orders()
    await SimulatorStore(call.bell.clock).write_simulator(call.tx, orders)
    return orders_row(orders)


async def list_simulator_calls(call: Call, *, query: PageQuery) -> object:
    """Every call of the simulator for this tenant, the oldest first."""
    _check_simulated(call)
    after = decode_cursor("simulator_calls", query.cursor, dated=True)
    async with call.bell.transaction(tenant=call.tenant) as tx:
        rows = await SimulatorStore(call.bell.clock).list_calls(
            tx, after=after.id, after_at=after.at, limit=query.limit
        )
    return listed(
        page_of("simulator_calls", rows, query.limit, dict, at="at"), SimulatorCallRow.model_validate
    )


async def take_payment_report(surface: Surface, request: Request) -> Response:
    """What the payment provider tells of charges. The signature is checked on the bytes that came; what is reported is
    kept under the provider's own id for it when this is answered, once, and a node applies it."""
    raw = await read_bytes(request, _REPORT_BYTES_MAX)
    try:
        provider = provider_of(surface.bell)
        report = provider.read_report(raw, request.headers)
    except ConfigurationError as error:
        raise NotFound("no payment provider is set up here") from error
    except Refused as error:
        raise UnverifiedReport(error.reason) from None
    is_taken = False
    if report is not None:
        with walled_to(report.tenant):
            async with surface.bell.transaction(tenant=report.tenant) as tx:
                is_taken = await Reports(surface.bell).take(tx, provider.name, report)
    return Response(TakenRow(taken=is_taken).model_dump_json(), media_type="application/json")


def _check_simulated(call: Call) -> None:
    if not is_simulated(call.bell):
        raise NotFound("there is no simulator here; it is there in demo mode and in a sandbox")


_ENTRY: Final[dict[str, Any]] = {
    "id": "0199a3c2-0000-7000-8000-000000000005",
    "at": "2027-03-03T10:00:02Z",
    "type": "charge",
    "amount": 100000,
    "currency": "EUR",
    "time_log_id": None,
    "dispute_id": None,
    "payment_id": "0199a3c2-0000-7000-8000-000000000006",
    "provider_ref": "pi_3Q",
}

ROUTES: Final = (
    Route(
        method="GET",
        path=f"{_PATH}/bookings/{{id}}/ledger",
        run=get_booking_ledger,
        summary="Read where the money of a booking is",
        tag=_TAG,
        acts_for="either",
        query=LedgerQuery,
        answer=LedgerRow,
        example={
            "entries": [_ENTRY],
            "charged": 100000,
            "held": 100000,
            "released": 0,
            "refunded": 0,
            "frozen": 0,
            "next_cursor": None,
            "has_more": False,
        },
        codes=CODES,
    ),
    Route(
        method="GET",
        path=f"{_PATH}/payments",
        run=list_payments,
        summary="List payments",
        tag=_TAG,
        acts_for="either",
        query=PaymentsQuery,
        answer=Listed[PaymentRow],
        problems={404: "there is no such booking, or it is not yours"},
        codes=CODES,
    ),
    Route(
        method="PUT",
        path=f"{_PATH}/simulator",
        run=set_simulator,
        summary="Tell the payment simulator what to do",
        tag=_TAG,
        scope="write",
        acts_for="noted",
        body=SimulatorInput,
        answer=SimulatorRow,
        idempotency="optional",
        example={"outcome": "succeed", "webhook_after": "PT3H"},
        problems={404: "Money is meant here: it is neither demo mode nor a sandbox."},
    ),
    Route(
        method="GET",
        path=f"{_PATH}/simulator/calls",
        run=list_simulator_calls,
        summary="List what the payment simulator was asked for",
        tag=_TAG,
        acts_for="noted",
        query=PageQuery,
        answer=Listed[SimulatorCallRow],
        problems={404: "Money is meant here: it is neither demo mode nor a sandbox."},
    ),
    Route(
        method="POST",
        path=f"{_PATH}/payment-reports",
        run=take_payment_report,
        summary="Take what the payment provider reports",
        tag=_TAG,
        scope=None,
        answer=TakenRow,
        problems={
            401: "The signature or the time of the report is wrong.",
            404: "No payment provider is set up here.",
            408: "The body did not come in time.",
            413: "The body is too large.",
        },
    ),
)
