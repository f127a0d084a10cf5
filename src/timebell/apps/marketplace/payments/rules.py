"""Pure rules about money: values in, values out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from timebell.apps.marketplace.payments.models import (
    Balance,
    Entry,
    Frozen,
    NewEntry,
    Payment,
    PaymentLine,
    Payout,
    Place,
    Pot,
)


def balance_of(entries: Iterable[Entry | NewEntry]) -> Balance:
    """Where the money is after these entries. Of a shift, what was held for it counts as charged."""
    at: Counter[Place] = Counter()
    charged = 0
    for entry in entries:
        at[entry.from_place] -= entry.amount
        at[entry.to_place] += entry.amount
        charged += entry.amount if entry.type == "charge" else 0
    came = charged or -at["clearing"]
    return Balance(
        charged=came,
        held=at["held"],
        released=at["lender"],
        refunded=came + at["card"] if charged else at["card"],
        frozen=at["frozen"],
    )


def is_whole(entries: Iterable[NewEntry]) -> bool:
    """Whether all that is charged by these entries is somewhere when they are written, payment by payment."""
    clearing: Counter[UUID] = Counter()
    for entry in entries:
        if entry.to_place == "clearing":
            clearing[entry.payment_id] += entry.amount
        if entry.from_place == "clearing":
            clearing[entry.payment_id] -= entry.amount
    return not any(clearing.values())


def charge_entries(payment: Payment, ref: str) -> list[NewEntry]:
    """A payment that succeeded: charged, and held for each of its shifts; what is for none of them is not charged."""
    held = sum(line.amount for line in payment.lines)
    assert held == payment.amount, "a payment pays for its lines and for nothing else"
    return [
        NewEntry(
            type="charge",
            from_place="card",
            to_place="clearing",
            amount=payment.amount,
            payment_id=payment.id,
            provider_ref=ref,
        ),
        *(
            NewEntry(
                type="hold",
                from_place="clearing",
                to_place="held",
                amount=line.amount,
                payment_id=payment.id,
                time_log_id=line.time_log_id,
            )
            for line in payment.lines
        ),
    ]


def freeze_entries(pots: Iterable[Pot], dispute_id: UUID) -> list[NewEntry]:
    """All that is held and is not about to leave."""
    return [
        NewEntry(
            type="freeze",
            from_place="held",
            to_place="frozen",
            amount=pot.free,
            payment_id=pot.payment_id,
            time_log_id=pot.time_log_id,
            dispute_id=dispute_id,
        )
        for pot in pots
        if pot.free > 0
    ]


def penalty_entries(pots: Iterable[Pot], amounts: Mapping[UUID, int], dispute_id: UUID) -> list[NewEntry]:
    """What is kept of shifts, as far as it is held and is not about to leave."""
    return [
        NewEntry(
            type="penalty",
            from_place="held",
            to_place="frozen",
            amount=min(pot.free, amounts[pot.time_log_id]),
            payment_id=pot.payment_id,
            time_log_id=pot.time_log_id,
            dispute_id=dispute_id,
        )
        for pot in pots
        if min(pot.free, amounts.get(pot.time_log_id, 0)) > 0
    ]


def unfreeze_entries(frozen: Iterable[Frozen], dispute_id: UUID) -> list[NewEntry]:
    """All that is frozen for a dispute is held again, from where alone it may leave."""
    return [
        NewEntry(
            type="unfreeze",
            from_place="frozen",
            to_place="held",
            amount=one.amount,
            payment_id=one.payment_id,
            time_log_id=one.time_log_id,
            dispute_id=dispute_id,
        )
        for one in frozen
    ]


def refunds_of(pots: Iterable[Pot]) -> Mapping[UUID, Sequence[PaymentLine]]:
    """What goes back for shifts, by the payment that it came from: one refund for each, since a provider gives back no
    more than one charge took."""
    lines: defaultdict[UUID, list[PaymentLine]] = defaultdict(list)
    for pot in pots:
        if pot.free > 0:
            lines[pot.payment_id].append(PaymentLine(time_log_id=pot.time_log_id, amount=pot.free))
    return lines


def left_entries(payout: Payout, ref: str, *, charge_ref: str | None) -> list[NewEntry]:
    """What the provider has confirmed to have left. A refund of a charge that nothing was held from is told together
    with that charge, whose name is given."""
    if payout.lines:
        return [
            NewEntry(
                type="release" if payout.sort == "transfer" else "refund",
                from_place="held",
                to_place="lender" if payout.sort == "transfer" else "card",
                amount=line.amount,
                payment_id=payout.payment_id,
                time_log_id=line.time_log_id,
                provider_ref=ref,
            )
            for line in payout.lines
        ]
    assert payout.sort == "refund", "a transfer is for shifts"
    assert charge_ref is not None, "what is refunded was charged"
    return [
        NewEntry(
            type="charge",
            from_place="card",
            to_place="clearing",
            amount=payout.amount,
            payment_id=payout.payment_id,
            provider_ref=charge_ref,
        ),
        NewEntry(
            type="refund",
            from_place="clearing",
            to_place="card",
            amount=payout.amount,
            payment_id=payout.payment_id,
            provider_ref=ref,
        ),
    ]
