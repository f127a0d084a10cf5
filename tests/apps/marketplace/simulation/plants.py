"""Bugs to plant in the marketplace, each a rule of the app left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from tests.simulation.planting import Planted, answering, answering_in, instead, several
from tests.simulation.plants import CALM, Plant, planter
from timebell.apps.marketplace.disputes import resolving, standing
from timebell.apps.marketplace.disputes.standing import RETRY_PAYMENT
from timebell.apps.marketplace.insurance import stopping
from timebell.apps.marketplace.insurance.stopping import Passed, Stopping
from timebell.apps.marketplace.payments import cutoff, overdue
from timebell.apps.marketplace.payments.checking import Checking
from timebell.apps.marketplace.payments.cutoff import Cutoff
from timebell.apps.marketplace.payments.ledger import Ledger
from timebell.apps.marketplace.payments.payouts import Payouts
from timebell.apps.marketplace.shifts import guards, handlers, owing, rules, service
from timebell.apps.marketplace.shifts.models import Shift
from timebell.apps.marketplace.shifts.owing import Owing
from timebell.apps.marketplace.shifts.service import Shifts
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.kernel import Timebell

PLANTS: list[Plant] = []
# From Monday to the night after the first cutoff, and what comes of it.
_LENT = replace(CALM, staffings_a_day=1.5, kills_a_day=2, pauses_a_day=1, stops_a_day=0.5, rush=0.05)
_CALM = replace(CALM, staffings_a_day=1.5, stops_a_day=0)
# Disputes are resolved, and insurances end and are renewed.
_TROUBLED = replace(_CALM, lapses_a_day=2)
_plant = planter(PLANTS, _LENT)
_calmly = planter(PLANTS, _CALM)
_in_trouble = planter(PLANTS, _TROUBLED)


async def _nothing(self: Any, tx: Any, *facts: Any, **more: Any) -> None:
    return None


@_plant("whoever charges again has another key", "charged_twice", seed=2, days=1)
def _charged_anew() -> Planted:
    calls: Counter[Any] = Counter()

    def renew(charge: Any, *_: Any) -> Any:
        calls[charge.payment_id] += 1
        return replace(charge, key=f"{charge.key}/{calls[charge.payment_id]}")

    return answering(Checking, "charge_of", renew)


@_plant("a payout that may have left is asked for under another key", "outside", seed=6, days=2, slow=True)
def _sent_anew() -> Planted:
    def renew(begun: Any, *_: Any) -> Any:
        if begun is None or not begun[1].was_begun:
            return begun
        return begun[0], replace(begun[1], key=f"{begun[1].key}/again")

    return answering(Payouts, "_begin", renew)


@_calmly("what is disputed is not frozen", "left_over", days=1)
def _never_frozen() -> Planted:
    async def freeze(self: Any, *facts: Any) -> int:
        return 0

    return instead(Ledger, "freeze", freeze)


@_plant("somebody is released who was never asked to pay", "unasked", seed=5, days=3.5, slow=True)
def _released_unasked() -> Planted:
    async def release(self: Cutoff, tx: Any, booking: Any, week: Any, why: str, *, by: Any) -> None:
        await self._release(tx, booking, week, by=by)

    return instead(Cutoff, "_leave", release)


@_plant("a payment on its way is taken for one that failed", "released_paid", days=3.5, slow=True)
def _not_waited_for() -> Planted:
    def failed(payments: Any, *_: Any, **__: Any) -> Any:
        return [replace(each, status="Failed") if each.status == "Pending" else each for each in payments]

    return answering_in(cutoff, "PaymentStore", "list_payments_of_period", failed)


@_plant("a payment of which no report came is not looked up", "unsettled", "outside", days=3.5, slow=True)
def _never_looked_up() -> Planted:
    async def begin(self: Any, tx: Any, job: Any) -> None:
        return None

    async def settle(self: Any, on_its_way: Any) -> str:
        return "unknown"

    return several(instead(overdue.Overdue, "_begin", begin), instead(Cutoff, "_settle", settle))


@_plant("nobody asks whether something is disputed", "contested", days=3.5, slow=True)
def _charged_though_disputed() -> Planted:
    return answering(Checking, "is_contested", lambda *_: False)


@_calmly("the clock approves whenever it comes by", "hasty_approval", days=1, slow=True)
def _approved_early() -> Planted:
    return several(
        answering(handlers, "is_overdue", lambda *_: True), answering(service, "is_overdue", lambda *_: True)
    )


@_calmly("the clock approves nothing", "unapproved", days=1, slow=True)
def _never_approved() -> Planted:
    return answering(service, "is_overdue", lambda *_: False)


@_calmly("the ladder is climbed after a dispute", "hush", days=1, slow=True)
def _climbed_after_all() -> Planted:
    def pending(shift: Any, *_: Any, **__: Any) -> Any:
        if shift is None or shift.status != "Disputed":
            return shift
        return replace(shift, status="Pending_Verification")

    def owed(due: Any, booking: Any, shift: Shift) -> Any:
        return rules.owed(booking, pending(shift))

    def held(found: Any, *_: Any) -> Any:
        return found and replace(found, shift=pending(found.shift))

    return several(
        answering(owing, "owed", owed),
        answering_in(handlers, "Shifts", "hold_free", held),
        answering_in(guards, "ShiftStore", "read_shift", pending),
    )


@_calmly("whoever has clocked out is reminded all the same", "hush", days=1, slow=True)
def _reminded_after_all() -> Planted:
    def working(shift: Any, *_: Any, **__: Any) -> Any:
        if shift is None or shift.status != "Pending_Verification":
            return shift
        return replace(shift, status="Working")

    def owed(due: Any, booking: Any, shift: Shift) -> Any:
        return replace(due, steps=(*due.steps, *rules.owed(booking, working(shift)).steps))

    def held(found: Any, *_: Any) -> Any:
        return found and replace(found, shift=working(found.shift))

    return several(
        answering(owing, "owed", owed),
        answering(handlers, "owed", owed),
        answering_in(handlers, "Shifts", "hold_free", held),
        answering_in(guards, "ShiftStore", "read_shift", working),
        instead(Owing, "take_back", _nothing),
    )


@_calmly("nothing that is done about a shift is recorded", "audit", days=1, slow=True)
def _nothing_recorded() -> Planted:
    return instead(Shifts, "_record", _nothing)


@_in_trouble("the first resolution is taken for the last", "standing", "retried", seed=9, days=2, slow=True)
def _resumed_too_early() -> Planted:
    return answering_in(standing, "ShiftStore", "is_contested", lambda *_, **__: False)


@_in_trouble("nobody charges after the last resolution", "retried", days=2, slow=True)
def _never_charged_again() -> Planted:
    def is_retry(bell: Any, tx: Any, kind: str, *_: Any, **__: Any) -> bool:
        return kind == RETRY_PAYMENT

    return instead(Timebell, "enqueue", _nothing, where=is_retry)


@_in_trouble("what the borrower was promised stays where it is", "divided", seed=7, days=2, slow=True)
def _divided_by_half() -> Planted:
    return answering(resolving, "shares_of", lambda shares, *_: replace(shares, borrower={}))


@_in_trouble("an insurance that has ended stops nothing", "unstopped", days=2)
def _never_stopped() -> Planted:
    async def stop(self: Any, *_: Any, **__: Any) -> Passed:
        return Passed(after=None, count=0, is_busy=False)

    return instead(Stopping, "stop", stop)


@_in_trouble("what has stopped is never gone on with", "unresumed", days=2, slow=True)
def _never_resumed() -> Planted:
    async def resume(self: Any, *_: Any, **__: Any) -> Passed:
        return Passed(after=None, count=0, is_busy=False)

    return instead(Stopping, "resume", resume)


@_in_trouble("the want of one insurance is made up for by another's", "standing", seed=2, days=3, slow=True)
def _resumed_by_another() -> Planted:
    return answering_in(stopping, "StopStore", "is_stopped", lambda *_, **__: False)


@_in_trouble("after a renewal a disputed booking has no hold", "standing", days=3, slow=True)
def _never_held() -> Planted:
    async def hold_clock_in(self: Any, tx: Any, booking: Any, **__: Any) -> Any:
        return booking

    return instead(Bookings, "hold_clock_in", hold_clock_in)
