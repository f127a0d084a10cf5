"""`Resolving`: how a dispute ends. Admins of both sides settle it together, and an operator resolves it alone.

What is frozen for it is held again and leaves as was agreed, in the transaction in which it ends; the provider is asked
by jobs of their own. Nobody waits for a payment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.disputes.models import (
    Dispute,
    Proposal,
    Resolution,
    Settlement,
    Side,
)
from timebell.apps.marketplace.disputes.refusals import (
    dispute_resolved,
    no_dispute,
    only_by_settlement,
    settlement_differs,
    settlement_needed,
    settlement_unwanted,
)
from timebell.apps.marketplace.disputes.rules import SIDES, is_agreed, may_resolve, shares_of
from timebell.apps.marketplace.disputes.service import DISPUTES, TIME_OUT
from timebell.apps.marketplace.disputes.standing import Standing
from timebell.apps.marketplace.disputes.store import DisputeStore
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.ledger import Ledger
from timebell.apps.marketplace.payments.payouts import Payouts
from timebell.apps.marketplace.shifts.service import Shifts
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.apps.marketplace.staffing.access import Access, Part
from timebell.apps.marketplace.staffing.models import Booking
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.kernel import Timebell, Transaction

RESOLVERS: Final[tuple[Part, ...]] = ("borrower_admin", "lender_admin")


class Resolving:
    """Settles, resolves, and holds by law. Whoever does so holds the booking."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._access = Access(bell)
        self._bookings = Bookings(bell)
        self._ledger = Ledger(bell)
        self._payouts = Payouts(bell)
        self._shifts = Shifts(bell)
        self._clock = ShiftStore(bell.clock)
        self._standing = Standing(bell)
        self._store = DisputeStore(bell.clock)

    async def resolve(
        self, tx: Transaction, id: UUID, status: Resolution, settlement: Settlement | None, *, by: By
    ) -> Dispute:
        """An operator says how it ends. An admin proposes a settlement, and it ends when the other side has proposed
        the same. Saying again what became of it changes nothing."""
        booking = await self._bookings.hold(tx, (await self._read(tx, id)).booking_id)
        await self._access.check(tx, booking, by, *RESOLVERS)
        dispute = await self._read(tx, id)
        if dispute.status == status and settlement in (None, dispute.settlement):
            return dispute
        if not by.is_operator and status != "Settled":
            raise only_by_settlement()
        if not may_resolve(dispute.status, status):
            raise dispute_resolved(dispute.status)
        dispute = await self._freeze_rest(tx, booking, dispute, by)
        if status == "Legal_Hold":
            if settlement is not None:
                raise settlement_unwanted()
            return await self._end(tx, booking, dispute, status, None, by)
        agreed = _agreed(dispute, status, settlement)
        if not by.is_operator:
            dispute = await self._propose(tx, booking, dispute, agreed, by)
            if not is_agreed(dispute.proposals):
                return dispute
        return await self._end(tx, booking, dispute, status, agreed, by)

    async def _freeze_rest(self, tx: Transaction, booking: Booking, dispute: Dispute, by: By) -> Dispute:
        """A transfer that failed after the dispute was filed has left money that is held and not frozen."""
        shift = await self._clock.read_shift(tx, id=dispute.time_log_id)
        assert shift is not None, "a time log is never deleted"
        if shift.status != "Disputed":
            return dispute
        await self._ledger.freeze_later(tx, booking, shift, dispute.id, by=by)
        return await self._read(tx, dispute.id)

    async def _propose(
        self, tx: Transaction, booking: Booking, dispute: Dispute, settlement: Settlement, by: By
    ) -> Dispute:
        assert by.person is not None, "an operator proposes nothing"
        parts = await self._access.parts_in(tx, booking, by.person)
        sides: list[Side] = [SIDES[part] for part in sorted(parts) if part in SIDES]
        now = await self._clock.read_clock(tx)
        proposals = [
            Proposal(side=side, settlement=settlement, proposed_by=by.name, proposed_at=now) for side in sides
        ]
        await self._store.propose_settlement(tx, id=dispute.id, proposals=proposals)
        said = {"sides": list(sides), "settlement": _shown(settlement)}
        await self._record(tx, "dispute.settlement_proposed", dispute, by, said)
        return await self._read(tx, dispute.id)

    async def _end(
        self,
        tx: Transaction,
        booking: Booking,
        dispute: Dispute,
        status: Resolution,
        settlement: Settlement | None,
        by: By,
    ) -> Dispute:
        await self._store.resolve_dispute(
            tx, id=dispute.id, status=status, settlement=settlement, resolved_by=by.name
        )
        reason = f"the dispute is {status}"
        if settlement is not None:
            await self._divide(tx, booking, dispute, settlement, reason, by)
        await self._bell.cancel(tx, subject=dispute.subject, kind=TIME_OUT, reason=reason, actor=by.name)
        ended = await self._read(tx, dispute.id)
        said = {
            "before": {"status": dispute.status},
            "after": {"status": status},
            "settlement": None if settlement is None else _shown(settlement),
            "frozen": ended.frozen,
            "reason": reason,
        }
        await self._record(tx, "dispute.resolved", ended, by, said)
        if dispute.status == "Open":
            await self._standing.restore(tx, booking, ended, by=by)
        tx.after_commit.append(
            lambda: self._bell.tallies.add(DISPUTES, status.lower(), dispute.dispute_option)
        )
        return ended

    async def _divide(
        self, tx: Transaction, booking: Booking, dispute: Dispute, settlement: Settlement, reason: str, by: By
    ) -> None:
        """What is frozen is held again, and leaves as was agreed. The shift counts as verified."""
        frozen = await self._ledger.unfreeze(tx, booking, dispute.id)
        shares = shares_of(frozen, settlement, dispute.time_log_id)
        await self._payouts.owe_settlement(tx, booking, lender=shares.lender, borrower=shares.borrower, by=by)
        held = await self._shifts.within(tx, booking, dispute.time_log_id)
        if held.shift.status == "Disputed":
            settled = await self._shifts.settle(tx, held, by=by, reason=reason)
            # Of a shift that nobody has paid for an event tells, as where it is verified otherwise.
            await self._payouts.owe_shift(tx, booking, settled, by)

    async def _read(self, tx: Transaction, id: UUID) -> Dispute:
        dispute = await self._store.read_dispute(tx, id=id)
        if dispute is None:
            raise no_dispute(id)
        return dispute

    async def _record(
        self, tx: Transaction, name: str, dispute: Dispute, by: By, data: Mapping[str, Any]
    ) -> None:
        about = {"booking_id": str(dispute.booking_id), "dispute_id": str(dispute.id), **data}
        await self._bell.record(
            tx, name, about, subject=dispute.subject, actor=by.name, correlation_id=by.correlation_id
        )


def _agreed(dispute: Dispute, status: Resolution, settlement: Settlement | None) -> Settlement:
    """What is frozen, divided. Nothing is divided by itself where somebody may have meant otherwise."""
    if settlement is None:
        if status == "Settled" and dispute.frozen > 0:
            raise settlement_needed(dispute.frozen)
        return Settlement(lender=dispute.frozen, borrower=0)
    if settlement.total != dispute.frozen:
        raise settlement_differs(settlement.total, dispute.frozen)
    return settlement


def _shown(settlement: Settlement) -> Mapping[str, int]:
    return {"lender": settlement.lender, "borrower": settlement.borrower}
