"""`Ledger`: where every cent of a booking is, and was at any past instant.

A double entry moves an amount from one place to another and is never changed. `card` and `lender` are outside, `held`
and `frozen` are the escrow of one shift, and `clearing` is passed through by what was charged: at the commit the
database refuses what leaves something there, or takes more out of escrow than came. Whoever posts holds the booking.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from timebell.apps.marketplace.models import By, dispute_subject
from timebell.apps.marketplace.payments.ledger_store import LedgerStore, entry_of, pot_of
from timebell.apps.marketplace.payments.models import Balance, Entry, Frozen, NewEntry, Pot
from timebell.apps.marketplace.payments.rules import (
    freeze_entries,
    is_whole,
    penalty_entries,
    unfreeze_entries,
)
from timebell.apps.marketplace.shifts.models import Shift
from timebell.apps.marketplace.staffing.models import Booking
from timebell.kernel import Ids, Page, Timebell, Transaction, decode_cursor, page_of

_READ: Final = "marketplace.ledger"


class Ledger:
    """Writes and reads the double entries of bookings."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = LedgerStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def post(self, tx: Transaction, booking: Booking, entries: Sequence[NewEntry]) -> list[Entry]:
        """Write what belongs together: all that is charged by it is somewhere afterwards."""
        if not entries:
            return []
        assert is_whole(entries), "what is posted together leaves nothing in clearing"
        ids = [self._ids.new() for _ in entries]
        return await self._store.insert_entries(
            tx, booking_id=booking.id, currency=booking.currency, ids=ids, entries=entries
        )

    async def balance(self, tx: Transaction, booking_id: UUID, *, at: datetime | None = None) -> Balance:
        """Where the money of a booking is, or was at an instant."""
        return await self._store.read_balance(tx, booking_id=booking_id, at=at)

    async def pots(self, tx: Transaction, time_log_ids: Sequence[UUID]) -> list[Pot]:
        """What is there for shifts, by the payment that it came from."""
        return [pot_of(row) for row in await self._store.read_pots(tx, time_log_ids=time_log_ids)]

    async def shift_balances(self, tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, Balance]:
        """Where the money of each shift is; of one that nothing was paid for, nowhere."""
        sums: defaultdict[UUID, list[int]] = defaultdict(lambda: [0] * 5)
        for row in await self._store.read_pots(tx, time_log_ids=ids):
            of_shift = sums[row["time_log_id"]]
            for place, name in enumerate(("charged", "held", "released", "refunded", "frozen")):
                of_shift[place] += row[name]
        return {
            id: Balance(charged=charged, held=held, released=released, refunded=refunded, frozen=frozen)
            for id in ids
            for charged, held, released, refunded, frozen in (sums[id],)
        }

    async def entries(
        self,
        tx: Transaction,
        booking_id: UUID,
        *,
        limit: int,
        cursor: str | None,
        at: datetime | None = None,
    ) -> Page[Entry]:
        """The entries of a booking in the order of their writing, up to an instant."""
        after = decode_cursor(_READ, cursor, dated=True)
        rows = await self._store.list_entries(
            tx, booking_id=booking_id, after=after.id, after_at=after.at, at=at, limit=limit
        )
        return page_of(_READ, rows, limit, entry_of, at="at")

    async def freeze(self, tx: Transaction, booking: Booking, shift: Shift, dispute_id: UUID) -> int:
        """What is held for a disputed shift and is not about to leave; answers with how much that is."""
        entries = freeze_entries(await self.pots(tx, [shift.id]), dispute_id)
        await self.post(tx, booking, entries)
        return sum(entry.amount for entry in entries)

    async def freeze_later(
        self, tx: Transaction, booking: Booking, shift: Shift, dispute_id: UUID, *, by: By
    ) -> None:
        """The same of what came to be held after the dispute was filed."""
        frozen = await self.freeze(tx, booking, shift, dispute_id)
        await self.tell_frozen(tx, booking, dispute_id, frozen, by=by)

    async def tell_frozen(
        self, tx: Transaction, booking: Booking, dispute_id: UUID, amount: int, *, by: By
    ) -> None:
        """The audit trail says what was frozen, so that the ledger can be compared with it."""
        if amount:
            await self._bell.record(
                tx,
                "dispute.frozen",
                {"booking_id": str(booking.id), "dispute_id": str(dispute_id), "frozen": amount},
                subject=dispute_subject(dispute_id),
                actor=by.name,
                correlation_id=by.correlation_id,
            )

    async def penalize(
        self, tx: Transaction, booking: Booking, amounts: Mapping[UUID, int], dispute_id: UUID
    ) -> int:
        """What is kept of shifts that a dispute cancelled, as far as it is held; answers with how much that is."""
        entries = penalty_entries(await self.pots(tx, list(amounts)), amounts, dispute_id)
        await self.post(tx, booking, entries)
        return sum(entry.amount for entry in entries)

    async def frozen(self, tx: Transaction, dispute_id: UUID) -> list[Frozen]:
        """What is frozen for a dispute, and of which shifts."""
        return await self._store.read_frozen(tx, dispute_id=dispute_id)

    async def unfreeze(self, tx: Transaction, booking: Booking, dispute_id: UUID) -> list[Frozen]:
        """All that is frozen for a dispute is held again; answers with what that was."""
        frozen = await self.frozen(tx, dispute_id)
        await self.post(tx, booking, unfreeze_entries(frozen, dispute_id))
        return frozen
