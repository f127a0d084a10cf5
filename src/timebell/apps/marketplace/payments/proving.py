"""Whether what is written about the money of a booking fits together: values in, values out.

The database refuses what does not add up when it is written. This finds what somebody changed past it afterwards, since
the same money is told of several times: by the entries, by the payment that it came from, by the payout with which it
left, by the dispute that it is frozen for, and by the audit trail, whose seals are proven by `timebell audit verify`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

Row = Mapping[str, Any]

_MOVEMENTS: Final = frozenset(
    {
        ("charge", "card", "clearing"),
        ("hold", "clearing", "held"),
        ("release", "held", "lender"),
        ("release", "frozen", "lender"),
        ("refund", "clearing", "card"),
        ("refund", "held", "card"),
        ("refund", "frozen", "card"),
        ("freeze", "held", "frozen"),
        ("unfreeze", "frozen", "held"),
        ("penalty", "held", "frozen"),
        ("penalty", "held", "lender"),
        ("penalty", "frozen", "lender"),
    }
)
_TAKEN: Final = ("Succeeded", "Refunded")
_CONTESTED: Final = ("Open", "Legal_Hold")
_LEFT: Final = {"transfer": "release", "refund": "refund"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """All that is written about the money of one booking. Rows are as the tables have them, ids as texts; `told` is
    what the audit trail says of payouts that were sent. A dispute has what the trail says was frozen for it."""

    id: UUID
    currency: str
    entries: Sequence[Row]
    payments: Sequence[Row]
    payouts: Sequence[Row]
    told: Sequence[Row]
    disputes: Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Something that does not fit, in words."""

    booking_id: UUID
    what: str


def prove(account: Account) -> list[Misfit]:
    """Everything about an account that does not fit; nothing where all does."""
    found = [
        *_of_entries(account),
        *_over_time(account),
        *_of_payments(account),
        *_of_payouts(account),
        *_of_trail(account),
        *_of_disputes(account),
    ]
    return [Misfit(booking_id=account.id, what=what) for what in found]


def _of_entries(account: Account) -> Iterator[str]:
    payments = {payment["id"] for payment in account.payments}
    released: Counter[str] = Counter()
    for entry in account.entries:
        name = f"entry {entry['id']}"
        if entry["currency"] != account.currency:
            yield f"{name}: it is in {entry['currency']}, and the booking in {account.currency}"
        if (entry["type"], entry["from_place"], entry["to_place"]) not in _MOVEMENTS:
            yield f"{name}: a {entry['type']} does not go from {entry['from_place']} to {entry['to_place']}"
        if entry["amount"] <= 0:
            yield f"{name}: its amount is {entry['amount']}"
        if entry["payment_id"] not in payments:
            yield f"{name}: the payment {entry['payment_id']} is not of this booking"
        if entry["type"] == "release":
            released[entry["time_log_id"]] += 1
    for shift, times in released.items():
        if times > 1:
            yield f"time log {shift}: it was released {times} times"


def _over_time(account: Account) -> Iterator[str]:
    """At every instant at which something was written all was somewhere, and nothing below nothing."""
    instants: defaultdict[str, list[Row]] = defaultdict(list)
    for entry in account.entries:
        instants[entry["at"]].append(entry)
    at_place: Counter[tuple[str, str, str]] = Counter()
    complained: set[tuple[str, str, str]] = set()
    for at, entries in instants.items():
        for entry in entries:
            shift = entry["time_log_id"] or ""
            for place, sign in (("from_place", -1), ("to_place", 1)):
                is_of_shift = entry[place] in ("held", "frozen")
                pot = (entry["payment_id"], shift if is_of_shift else "", entry[place])
                at_place[pot] += sign * entry["amount"]
        for pot, amount in at_place.items():
            payment, shift, name = pot
            if pot in complained:
                continue
            if name == "clearing" and amount != 0:
                complained.add(pot)
                yield f"payment {payment}: at {at} {amount} of it was nowhere"
            if name in ("held", "frozen") and amount < 0:
                complained.add(pot)
                yield f"time log {shift}: at {at} {-amount} more had left than was {name}"


