"""What is refused about sequences, as it is told over HTTP."""

from __future__ import annotations

from uuid import UUID

from tests.apps.problem_tables import check_table
from timebell.apps import sequences
from timebell.apps.sequences import refusals
from timebell.apps.sequences.app import APP
from timebell.web import FieldError

WHO = UUID(int=7)
UNKNOWN = f"there is no recipient {WHO}; add it first"


def test_how_each_error_is_told() -> None:
    check_table(
        APP,
        sequences,
        {
            refusals.not_possible("cancel", "completed"): (
                409,
                "booking_status",
                [],
                {"booking_status": "completed"},
            ),
            refusals.too_many_sequences(5): (409, "too_many_sequences", [], {}),
            refusals.unknown_contact("contactId", WHO): (
                422,
                "invalid_input",
                [FieldError(pointer="/contactId", code="not_found", message=UNKNOWN)],
                {},
            ),
            refusals.unknown_contact("facts/contacts/3", WHO): (
                422,
                "invalid_input",
                [FieldError(pointer="/facts/contacts/3", code="not_found", message=UNKNOWN)],
                {},
            ),
            refusals.UnfitTemplates([(0, "one"), (2, "another")]): (
                422,
                "template_unfit",
                [
                    FieldError(pointer="/steps/0/templateId", code="template_unfit", message="one"),
                    FieldError(pointer="/steps/2/templateId", code="template_unfit", message="another"),
                ],
                {},
            ),
        },
    )
