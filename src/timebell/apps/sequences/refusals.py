"""Refusals of the app: errors in words that name the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from timebell.apps.sequences.models import Transition
from timebell.errors import InvalidInput, NotFound, TimebellError

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


class WrongStatus(TimebellError):
    """A booking is in a state that this does not lead out of."""

    def __init__(self, message: str, status: str | None) -> None:
        super().__init__(message)
        self.status = status


class TooManySequences(TimebellError):
    """A tenant has as many sequences as one may have."""


class UnknownContact(InvalidInput):
    """Somebody who is to be told is no recipient."""


class UnfitTemplates(TimebellError):
    """Templates of steps cannot be told about what the sequence is about. `unfit` are the places of these steps, each
    with what is wrong."""

    def __init__(self, unfit: Sequence[tuple[int, str]]) -> None:
        super().__init__(unfit[0][1])
        self.unfit = tuple(unfit)


def no_sequence(id: UUID) -> NotFound:
    return NotFound(f"there is no sequence {id}")


def no_booking(id: UUID) -> NotFound:
    return NotFound(f"there is no booking {id}")


def no_message(id: UUID) -> NotFound:
    return NotFound(f"there is no message {id}")


def not_possible(transition: Transition, status: str | None) -> WrongStatus:
    return WrongStatus(f"you cannot {transition} a booking that is {status}; read it again", status)


def too_many_sequences(most: int) -> TooManySequences:
    return TooManySequences(f"a tenant has at most {most} sequences; delete one first")


def unknown_contact(place: str, id: UUID) -> UnknownContact:
    """`place` is where it stands in the body, such as `contacts/0`."""
    return UnknownContact(f"there is no recipient {id}; add it first", field=place)