def _of_payments(account: Account) -> Iterator[str]:
    for payment in account.payments:
        name, of_payment = (
            f"payment {payment['id']}",
            [entry for entry in account.entries if entry["payment_id"] == payment["id"]],
        )
        charged = [entry for entry in of_payment if entry["type"] == "charge"]
        if payment["status"] in _TAKEN and len(charged) != 1:
            yield f"{name}: it is {payment['status']}, and charged {len(charged)} times"
        if payment["status"] not in _TAKEN and charged:
            yield f"{name}: it is {payment['status']}, and was charged"
        for entry in charged:
            if entry["amount"] != payment["amount"]:
                yield f"{name}: {entry['amount']} was charged of {payment['amount']}"
            if entry["provider_ref"] != payment["provider_intent_id"]:
                names = entry["provider_ref"], payment["provider_intent_id"]
                yield f"{name}: the charge is called {names[0]}, and the payment {names[1]}"
        held = {entry["time_log_id"]: entry["amount"] for entry in of_payment if entry["type"] == "hold"}
        is_whole_back = any(
            (entry["type"], entry["from_place"]) == ("refund", "clearing") for entry in of_payment
        )
        if charged and not is_whole_back and held != payment["lines"]:
            yield f"{name}: what is held by it is not what it was for"
        if sum(payment["lines"].values()) != payment["amount"]:
            yield f"{name}: its lines are {sum(payment['lines'].values())} of {payment['amount']}"
        refunded = sum(entry["amount"] for entry in of_payment if entry["type"] == "refund")
        if (payment["status"] == "Refunded") != (bool(charged) and refunded == payment["amount"]):
            yield f"{name}: it is {payment['status']}, and {refunded} of {payment['amount']} went back"


def _of_payouts(account: Account) -> Iterator[str]:
    left: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for entry in account.entries:
        if entry["type"] in ("release", "refund"):
            left[(entry["type"], entry["provider_ref"])][entry["time_log_id"] or ""] = entry["amount"]
    known: set[tuple[str, str]] = set()
    for payout in account.payouts:
        name = f"payout {payout['id']}"
        lines = payout["lines"] or {"": payout["amount"]}
        if payout["state"] != "cancelled" and sum(lines.values()) != payout["amount"]:
            yield f"{name}: its lines are {sum(lines.values())} of {payout['amount']}"
        if payout["state"] != "sent":
            continue
        named = (_LEFT[payout["sort"]], payout["provider_ref"])
        known.add(named)
        if left.get(named) != lines:
            yield f"{name}: it was sent as {payout['provider_ref']}, and the ledger tells otherwise of that"
    for type, ref in left.keys() - known:
        yield f"{type} {ref}: no payout was sent under that name"


def _of_trail(account: Account) -> Iterator[str]:
    told = {each["payout_id"]: (each["amount"], each["provider_ref"]) for each in account.told}
    sent = {
        payout["id"]: (payout["amount"], payout["provider_ref"])
        for payout in account.payouts
        if payout["state"] == "sent"
    }
    for id in told.keys() | sent.keys():
        if told.get(id) != sent.get(id):
            trail, payout = _said(told.get(id)), _said(sent.get(id))
            yield f"payout {id}: the audit trail tells of {trail}, and the payout of {payout}"


def _of_disputes(account: Account) -> Iterator[str]:
    frozen: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for entry in account.entries:
        id = entry["dispute_id"]
        if "frozen" in (entry["from_place"], entry["to_place"]) and id is None:
            yield f"entry {entry['id']}: nobody knows for which dispute it is or was frozen"
        if entry["to_place"] == "frozen":
            frozen[id] += entry["amount"]
            left[id] += entry["amount"]
        if entry["from_place"] == "frozen":
            left[id] -= entry["amount"]
    told = {dispute["id"]: dispute["told"] for dispute in account.disputes}
    for id, amount in told.items():
        if frozen[id] != amount:
            yield f"dispute {id}: the audit trail tells of {amount} frozen, and the ledger of {frozen[id]}"
    for id in frozen.keys() - told.keys():
        yield f"dispute {id}: {frozen[id]} was frozen for it, and it is not of this booking"
    contested = {each["id"] for each in account.disputes if each["status"] in _CONTESTED}
    for id, amount in left.items():
        if amount > 0 and id not in contested:
            yield f"dispute {id}: {amount} is frozen for it, and it is resolved"


def _said(said: tuple[int, str] | None) -> str:
    return "nothing that was sent" if said is None else f"{said[0]} sent as {said[1]}"
