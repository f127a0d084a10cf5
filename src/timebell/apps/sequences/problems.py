"""How what is refused about sequences is told over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from timebell.apps.sequences.refusals import TooManySequences, UnfitTemplates, UnknownContact, WrongStatus
from timebell.errors import TimebellError
from timebell.web import FieldError, ProblemForm


def _unknown(error: UnknownContact) -> Sequence[FieldError]:
    message = str(error).removeprefix(f"{error.field}: ")
    return [FieldError(pointer=f"/{error.field}", code="not_found", message=message)]


def _unfit(error: UnfitTemplates) -> Sequence[FieldError]:
    return [
        FieldError(pointer=f"/steps/{place}/templateId", code="template_unfit", message=message)
        for place, message in error.unfit
    ]


PROBLEMS: Final[Mapping[type[TimebellError], ProblemForm]] = {
    WrongStatus: ProblemForm(
        status=409, code="booking_status", more=lambda error: {"booking_status": error.status}
    ),
    TooManySequences: ProblemForm(status=409, code="too_many_sequences"),
    UnknownContact: ProblemForm(status=422, code="invalid_input", errors=_unknown),
    UnfitTemplates: ProblemForm(status=422, code="template_unfit", errors=_unfit),
}
