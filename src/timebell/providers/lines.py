"""Text that strangers wrote, as a header, a column or a line of a log can hold it."""

from __future__ import annotations

import unicodedata
from typing import Final

_UNSEEN: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


def one_line(text: str, chars_max: int | None = None) -> str:
    """The text on one line: whatever ends a line, controls it or is no character becomes a space."""
    plain = "".join(" " if unicodedata.category(char) in _UNSEEN else char for char in text)
    line = " ".join(plain.split())
    if chars_max is None or len(line) <= chars_max:
        return line
    return f"{line[: chars_max - 1].rstrip()}…"
