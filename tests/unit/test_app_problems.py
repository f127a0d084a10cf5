"""An app says how its errors are told, and what it does not name is told as the error that it is made of."""

from __future__ import annotations

import pytest

from timebell.errors import ConfigurationError, InvalidInput, KeyConflict, TimebellError
from timebell.kernel import App
from timebell.web import ProblemForm, in_field
from timebell.web.operation.problems import Problem, Problems


class Taken(KeyConflict):
    """Somebody else has it."""


class TakenForGood(Taken):
    """Nobody else will ever have it."""


class Odd(InvalidInput):
    """A number that is odd."""


APP = App(
    name="bells",
    problems={
        Taken: ProblemForm(status=410, code="taken", more=lambda error: {"says": str(error)}),
        Odd: ProblemForm(status=422, code="invalid_input", errors=in_field("odd")),
    },
)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Taken("a"), (410, "taken", {"says": "a"})),
        (TakenForGood("b"), (410, "taken", {"says": "b"})),
        (KeyConflict("c"), (409, "key_conflict", {})),
        (Problem(418, "own", "d"), (418, "own", {})),
        (TimebellError("e"), None),
    ],
)
def test_the_nearest_class_decides(error: TimebellError, told: object) -> None:
    found = Problems([App(name="none"), APP]).of(error)
    assert told == (None if found is None else (found.status, found.code, found.more))


def test_the_field_that_is_wrong_is_named_with_the_apps_own_code() -> None:
    found = Problems([APP]).of(Odd("is odd", field="steps[2].number"), {"steps[2].number": "other"})
    assert found is not None
    assert (found.status, found.code, found.detail) == (422, "invalid_input", "steps[2].number: is odd")
    assert [(each.pointer, each.code, each.message) for each in found.errors] == [
        ("/steps/2/number", "odd", "is odd")
    ]


def test_a_module_without_a_table_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no PROBLEMS"):
        Problems([App(name="bells", problems="timebell.errors")])
