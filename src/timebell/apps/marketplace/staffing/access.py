"""Who may do what: roles in companies decide, and to whoever has no part in something it is as if it were not."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.staffing.booking_store import BookingStore
from timebell.apps.marketplace.staffing.models import Booking, Role
from timebell.apps.marketplace.staffing.refusals import (
    no_booking,
    no_company,
    not_allowed,
    only_operator,
)
from timebell.kernel import Timebell, Transaction

# What somebody is to one booking. `supervisor` and `worker` are those of this booking; `member` is any other with a
# role in one of the two companies, who only sees it.
Part = Literal[
    "borrower_admin", "borrower_manager", "lender_admin", "lender_manager", "supervisor", "worker", "member"
]


def check_operator(by: By) -> None:
    if not by.is_operator:
        raise only_operator()


class Access:
    """The questions. The operator may do everything."""

    def __init__(self, bell: Timebell) -> None:
        self._store = BookingStore(bell.clock)

    async def parts_in(self, tx: Transaction, booking: Booking, person: UUID) -> frozenset[Part]:
        """What somebody is to a booking; nothing where it does not concern them."""
        sides = {booking.borrower_company_id: "borrower", booking.lender_company_id: "lender"}
        parts: set[Part] = set()
        for row in await self._store.read_roles(tx, person=person, company_ids=list(sides)):
            role: Role = row["role"]
            # A worker of the lender has no part in what colleagues do.
            if role == "worker":
                continue
            is_leading = role != "supervisor" and role.startswith(sides[row["company_id"]])
            parts.add(role if is_leading else "member")
        if person == booking.supervisor_id:
            parts.add("supervisor")
        if person == booking.worker_recipient_id:
            parts.add("worker")
        return frozenset(parts)

    async def check(self, tx: Transaction, booking: Booking, by: By, *needed: Part) -> None:
        """404 for whoever has no part in a booking, 403 for whoever has none of those that are needed. With none
        named, any is enough."""
        if by.is_operator:
            return
        parts = frozenset() if by.person is None else await self.parts_in(tx, booking, by.person)
        if not parts:
            raise no_booking(booking.id)
        if needed and parts.isdisjoint(needed):
            raise not_allowed(needed)

    async def check_company(self, tx: Transaction, company_id: UUID, by: By, *needed: Role) -> None:
        """As `check`, of a company that is there."""
        if by.is_operator:
            return
        roles = await self.roles_in(tx, company_id, by)
        if not roles:
            raise no_company(company_id)
        if needed and roles.isdisjoint(needed):
            raise not_allowed(needed)

    async def roles_in(self, tx: Transaction, company_id: UUID, by: By) -> frozenset[Role]:
        if by.person is None:
            return frozenset()
        rows = await self._store.read_roles(tx, person=by.person, company_ids=[company_id])
        return frozenset(row["role"] for row in rows)
