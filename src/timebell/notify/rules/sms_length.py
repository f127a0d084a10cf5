"""How many messages an SMS is cut into: 3GPP TS 23.038 counts septets of its own alphabet, or else UTF-16 units."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENDED = frozenset("\f^{}\\[~]|€")
_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmsLength:
    """What a text takes as an SMS. `forcing` are the characters that forced the wider encoding."""

    encoding: Literal["gsm7", "ucs2"]
    units: int
    segments: int
    forcing: str = ""


def plain_spaces(text: str) -> str:
    """Languages set times and numbers with spaces that do not break; in an SMS one of them halves its room."""
    return _SPACES.sub(" ", text)


def sms_length(text: str) -> SmsLength:
    forcing = "".join(sorted(set(text) - _BASIC - _EXTENDED))
    if forcing:
        widths = [2 if ord(character) > 0xFFFF else 1 for character in text]
        return SmsLength(
            encoding="ucs2", units=sum(widths), segments=_segments(widths, 70, 67), forcing=forcing
        )
    widths = [2 if character in _EXTENDED else 1 for character in text]
    return SmsLength(encoding="gsm7", units=sum(widths), segments=_segments(widths, 160, 153))


def _segments(widths: list[int], alone: int, joined: int) -> int:
    """A character that takes two units is never cut in the middle, so a segment may end one unit short."""
    if sum(widths) <= alone:
        return 1
    segments, used = 1, 0
    for width in widths:
        if used + width > joined:
            segments, used = segments + 1, 0
        used += width
    return segments
