"""Refusals about staffing: errors in words that name the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from timebell.apps.marketplace.refusals import MarketplaceRefused
from timebell.apps.marketplace.staffing.models import BookingStatus
from timebell.errors import NotFound

# As the pages explain them that a refusal points to.
CODES: Final = {
    "not_allowed": (
        "The acting recipient has no role that may do this. The detail names the roles that may; an admin key that "
        "acts for nobody may do everything."
    ),
    "worker_unavailable": (
        "The worker is booked on one of these days already. Search for one who is available, or choose other days."
    ),
    "insurance_invalid": (
        "An insurance of one of the two companies is not valid, and no other of its type is, so that nobody could "
        "work. Have it renewed, or add another of that type; `errors` names the company by its field, and the type."
    ),
    "too_many_members": "The company has as many members as one may have. Remove one first.",
    "worker_exists": "The recipient is a worker already. Change that one.",
    "booking_status": (
        "The booking is in a status that this does not lead out of. Read it again; `booking_status` is that status."
    ),
}


class NotAllowed(MarketplaceRefused):
    """Whoever acts has no role that may do this."""


class WorkerUnavailable(MarketplaceRefused):
    """A worker is booked on one of these days already."""


class NotInsured(MarketplaceRefused):
    """A company has no insurance that is valid. `wanting` are the fields that name one, each with what is missing."""

    def __init__(self, wanting: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{field}: {message}" for field, message in wanting))
        self.wanting = tuple(wanting)


class TooManyMembers(MarketplaceRefused):
    """A company has as many members as one may have."""


class WorkerExists(MarketplaceRefused):
    """The recipient is a worker already."""


class WrongBookingStatus(MarketplaceRefused):
    """A booking is in a status that this does not lead out of."""

    def __init__(self, message: str, status: BookingStatus) -> None:
        super().__init__(message)
        self.status = status


def no_company(id: UUID) -> NotFound:
    return NotFound(f"there is no company {id}")


def no_member(recipient: UUID, company: UUID) -> NotFound:
    return NotFound(f"{recipient} has no such role in the company {company}")


def no_project(id: UUID) -> NotFound:
    return NotFound(f"there is no project {id}")


def no_worker(id: UUID) -> NotFound:
    return NotFound(f"there is no worker {id}")


def no_booking(id: UUID) -> NotFound:
    return NotFound(f"there is no booking {id}")


def not_allowed(needed: Iterable[str]) -> NotAllowed:
    roles = [role.replace("_", " ") for role in needed]
    said = " or ".join(filter(None, [", ".join(roles[:-1]), *roles[-1:]]))
    return NotAllowed(f"only the {said} may do this; act as one, or use an admin key")


def only_operator() -> NotAllowed:
    return NotAllowed("only an admin key may do this, without the header Timebell-Actor")


def nobody_acts() -> NotAllowed:
    return NotAllowed("name the recipient who acts in the header Timebell-Actor, or use an admin key")


def worker_unavailable(worker: UUID) -> WorkerUnavailable:
    return WorkerUnavailable(
        f"the worker {worker} is booked on one of these days; choose other days or somebody else"
    )


def not_insured(wanting: Sequence[tuple[str, UUID, str]]) -> NotInsured:
    """`wanting` are the fields by which the order names a company, and the types of which that one has none."""
    return NotInsured(
        [
            (field, f"the company {company} has no insurance {type} that is valid; renew it or add another")
            for field, company, type in wanting
        ]
    )


def too_many_members(most: int) -> TooManyMembers:
    return TooManyMembers(f"a company has at most {most} members; remove one first")


def worker_exists(recipient: UUID) -> WorkerExists:
    return WorkerExists(f"the recipient {recipient} is a worker already; change that one")


def wrong_status(action: str, status: BookingStatus) -> WrongBookingStatus:
    return WrongBookingStatus(f"you cannot {action} a booking that is {status}; read it again", status)
