"""What each booking is, worked out anew at every commit from its disputes, its reports and the insurances of both.

And how disputes end: with their money, and with one job that charges afterwards."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from tests.apps.marketplace.simulation.moves import Move, at_of
from tests.history import Violation

_GOING_ON = frozenset({"Active", "Payment_Paused_Dispute"})
_UNDECIDED = frozenset({"Open", "Legal_Hold"})
Row = Mapping[str, Any]


class Standing:
    """Goes through all moves once, a commit at a time; `found` is what does not fit."""

    def __init__(self, moves: Sequence[Move]) -> None:
        self.found: dict[tuple[str, str, str], None] = {}
        self.counts: Counter[str] = Counter()
        # How many jobs there should be of each booking that charge after a resolution.
        self.retries: Counter[str] = Counter()
        self._bookings: dict[str, Row] = {}
        self._policies: dict[str, Row] = {}
        self._disputes: dict[str, Row] = {}
        self._contested: defaultdict[str, set[str]] = defaultdict(set)
        self._stops: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        self._frozen: Counter[str] = Counter()
        for commit in _commits(moves):
            self._look(commit)

    def violations(self) -> Iterator[Violation]:
        for invariant, key, text in self.found:
            yield Violation(invariant=invariant, key=key, text=text)

    def _say(self, invariant: str, key: str, text: str) -> None:
        self.found.setdefault((invariant, key, text))

    def _look(self, commit: Sequence[Move]) -> None:
        touched: dict[str, None] = {}
        for move in commit:
            id = self._take(move)
            if id is not None:
                touched.setdefault(id)
        for id in touched:
            if id in self._bookings:
                self._fits(id)
        for move in commit:
            before = None if move.before is None else move.before.get("status")
            after = None if move.after is None else move.after.get("status")
            if move.place == "staffing_bookings" and before is not None and before != after:
                self._changed(move, before)
            elif move.place == "time_log" and (before, after) == ("Scheduled", "Working"):
                self._clocked_in(move)
            elif move.place == "disputes" and before is not None and before != after:
                self._ended(move, before, commit)
            elif move.place == "incident_reports" and (before, after) == ("Pending", "Closed"):
                self._closed(move, commit)
            elif move.place == "insurance_stops" and move.before is None:
                self._stopped(move)

    def _take(self, move: Move) -> str | None:
        """What is so from then on; and which booking that is about."""
        row = move.row
        if move.place == "insurance_policies":
            self._policies[row["id"]] = row
            return None
        if move.place == "staffing_bookings":
            self._bookings[row["id"]] = row
            return str(row["id"])
        if move.place in ("disputes", "incident_reports"):
            if move.place == "disputes":
                self._disputes[row["id"]] = row
            of_booking = self._contested[row["booking_id"]]
            (of_booking.add if row["status"] in ("Open", "Pending") else of_booking.discard)(row["id"])
        elif move.place == "insurance_stops":
            by = (row["company_id"], row["type"])
            of = self._stops[row["booking_id"]]
            (of.discard if move.after is None else of.add)(by)
        elif move.place == "ledger_entries" and row["dispute_id"] is not None:
            self._frozen[row["dispute_id"]] += _frozen_by(row)
            return None
        else:
            return None
        return str(row["booking_id"])

    def _fits(self, id: str) -> None:
        """As it is when somebody has changed anything about it."""
        row = self._bookings[id]
        status, is_contested, is_stopped = row["status"], bool(self._contested[id]), bool(self._stops[id])
        if status == "Payment_Paused_Dispute" and not is_contested:
            self._say("standing", id, "its payments are paused, and nothing is disputed")
        if status in _GOING_ON and is_stopped:
            self._say("standing", id, f"an insurance has stopped it, and it is {status}")
        if status == "Suspended_Insurance" and not is_stopped:
            self._say("standing", id, "it is suspended, and no insurance has stopped it")
        if row["clock_in_hold"] and not is_contested:
            self._say("standing", id, "nobody may clock in, and nothing is disputed")

    def _changed(self, move: Move, before: str) -> None:
        row = move.row
        id, after, is_contested = row["id"], row["status"], bool(self._contested[row["id"]])
        self.counts[f"staffing_became_{after}"] += 1
        if after == "Active" and is_contested:
            self._say("standing", id, f"{before} became Active, and something is disputed")
        if (before, after) == ("Suspended_Insurance", "Payment_Paused_Dispute") and not self._bookings[id][
            "clock_in_hold"
        ]:
            self._say("standing", id, "it goes on after a renewal, is disputed, and has no hold")

    def _clocked_in(self, move: Move) -> None:
        shift = move.row
        booking = self._bookings[shift["booking_id"]]
        today = at_of(shift, "clock_in_time").astimezone(ZoneInfo(booking["timezone"])).date().isoformat()
        why = {
            booking["status"]: booking["status"] in ("Suspended_Insurance", "Cancelled"),
            "on hold": booking["clock_in_hold"],
            "stopped": bool(self._stops[booking["id"]]),
            "over": today > booking["end_date"],
        }
        for name, is_so in why.items():
            if is_so:
                self._say("gate", shift["id"], f"somebody clocked in to a booking that is {name}")

    def _stopped(self, move: Move) -> None:
        stop = move.row
        self.counts["staffing_stops"] += 1
        day = at_of(stop, "stopped_at").date().isoformat()
        if any(
            policy["company_id"] == stop["company_id"]
            and policy["type"] == stop["type"]
            and policy["is_active"]
            and policy["expiration_date"] >= day
            for policy in self._policies.values()
        ):
            self._say("standing", stop["booking_id"], "it was stopped although an insurance is valid")

    def _ended(self, move: Move, before: str, commit: Sequence[Move]) -> None:
        """What is frozen for it is divided to the last cent, or all of it stays where the law holds it. Where nothing
        is disputed any more the week is charged once."""
        row = move.row
        id, booking, after = row["id"], row["booking_id"], row["status"]
        self.counts[f"staffing_{after}"] += 1
        mine = [
            each.row
            for each in commit
            if each.place == "ledger_entries" and each.row["dispute_id"] == id and each.before is None
        ]
        freed = -sum(_frozen_by(entry) for entry in mine if entry["type"] == "unfreeze")
        if after in _UNDECIDED:
            if freed:
                self._say("divided", id, f"it is {after}, and {freed} of it was freed")
        else:
            shares = row["settlement"]
            owed = Counter(
                {
                    sort: sum(
                        each.row["amount"]
                        for each in commit
                        if each.place == "payouts"
                        and each.before is None
                        and each.row["booking_id"] == booking
                        and each.row["sort"] == sort
                    )
                    for sort in ("transfer", "refund")
                }
            )
            if self._frozen[id]:
                self._say("divided", id, f"it is {after}, and {self._frozen[id]} is frozen")
            if shares["lender"] + shares["borrower"] != freed:
                self._say("divided", id, f"{shares} is agreed, and {freed} was frozen")
            if (owed["transfer"], owed["refund"]) != (shares["lender"], shares["borrower"]):
                self._say("divided", id, f"{shares} is agreed, and {dict(owed)} leaves")
        if before == "Open" and row["dispute_option"] == "A" and not self._contested[booking]:
            self.retries[booking] += 1

    def _closed(self, move: Move, commit: Sequence[Move]) -> None:
        booking = move.row["booking_id"]
        is_freed = any(
            each.place == "staffing_bookings"
            and each.row["id"] == booking
            and each.was("status") != each.row["status"]
            for each in commit
        )
        if is_freed and not self._contested[booking]:
            self.retries[booking] += 1


def _commits(moves: Sequence[Move]) -> Sequence[Sequence[Move]]:
    """By the last that each has written: others may have written between, about something else."""
    of: dict[str, list[Move]] = {}
    for move in moves:
        of.setdefault(move.commit, []).append(move)
    return sorted(of.values(), key=lambda commit: commit[-1].number)


def _frozen_by(entry: Row) -> int:
    """How much more is frozen by it."""
    amount: int = entry["amount"]
    if entry["to_place"] == "frozen":
        return amount
    return -amount if entry["from_place"] == "frozen" else 0
