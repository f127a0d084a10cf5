"""The reference of sequences has the reasons, events and states of the code, and nothing that is not there."""

from __future__ import annotations

import re
from typing import get_args

from tests.shape.tree import ROOT
from timebell.apps.sequences.models import (
    FACTS_BYTES_MAX,
    PEOPLE_MAX,
    STEPS_MAX,
    Conditions,
    MessageStatus,
)
from timebell.apps.sequences.rules import DAYS_MAX, ENDS, EVENTS, REFUSALS
from timebell.apps.sequences.service import SEQUENCES_MAX
from timebell.config import Settings

PAGE = (ROOT / "docs" / "reference" / "sequences.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "howto" / "sequences.md").read_text(encoding="utf-8")


def rows(text: str, begin: str) -> dict[str, str]:
    """The table that follows a line: the word in the first column, and what the second says."""
    table = text[text.index(begin) + len(begin) :].lstrip("\n").split("\n\n")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", table, re.MULTILINE))


def sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def test_every_reason_is_told_with_its_sentence() -> None:
    skipped = rows(PAGE, "Why a message is `skipped` by the plan:")
    assert skipped == {name: sentence(words) for name, words in REFUSALS.items()}
    ended = rows(PAGE, "Why a message is `cancelled`:")
    assert ended == {name: sentence(words) for name, words in ENDS.items()}


def test_every_event_and_every_status_is_told() -> None:
    assert list(rows(PAGE, "## Events of bookings")) == list(EVENTS.values())
    assert list(rows(PAGE, "## Status of a message")) == list(get_args(MessageStatus))


def test_the_limits_are_those_of_the_code() -> None:
    told = GUIDE[GUIDE.index("## Limits") :]
    for what, most in {
        "sequences of a tenant": f"{SEQUENCES_MAX}",
        "steps of a sequence": f"{STEPS_MAX}",
        "contacts of a booking or another subject": f"{PEOPLE_MAX}",
        "messages to come about one subject": f"{Settings().steps_max - 2}: ",
        "offset": f"{DAYS_MAX:,} days",
        "facts of a subject": f"{FACTS_BYTES_MAX:,} bytes",
    }.items():
        assert f"| {what} | {most}" in told, what


def test_every_condition_is_told() -> None:
    """As many as the record has, under the names of the edge."""
    table = GUIDE[GUIDE.index("| condition | met when |") :].split("\n\n")[0]
    names = re.findall(r"`([a-zA-Z]+)`", "".join(line.split("|")[1] for line in table.splitlines()[2:]))
    assert sorted(names) == [
        *("bookingSubtype", "hasPhone", "language", "maxDaysOut", "minDaysOut", "status"),
    ]
    assert len(names) == len(Conditions.__dataclass_fields__)
