"""`timebell ledger verify` and `timebell marketplace demo`."""

from __future__ import annotations

from typing import Final

from timebell.apps.marketplace.demo import DEMO
from timebell.apps.marketplace.payments.verifying import verify
from timebell.kernel import Command, CommandAnswer, Timebell


async def verify_ledger(bell: Timebell, *, tenant: str) -> CommandAnswer:
    """Prove the money of all bookings of a tenant, and say what does not fit."""
    proof = await verify(bell, tenant)
    lines = [f"booking {each.booking_id}: {each.what}" for each in proof.misfits]
    if proof.is_cut:
        lines.append("There is more; these are the first that were found.")
    looked = f"{proof.entries} entries of {proof.bookings} bookings"
    lines.append(f"{looked}: every cent is somewhere." if not lines else f"{looked} were looked at.")
    value = {
        "tenant": tenant,
        "bookings": proof.bookings,
        "entries": proof.entries,
        "misfits": [{"booking_id": each.booking_id, "what": each.what} for each in proof.misfits],
        "is_cut": proof.is_cut,
    }
    return CommandAnswer(lines=lines, value=value, is_failure=bool(proof.misfits))


COMMANDS: Final = (
    DEMO,
    Command(
        words=("ledger", "verify"),
        help="Prove that every cent of a tenant's bookings is somewhere.",
        run=verify_ledger,
        shared=("tenant",),
    ),
)
