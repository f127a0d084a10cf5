"""Languages: how they are written, which text a reader gets, and how numbers and dates are set in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from babel import Locale, UnknownLocaleError

from timebell.errors import InvalidInput

_TAG = re.compile(r"([A-Za-z]{2,3})(?:[-_]([A-Za-z]{4}))?(?:[-_]([A-Za-z]{2}|[0-9]{3}))?")


def checked_language(value: object, field_name: str = "language") -> str:
    """A language tag in its usual spelling: `de`, `de-AT`, `zh-Hant-TW`."""
    match = _TAG.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InvalidInput(
            f"{value!r:.40} is not a language tag; write it like de, de-AT or zh-Hant-TW", field=field_name
        )
    language, script, region = match.groups()
    parts = [language.lower(), script and script.title(), region and region.upper()]
    return "-".join(part for part in parts if part)


def _and_wider(language: str) -> Iterator[str]:
    while language:
        yield language
        language = language.rpartition("-")[0]


def chosen_language(wanted: str, default: str, shipped: Collection[str]) -> str | None:
    """The language of the text that a reader gets: their own, a wider one (de for de-AT), that of the tenant, any.

    Among any, English comes first, since it is read by most; the rest in the order of the alphabet.
    """
    for language in (*_and_wider(wanted), *_and_wider(default), "en"):
        if language in shipped:
            return language
    return min(shipped, default=None)


@lru_cache(maxsize=500)
def locale_of(reader_language: str, text_language: str) -> Locale:
    """How dates and numbers are set: as the reader is used to, unless the text speaks another language than theirs."""
    own = reader_language.partition("-")[0] == text_language.partition("-")[0]
    for language in _and_wider(reader_language if own else text_language):
        try:
            return Locale.parse(language, sep="-")
        except (UnknownLocaleError, ValueError):
            continue
    return Locale("en")
