"""The nouns of the simulator: what it can be told, and what it remembers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Literal
from uuid import UUID

from timebell.apps.marketplace.payments.provider import ChargeState

Call = Literal["charge", "lookup", "cancel", "refund", "transfer"]
FaultyCall = Literal["charge", "lookup", "cancel", "refund", "transfer", "report"]
OrderedOutcome = Literal["succeed", "decline", "timeout", "processing"]
# Of a call: it is refused, does not get through, or nobody hears the answer, before or after it was done. Of a report:
# it is lost, comes twice, or an older one comes after it.
FaultSort = Literal["refuse", "unavailable", "timeout_before", "timeout_after", "lose", "repeat", "reorder"]
OF_REPORTS: Final = frozenset({"lose", "repeat", "reorder"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong with calls of a sort: so many times, or always."""

    call: FaultyCall
    fault: FaultSort
    times: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the simulator does. `succeed`: the money is taken at once, the answer is that it is processing, and the
    report comes `webhook_after` later. `processing`: it stays so; with a `webhook_after` it succeeds then. `decline` is
    answered at once. `timeout`: as `succeed`, and nobody hears the answer."""

    outcome: OrderedOutcome = "succeed"
    webhook_after: timedelta = timedelta(0)
    faults: Sequence[Fault] = ()

    def fault_of(self, call: FaultyCall) -> FaultSort | None:
        return next((each.fault for each in self.faults if each.call == call and each.times != 0), None)

    def used(self, call: FaultyCall) -> Orders:
        """After one fault of that call has happened."""
        faults = list(self.faults)
        for place, each in enumerate(faults):
            if each.call == call and each.times != 0:
                faults[place] = replace(each, times=None if each.times is None else each.times - 1)
                break
        return replace(self, faults=faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """Money that the simulator has moved, or is about to: once for each key."""

    ref: str
    call: Literal["charge", "refund", "transfer"]
    key: str
    fingerprint: str
    amount: int
    currency: str
    booking_id: UUID | None
    payment_id: UUID | None
    of_ref: str | None
    state: ChargeState
