"""SQL reduced to what PostgreSQL would act on, with every line still where it was."""

from __future__ import annotations

import re

_COMMENT_OR_STRING = re.compile(
    r"""
    (?P<line>--[^\n]*)
  | (?P<block>/\*.*?\*/)
  | (?P<string>'(?:[^']|'')*')
    """,
    re.VERBOSE | re.DOTALL,
)


def without_comments(sql: str) -> str:
    """Blank the comments and keep the strings."""
    return _COMMENT_OR_STRING.sub(lambda m: m.group() if m.lastgroup == "string" else _blank(m.group()), sql)


def without_comments_and_strings(sql: str) -> str:
    """Blank both. Dollar-quoted bodies stay, because a function's body is SQL like the rest."""
    return _COMMENT_OR_STRING.sub(lambda m: _blank(m.group()), sql)


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
