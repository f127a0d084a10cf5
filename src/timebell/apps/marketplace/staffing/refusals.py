"""What is refused, in words that name the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from timebell.apps.marketplace.staffing.models import BookingStatus
from timebell.errors import NotFound
from timebell.web import FieldError, Problem

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


def not_allowed(needed: Iterable[str]) -> Problem:
    roles = [role.replace("_", " ") for role in needed]
    said = " or ".join(filter(None, [", ".join(roles[:-1]), *roles[-1:]]))
    return Problem(403, "not_allowed", f"only the {said} may do this; act as one, or use an admin key")


def only_operator() -> Problem:
    return Problem(403, "not_allowed", "only an admin key may do this, without the header Timebell-Actor")


def nobody_acts() -> Problem:
    detail = "name the recipient who acts in the header Timebell-Actor, or use an admin key"
    return Problem(403, "not_allowed", detail)


def worker_unavailable(worker: UUID) -> Problem:
    detail = f"the worker {worker} is booked on one of these days; choose other days or somebody else"
    return Problem(409, "worker_unavailable", detail)


def not_insured(wanting: Sequence[tuple[str, UUID, str]]) -> Problem:
    """`wanting` are the fields by which the order names a company, and the types of which that one has none."""
    errors = [
        FieldError(
            pointer=f"/{field}",
            code="insurance_invalid",
            message=f"the company {company} has no insurance {type} that is valid; renew it or add another",
        )
        for field, company, type in wanting
    ]
    detail = "; ".join(f"{error.pointer[1:]}: {error.message}" for error in errors)
    return Problem(409, "insurance_invalid", detail, errors=errors)


def too_many_members(most: int) -> Problem:
    return Problem(409, "too_many_members", f"a company has at most {most} members; remove one first")


def worker_exists(recipient: UUID) -> Problem:
    return Problem(409, "worker_exists", f"the recipient {recipient} is a worker already; change that one")


def wrong_status(action: str, status: BookingStatus) -> Problem:
    detail = f"you cannot {action} a booking that is {status}; read it again"
    return Problem(409, "booking_status", detail, more={"booking_status": status})


def wrong_field(field: str, message: str, code: str = "invalid") -> Problem:
    """`field` is where it stands in the body, such as `shifts/0`."""
    error = FieldError(pointer=f"/{field}", code=code, message=message)
    return Problem(422, "invalid_input", f"{field.replace('/', '.')}: {message}", errors=[error])
