"""What is refused, in words that name the remedy."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from timebell.apps.sequences.models import Transition
from timebell.errors import NotFound
from timebell.web import FieldError, Problem

CODES: Final = {
    "booking_status": (
        "The booking is in a state that this does not lead out of. Read it again; `booking_status` is that state."
    ),
    "template_unfit": (
        "The template of a step is missing, has no text for the step's channel, or asks for something that the subject "
        "does not have. Save a template that fits, or name another."
    ),
    "too_many_sequences": "The tenant has as many sequences as one may have. Delete one first.",
}


def no_sequence(id: UUID) -> NotFound:
    return NotFound(f"there is no sequence {id}")


def no_booking(id: UUID) -> NotFound:
    return NotFound(f"there is no booking {id}")


def no_message(id: UUID) -> NotFound:
    return NotFound(f"there is no message {id}")


def not_possible(transition: Transition, status: str | None) -> Problem:
    detail = f"you cannot {transition} a booking that is {status}; read it again"
    return Problem(409, "booking_status", detail, more={"booking_status": status})


def too_many_sequences(most: int) -> Problem:
    return Problem(409, "too_many_sequences", f"a tenant has at most {most} sequences; delete one first")


def unknown_contact(place: str, id: UUID) -> Problem:
    message = f"there is no recipient {id}; add it first"
    error = FieldError(pointer=place, code="not_found", message=message)
    return Problem(422, "invalid_input", f"{place.strip('/')}: {message}", errors=[error])


def unfit_templates(errors: list[FieldError]) -> Problem:
    return Problem(422, "template_unfit", errors[0].message, errors=errors)
