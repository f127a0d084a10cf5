"""The pages of the documentation, and what is found in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.shape.tree import ROOT

_FENCE = re.compile(
    r"^(?P<indent>[ ]*)(?P<fence>`{3,})(?P<language>[\w+-]*)[^\n]*\n(?P<code>.*?)^[ ]*(?P=fence)[ ]*$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of code and the line its code begins on."""

    language: str
    code: str
    line: int


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def blocks(text: str) -> Iterator[Block]:
    for match in _FENCE.finditer(text):
        indent = len(match["indent"])
        code = "".join(line[indent:] or "\n" for line in match["code"].splitlines(keepends=True))
        yield Block(language=match["language"], code=code, line=text.count("\n", 0, match.start("code")) + 1)


def prose(text: str) -> str:
    """The text without its fenced blocks, so that nothing in an example passes for a link or a heading."""
    return _FENCE.sub(lambda match: re.sub(r"[^\n]", "", match.group()), text)


def headings(text: str, level: int) -> list[str]:
    return re.findall(rf"^#{{{level}}} +(.+?) *$", prose(text), re.MULTILINE)
