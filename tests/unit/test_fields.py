"""What bodies are made of: durations and offsets as people write them, and as they are shown again."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from timebell.errors import ConfigurationError
from timebell.web.operation.fields import Duration, Listed, Offset, Output, SecretText, has_secret
from timebell.web.operation.routes import Route

DURATIONS = TypeAdapter(Duration)
OFFSETS = TypeAdapter(Offset)


@pytest.mark.parametrize(
    ("text", "length", "shown"),
    [
        ("PT15M", timedelta(minutes=15), "PT15M"),
        ("PT1H30M", timedelta(minutes=90), "PT1H30M"),
        ("P2D", timedelta(days=2), "PT48H"),
        ("P1W", timedelta(weeks=1), "PT168H"),
        ("P1DT1S", timedelta(days=1, seconds=1), "PT24H1S"),
        ("PT0S", timedelta(0), "PT0S"),
    ],
)
def test_durations(text: str, length: timedelta, shown: str) -> None:
    assert DURATIONS.validate_python(text, strict=True) == length
    assert DURATIONS.dump_python(length, mode="json") == shown
    assert DURATIONS.validate_python(shown) == length
    assert OFFSETS.validate_python(f"-{text}") == -length
    assert OFFSETS.dump_python(-length, mode="json") == (f"-{shown}" if length else shown)


def test_what_python_made_finer_than_a_second_is_shown_so() -> None:
    assert DURATIONS.dump_python(timedelta(minutes=1, milliseconds=500), mode="json") == "PT1M0.5S"
    assert OFFSETS.dump_python(timedelta(seconds=-90), mode="json") == "-PT1M30S"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("P1M", "months and years differ"),
        ("15m", "give a fixed time"),
        ("", "give a fixed time"),
        ("-PT1H", "give a fixed time"),
        (900, "give a fixed time"),
        (None, "give a fixed time"),
        ("P36526D", "at most 36525 days"),
        ("P999999999W", "at most 36525 days"),
    ],
)
def test_what_is_no_duration(text: object, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DURATIONS.validate_python(text)


@pytest.mark.parametrize("text", ["--PT1H", "- PT1H", "-P1M", "-P999999999W", "-"])
def test_what_is_no_offset(text: str) -> None:
    with pytest.raises(ValidationError):
        OFFSETS.validate_python(text)


class _Shown(Output):
    name: str


class _Told(Output):
    token: Annotated[SecretText, Field(description="Shown once.")]


class _Deep(Output):
    lines: list[_Told] | None


@pytest.mark.parametrize(
    ("shown", "expected"),
    [(None, False), (_Shown, False), (_Told, True), (_Deep, True), (Listed[_Told], True)],
)
def test_a_secret_is_found_wherever_an_answer_has_it(shown: Any, expected: bool) -> None:
    assert has_secret(shown) is expected


def test_an_answer_with_a_secret_is_not_kept_for_a_repetition() -> None:
    async def run(_: Any) -> None: ...

    terms: dict[str, Any] = {"method": "POST", "path": "/x", "run": run, "summary": "x", "tag": "x"}
    with pytest.raises(ConfigurationError, match="POST /x: the answer says a secret"):
        Route(**terms, answer=_Told, idempotency="optional")
    Route(**terms, answer=_Told)
    Route(**terms, answer=_Told, idempotency="optional", again=run)
