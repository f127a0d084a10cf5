"""What bodies are made of: durations and offsets as people write them, and as they are shown again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import TypeAdapter, ValidationError

from timebell.web.fields import Duration, Offset

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
