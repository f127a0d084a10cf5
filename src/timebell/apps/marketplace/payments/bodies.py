"""Request and response bodies about money."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, model_validator

from timebell.apps.marketplace.payments.models import EntryType, PaymentStatus
from timebell.apps.marketplace.payments.simulator_models import (
    OF_REPORTS,
    Call,
    Fault,
    FaultSort,
    FaultyCall,
    OrderedOutcome,
    Orders,
)
from timebell.web import Duration, Input, Instant, Output, PageQuery


class LedgerQuery(PageQuery):
    """`at`: as it was at that instant."""

    at: Instant | None = None


class EntryRow(Output):
    """A double entry. It is never changed; amounts are in minor units."""

    id: UUID
    at: Instant
    type: EntryType
    amount: int
    currency: str
    time_log_id: UUID | None
    dispute_id: UUID | None
    payment_id: UUID
    provider_ref: str | None


class LedgerRow(Output):
    """A page of entries, and the sums of all: `charged` is always what `held`, `released`, `refunded` and `frozen` are
    together."""

    entries: list[EntryRow]
    charged: int
    held: int
    released: int
    refunded: int
    frozen: int
    next_cursor: str | None
    has_more: bool


class PaymentsQuery(PageQuery):
    booking_id: UUID | None = None
    status: PaymentStatus | None = None


class PaymentRow(Output):
    """What is charged for one period of a booking, in minor units. `attempt` counts how often that was begun anew."""

    id: UUID
    booking_id: UUID
    period_start: Instant
    period_end: Instant
    amount: int
    currency: str
    status: PaymentStatus
    provider: str
    provider_intent_id: str | None
    attempt: int
    failure: str | None
    settled_at: Instant | None
    created_at: Instant
    updated_at: Instant


class FaultInput(Input):
    """What goes wrong with calls of a sort: so many times, or without end. Reports are lost, come twice, or are
    followed by an older one; any other call is refused, does not get through, or is not answered in time, before or
    after it was done."""

    call: FaultyCall
    fault: FaultSort
    times: Annotated[int, Field(ge=1, le=1_000)] | None = None

    @model_validator(mode="after")
    def fits(self) -> FaultInput:
        if (self.call == "report") != (self.fault in OF_REPORTS):
            raise ValueError("lose, repeat and reorder are faults of reports, and the others of calls")
        return self


class SimulatorInput(Input):
    """What the simulator does from now on. `succeed` takes the money and answers that it is processing; its report
    comes `webhook_after` later. `processing` stays so; with a `webhook_after` it succeeds then. `decline` is answered
    at once. `timeout` is as `succeed`, and nobody hears the answer."""

    outcome: OrderedOutcome
    webhook_after: Duration = timedelta(0)
    faults: Annotated[list[FaultInput], Field(default_factory=list, max_length=20)]

    def orders(self) -> Orders:
        faults = [Fault(call=each.call, fault=each.fault, times=each.times) for each in self.faults]
        return Orders(outcome=self.outcome, webhook_after=self.webhook_after, faults=faults)


class FaultRow(Output):
    call: FaultyCall
    fault: FaultSort
    times: int | None


class SimulatorRow(Output):
    """What the simulator was told to do."""

    outcome: OrderedOutcome
    webhook_after: Duration
    faults: list[FaultRow]


class SimulatorCallRow(Output):
    """One call of the simulator, and how it ended."""

    id: UUID
    at: Instant
    call: Call
    key: str
    amount: int | None
    currency: str | None
    booking_id: UUID | None
    outcome: Literal[
        "processing", "succeeded", "declined", "cancelled", "none", "refused", "unavailable", "timeout"
    ]


class TakenRow(Output):
    """Whether the report was kept: not if it came before, or tells nothing that is waited for."""

    taken: bool


def orders_row(orders: Orders) -> dict[str, Any]:
    faults = [{"call": each.call, "fault": each.fault, "times": each.times} for each in orders.faults]
    return {"outcome": orders.outcome, "webhook_after": orders.webhook_after, "faults": faults}
