"""Where the money of each booking is at each commit, counted anew from the entries and held against the provider."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.apps.marketplace.simulation.moves import Move
from tests.history import Violation

# What each sort of entry does to what was charged, held, released, refunded and frozen, by where it comes from.
_COUNTED: Mapping[tuple[str, str], Mapping[str, int]] = {
    ("charge", "card"): {"charged": 1, "nowhere": 1},
    ("hold", "clearing"): {"nowhere": -1, "held": 1},
    ("release", "held"): {"held": -1, "released": 1},
    ("release", "frozen"): {"frozen": -1, "released": 1},
    ("refund", "clearing"): {"nowhere": -1, "refunded": 1},
    ("refund", "held"): {"held": -1, "refunded": 1},
    ("refund", "frozen"): {"frozen": -1, "refunded": 1},
    ("freeze", "held"): {"held": -1, "frozen": 1},
    ("unfreeze", "frozen"): {"frozen": -1, "held": 1},
    ("penalty", "held"): {"held": -1, "frozen": 1},
}
_LEFT = {"release": "transfer", "refund": "refund"}
Sums = Counter[str]


class Accounts:
    """Goes through all moves once; `found` is what does not fit."""

    def __init__(self, moves: Sequence[Move]) -> None:
        self.found: dict[tuple[str, str, str], None] = {}
        self.of_booking: defaultdict[str, Sums] = defaultdict(Counter)
        # By shift, and by the payment that it is held from.
        self.of_shift: defaultdict[tuple[str, str], Sums] = defaultdict(Counter)
        self.movements: dict[str, Mapping[str, Any]] = {}
        self.payments: dict[str, Mapping[str, Any]] = {}
        # What the entries say of each name that the provider gave.
        self.entered: Counter[str] = Counter()
        self.releases: Counter[str] = Counter()
        touched: set[str] = set()
        for number, move in enumerate(moves):
            self._take(move, touched)
            if number + 1 == len(moves) or moves[number + 1].commit != move.commit:
                for booking in sorted(touched):
                    self._look(booking, move)
                touched.clear()

    def violations(self) -> Iterator[Violation]:
        for invariant, key, text in self.found:
            yield Violation(invariant=invariant, key=key, text=text)

    def _say(self, invariant: str, key: str, text: str) -> None:
        self.found.setdefault((invariant, key, text))

    def _take(self, move: Move, touched: set[str]) -> None:
        if move.place == "simulator_movements":
            self.movements[move.row["ref"]] = move.row
            self._charged_once(move)
        elif move.place == "pending_payments":
            self.payments[move.row["id"]] = move.row
        elif move.place == "ledger_entries":
            touched.add(move.row["booking_id"])
            self._enter(move)

    def _enter(self, move: Move) -> None:
        entry, booking = move.row, move.row["booking_id"]
        if move.before is not None:
            self._say("cents", booking, f"the entry {entry['id']} was changed")
            return
        shift = entry["time_log_id"]
        for name, sign in _COUNTED[entry["type"], entry["from_place"]].items():
            self.of_booking[booking][name] += sign * entry["amount"]
            if shift is not None and name != "nowhere":
                self.of_shift[shift, entry["payment_id"]][name] += sign * entry["amount"]
        if entry["type"] == "release":
            self.releases[shift] += 1
            if self.releases[shift] > 1:
                self._say("left_twice", shift, "it was released twice")
        if entry["provider_ref"] is not None:
            self._confirmed(entry)

    def _confirmed(self, entry: Mapping[str, Any]) -> None:
        """What crosses the border did so before it was written, under that name, from that charge."""
        ref, key = entry["provider_ref"], entry["booking_id"]
        self.entered[ref] += entry["amount"]
        movement = self.movements.get(ref)
        if movement is None or movement["state"] != "succeeded":
            state = "never heard of" if movement is None else movement["state"]
            self._say("outside", key, f"{entry['type']} {ref} is written, and at the provider it is {state}")
            return
        if movement["booking_id"] != key or movement["call"] != _LEFT.get(entry["type"], "charge"):
            self._say("outside", key, f"{entry['type']} {ref} was a {movement['call']} of another")
        charge = movement if movement["call"] == "charge" else self.movements[movement["of_ref"]]
        if charge["payment_id"] != entry["payment_id"]:
            self._say("outside", key, f"{entry['type']} {ref} came from another payment")

    def _charged_once(self, move: Move) -> None:
        """The provider takes money once for each payment, and keeps it for one payment of each period."""
        movement = move.row
        if movement["call"] != "charge" or movement["state"] not in ("succeeded", "processing"):
            return
        taken = [
            each
            for each in self.movements.values()
            if each["call"] == "charge" and each["state"] in ("succeeded", "processing")
        ]
        same = [each for each in taken if each["payment_id"] == movement["payment_id"]]
        if len(same) > 1:
            text = f"the payment {movement['payment_id']} was taken {len(same)} times"
            self._say("charged_twice", movement["booking_id"], text)

    def _look(self, booking: str, move: Move) -> None:
        sums = self.of_booking[booking]
        parts = sums["held"] + sums["released"] + sums["refunded"] + sums["frozen"]
        if sums["charged"] != parts or sums["nowhere"]:
            self._say("cents", booking, f"charged {sums['charged']}, and {parts} of it is anywhere")
        if min(sums.values(), default=0) < 0:
            self._say("cents", booking, f"less than nothing is somewhere: {dict(sums)}")
        for (shift, _), of_shift in self.of_shift.items():
            if min(of_shift.values(), default=0) < 0:
                self._say("cents", shift, f"less than nothing is somewhere: {dict(of_shift)}")
        ref = move.row.get("provider_ref")
        if ref in self.movements and self.entered[ref] != self.movements[ref]["amount"]:
            amount = self.movements[ref]["amount"]
            self._say("outside", booking, f"{ref} moved {amount}, and {self.entered[ref]} is written of it")

    def check_periods(self) -> None:
        """In the end: one charge for each period, and for each shift one that was kept."""
        kept: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for movement in self.movements.values():
            if movement["call"] == "charge" and movement["state"] == "succeeded":
                gone = sum(
                    each["amount"]
                    for each in self.movements.values()
                    if each["call"] == "refund" and each["of_ref"] == movement["ref"]
                )
                payment = self.payments[movement["payment_id"]]
                if gone < movement["amount"]:
                    kept[payment["booking_id"], payment["period_start"]].add(payment["id"])
        for (booking, period), payments in kept.items():
            if len(payments) > 1:
                text = f"{len(payments)} charges for the week of {period}"
                self._say("charged_twice", booking, text)

    def check_outside(self, settled: set[str]) -> None:
        """In the end: what the provider did is written, unless it may still be on its way."""
        for ref, movement in self.movements.items():
            if (
                movement["state"] == "succeeded"
                and ref in settled
                and self.entered[ref] != movement["amount"]
            ):
                text = (
                    f"the {movement['call']} {ref} of {movement['amount']} is written as {self.entered[ref]}"
                )
                self._say("outside", movement["booking_id"], text)
