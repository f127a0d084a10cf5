"""The page of reasons has a heading for each, which begins with the sentence that explains it."""

from __future__ import annotations

import re
from typing import get_args

from tests.docs.markdown import headings
from tests.shape.tree import ROOT
from timebell.notify.reasons import REASONS, NotificationState

PAGE = (ROOT / "docs" / "reference" / "reasons.md").read_text(encoding="utf-8")


def test_every_reason_has_its_heading_in_the_order_of_the_list() -> None:
    assert headings(PAGE, 3) == list(REASONS)


def test_each_begins_with_its_sentence() -> None:
    parts = re.split(r"^### +(\w+)$", PAGE, flags=re.MULTILINE)
    told = {name: " ".join(text.split()) for name, text in zip(parts[1::2], parts[2::2], strict=True)}
    for name, sentence in REASONS.items():
        assert told[name].startswith(f"{sentence[0].upper()}{sentence[1:]}."), name


def test_every_state_is_told() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(get_args(NotificationState))
